"""How the commands of a lock are spelled."""

from __future__ import annotations

from typing import Any, Union

from . import _options

Name = Union[str, bytes, memoryview]
Names = Union[Name, list[str], list[bytes], list[Name], tuple[Name, ...]]
Words = tuple[Any, ...]


def encoded(name: Name) -> bytes:
    return name.encode() if isinstance(name, str) else bytes(name)


class Spelling:
    """The commands of one lock, or of several that are held together."""

    def __init__(self, name: Names, shared: bool, limit: int | None, max_queue: int | None = None,
                 replicas: int | None = None, fair: str | None = None, per: int | None = None) -> None:
        _options.flag("shared", shared)
        _options.whole_number("limit", limit, 1)
        _options.whole_number("max_queue", max_queue, 0)
        _options.whole_number("replicas", replicas, 0)
        _options.whole_number("per", per, 1)
        _options.group(fair)
        if shared and limit is not None:
            raise ValueError("a lock is either shared or has a limit, which shares it too")
        if fair is not None and limit is None:
            raise ValueError("fair needs a limit, which groups share")
        if per is not None and fair is None:
            raise ValueError("per needs fair, which says what is a group")
        self.names: tuple[Name, ...] = _options.names(name)
        self.name = self.names[0]
        self.keys = tuple(encoded(one) for one in self.names)
        if fair is not None and len(self.names) > 1:
            raise ValueError("fair is for a lock of one key")
        self._many: tuple[str, ...] = () if len(self.names) == 1 else ("M",)
        self._mode: Words = ("SHARED",) if shared else () if limit is None else ("LIMIT", limit)
        if fair is not None:
            self._mode += ("FAIR",) if per is None else ("FAIR", "PER", per)
        self._max_queue: Words = () if max_queue is None else ("MAXQUEUE", max_queue)
        self.replicas = replicas
        self._replicas: Words = () if replicas is None else ("REPLICAS", replicas)
        self._group = b"" if fair is None else fair.encode() + b":"
        # What the first version of the module did not know.
        self.newer = ("fair" if fair is not None else "replicas" if replicas is not None
                      else None if max_queue is None else "max_queue")
        # What of it only the module can do, in words.
        self.special = ("a lock of several keys" if self._many else "shared=True" if shared
                        else "fair" if fair is not None else "limit" if limit is not None else None if max_queue is None else "max_queue")

    def _command(self, verb: str, *words: Any) -> Words:
        if self._many:
            return (f"LOCK.M{verb}", len(self.names), *self.names, *words)
        return (f"LOCK.{verb}", self.name, *words)

    def acquire(self, owner: bytes, ttl: int, *how: Any) -> Words:
        max_queue = self._max_queue if how else ()  # a try joins no queue
        return self._command("ACQUIRE", owner, ttl, *how, *self._mode, *self._replicas, *max_queue)

    def release(self, owner: bytes) -> Words:
        return self._command("RELEASE", owner)

    def renew(self, owner: bytes, ttl: int) -> Words:
        return self._command("RENEW", owner, ttl, *self._replicas)

    def of_its_group(self, owner: bytes) -> bytes:
        return owner if owner.startswith(self._group) else self._group + owner

    def checks(self, owner: bytes) -> list[Words]:
        return [("LOCK.CHECK", name, owner) for name in self.names]

    def guard(self, owner: bytes, command: Words) -> Words:
        return ("LOCK.GUARD", self.name, owner, *command)

    def all_released(self, reply: Any) -> bool:
        return bool(reply == len(set(self.keys)))
