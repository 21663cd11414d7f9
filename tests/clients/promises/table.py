"""The promises of clients/README.md, and its table of those that a language does not keep."""

import re

from languages import ROOT


class Table:
    def __init__(self, languages):
        page = (ROOT / "clients/README.md").read_text()
        self.languages = languages
        self.sentences = [int(number) for number in re.findall(r"^(\d+)\. ", page, re.M)]
        rows = re.findall(r"^\| ([\w, ]+) \| (\d+(?:, \d+)*) \| ", page, re.M)
        self.not_kept = {(int(number), language) for names, numbers in rows
                         for number in numbers.split(", ") for language in names.split(", ")}

    def cell(self, number, language):
        """What the table says of a language, or of all."""
        if language == "all":
            return " ".join(sorted({self.cell(number, one) for one in self.languages}))
        if number not in self.sentences or language not in self.languages:
            return "nothing"
        return "–" if (number, language) in self.not_kept else "yes"

    def errors(self, tests):
        found = []
        if sorted(self.sentences) != list(range(1, len(self.sentences) + 1)):
            found.append("the promises are not numbered from 1 on, one by one")
        for number in sorted(set(self.sentences) ^ tests):
            found.append(f"{number}: a promise without a test, or a test without a promise")
        for number, language in sorted(self.not_kept):
            if number not in self.sentences:
                found.append(f"{number}: a row in the table without a promise")
            if language not in self.languages:
                found.append(f"the table has the language {language}, and there are programs for {self.languages}")
        if not self.not_kept:
            found.append("the table is empty")
        return found
