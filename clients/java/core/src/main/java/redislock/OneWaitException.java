package redislock;

/** The owner waits for another lock already. */
public final class OneWaitException extends RedisErrorException {
    private static final long serialVersionUID = 1;

    OneWaitException(String message) {
        super(message);
    }
}
