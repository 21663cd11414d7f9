package redislock;

import java.nio.charset.StandardCharsets;
import java.time.Duration;

/** What {@link RedisLock}'s methods of the same names set. It does not change once a lock has it. */
final class Settings implements Cloneable {
    /** In bytes. */
    static final int LONGEST_OWNER = 1024;

    boolean shared;
    Integer limit;
    String group;
    Integer per;
    Integer replicas;
    Integer maxQueue;
    boolean renewed;
    Duration renewedFor; // null: until the release
    String owner;
    String ownerPrefix;
    boolean polling;
    Duration retryInterval = Duration.ofMillis(100);
    boolean requireModule;

    Settings copy() {
        try {
            return (Settings) clone();
        } catch (CloneNotSupportedException e) {
            throw new AssertionError(e);
        }
    }

    boolean waitsForReplicas() {
        return replicas != null && replicas > 0;
    }

    void check() {
        if (shared && limit != null) throw new IllegalArgumentException("shared and limit exclude each other");
        if (limit != null && limit < 1) throw new IllegalArgumentException("a limit of " + limit);
        if (group != null && (group.isEmpty() || group.indexOf(':') >= 0)) {
            throw new IllegalArgumentException("the group \"" + group + "\"; it must not be empty, nor have a colon, which ends it in the owner");
        }
        if (per != null && per < 1) throw new IllegalArgumentException("per " + per);
        if (replicas != null && (replicas < 0 || replicas > 64)) {
            throw new IllegalArgumentException(replicas + " replicas; it must be 0 to 64");
        }
        if (maxQueue != null && maxQueue < 0) throw new IllegalArgumentException("a maxQueue of " + maxQueue);
        if (renewedFor != null && (renewedFor.isNegative() || renewedFor.isZero())) {
            throw new IllegalArgumentException("renewed for " + renewedFor);
        }
        if (retryInterval.compareTo(Duration.ofMillis(1)) < 0) {
            throw new IllegalArgumentException("a retryInterval of " + retryInterval + "; it must be at least a millisecond");
        }
        if (owner != null) {
            checkBytes("an owner", owner, LONGEST_OWNER);
            if (owner.equals("*") || owner.equals("@lock:shared")) {
                throw new IllegalArgumentException("the owner " + owner + ", which means something else to the server");
            }
        }
        if (ownerPrefix != null) checkBytes("an ownerPrefix", ownerPrefix, LONGEST_OWNER - 37);
    }

    static void checkBytes(String what, String value, int most) {
        int bytes = value.getBytes(StandardCharsets.UTF_8).length;
        if (bytes < 1 || bytes > most) {
            throw new IllegalArgumentException(what + " of " + bytes + " bytes; it must have 1 to " + most);
        }
    }
}
