package redislock;

/** A later request of the same owner has taken over this one's wait. */
public final class ReplacedException extends RedisErrorException {
    private static final long serialVersionUID = 1;

    ReplacedException(String message) {
        super(message);
    }
}
