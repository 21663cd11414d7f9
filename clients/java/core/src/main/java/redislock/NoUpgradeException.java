package redislock;

/** A shared lock of this owner does not become an exclusive one while others share it. */
public final class NoUpgradeException extends RedisErrorException {
    private static final long serialVersionUID = 1;

    NoUpgradeException(String message) {
        super(message);
    }
}
