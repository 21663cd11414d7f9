package redislock;

/** The request would have waited for its own owner. The message says who waits for whom. */
public final class DeadlockException extends RedisErrorException {
    private static final long serialVersionUID = 1;

    DeadlockException(String message) {
        super(message);
    }
}
