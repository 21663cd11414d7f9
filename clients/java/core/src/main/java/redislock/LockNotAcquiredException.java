package redislock;

/** Others hold the lock, and have not released it in time. */
public final class LockNotAcquiredException extends RedisLockException {
    private static final long serialVersionUID = 1;

    LockNotAcquiredException(String message) {
        super(message, null);
    }
}
