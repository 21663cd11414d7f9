package redislock;

import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.function.Consumer;

/**
 * A lock, or several that are taken together, and how they are taken. It does not change, and may be used by many
 * threads: each call of {@link #acquire} has a hold of its own, by an owner of its own. It is not re-entrant: a thread
 * that holds the lock and asks again waits for itself.
 */
public final class RedisLock {
    private final RedisLocks locks;
    private final List<String> keys;
    private final Duration ttl;
    private final Settings settings;

    RedisLock(RedisLocks locks, List<String> keys, Duration ttl, Settings settings) {
        this.locks = locks;
        this.keys = keys;
        this.ttl = ttl;
        this.settings = settings;
    }

    private RedisLock with(Consumer<Settings> change) {
        Settings copy = settings.copy();
        change.accept(copy);
        copy.check();
        return new RedisLock(locks, keys, ttl, copy);
    }

    /**
     * Shares the lock with others that also share it: readers. Needs the module.
     *
     * @return the lock, taken so
     */
    public RedisLock shared() {
        return with(settings -> settings.shared = true);
    }

    /**
     * Shares the lock while fewer than {@code most} others do: a semaphore. Needs the module.
     *
     * @param most how many may hold it
     * @return the lock, taken so
     */
    public RedisLock limit(int most) {
        return with(settings -> settings.limit = most);
    }

    /**
     * Shares a {@link #limit} fairly between groups, such as tenants: of those that wait, the one that holds fewest is
     * served next. The group stands before the owner, as in {@code group:host:pid:uuid}. Needs the module, from 2.0 on.
     *
     * @param group without a colon
     * @return the lock, taken so
     */
    public RedisLock fair(String group) {
        return with(settings -> settings.group = group);
    }

    /**
     * How many of each {@link #fair} group may hold it.
     *
     * @param most of one group
     * @return the lock, taken so
     */
    public RedisLock per(int most) {
        return with(settings -> settings.per = most);
    }

    /**
     * Grants and renews a hold only once so many replicas have acknowledged it; else {@link NoReplicasException}. Needs
     * version 2.0 of the module, or no module: then it sends {@code WAIT}. Without this the server's
     * {@code lock.replicas} counts.
     *
     * @param count 0 to 64
     * @return the lock, taken so
     */
    public RedisLock replicas(int count) {
        return with(settings -> settings.replicas = count);
    }

    /**
     * Does not wait behind so many others, or more: {@link QueueFullException} at once. Needs the module, from 2.0 on.
     *
     * @param most how many may wait before
     * @return the lock, taken so
     */
    public RedisLock maxQueue(int most) {
        return with(settings -> settings.maxQueue = most);
    }

    /**
     * Renews a hold in the background, at a third of its ttl, until it is released.
     *
     * @return the lock, taken so
     */
    public RedisLock renewed() {
        return with(settings -> {
            settings.renewed = true;
            settings.renewedFor = null;
        });
    }

    /**
     * {@link #renewed()}, but ends so long after the grant: work that hangs does not keep the lock.
     *
     * @param limit for how long
     * @return the lock, taken so
     */
    public RedisLock renewedFor(Duration limit) {
        return with(settings -> {
            settings.renewed = true;
            settings.renewedFor = limit;
        });
    }

    /**
     * The owner of a hold, instead of a fresh one: one owner for the different locks that one piece of work takes, so
     * that the server finds deadlocks ({@link DeadlockException}).
     *
     * <p>To a lock, two workers with one owner are one worker, and both hold it. An owner that has released a lock, or
     * given up waiting for it, is spent: take a new one for the next attempt at that lock.
     *
     * @param owner 1 to 1,024 bytes
     * @return the lock, taken so
     */
    public RedisLock owner(String owner) {
        return with(settings -> settings.owner = owner);
    }

    /**
     * What stands before the UUID of each owner, as in {@code prefix:uuid}, instead of {@code host:pid}.
     *
     * @param prefix 1 to 987 bytes
     * @return the lock, taken so
     */
    public RedisLock ownerPrefix(String prefix) {
        return with(settings -> settings.ownerPrefix = prefix);
    }

    /**
     * Waits by polling for a place in the queue, over the connection that other commands use, instead of by a connection
     * that waits.
     *
     * @return the lock, taken so
     */
    public RedisLock polling() {
        return with(settings -> settings.polling = true);
    }

    /**
     * The longest pause between two requests of a waiter that polls: 100 milliseconds unless this is called. The first
     * pauses are shorter.
     *
     * @param pause at least a millisecond
     * @return the lock, taken so
     */
    public RedisLock retryInterval(Duration pause) {
        return with(settings -> settings.retryInterval = pause);
    }

    /**
     * Throws {@link ModuleMissingException} on a server without the module, instead of taking the lock by
     * {@code SET NX}: for work that relies on the order of the waiters or on the fencing token.
     *
     * @return the lock, taken so
     */
    public RedisLock requireModule() {
        return with(settings -> settings.requireModule = true);
    }

    /**
     * Waits until the lock is held. If the server can't be reached, requests are retried for ten seconds.
     *
     * @return the hold
     * @throws InterruptedException if the thread is interrupted; then nothing is left behind in the server
     */
    public Hold acquire() throws InterruptedException {
        return locks.acquire(owned(), Deadline.NONE).orElseThrow();
    }

    /**
     * Waits until the lock is held, for so long.
     *
     * @param patience if it is not above 0, this does not wait
     * @return the hold
     * @throws LockNotAcquiredException if others have held the lock all the time
     * @throws InterruptedException if the thread is interrupted; then nothing is left behind in the server
     */
    public Hold acquire(Duration patience) throws InterruptedException {
        return tryAcquire(patience).orElseThrow(() -> new LockNotAcquiredException("not acquired within " + patience + ": " + this));
    }

    /**
     * Takes the lock if it is free. Without a reply this fails after five seconds.
     *
     * @return the hold; empty if others hold the lock or wait for it
     */
    public Optional<Hold> tryAcquire() {
        return locks.tryAcquire(owned());
    }

    /**
     * Waits for the lock, for so long.
     *
     * @param patience if it is not above 0, this does not wait
     * @return the hold; empty if others have held the lock all the time
     * @throws InterruptedException if the thread is interrupted; then nothing is left behind in the server
     */
    public Optional<Hold> tryAcquire(Duration patience) throws InterruptedException {
        if (patience.isNegative() || patience.isZero()) return tryAcquire();
        return locks.acquire(owned(), Deadline.in(patience));
    }

    private OwnedLock owned() {
        String owner = settings.owner == null ? Owners.next(settings.ownerPrefix) : settings.owner;
        OwnedLock lock = new OwnedLock(keys, settings.group == null ? owner : settings.group + ":" + owner, ttl, settings);
        lock.check();
        return lock;
    }

    /** The keys of the lock. */
    @Override
    public String toString() {
        return String.join(", ", keys);
    }
}
