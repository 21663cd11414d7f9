package redislock;

/** What goes wrong with a lock. */
public abstract class RedisLockException extends RuntimeException {
    private static final long serialVersionUID = 1;

    RedisLockException(String message, Throwable cause) {
        super(message, cause);
    }
}
