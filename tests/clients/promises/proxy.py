"""A proxy before a server. It reads what it passes on, so a fault hits the very command that it is meant for."""

import socket
import struct
import threading
from contextlib import suppress

from resp import decode, encode, end_of


class Proxy:
    def __init__(self, port):
        self.server, self.port = port, 0
        self.sent = []  # the commands that have come, each a list of words
        self.refused = 0  # connections, while it was down
        self.lock = threading.Lock()
        self.faults = []  # the next commands of these names have what comes to them
        self.open = set()
        self.before_cutting = lambda: None  # what to wait for
        self.drops_messages = False  # of channels
        self._listen()

    # Faults

    def lose_reply_to(self, *names):
        """The next command of one of these names reaches the server, and its reply is lost with the connection."""
        return self._fault("lose", names)

    def lose_request(self, *names):
        """The connection breaks before the next such command reaches the server."""
        return self._fault("cut", names)

    def reply_to(self, reply, *names, when=lambda words: True):
        """The proxy itself replies to each such command from now on."""
        return self._fault("reply", names, reply=reply, when=when, times=10**9)

    def delay(self, *names):
        """The next such command does not reach the server before `arrive` is set."""
        return self._fault("delay", names, arrive=threading.Event())

    def delay_reply_to(self, *names):
        """The next such command reaches the server, and its reply is kept back before `arrive` is set."""
        return self._fault("keep", names)

    def duplicate(self, *names):
        """Each such command reaches the server twice from now on, and the second reply reaches no one."""
        return self._fault("duplicate", names, times=10**9)

    def _fault(self, kind, names, times=1, when=lambda words: True, **more):
        fault = Fault(kind, names, times, when, **more)
        with self.lock:
            self.faults.append(fault)
        return fault

    def _fault_for(self, words):
        with self.lock:
            self.sent.append(words)
            for fault in self.faults:
                if fault.left and words[0].upper() in fault.names and fault.when(words):
                    fault.left -= 1
                    fault.hits += 1
                    return fault
        return None

    def break_connections(self):
        with self.lock:
            broken, self.open = self.open, set()
        for one in broken:
            end(one)

    def go_down(self):
        """Connections break, and new ones are closed at once."""
        self.is_down = True
        self.break_connections()

    def come_up(self):
        self.is_down = False

    def count(self, *names):
        with self.lock:
            return sum(words[0].upper() in names for words in self.sent)

    # Passing on

    def _listen(self):
        self.is_down = False
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(128)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            try:
                if self.is_down:
                    raise ConnectionError
                server = socket.create_connection(("127.0.0.1", self.server))
            except OSError:
                self.refused += 1
                end(client)
                continue
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self.lock:
                self.open |= {client, server}
            if self.is_down:
                self.break_connections()
            pair = Pair(self, client, server)
            for work in (pair.requests, pair.replies):
                threading.Thread(target=work, daemon=True).start()

    def close(self):
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for fault in self.faults:
            fault.arrive.set()
        self.go_down()


class Fault:
    def __init__(self, kind, names, times, when, reply=b"", arrive=None):
        self.kind, self.names, self.left, self.when, self.reply = kind, names, times, when, reply
        self.hits = 0
        self.arrive = arrive or threading.Event()
        self.connection = None  # of the command that is delayed

    def delays_nothing_else(self):
        """Its client waits for this reply, and has sent nothing after it."""
        try:
            self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            return False
        except BlockingIOError:
            return True
        except OSError:
            return False


class Pair:
    """A client's connection, and that to the server."""

    def __init__(self, proxy, client, server):
        self.proxy, self.client, self.server = proxy, client, server
        self.expected = []  # what is to be done with the next replies of the server

    def requests(self):
        data = b""
        with suppress(OSError):
            while received := self.client.recv(65536):
                data += received
                while (ends := end_of(data)) is not None:
                    request, data = data[:ends], data[ends:]
                    self._request(request)
        self._end()

    def _request(self, request):
        words = decode(request)[0]
        fault = self.proxy._fault_for(words)
        kind = fault.kind if fault else "pass"
        if kind == "cut":
            self.proxy.before_cutting()
            raise ConnectionError
        if kind == "delay":
            fault.connection = self.client
            # Whoever waits for it may close the connection meanwhile: it arrives all the same.
            fault.arrive.wait()
        if kind == "reply":
            # In turn with those of the server.
            self.expected.append(fault.reply)
            request = encode("PING")
        else:
            self.expected.append(fault if kind == "keep" else "lose" if kind == "lose" else "pass")
        if kind == "duplicate":
            self.expected.append("drop")
            request *= 2
        self.server.sendall(request)

    def replies(self):
        data = b""
        with suppress(OSError):
            while received := self.server.recv(65536):
                data += received
                while (ends := end_of(data)) is not None:
                    reply, data = data[:ends], data[ends:]
                    is_message = reply[:1] == b">" and not self._answers(reply)
                    what = "pass" if is_message or not self.expected else self.expected.pop(0)
                    if isinstance(what, Fault):
                        what.arrive.wait()
                        what = "pass"
                    if what == "lose":
                        self.proxy.before_cutting()
                        raise ConnectionError
                    if what != "drop" and not (self.proxy.drops_messages and b"\r\nmessage\r\n" in reply[:20]):
                        self.client.sendall(reply if what == "pass" else what)
        self._end()

    def _answers(self, push):
        """A subscription is answered by a push, too."""
        return push.split(b"\r\n")[2].lower().endswith(b"subscribe")

    def _end(self):
        with self.proxy.lock:
            self.proxy.open -= {self.client, self.server}
        for one in (self.client, self.server):
            end(one)


def end(connection):
    """At once, as if the host had forgotten it."""
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    with suppress(OSError):
        connection.close()
