"""redis-py's Lock on the native commands of the redis-lock module, or by SET NX on a server without it.

    from redis_lock_module import Lock            # or, for redis.asyncio, redis_lock_module.asyncio

    with client.lock("market", timeout=10, lock_class=Lock) as hold:
        hold.guard("SET", "price", 5)
"""

from ._errors import DeadlockError, ModuleMissingError
from ._threads import Hold, Lock

__all__ = ["DeadlockError", "Hold", "Lock", "ModuleMissingError"]
__version__ = "2.0.0.dev0"
