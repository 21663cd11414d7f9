package redislock;

import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Optional;
import java.util.function.UnaryOperator;

/** Takes locks on one server or cluster. It may be used by many threads; make one in a process. */
public final class RedisLocks implements AutoCloseable {
    private static final Duration CLOSING = Duration.ofSeconds(5);

    final Server server;
    final NamedOwners named = new NamedOwners();
    final Neighbours neighbours = new Neighbours();
    final Background background = new Background();

    private final Redis redis;
    private final UnaryOperator<RedisLock> defaults;

    /**
     * Nothing is sent yet.
     *
     * @param redis the client that sends the commands
     */
    public RedisLocks(Redis redis) {
        this(redis, UnaryOperator.identity());
    }

    /**
     * Nothing is sent yet.
     *
     * @param redis the client that sends the commands
     * @param defaults how all locks are taken, for example {@code RedisLock::requireModule}
     */
    public RedisLocks(Redis redis, UnaryOperator<RedisLock> defaults) {
        this.redis = redis;
        this.defaults = defaults;
        server = new Server(redis);
    }

    /**
     * A lock.
     *
     * @param key its key in the server
     * @param ttl when a hold expires after its grant, unless it is renewed
     * @return the lock, of which nothing is held yet
     */
    public RedisLock lock(String key, Duration ttl) {
        return lockAll(List.of(key), ttl);
    }

    /**
     * Several locks, which are taken in one instant, with one fencing token, or not at all. Needs the module.
     *
     * @param keys in a cluster they need a common part in braces
     * @param ttl when a hold expires after its grant, unless it is renewed
     * @return the lock, of which nothing is held yet
     */
    public RedisLock lockAll(Collection<String> keys, Duration ttl) {
        List<String> distinct = keys.stream().distinct().toList();
        if (distinct.isEmpty()) throw new IllegalArgumentException("no key");
        if (distinct.contains("")) throw new IllegalArgumentException("an empty key");
        OwnedLock.checkTtl(ttl);
        return defaults.apply(new RedisLock(this, distinct, ttl, new Settings()));
    }

    Optional<Hold> acquire(OwnedLock lock, Deadline deadline) throws InterruptedException {
        return new Attempt(this, checked(lock), deadline).acquire();
    }

    Optional<Hold> tryAcquire(OwnedLock lock) {
        return new Attempt(this, checked(lock), Deadline.in(Attempt.TRY_FOR)).tryAcquire();
    }

    private OwnedLock checked(OwnedLock lock) {
        if (lock.settings.waitsForReplicas() && !server.hasPipeline()) {
            throw new IllegalArgumentException("replicas with this client, which has no pipeline: others would wait behind it");
        }
        if (!named.isSpent(lock)) return lock;
        throw new IllegalArgumentException("the owner " + lock.owner + " is still being released in the background; take a new one");
    }

    /**
     * Waits until nothing is released in the background any more.
     *
     * @param patience for how long at most
     * @return whether that is so; if not, what is left goes on
     * @throws InterruptedException if the thread is interrupted
     */
    public boolean await(Duration patience) throws InterruptedException {
        return background.awaitReleases(Deadline.in(patience));
    }

    /**
     * Waits for five seconds at most until nothing is released in the background any more, and closes the connections
     * that were made for the locks. What is still held expires by itself.
     */
    @Override
    public void close() {
        try {
            await(CLOSING);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        background.close();
        redis.close();
    }
}
