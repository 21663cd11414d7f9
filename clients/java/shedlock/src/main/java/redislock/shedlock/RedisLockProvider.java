package redislock.shedlock;

import java.time.Duration;
import java.util.Optional;
import net.javacrumbs.shedlock.core.AbstractSimpleLock;
import net.javacrumbs.shedlock.core.ClockProvider;
import net.javacrumbs.shedlock.core.ExtensibleLockProvider;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;
import redislock.Hold;
import redislock.LockLostException;
import redislock.RedisLocks;

/**
 * Takes ShedLock's locks on the same keys as ShedLock's own providers for Redis, so that both exclude each other.
 *
 * <p>An unlock of a lock that was lost, because its task took longer than {@code lockAtMostFor}, is logged as a warning.
 */
public final class RedisLockProvider implements ExtensibleLockProvider {
    private static final System.Logger LOGGER = System.getLogger("redislock.shedlock");

    private final RedisLocks locks;
    private final String prefix;

    /**
     * Locks of the environment {@code default}.
     *
     * @param locks stays open
     */
    public RedisLockProvider(RedisLocks locks) {
        this(locks, "default");
    }

    /**
     * Locks of an environment: their keys are {@code job-lock:environment:name}.
     *
     * @param locks stays open
     * @param environment part of the keys
     */
    public RedisLockProvider(RedisLocks locks, String environment) {
        this.locks = locks;
        prefix = "job-lock:" + environment + ":";
    }

    @Override
    public Optional<SimpleLock> lock(LockConfiguration configuration) {
        Duration ttl = Duration.between(ClockProvider.now(), configuration.getLockAtMostUntil());
        if (ttl.toMillis() < 1) return Optional.empty();
        return locks.lock(prefix + configuration.getName(), ttl).tryAcquire().map(hold -> new HeldLock(configuration, hold));
    }

    private static final class HeldLock extends AbstractSimpleLock {
        private final Hold hold;

        HeldLock(LockConfiguration configuration, Hold hold) {
            super(configuration);
            this.hold = hold;
        }

        @Override
        protected void doUnlock() {
            Duration left = Duration.between(ClockProvider.now(), lockConfiguration.getLockAtLeastUntil());
            try {
                if (left.toMillis() < 1) {
                    hold.close();
                } else {
                    hold.renew(left);
                }
            } catch (LockLostException e) {
                LOGGER.log(System.Logger.Level.WARNING, "The task took longer than lockAtMostFor, or its lock was taken away: " + e.getMessage());
            }
        }

        @Override
        protected Optional<SimpleLock> doExtend(LockConfiguration extended) {
            try {
                hold.renew(extended.getLockAtMostFor());
                return Optional.of(new HeldLock(extended, hold));
            } catch (LockLostException e) {
                return Optional.empty();
            }
        }
    }
}
