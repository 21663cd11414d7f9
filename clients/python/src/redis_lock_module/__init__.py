"""redis-py's Lock on the native commands of the redis-lock module.

    from redis_lock_module import Lock            # or, for redis.asyncio, redis_lock_module.asyncio

    with client.lock("market", timeout=10, lock_class=Lock) as lock:
        lock.guard("SET", "price", 5)
"""

from ._errors import DeadlockError
from ._threads import Lock

__all__ = ["DeadlockError", "Lock"]
__version__ = "0.1.0"
