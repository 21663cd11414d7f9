package redislock;

/** It would have taken too long to find out whether the request would be a deadlock. */
public final class TooComplexException extends RedisErrorException {
    private static final long serialVersionUID = 1;

    TooComplexException(String message) {
        super(message);
    }
}
