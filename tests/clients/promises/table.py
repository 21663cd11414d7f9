"""The promises of clients/README.md, and its table of those that a language does not keep."""

import re

from languages import ROOT


class Table:
    def __init__(self):
        page = (ROOT / "clients/README.md").read_text()
        self.sentences = [int(number) for number in re.findall(r"^(\d+)\. ", page, re.M)]
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines()
                if re.match(r"\| (\d+ )?\|", line) or line.startswith("| |")]
        self.languages, self.rows = rows[0][1:], {int(row[0]): row[1:] for row in rows[1:]}

    def cell(self, number, language):
        """What the table says of a language, or of all."""
        if language == "all":
            return " ".join(sorted({self.cell(number, one) for one in self.languages}))
        if number not in self.sentences or language not in self.languages:
            return "nothing"
        if number not in self.rows:
            return "yes"
        # `–a` is explained below the table.
        return self.rows[number][self.languages.index(language)][:3].rstrip("abcdefgh")

    def errors(self, tests, languages):
        found = []
        if sorted(self.sentences) != list(range(1, len(self.sentences) + 1)):
            found.append("the promises are not numbered from 1 on, one by one")
        for number in sorted(set(self.sentences) ^ tests):
            found.append(f"{number}: a promise without a test, or a test without a promise")
        for number in sorted(set(self.rows) - set(self.sentences)):
            found.append(f"{number}: a row in the table without a promise")
        if set(self.languages) != languages:
            found.append(f"the table has the languages {self.languages}, and there are programs for {sorted(languages)}")
        return found
