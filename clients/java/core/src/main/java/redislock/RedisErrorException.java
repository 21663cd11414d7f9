package redislock;

/** An error that the server replied. It is not retried, unless it says that the server is in the middle of a change. */
public class RedisErrorException extends RedisLockException {
    private static final long serialVersionUID = 1;

    RedisErrorException(String message) {
        super(message, null);
    }

    /**
     * For implementations of {@link Redis}.
     *
     * @param message what the server replied
     * @return the exception for that, of one of the subclasses if the code is theirs
     */
    public static RedisErrorException of(String message) {
        return switch (codeOf(message)) {
            case "DEADLOCK" -> new DeadlockException(message);
            case "TOOCOMPLEX" -> new TooComplexException(message);
            case "QUEUEFULL" -> new QueueFullException(message);
            case "REPLACED" -> new ReplacedException(message);
            case "ONEWAIT" -> new OneWaitException(message);
            case "NOREPLICAS" -> new NoReplicasException(message);
            case "NOUPGRADE" -> new NoUpgradeException(message);
            default -> new RedisErrorException(message);
        };
    }

    /**
     * The first word of the error.
     *
     * @return for example {@code DEADLOCK} or {@code ERR}
     */
    public final String code() {
        return codeOf(getMessage());
    }

    private static String codeOf(String message) {
        int space = message.indexOf(' ');
        return space < 0 ? message : message.substring(0, space);
    }

    /** Whether the same request may succeed a little later: the server is starting, changing its role, or moving the key. */
    final boolean mayPass() {
        return switch (code()) {
            case "UNBLOCKED", "READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK", "BUSY" -> true;
            default -> false;
        };
    }
}
