"""The same for redis.asyncio."""

from ._errors import DeadlockError, ModuleMissingError
from ._tasks import Hold, Lock

__all__ = ["DeadlockError", "Hold", "Lock", "ModuleMissingError"]
