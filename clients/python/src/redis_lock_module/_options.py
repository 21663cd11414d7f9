"""The options of a lock: what each may be, and how its commands are spelled with them.

Nonsense is refused before anything is sent.
"""

import functools
import math
from typing import Any, NamedTuple, Union

Name = Union[str, bytes, memoryview]
Names = Union[Name, list[str], list[bytes], list[Name], tuple[Name, ...]]
Words = tuple[Any, ...]

_LONGEST = 2**52 / 1000  # in seconds: about 142,000 years
# An owner is a prefix, a colon and a uuid, which is 36 characters long.
_LONGEST_OWNER, _LONGEST_PREFIX, _LONGEST_GROUP = 1024, 1024 - 37, 512


def milliseconds(seconds: float) -> int:
    """Rounded up: to wait for half a millisecond is not to try once."""
    return max(1, math.ceil(round(seconds * 1000, 6)))


class _Kind(NamedTuple):
    """What an option may be."""

    types: Any
    words: str
    least: float = 0  # of str, how many bytes it has
    most: float = 1
    or_none: bool = False

    def check(self, name: str, value: Any) -> Any:
        if value is None and self.or_none:
            return None
        if not isinstance(value, self.types) or isinstance(value, bool) != (self.types is bool):
            raise TypeError(f"{name} must be {self.words}, not {value!r}")
        size = len(value.encode()) if isinstance(value, str) else value
        if not self.least <= size <= self.most:
            raise ValueError(f"{name} must be {self.words}, {self.least:g} to {self.most:g}, not {value!r}")
        return value


def _whole_number(least: int) -> _Kind:
    return _Kind(int, "a whole number", least, 2**63 - 1, or_none=True)


def _text(longest: int) -> _Kind:
    return _Kind(str, "str, of so many bytes", 1, longest, or_none=True)


_FLAG = _Kind(bool, "True or False")
_SPAN = _Kind((int, float), "a number of seconds", 0.001, _LONGEST)
_PAUSE = _SPAN._replace(least=0)
_KINDS = {
    "timeout": _SPAN._replace(or_none=True),
    "sleep": _PAUSE,
    "blocking": _FLAG,
    "thread_local": _FLAG,
    "raise_on_release_error": _FLAG,
    "shared": _FLAG,
    "limit": _whole_number(1),
    "fair": _text(_LONGEST_GROUP),
    "per": _whole_number(1),
    "renew": _FLAG._replace(or_none=True),
    "renew_for": _SPAN._replace(or_none=True),
    "replicas": _whole_number(0),
    "max_queue": _whole_number(0),
    "queue": _FLAG._replace(or_none=True),
    "owner_prefix": _text(_LONGEST_PREFIX),
    "require_module": _FLAG,
}


def flag(name: str, value: Any) -> bool:
    return bool(_FLAG.check(name, value))


def span(name: str, value: Any) -> float:
    """For how long something lasts, in seconds."""
    return float(_SPAN.check(name, value))


def pause(name: str, value: Any) -> float:
    return float(_PAUSE.check(name, value))


def patience(name: str, value: Any) -> float | None:
    """None indefinitely, 0 to try once."""
    return None if value is None or value == math.inf else pause(name, value)


def function(name: str, value: Any) -> None:
    if value is not None and not callable(value):
        raise TypeError(f"{name} must be a function, not {value!r}")


def _names(value: Any) -> tuple[Any, ...]:
    one = str, bytes, memoryview
    names = (value,) if isinstance(value, one) else value
    if not isinstance(names, (list, tuple)) or not all(isinstance(each, one) for each in names):
        raise TypeError(f"the name of a lock must be str or bytes, or a list of them, not {value!r}")
    if not names or not all(len(each) for each in names):
        raise ValueError("the name of a lock must not be empty")
    return tuple(names)


class Spelling:
    """The commands of one lock, or of several that are held together."""

    def __init__(self, name: Names, **options: Any) -> None:
        for option, kind in _KINDS.items():
            kind.check(option, options[option])
        patience("blocking_timeout", options["blocking_timeout"])
        limit, fair, per, prefix = (options[option] for option in ("limit", "fair", "per", "owner_prefix"))
        self.names: tuple[Name, ...] = _names(name)
        self._group = b"" if fair is None else fair.encode() + b":"
        for is_wrong, why in (
            (options["shared"] and limit is not None, "a lock is either shared or has a limit, which shares it too"),
            (fair and ":" in fair, "fair must be without a colon, which ends the group in an owner"),
            (fair is not None and limit is None, "fair needs a limit, which groups share"),
            (per is not None and fair is None, "per needs fair, which says what is a group"),
            (fair is not None and len(self.names) > 1, "fair is for a lock of one key"),
            (prefix and len(prefix.encode()) + len(self._group) > _LONGEST_PREFIX,
             f"owner_prefix and the group must not be longer than {_LONGEST_PREFIX} bytes"),
        ):
            if is_wrong:
                raise ValueError(why)
        self.name = self.names[0]
        self.keys = tuple(one.encode() if isinstance(one, str) else bytes(one) for one in self.names)
        self.replicas: int | None = options["replicas"]
        self._many = "M" if len(self.names) > 1 else ""
        self._mode: Words = ("SHARED",) if options["shared"] else () if limit is None else ("LIMIT", limit)
        self._mode += () if fair is None else ("FAIR",) if per is None else ("FAIR", "PER", per)
        self._max_queue: Words = () if options["max_queue"] is None else ("MAXQUEUE", options["max_queue"])
        self._replicas: Words = () if self.replicas is None else ("REPLICAS", self.replicas)
        given = [option for option in ("fair", "limit", "max_queue", "replicas") if options[option] is not None]
        # What the first version of the module did not know; and what only the module can do, in words.
        self.newer = next((option for option in ("fair", "replicas", "max_queue") if option in given), None)
        self.special = ("a lock of several keys" if self._many else "shared=True" if options["shared"] else
                        next((option for option in given if option != "replicas"), None))

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

    def owner(self, token: bytes) -> bytes:
        """With its group before it."""
        owner = token if token.startswith(self._group) else self._group + token
        if not token or len(owner) > _LONGEST_OWNER:
            raise ValueError(f"token must be 1 to {_LONGEST_OWNER} bytes")
        if owner in (b"*", b"@lock:shared"):
            raise ValueError(f"token must not be {owner.decode()!r}, which means something else to the server")
        return owner


@functools.lru_cache(maxsize=256, typed=True)  # many objects are made with the same options
def spelled(name: Names, **options: Any) -> Spelling:
    return Spelling(name, **options)
