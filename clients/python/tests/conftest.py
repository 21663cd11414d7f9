"""PORT says where a server with the module is, PORTS where there is one for each of pytest-xdist's workers. REDIS_SERVER
and REDIS_LOCK_MODULE say what more are started from."""

import os
import random
import socket
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio
import redis
import redis.asyncio

WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
PORT = int(os.environ.get("PORTS", os.environ.get("PORT", "6379")).split()[WORKER])


def eventually(condition, within=20.0, what="this never came"):
    end = time.monotonic() + within
    while not (found := condition()):
        assert time.monotonic() < end, what
        time.sleep(0.002)
    return found


class Watcher:
    """Looks at the server from aside, by a connection of its own."""

    def __init__(self, port=PORT):
        self.port = port
        self.db = redis.Redis(port=port, socket_timeout=60, protocol=3, decode_responses=True)

    def command(self, *words):
        return self.db.execute_command(*words)

    def info(self, name="market"):
        return self.command("LOCK.INFO", name)

    def waiters(self, name="market"):
        return (self.info(name) or {}).get("queue", 0)

    def holders(self, name="market"):
        return (self.info(name) or {}).get("count", 0)

    def wait_for_waiters(self, count=1, name="market"):
        eventually(lambda: self.waiters(name) == count, what=f"never {count} waiters")

    def calls(self, command):
        return self.db.info("commandstats").get(f"cmdstat_{command.lower()}", {}).get("calls", 0)


@pytest.fixture
def watcher():
    watcher = Watcher()
    watcher.db.client_unpause()
    for drain in ("yes", "no"):  # no place is left of a test before
        watcher.command("CONFIG", "SET", "lock.drain", drain)
    watcher.db.flushall()
    watcher.command("CONFIG", "RESETSTAT")
    yield watcher
    watcher.db.close()


def close(client):
    client.close()
    client.connection_pool.disconnect()


@pytest.fixture
def connect(watcher):
    """Makes clients, and closes them."""
    clients = []

    def make(**options):
        clients.append(redis.Redis(**{"port": watcher.port, "socket_timeout": 20, **options}))
        return clients[-1]

    yield make
    for client in clients:
        close(client)


@pytest_asyncio.fixture
async def aconnect(watcher):
    clients = []

    def make(**options):
        clients.append(redis.asyncio.Redis(**{"port": watcher.port, "socket_timeout": 20, **options}))
        return clients[-1]

    yield make
    for client in clients:
        await client.aclose()
        await client.connection_pool.disconnect()


@pytest.fixture
def client(connect):
    return connect()


@pytest.fixture(params=[(2, False), (2, True), (3, False), (3, True)], ids=lambda way: f"RESP{way[0]}-decoded-{way[1]}")
def any_client(request, connect):
    return connect(protocol=request.param[0], decode_responses=request.param[1])


@pytest.fixture(params=[(2, False), (2, True), (3, False), (3, True)], ids=lambda way: f"RESP{way[0]}-decoded-{way[1]}")
def any_async_client(request, aconnect):
    return aconnect(protocol=request.param[0], decode_responses=request.param[1])


def free_port():
    """One of those to which a cluster's node can add 10,000."""
    while True:
        port = random.randrange(10_000, 32_000)
        with socket.socket() as one, socket.socket() as other, suppress(OSError):
            one.bind(("127.0.0.1", port))
            other.bind(("127.0.0.1", port + 10_000))
            return port


class Server:
    """A server of a test's own."""

    def __init__(self, folder, *options, sentinel=False, module=True):
        self.port = free_port()
        self.module = module
        self.folder = Path(folder) / str(self.port)
        self.folder.mkdir()
        module = ["--loadmodule", os.environ["REDIS_LOCK_MODULE"]] if module and not sentinel else []
        config = self.folder / "server.conf"
        config.write_text(f"port {self.port}\nbind 127.0.0.1\ndir {self.folder}\n" + "\n".join(options) + "\n")
        self.process = subprocess.Popen(
            [os.environ["REDIS_SERVER"], str(config), *(["--sentinel"] if sentinel else []), *module],
            stdout=open(self.folder / "log", "w"), stderr=subprocess.STDOUT)
        self.watcher = Watcher(self.port)
        eventually(self._answers, what=f"no server: {(self.folder / 'log').read_text()}")

    def _answers(self):
        try:
            return self.watcher.db.ping()
        except redis.ConnectionError:
            return False

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.watcher.db.close()


class Proxy:
    """Stands before a server. It can lose the next reply to a command, together with its connection; keep the next request
    back until it may arrive, even if its connection is closed by then; and be down."""

    def __init__(self, port):
        self.server, self.loses, self.lost = port, None, 0
        self.delays, self.may_arrive = None, threading.Event()
        self.port, self.open, self.timer = 0, [], threading.Timer(0, lambda: None)
        self._take_the_port()
        self.go_up()

    def _take_the_port(self):
        """A port on which no one listens refuses connections; as long as it is taken, no other can have it."""
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", self.port))
        self.port = self.listener.getsockname()[1]

    def go_up(self):
        self.listener.listen()
        threading.Thread(target=self._accept, args=[self.listener], daemon=True).start()

    def _accept(self, listener):
        with suppress(OSError):
            while True:
                client = listener.accept()[0]
                server = socket.create_connection(("127.0.0.1", self.server))
                self.open += [client, server]
                state = {"loses": False}
                for pair in ((client, server, True), (server, client, False)):
                    threading.Thread(target=self._pass_on, args=(*pair, state), daemon=True).start()

    def _pass_on(self, source, target, asks, state):
        with suppress(OSError):
            while data := source.recv(65536):
                if asks and self.loses and self.loses in data:
                    self.loses, state["loses"] = None, True
                elif not asks and state["loses"]:
                    self.lost += 1
                    break
                if asks and self.delays and self.delays in data:
                    self.delays = None
                    self.may_arrive.wait(60)
                target.sendall(data)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def go_down(self, seconds=None):
        """Connections break, and none is accepted, for so long or until `go_up`."""
        self.close()
        self._take_the_port()
        for one in self.open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self.open.clear()
        if seconds is not None:
            self.timer = threading.Timer(seconds, self.go_up)
            self.timer.start()

    def close(self):
        self.timer.cancel()
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)  # else the one that accepts goes on
        self.listener.close()


@pytest.fixture
def start_server(tmp_path):
    servers = []

    def start(*options, **kwargs):
        servers.append(Server(tmp_path, 'save ""', *options, **kwargs))
        return servers[-1]

    yield start
    for server in servers:
        server.kill()
