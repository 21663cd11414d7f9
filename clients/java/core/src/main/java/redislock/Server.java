package redislock;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A server is asked in the way that it understands: by the module's commands, or by those of any server. */
final class Server {
    /** How long a reply may take, beside the time for which the server was asked to wait. */
    static final Duration REPLY_TIMEOUT = Duration.ofSeconds(2);

    /** So many waiters of one client have a connection each. Further ones poll. */
    private static final int MOST_BLOCKED = 128;

    private static final Pattern VERSION = Pattern.compile("lock_version:(\\S+)");

    private final Redis redis;
    private final Redis alone; // null if there are no connections of one's own
    private final ModuleState module = new ModuleState();
    private final Semaphore connections = new Semaphore(MOST_BLOCKED);
    private final ConcurrentHashMap<List<String>, Integer> waiting = new ConcurrentHashMap<>(); // how many, by keys
    private volatile String version; // once it was asked

    Server(Redis redis) {
        this.redis = redis;
        alone = redis.alone();
    }

    /**
     * The reply to a request for a lock.
     *
     * @param fence 0 without the module
     * @param place in the queue, from 1 on; 0: none
     */
    record Reply(boolean granted, long fence, long place) {
        private static Reply byModule(Object value) {
            if (value == null) return new Reply(false, 0, 0);
            long number = integer(value);
            return new Reply(number > 0, Math.max(number, 0), Math.max(-number, 0));
        }

        private static Reply plain(Object value) {
            return new Reply(integer(value) == 1, 0, 0);
        }

        boolean leftNothing() {
            return !granted && place == 0;
        }
    }

    boolean lacksModule() {
        return module.isMissing();
    }

    /** Whether a waiter may have a connection. */
    boolean canBlock() {
        return alone != null && connections.availablePermits() > 0;
    }

    /** Whether requests of this process wait in the server for the same lock. */
    boolean isWaitedFor(OwnedLock lock) {
        return waiting.containsKey(lock.keys);
    }

    /** Asks for the lock, with QUEUE or with nothing. */
    CompletableFuture<Reply> acquire(OwnedLock lock, Duration timeout, String... wait) {
        return acquire(lock, redis, timeout, wait);
    }

    /** Waits in the server; null if there is no connection for that. */
    CompletableFuture<Reply> acquireBlocking(OwnedLock lock, Duration block) {
        if (alone == null || !connections.tryAcquire()) return null;
        waiting.merge(lock.keys, 1, Integer::sum);
        Duration least = block.toMillis() < 1 ? Duration.ofMillis(1) : block; // 0 would be no limit
        return acquire(lock, alone, least.plus(REPLY_TIMEOUT), "BLOCK", OwnedLock.milliseconds(least))
                .whenComplete((any, error) -> {
                    connections.release();
                    waiting.computeIfPresent(lock.keys, (keys, count) -> count == 1 ? null : count - 1);
                });
    }

    private CompletableFuture<Reply> acquire(OwnedLock lock, Redis via, Duration timeout, String... wait) {
        CompletableFuture<Reply> reply = ask(lock, via, timeout, lock.acquire(wait), Reply::byModule,
                lock.eval(Plain.ACQUIRE, OwnedLock.milliseconds(lock.ttl)), Reply::plain);
        if (lock.settings.maxQueue == null || wait.length == 0) return reply;
        return reply.exceptionallyCompose(error -> explain(Replies.failure(error)));
    }

    CompletableFuture<Long> renew(OwnedLock lock, Duration ttl) {
        String time = OwnedLock.milliseconds(ttl);
        return count(lock, lock.command("RENEW", time), lock.eval(Plain.RENEW, time));
    }

    /** How many of the locks were held. */
    CompletableFuture<Long> release(OwnedLock lock) {
        return count(lock, lock.command("RELEASE"), lock.eval(Plain.RELEASE));
    }

    private CompletableFuture<Long> count(OwnedLock lock, Object[] words, Object[] plain) {
        return ask(lock, redis, REPLY_TIMEOUT, words, Server::integer, plain, Server::integer);
    }

    CompletableFuture<Object> guard(OwnedLock lock, Duration timeout, Object[] command) {
        Function<Object, Object> read = Function.identity();
        return ask(lock, redis, timeout, lock.guard(command), read, lock.eval(Plain.GUARD, command), read);
    }

    /** Sends the module's command, and the other one if the server has not loaded it and the lock can do without it. */
    private <T> CompletableFuture<T> ask(OwnedLock lock, Redis via, Duration timeout,
            Object[] words, Function<Object, T> read, Object[] plain, Function<Object, T> readPlain) {
        String needs = lock.needsModule();
        if (needs == null && !module.mayBeLoaded()) return redis.send(timeout, plain).thenApply(readPlain);
        return via.send(timeout, words).handle((value, thrown) -> {
            RuntimeException error = thrown == null ? null : Replies.failure(thrown);
            if (error == null) {
                module.isLoaded();
                return CompletableFuture.completedFuture(read.apply(value));
            }
            if (!ModuleState.lacksModule(error)) return CompletableFuture.<T>failedFuture(error);
            if (needs != null) {
                return CompletableFuture.<T>failedFuture(new ModuleMissingException(
                        "the server has not loaded the redis-lock module, which " + needs + " needs"));
            }
            module.isNotLoaded();
            return redis.send(timeout, plain).thenApply(readPlain);
        }).thenCompose(Function.identity());
    }

    /** An older module calls a word that it does not know a syntax error. It is asked once for its version. */
    private CompletableFuture<Reply> explain(RuntimeException error) {
        if (!(error instanceof RedisErrorException) || !error.getMessage().startsWith("ERR syntax error")) {
            return CompletableFuture.failedFuture(error);
        }
        CompletableFuture<String> asked = version != null ? CompletableFuture.completedFuture(version)
                : redis.send(REPLY_TIMEOUT, "INFO", "lock").handle((info, failure) -> {
                    Matcher found = VERSION.matcher(String.valueOf(info));
                    return version = found.find() ? found.group(1) : "";
                });
        return asked.thenCompose(found -> CompletableFuture.failedFuture(!found.isEmpty() && !found.startsWith("1.") ? error
                : new ModuleMissingException("the server's redis-lock module is " + (found.isEmpty() ? "older" : found)
                        + ", and maxQueue needs version 2.0")));
    }

    private static long integer(Object value) {
        if (value instanceof Long number) return number;
        throw new RedisErrorException("ERR redislock: an integer was expected, not " + (value == null ? null : value.getClass()));
    }
}
