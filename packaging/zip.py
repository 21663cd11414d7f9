"""Packs the module as Redis Software takes it: zip.py SERVER MODULE VERSION ZIP.

The form is that of RAMP, the packer whose zips its documentation asks for: the .so, and a module.json. The commands in
that are what a server says that has loaded the module.
"""

import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from socket import AF_UNIX, SOCK_STREAM, socket

# What this module has been tried with, on servers that are no Redis Software. Redis Software refuses a database
# whose settings ask for more than its modules say here.
CAPABILITIES = [
    "backup_restore",
    "clustering",
    "eviction_expiry",
    "failover_migrate",
    "persistence_aof",
    "persistence_rdb",
    "reshard_rebalance",
]
# Of Redis, as Cargo.toml says.
OLDEST = re.search(r'^redis = "([0-9.]+)"$', Path("Cargo.toml").read_text(), re.MULTILINE)[1]
# As Redis Software calls them.
SYSTEMS = {"rocky": "rhel", "almalinux": "rhel", "centos": "rhel", "ol": "rhel"}


def ask(path, *words):
    """One command, and its reply in Python's types."""
    with socket(AF_UNIX, SOCK_STREAM) as connection:
        connection.settimeout(10)
        connection.connect(path)
        connection.sendall(" ".join(words).encode() + b"\r\n")
        with connection.makefile("rb") as lines:
            return reply(lines)


def reply(lines):
    line = lines.readline().rstrip().decode()
    kind, said = line[:1], line[1:]
    if kind == ":":
        return int(said)
    if kind == "*":
        return [reply(lines) for _ in range(int(said))]
    if kind == "$":
        return lines.read(int(said) + 2)[:-2].decode() if int(said) >= 0 else None
    if kind == "+":
        return said
    raise RuntimeError(f"the server says {line!r}")


def asked(server, module):
    """The module's name and number, and its commands, in the words of a server that has loaded it."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/socket"
        options = ["--port", "0", "--unixsocket", path, "--dir", folder, "--save", "", "--loadmodule", module]
        with subprocess.Popen([server, *options], stdout=subprocess.DEVNULL) as process:
            try:
                while process.poll() is None and not os.path.exists(path):
                    time.sleep(0.02)
                said = ask(path, "MODULE", "LIST")[0]
                [loaded] = [dict(zip(said[::2], said[1::2]))]
                commands = ask(path, "COMMAND", "LIST", "FILTERBY", "MODULE", loaded["name"])
                return loaded, ask(path, "COMMAND", "INFO", *sorted(commands))
            finally:
                process.kill()


def system():
    """The name of this system and its first number."""
    said = dict(re.findall(r'^(ID|VERSION_ID)="?([^"\n]*)', Path("/etc/os-release").read_text(), re.MULTILINE))
    return SYSTEMS.get(said["ID"], said["ID"]) + said.get("VERSION_ID", "").split(".")[0]


def metadata(server, module, version):
    loaded, commands = asked(server, str(module.resolve()))
    fields = ["command_name", "command_arity", "flags", "first_key", "last_key", "step"]
    return {
        "add_command": [],
        "architecture": platform.machine(),
        "author": "the redis-lock authors",
        "bigstore_version_2_support": False,
        "capabilities": CAPABILITIES,
        "capability_name": "",
        "command_line_args": "",
        "commands": [dict(zip(fields, command)) for command in commands],
        "compatible_redis_version": os.environ.get("COMPATIBLE") or "7.4",
        "config_command": "",
        "crdb": {},
        "dependencies": {},
        "description": "Locks as native commands: fair, fenced, and woken inside the server",
        "display_name": "redis-lock",
        "email": "",
        "exclude_commands": [],
        "homepage": "",
        "license": "MIT",
        "min_redis_pack_version": "7.4",
        "min_redis_version": OLDEST,
        "module_file": module.name,
        "module_name": loaded["name"],
        "operating_systems": [os.environ.get("SYSTEM") or system()],
        "optional-dependencies": {},
        "os": platform.system(),
        "overide_command": [],
        "ramp_format_version": 1,
        "semantic_version": version,
        "sha256": hashlib.sha256(module.read_bytes()).hexdigest(),
        "version": loaded["ver"],
    }


def main(server, module, version, target):
    module = Path(module)
    described = json.dumps(metadata(server, module, version), indent=4, sort_keys=True) + "\n"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content, mode in [(module.name, module.read_bytes(), 0o755), ("module.json", described, 0o644)]:
            # No times of ours: the same input makes the same file.
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100000 | mode) << 16
            packed.writestr(entry, content)


main(*sys.argv[1:])
