"""The errors of this package, and what the server's errors mean for a request."""

import re

from redis.exceptions import ConnectionError, LockError, MaxConnectionsError, RedisClusterException, ResponseError

# A wait that ends by one of these is begun again: the client retries, and learns where, or why not.
ENDS_A_WAIT = ("UNBLOCKED", "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "READONLY", "LOADING", "MASTERDOWN")
# The owner has another request that waits, or shares the lock: a release would end that.
IS_ABOUT_SOMETHING_ELSE = ("REPLACED", "ONEWAIT", "NOUPGRADE")
# What a failed acquire or renewal may have changed all the same: too few replicas have acknowledged it.
MAY_HAVE_CHANGED = ("NOREPLICAS",)
DEADLOCK = ("DEADLOCK", "TOOCOMPLEX")
MAY_NOT_LISTEN = ("NOPERM", "CROSSSLOT")
_IS_ELSEWHERE = ("MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN")
# redis-py takes the codes that it knows out of the words, and says them by a class.
_CODES = {"MovedError": "MOVED", "AskError": "ASK", "TryAgainError": "TRYAGAIN", "ClusterDownError": "CLUSTERDOWN",
          "MasterDownError": "MASTERDOWN", "ReadOnlyError": "READONLY", "NoPermissionError": "NOPERM"}


class DeadlockError(LockError):
    """The request would have waited for its own owner (or may have: TOOCOMPLEX), and was refused at once."""


class ModuleMissingError(LockError):
    """The server has not loaded the redis-lock module, or an older one, and what was asked for is not to be had then."""

    def __init__(self, what: str, lock_name: object = None, version: str | None = None) -> None:
        text = (f"{what} needs version 2.0 of the redis-lock module, and this server has {version or 'an older one'}"
                if version is not None else
                f"{what} needs the redis-lock module, which this server has not loaded: add `loadmodule "
                "/path/to/libredis_lock.so` to its configuration, or run MODULE LOAD /path/to/libredis_lock.so")
        super().__init__(text, lock_name=lock_name)  # type: ignore[arg-type]
        self.args = (text,)  # which LockError leaves to those who make it, before redis-py 7


class NotOwner(Exception):
    """Another owner holds it, or none does. Never leaves this package."""


def says(error: BaseException, *codes: str) -> bool:
    """Whether the server's error begins with one of these."""
    code = _CODES.get(type(error).__name__) or str(error).split(" ", 1)[0]
    return isinstance(error, ResponseError) and code in codes


def is_elsewhere(error: Exception) -> bool:
    return isinstance(error, RedisClusterException) or says(error, *_IS_ELSEWHERE)


def is_unknown_word(error: ResponseError) -> bool:
    """Also of a word that the module is too old for. redis-py takes `ERR` away."""
    return str(error).removeprefix("ERR ").startswith("syntax error")


def is_of_another_type(error: ResponseError) -> bool:
    """The key is no lock any more: another client has overwritten it. Older servers say so amid the words of a script."""
    return "WRONGTYPE" in str(error)


def greatest_lease(error: ResponseError) -> int:
    """How long a lease may be, in milliseconds, if the error is that this one is longer; else 0."""
    text = str(error)
    if "lease must be" not in text:
        return 0
    return max((int(word) for word in text.replace(",", "").split() if word.isdigit()), default=0)


def uses_all_connections(error: Exception) -> bool:
    """Of the pool, so nothing was sent. redis-py 6 has no class for it everywhere."""
    return isinstance(error, MaxConnectionsError) or (
        isinstance(error, ConnectionError) and str(error) == "Too many connections")


# The server's own words; Upstash's; and those of redis-py's clients of a cluster, which look a command up before they
# send it. A command that is guarded may be unknown as well.
_UNKNOWN = re.compile(r"^(?:ERR )?(?:unknown command|command is not available)\W+LOCK\."
                      r"|^LOCK\.\w+ command doesn't exist in Redis commands", re.IGNORECASE)


def misses_the_module(error: Exception) -> bool:
    return _UNKNOWN.match(str(error)) is not None
