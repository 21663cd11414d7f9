package redislock;

/** The server could not be reached, or did not reply in time: it is unknown whether the command ran. */
public final class RedisUnavailableException extends RedisLockException {
    private static final long serialVersionUID = 1;

    /**
     * For implementations of {@link Redis}.
     *
     * @param message what went wrong
     * @param cause the exception of the client, or {@code null}
     */
    public RedisUnavailableException(String message, Throwable cause) {
        super(message, cause);
    }
}
