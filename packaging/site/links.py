"""Links that lead out of docs/ lead to the repository, if SITE_REPOSITORY says where that is; else only their words stay."""

import os
import posixpath
import re
import subprocess

REPOSITORY = os.environ.get("SITE_REPOSITORY", "").rstrip("/")
COMMIT = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip() or "main"
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
CODE = re.compile(r"(^```.*?^```)", re.DOTALL | re.MULTILINE)


def on_page_markdown(markdown, page, **_):
    folder = posixpath.join("docs", posixpath.dirname(page.file.src_uri))

    def mended(link):
        picture, words, target, anchor = link.groups()
        path = posixpath.normpath(posixpath.join(folder, target))
        if "://" in target or path.startswith("docs/") and "docs/monitoring" not in path:
            return link[0]
        if picture or not REPOSITORY:
            return words
        return f"[{words}]({REPOSITORY}/blob/{COMMIT}/{path}{anchor or ''})"

    parts = CODE.split(markdown)
    parts[::2] = [LINK.sub(mended, part) for part in parts[::2]]
    return "".join(parts)
