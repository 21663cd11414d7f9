"""What one test of one package has: servers, proxies and workers of its own, which end with it."""

from collections import defaultdict
from contextlib import suppress

from languages import OTHERS, PROGRAMS, SLOW
from program import Program
from proxy import Proxy
from server import Server, eventually

TOGETHER = ("all", "packages")  # where others run with one language, and one of its clients
PROMISES = {}  # by their numbers in clients/README.md, the tests of each


def promise(number):
    def remember(test):
        PROMISES.setdefault(number, []).append(test)
        return test
    return remember


class Worker(Program):
    """A program and the proxy by which it reaches the server."""

    resting = defaultdict(list)  # by language, what can serve another test

    def __init__(self, language, server):
        command, environment = {**PROGRAMS, **OTHERS}[language]
        self.language, self.proxy = language, Proxy(server.port)
        rested = None
        with suppress(IndexError):
            rested = self.resting[language].pop()
        try:
            super().__init__(command, self.proxy.port, environment, rested)
        except BaseException:
            self.proxy.close()
            raise
        self.proxy.before_cutting = lambda: eventually(self.sleeps)

    def grant(self, *words):
        """The reply that brings a hold. A try would depend on how busy this machine is."""
        reply = self.ask("acquire", *words, "wait=20000")
        assert reply.kind == "hold", reply
        return reply

    def acquire(self, *words):
        """The number of the hold."""
        return self.grant(*words).hold()

    def attempt(self, *words):
        """What a try says, unless the server took too long to reply."""
        while (reply := self.ask("acquire", *words)).kind == "unknown":
            pass
        return reply

    def losses(self, hold):
        return int(self.ask("losses", hold))

    def close(self):
        super().close()
        self.proxy.close()

    def end(self):
        """Of a test that went well."""
        if self.language[0] in SLOW and (running := self.rest()):
            self.proxy.close()
            self.resting[self.language].append(running)
        else:
            self.close()

    @staticmethod
    def end_resting():
        for language in Worker.resting.values():
            while language:
                language.pop().close()


class Trial:
    running, are_stopped = set(), False

    def __init__(self, language):
        self.language, self.servers, self.workers = language, [], []
        Trial.running.add(self)

    @staticmethod
    def stop_all():
        """What is about to start is ended by its own thread."""
        Trial.are_stopped = True
        for trial in list(Trial.running):
            trial.end()
        Worker.end_resting()

    def server(self, module=True, master=None):
        assert not Trial.are_stopped
        self.servers.append(Server(module, master))
        return self.servers[-1]

    def worker(self, server, language=None):
        assert not Trial.are_stopped
        self.workers.append(Worker(language or self.language, server))
        return self.workers[-1]

    def end(self, went_well=False):
        for one in self.workers:
            one.end() if went_well else one.close()
        for one in self.servers:
            one.remove()
        Trial.running.discard(self)

    def __str__(self):
        return "\n\n".join(map(str, self.workers))
