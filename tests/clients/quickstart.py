"""docs/quickstart.md's program prints what the page says; without its check the stale write goes through. PORT says
where a server with the module is."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

page = (Path(__file__).parents[2] / "docs/quickstart.md").read_text()
[program] = re.findall(r"^```python\n(.*?)^```", page, re.S | re.M)
[shown] = re.findall(r"^```text\n(.*?)^```", page, re.S | re.M)
[check] = re.findall(r"Remove `( AND [^`]+)` from", page)
assert program.count("Redis()") == program.count(check) == 1


def prints(text):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "stale.py")
        file.write_text(text.replace("Redis()", f"Redis(port={os.environ['PORT']})"))
        return subprocess.run([sys.executable, file], cwd=folder, stdout=subprocess.PIPE, text=True, check=True).stdout


assert prints(program) == shown
assert prints(program.replace(check, "")).endswith("slow wrote\nslow had lost the lock\nthe order is open again\n")
print("the quickstart's stale write is refused, and goes through without the check")
