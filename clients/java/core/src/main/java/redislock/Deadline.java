package redislock;

import java.time.Duration;

/** A moment by the monotonic clock, or none. */
final class Deadline {
    /** The longest time that this package reckons with: the server's clock takes no longer one. */
    static final Duration LONGEST = Duration.ofDays(36_500);

    static final Deadline NONE = new Deadline(0, true);

    private final long at;
    private final boolean never;

    private Deadline(long at, boolean never) {
        this.at = at;
        this.never = never;
    }

    static Deadline in(Duration time) {
        return time.compareTo(LONGEST) > 0 ? NONE : new Deadline(System.nanoTime() + time.toNanos(), false);
    }

    boolean isNone() {
        return never;
    }

    /** Nanoseconds, not below 0. */
    long left() {
        return never ? Long.MAX_VALUE : Math.max(0, at - System.nanoTime());
    }

    boolean hasPassed() {
        return left() == 0;
    }

    /** The time that is left, but at most this. */
    Duration atMost(Duration limit) {
        return never || left() > limit.toNanos() ? limit : Duration.ofNanos(left());
    }
}
