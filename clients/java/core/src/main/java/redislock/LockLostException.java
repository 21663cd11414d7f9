package redislock;

/** A hold has ended before it was released: another owner may have worked beside this one. */
public final class LockLostException extends RedisLockException {
    private static final long serialVersionUID = 1;

    LockLostException(String message, Throwable cause) {
        super(message, cause);
    }
}
