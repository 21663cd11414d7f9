"""The protocol of Redis, as far as a proxy and an observer need it."""

import socket


class Refused(Exception):
    """The server's error."""


def encode(*words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def end_of(data, start=0):
    """Where the message that begins at `start` ends, or None while it is not complete."""
    line_ends = data.find(b"\r\n", start)
    if line_ends < 0:
        return None
    kind, end = data[start : start + 1], line_ends + 2
    number = data[start + 1 : line_ends]
    if kind in b"$=!" and number != b"-1":
        end += int(number) + 2
        return end if len(data) >= end else None
    if kind in b"*~>%|" and number != b"-1":
        # An attribute stands before the reply that it belongs to.
        for _ in range(int(number) * (2 if kind in b"%|" else 1) + (kind == b"|")):
            end = end_of(data, end)
            if end is None:
                return None
    return end


def decode(data, start=0):
    """The value of a complete message, and where it ends. Maps are dicts, strings are text, errors are Refused."""
    line_ends = data.find(b"\r\n", start)
    kind, end = data[start : start + 1], line_ends + 2
    text = data[start + 1 : line_ends].decode()
    if kind == b"+":
        return text, end
    if kind == b"-":
        return Refused(text), end
    if kind == b":":
        return int(text), end
    if kind in b"$=!":
        if text == "-1":
            return None, end
        return data[end : end + int(text)].decode("utf-8", "surrogateescape"), end + int(text) + 2
    if kind in b"*~>%":
        if text == "-1":
            return None, end
        values = []
        for _ in range(int(text) * (2 if kind == b"%" else 1)):
            value, end = decode(data, end)
            values.append(value)
        return (dict(zip(values[::2], values[1::2])) if kind == b"%" else values), end
    return {b"_": None, b"#": text == "t"}.get(kind, text), end


class Connection:
    """A connection of the test's own, beside those that are tested."""

    def __init__(self, port, timeout=20):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self.data = b""

    def say(self, *words):
        self.socket.sendall(encode(*words))
        return self.hear()

    def hear(self):
        while (end := end_of(self.data)) is None:
            received = self.socket.recv(65536)
            if not received:
                raise ConnectionError("the server has closed the connection")
            self.data += received
        reply, self.data = decode(self.data)[0], self.data[end:]
        if isinstance(reply, Refused):
            raise reply
        return reply

    def close(self):
        self.socket.close()
