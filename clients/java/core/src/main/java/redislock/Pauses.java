package redislock;

import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;

/** Pauses that grow up to the longest. None is quite as long as that of another waiter. */
final class Pauses {
    static final Duration FIRST = Duration.ofMillis(10);

    private long last;

    Pauses() {
        this(Duration.ZERO);
    }

    Pauses(Duration last) {
        this.last = last.toNanos();
    }

    Duration next(Duration longest) {
        last = Math.min(Math.max(FIRST.toNanos(), 2 * last), longest.toNanos());
        return Duration.ofNanos(last - ThreadLocalRandom.current().nextLong(last / 4 + 1));
    }
}
