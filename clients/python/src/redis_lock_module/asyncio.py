"""The same for redis.asyncio."""

from ._errors import DeadlockError
from ._tasks import Lock

__all__ = ["DeadlockError", "Lock"]
