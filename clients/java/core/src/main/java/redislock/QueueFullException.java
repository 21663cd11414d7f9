package redislock;

/** As many wait as {@link RedisLock#maxQueue} or the server allows. */
public final class QueueFullException extends RedisErrorException {
    private static final long serialVersionUID = 1;

    QueueFullException(String message) {
        super(message);
    }
}
