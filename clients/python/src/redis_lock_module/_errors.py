from __future__ import annotations

from redis.exceptions import LockError, ResponseError

# A wait that ends by one of these is begun again: the client asks anew, and is told where, or why not.
# BLOCK is refused to a connection with a subscription on some servers; a place in the queue is not.
_ENDS_A_WAIT = ("UNBLOCKED", "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "READONLY", "LOADING", "MASTERDOWN")


class DeadlockError(LockError):
    """The request would have waited for its own owner (or may have: TOOCOMPLEX), and was refused at once."""


def code_of(error: ResponseError) -> str:
    # redis-py takes the codes that it knows out of the words, and says them by a class.
    named = {"MovedError": "MOVED", "AskError": "ASK", "TryAgainError": "TRYAGAIN", "ClusterDownError": "CLUSTERDOWN",
             "MasterDownError": "MASTERDOWN", "ReadOnlyError": "READONLY"}
    return named.get(type(error).__name__) or str(error).split(" ", 1)[0]


def ends_a_wait(error: ResponseError) -> bool:
    return code_of(error) in _ENDS_A_WAIT


def lets_nobody_block(error: ResponseError) -> bool:
    return "lets no module block" in str(error)


def is_deadlock(error: ResponseError) -> bool:
    return code_of(error) in ("DEADLOCK", "TOOCOMPLEX")


def is_not_owner(error: ResponseError) -> bool:
    return code_of(error) == "NOTOWNER"
