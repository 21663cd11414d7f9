"""A server of a test's own, with the module or without."""

import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from resp import Connection, Refused

PROGRAM = os.environ.get("REDIS_SERVER", "redis-server")
MODULE = os.environ.get("REDIS_LOCK_MODULE") or str(Path(__file__).parents[3] / "target/release/libredis_lock.so")


def eventually(condition, what="this never came", within=30.0):
    end = time.monotonic() + within
    while not (found := condition()):
        assert time.monotonic() < end, what() if callable(what) else what
        time.sleep(0.005)
    return found


def free_port():
    while True:
        port = random.randrange(21_000, 30_000)
        with socket.socket() as one, suppress(OSError):
            one.bind(("127.0.0.1", port))
            return port


class Server:
    def __init__(self, module=True, master=None):
        self.with_module, self.master, self.folder = module, master, tempfile.mkdtemp(prefix="redis-lock-promises-")
        self.port, self.process, self.connection = None, None, None
        self.start()
        if master:
            eventually(lambda: "state=online" in master.say("INFO", "replication"), "the replica never came")

    def start(self):
        """On the port that it had before, if there was one."""
        for _ in range(20):
            port = self.port or free_port()
            log = open(os.path.join(self.folder, "log"), "ab")
            self.process = subprocess.Popen(
                [PROGRAM, "--port", str(port), "--bind", "127.0.0.1", "--dir", self.folder, "--save", "",
                 "--enable-module-command", "yes", "--repl-diskless-sync-delay", "0",
                 *(["--replicaof", "127.0.0.1", str(self.master.port)] if self.master else []),
                 *(["--loadmodule", MODULE] if self.with_module else [])],
                stdout=log, stderr=log)
            if self._is_up(port):
                self.port = port
                return
            self.kill()
        raise AssertionError(Path(self.folder, "log").read_text())

    def _is_up(self, port):
        end = time.monotonic() + 30
        while time.monotonic() < end and self.process.poll() is None:
            with suppress(OSError, Refused):
                self.connection = Connection(port)
                # Another server may have this port.
                return f"process_id:{self.process.pid}\r\n" in self.connection.say("INFO", "server")
            time.sleep(0.005)
        return False

    def say(self, *words):
        return self.connection.say(*words)

    def stop(self):
        """It goes on to exist, and does nothing: its connections stand, and no reply comes."""
        self.process.send_signal(signal.SIGSTOP)
        eventually(lambda: ") T " in Path(f"/proc/{self.process.pid}/stat").read_text(), "it was never stopped")

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def kill(self):
        if self.connection:
            self.connection.close()
        self.process.kill()
        self.process.wait()

    def unload(self):
        self.say("CONFIG", "SET", "lock.drain", "yes")  # else it refuses while clients wait
        eventually(self._is_unloaded, "it was never unloaded")
        self.with_module = False

    def _is_unloaded(self):
        try:
            return self.say("MODULE", "UNLOAD", "lock") == "OK"
        except Refused as refused:
            if "no such module" in str(refused):
                return True
            with suppress(Refused):
                self.say("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            return False

    def load(self):
        self.say("MODULE", "LOAD", MODULE)
        self.with_module = True

    def remove(self):
        self.go_on()
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    # What is seen of a lock

    def info(self, name, field):
        fields = self.say("LOCK.INFO", name) or []
        return dict(zip(fields[::2], fields[1::2])).get(field, 0)

    def waiters(self, name="market"):
        return self.info(name, "queue")

    def owner(self, name="market"):
        return self.say("GET", name)

    def is_free(self, name="market"):
        """Neither held nor waited for."""
        return not self.say("EXISTS", name) and (not self.with_module or self.say("LOCK.INFO", name) is None)

    def calls(self, command):
        for line in self.say("INFO", "commandstats").splitlines():
            if line.startswith(f"cmdstat_{command.lower()}:calls="):
                return int(line.split("=")[1].split(",")[0])
        return 0
