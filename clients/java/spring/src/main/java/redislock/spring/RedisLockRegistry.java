package redislock.spring;

import java.time.Duration;
import java.util.ConcurrentModificationException;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import org.springframework.dao.CannotAcquireLockException;
import org.springframework.integration.support.locks.DistributedLock;
import org.springframework.integration.support.locks.RenewableLockRegistry;
import redislock.Hold;
import redislock.LockLostException;
import redislock.RedisLock;
import redislock.RedisLockException;
import redislock.RedisLocks;

/**
 * Takes locks on the same keys as Spring Integration's own registry for Redis, so that both exclude each other. They are
 * re-entrant within a thread. Threads wait in the server's queue, those of one process too.
 *
 * <p>The registry remembers the locks that are held, and no others, so none has to be expired. Locks are renewed in the
 * background if those of its client are: {@code new RedisLocks(redis, RedisLock::renewed)}.
 */
public final class RedisLockRegistry implements RenewableLockRegistry<DistributedLock> {
    private record Holder(Thread thread, String key) {}

    /** Used by its thread alone. */
    private static final class Held {
        private final Hold hold;
        private int entered = 1;

        Held(Hold hold) {
            this.hold = hold;
        }
    }

    private final RedisLocks locks;
    private final String prefix;
    private final Duration ttl;
    private final Map<Holder, Held> held = new ConcurrentHashMap<>();

    /**
     * A registry of locks with the keys {@code registryKey:lockKey}.
     *
     * @param locks stays open
     * @param registryKey what stands before the keys
     * @param ttl of a lock for which no other is given
     */
    public RedisLockRegistry(RedisLocks locks, String registryKey, Duration ttl) {
        this.locks = locks;
        prefix = registryKey + ":";
        this.ttl = ttl;
    }

    /**
     * A lock. {@code lock} and {@code tryLock} throw {@link CannotAcquireLockException} if the server can't be reached or
     * refuses it, and {@code unlock} throws {@link ConcurrentModificationException} if the lock was lost: what it protects
     * may have been changed by another. A lock that was lost is not entered again before it is unlocked.
     */
    @Override
    public DistributedLock obtain(Object lockKey) {
        return new KeyLock(this, prefix + lockKey);
    }

    @Override
    public void renewLock(Object lockKey) {
        renewLock(lockKey, ttl);
    }

    /** {@link IllegalStateException} if this thread does not hold the lock, or has lost it. */
    @Override
    public void renewLock(Object lockKey, Duration ttl) {
        String key = prefix + lockKey;
        Held found = held.get(new Holder(Thread.currentThread(), key));
        if (found == null) throw notHeld(key);
        try {
            found.hold.renew(ttl);
        } catch (LockLostException e) {
            throw new IllegalStateException(e.getMessage(), e);
        }
    }

    private static IllegalStateException notHeld(String key) {
        return new IllegalStateException("this thread does not hold the lock: " + key);
    }

    /** All locks with one key are equal. */
    private record KeyLock(RedisLockRegistry registry, String key) implements DistributedLock {
        private interface Request {
            Optional<Hold> send(RedisLock lock) throws InterruptedException;
        }

        private Holder holder() {
            return new Holder(Thread.currentThread(), key);
        }

        /** Returns false if others have the lock, or if this thread has lost it. */
        private boolean enter(Duration ttl, Request request) throws InterruptedException {
            Held found = registry.held.get(holder());
            if (found != null) {
                if (!found.hold.isHeld()) return false;
                found.entered++;
                return true;
            }
            try {
                Optional<Hold> hold = request.send(registry.locks.lock(key, ttl));
                hold.ifPresent(granted -> registry.held.put(holder(), new Held(granted)));
                return hold.isPresent();
            } catch (RedisLockException e) {
                throw new CannotAcquireLockException("the lock was not acquired: " + key, e);
            }
        }

        private void enterOrThrow(Duration ttl) throws InterruptedException {
            if (enter(ttl, lock -> Optional.of(lock.acquire()))) return;
            throw new CannotAcquireLockException("this thread has lost the lock, and has not unlocked it yet: " + key);
        }

        @Override
        public void lock() {
            lock(registry.ttl);
        }

        @Override
        public void lock(Duration ttl) {
            boolean interrupted = false;
            try {
                while (true) {
                    try {
                        enterOrThrow(ttl);
                        return;
                    } catch (InterruptedException e) {
                        interrupted = true; // is kept for later
                    }
                }
            } finally {
                if (interrupted) Thread.currentThread().interrupt();
            }
        }

        @Override
        public void lockInterruptibly() throws InterruptedException {
            if (Thread.interrupted()) throw new InterruptedException();
            enterOrThrow(registry.ttl);
        }

        @Override
        public boolean tryLock() {
            try {
                return enter(registry.ttl, RedisLock::tryAcquire);
            } catch (InterruptedException e) {
                throw new AssertionError(e); // a try keeps it for later
            }
        }

        @Override
        public boolean tryLock(long time, TimeUnit unit) throws InterruptedException {
            return tryLock(Duration.of(time, unit.toChronoUnit()), registry.ttl);
        }

        @Override
        public boolean tryLock(Duration waitTime, Duration ttl) throws InterruptedException {
            if (Thread.interrupted()) throw new InterruptedException();
            return enter(ttl, lock -> lock.tryAcquire(waitTime));
        }

        @Override
        public void unlock() {
            Held found = registry.held.get(holder());
            if (found == null) throw notHeld(key);
            if (--found.entered > 0) return;
            registry.held.remove(holder());
            try {
                found.hold.close();
            } catch (LockLostException e) {
                throw new ConcurrentModificationException(e.getMessage(), e);
            }
        }

        @Override
        public Condition newCondition() {
            throw new UnsupportedOperationException("a lock in a server has no conditions");
        }
    }
}
