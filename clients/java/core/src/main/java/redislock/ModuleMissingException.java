package redislock;

/** The server has not loaded the redis-lock module, or an older one, and the lock needs it. */
public final class ModuleMissingException extends RedisLockException {
    private static final long serialVersionUID = 1;

    ModuleMissingException(String message) {
        super(message, null);
    }
}
