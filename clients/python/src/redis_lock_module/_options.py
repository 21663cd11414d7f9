"""What an option may be. Nonsense is refused before anything is sent."""

from __future__ import annotations

import math
from typing import Any, Callable, TypeVar

T = TypeVar("T")

_LONGEST = 2**52 / 1000  # in seconds: about 142,000 years


def milliseconds(seconds: float) -> int:
    """Rounded up: to wait for half a millisecond is not to try once."""
    return max(1, math.ceil(round(seconds * 1000, 6)))


def number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number of seconds, not {value!r}")
    if math.isnan(value):
        raise ValueError(f"{name} must be a number of seconds, not {value!r}")
    return value


def span(name: str, value: Any) -> float:
    """For how long something lasts, in seconds."""
    if not 0.001 <= number(name, value) <= _LONGEST:
        raise ValueError(f"{name} must be at least 0.001 seconds, and finite, not {value!r}")
    return float(value)


def optional(check: Callable[[str, Any], T], name: str, value: Any) -> T | None:
    return None if value is None else check(name, value)


def pause(name: str, value: Any) -> float:
    if not 0 <= number(name, value) <= _LONGEST:
        raise ValueError(f"{name} must be 0 or more seconds, and finite, not {value!r}")
    return float(value)


def patience(name: str, value: Any) -> float | None:
    """None indefinitely, 0 to try once."""
    if value is None or number(name, value) == math.inf:
        return None
    return pause(name, value)


def flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, not {value!r}")
    return value


def whole_number(name: str, value: Any, least: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, not {value!r}")
    if not least <= value < 2**63:
        raise ValueError(f"{name} must be at least {least}, not {value!r}")
    return value


def function(name: str, value: Any) -> Any:
    if value is not None and not callable(value):
        raise TypeError(f"{name} must be a function, not {value!r}")
    return value


# An owner is a prefix, a colon and a uuid, which is 36 characters long.
_LONGEST_OWNER, _LONGEST_PREFIX, _LONGEST_GROUP = 1024, 1024 - 37, 512


def owner(encoded: bytes) -> bytes:
    if not 1 <= len(encoded) <= _LONGEST_OWNER:
        raise ValueError(f"token must be 1 to {_LONGEST_OWNER} bytes")
    if encoded in (b"*", b"@lock:shared"):
        raise ValueError(f"token must not be {encoded.decode()!r}, which means something else to the server")
    return encoded


def owner_prefix(value: Any, group: Any = None) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"owner_prefix must be str, not {value!r}")
    longest = _LONGEST_PREFIX - (0 if group is None else len(f"{group}:".encode()))
    if not 1 <= len(value.encode()) <= longest:
        raise ValueError(f"owner_prefix must be 1 to {longest} bytes" + (", after the group" if group else ""))
    return value


def group(value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, str):
        raise TypeError(f"fair must be str, the name of a group, not {value!r}")
    if not 1 <= len(value.encode()) <= _LONGEST_GROUP or ":" in value:
        raise ValueError(f"fair must be 1 to {_LONGEST_GROUP} bytes without a colon, which ends the group in an owner, "
                         f"not {value!r}")


def names(value: Any) -> tuple[Any, ...]:
    one = isinstance(value, (str, bytes, memoryview))
    if not one and not isinstance(value, (list, tuple)):
        raise TypeError(f"the name of a lock must be str or bytes, or a list of them, not {value!r}")
    names = (value,) if one else tuple(value)
    if not names:
        raise ValueError("a lock needs a name")
    for each in names:
        if not isinstance(each, (str, bytes, memoryview)):
            raise TypeError(f"the name of a lock must be str or bytes, not {each!r}")
        if not len(each):
            raise ValueError("the name of a lock must not be empty")
    return names
