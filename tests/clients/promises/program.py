"""One worker: a program in its language, which uses the package there as a user would. A line in, a line out.

    acquire KEY[,KEY] TTL [wait=MS|wait=forever] [renew] [owner=X] [prefix=X] [shared] [limit=N] [max-queue=N] [module]
            [replicas=N] [fair=GROUP] [per=N] [cancellable]
        Without `wait` it tries once; without `renew` nothing is renewed; `module` is the option that requires the module.
        -> hold N FENCE    N counts the holds of this program, FENCE is - without the module
        -> busy            others hold the lock, or its time is up
        -> cancelled
    cancel        while an acquire with `cancellable` waits; its own line is answered by that of the acquire
    release N     -> ok | lost | done (it does not say which)
    renew N TTL   -> ok | lost
    held N        -> yes | no         as far as the package knows
    guard N WORD ...  -> reply TEXT | lost
    losses N      -> how often the package has reported that this hold is lost
    forked N      -> what a release of this hold says in a forked child
    rest          closes the client: the test is over. Nothing answers it. The next one begins with
    connect PORT  -> ready            a new client. The numbers of holds go on

What goes wrong: `invalid TEXT` (nothing was sent), `missing TEXT` (the module), `refused TEXT` (the server's words),
`unknown TEXT` (whether it has happened). `cannot` is what the package, or the language, has no means for. Times are in
milliseconds. Only programs that take long to start rest. When it has started it says `ready`, or `ready without background` if nothing goes on once a call has returned.
"""

import os
import queue
import signal
import subprocess
import threading
from pathlib import Path


class Cannot(Exception):
    """The package has no means for this."""


class Running:
    """What several programs can be, one after the other."""

    def __init__(self, command, port, environment):
        self.process = subprocess.Popen(
            [*command, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            bufsize=1, env={**os.environ, **environment})
        self.lines, self.errors = queue.Queue(), []
        threading.Thread(target=self._listen, daemon=True).start()
        threading.Thread(target=self._listen_to_errors, daemon=True).start()

    def _listen(self):
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def _listen_to_errors(self):
        self.errors.extend(self.process.stderr)

    def close(self):
        self.process.kill()
        self.process.wait()
        for one in (self.process.stdin, self.process.stdout, self.process.stderr):
            try:
                one.close()
            except (OSError, ValueError):
                pass


class Program:
    def __init__(self, command, port, environment, rested=None):
        self.said, self.unanswered = [], 0 if rested else 1
        self.running = rested or Running(command, port, environment)
        self.process, self.lines, self.errors = self.running.process, self.running.lines, self.running.errors
        self.errors.clear()
        try:
            if rested:
                self.tell("connect", port)
            ready = self.hear()
        except BaseException:
            self.kill()
            raise
        self.lacks = ready.split(" ")[2:] if ready.startswith("ready without ") else []

    def tell(self, *words):
        """The reply is to be heard later."""
        self.unanswered += words[0] not in ("cancel", "rest")
        self.said.append("> " + " ".join(map(str, words)))
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def hear(self, within=60):
        try:
            line = self.lines.get(timeout=within)
        except queue.Empty:
            raise AssertionError(f"no reply within {within} s\n{self}") from None
        assert line is not None, f"the program has ended\n{self}"
        self.unanswered -= 1
        self.said.append("< " + line)
        if line == "cannot":
            raise Cannot
        return Reply(line)

    def needs(self, means):
        if means in self.lacks:
            raise Cannot

    def is_quiet(self):
        return self.lines.empty()

    def ask(self, *words, within=60):
        self.tell(*words)
        return self.hear(within)

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def state(self):
        return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0]

    def is_stopped(self):
        return self.state() == "T"

    def sleeps(self):
        """It waits for the reply. In the moment before, phpredis does not notice that its connection is gone."""
        return self.state() == "S"

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        self.running.close()

    def rest(self):
        """What can serve another test, if it can."""
        if self.unanswered or self.process.poll() is not None or self.is_stopped():
            return None
        try:
            self.tell("rest")
        except OSError:
            return None
        return self.running

    def __str__(self):
        return "\n".join([*self.said, *map(str.rstrip, self.errors)])


class Reply(str):
    @property
    def kind(self):
        return self.split(" ")[0]

    def hold(self):
        """The number of the hold that it brings."""
        assert self.kind == "hold", self
        return int(self.split(" ")[1])

    def fence(self):
        assert self.kind == "hold", self
        fence = self.split(" ")[2]
        return None if fence == "-" else int(fence)
