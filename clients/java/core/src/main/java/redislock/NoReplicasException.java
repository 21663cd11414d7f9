package redislock;

/** Too few replicas have acknowledged a grant, which is then released, or a renewal. */
public final class NoReplicasException extends RedisErrorException {
    private static final long serialVersionUID = 1;

    NoReplicasException(String message) {
        super(message);
    }

    /** Whether the replicas may have either the end that a renewal set or the one before. */
    boolean leavesEndOpen() {
        return getMessage().startsWith("NOREPLICAS lock ");
    }
}
