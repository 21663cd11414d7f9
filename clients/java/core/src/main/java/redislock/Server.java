package redislock;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A server is asked in the way that it understands: by the module's commands, or by those of any server. */
final class Server {
    /** How long a reply may take, beside the time for which the server was asked to wait. */
    static final Duration REPLY_TIMEOUT = Duration.ofSeconds(2);

    /** So many waiters of one client have a connection each. Further ones poll. */
    private static final int MOST_BLOCKED = 128;

    /** So long replicas have to acknowledge without the module. With it, lock.replica-timeout says so. */
    private static final String REPLICAS_WAIT = "1000";

    private static final Pattern VERSION = Pattern.compile("lock_version:(\\S+)");

    private final Redis redis;
    private final Redis alone; // null if there are no connections of one's own
    private final Pipeline pipeline; // null if there is none
    private final ModuleState module = new ModuleState();
    private final Semaphore connections = new Semaphore(MOST_BLOCKED);
    private final ConcurrentHashMap<List<String>, Integer> waiting = new ConcurrentHashMap<>(); // how many, by keys
    private volatile String version; // once it was asked

    Server(Redis redis) {
        this.redis = redis;
        alone = redis.alone();
        pipeline = redis.pipeline();
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

    boolean hasPipeline() {
        return pipeline != null;
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

    /** Asks for the lock, with QUEUE or with nothing. A place is returned at once. */
    CompletableFuture<Reply> acquire(OwnedLock lock, Duration timeout, String... wait) {
        return acquire(lock, wait.length == 0 ? by(lock) : redis, timeout, wait);
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
                () -> acknowledged(lock, timeout, lock.eval(Plain.ACQUIRE, OwnedLock.milliseconds(lock.ttl))).thenApply(Reply::plain));
        String needs = lock.needsVersion2();
        return needs == null ? reply : reply.exceptionallyCompose(error -> explain(needs, Replies.failure(error)));
    }

    CompletableFuture<Long> renew(OwnedLock lock, Duration ttl) {
        return ask(lock, by(lock), REPLY_TIMEOUT, lock.renewal(ttl), Server::integer,
                () -> acknowledged(lock, REPLY_TIMEOUT, lock.eval(Plain.RENEW, OwnedLock.milliseconds(ttl))).thenApply(Server::integer));
    }

    /** How many of the locks were held. */
    CompletableFuture<Long> release(OwnedLock lock) {
        return ask(lock, redis, REPLY_TIMEOUT, lock.command("RELEASE"), Server::integer,
                () -> redis.send(REPLY_TIMEOUT, lock.eval(Plain.RELEASE)).thenApply(Server::integer));
    }

    CompletableFuture<Object> guard(OwnedLock lock, Duration timeout, Object[] command) {
        return ask(lock, redis, timeout, lock.guard(command), Function.identity(),
                () -> redis.send(timeout, lock.eval(Plain.GUARD, command)));
    }

    /** Sends a command by what others don't wait behind: by the client itself, unless the reply waits for replicas. */
    private Redis by(OwnedLock lock) {
        if (!lock.settings.waitsForReplicas()) return redis;
        return (timeout, words) -> pipeline.sendAll(timeout, new Object[][] {words}).thenApply(replies -> reply(replies.get(0)));
    }

    /**
     * Runs a script of {@link Plain}. If replicas are to acknowledge what it wrote, WAIT follows in the same pipeline: over
     * another connection it would wait for nothing.
     */
    private CompletableFuture<Object> acknowledged(OwnedLock lock, Duration timeout, Object[] script) {
        if (!lock.settings.waitsForReplicas()) return redis.send(timeout, script);
        int least = lock.settings.replicas;
        CompletableFuture<List<Object>> replies =
                pipeline.sendAll(timeout, script, new Object[] {"WAIT", Integer.toString(least), REPLICAS_WAIT});
        if (replies == null) {
            return CompletableFuture.failedFuture(new ModuleMissingException("the server has not loaded the redis-lock module, "
                    + "which replicas needs with this client, because it can't send WAIT"));
        }
        return replies.thenApply(both -> {
            Object count = reply(both.get(0));
            if (integer(count) == 0) return count;
            if (both.get(1) instanceof RedisErrorException refused) {
                throw RedisErrorException.of("NOREPLICAS lock can't wait for replicas: " + refused.getMessage());
            }
            long acknowledged = integer(both.get(1));
            if (acknowledged >= least) return count;
            throw RedisErrorException.of("NOREPLICAS lock was acknowledged by " + acknowledged + " of " + least
                    + " replicas within " + REPLICAS_WAIT + " ms");
        });
    }

    private static Object reply(Object value) {
        if (value instanceof RedisErrorException refused) throw refused;
        return value;
    }

    /** Sends the module's command, and the other one if the server has not loaded it and the lock can do without it. */
    private <T> CompletableFuture<T> ask(OwnedLock lock, Redis via, Duration timeout,
            Object[] words, Function<Object, T> read, Supplier<CompletableFuture<T>> plain) {
        String needs = lock.needsModule();
        if (needs == null && !module.mayBeLoaded()) return plain.get();
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
            return plain.get();
        }).thenCompose(Function.identity());
    }

    /** An older module calls a word that it does not know a syntax error. It is asked once for its version. */
    private CompletableFuture<Reply> explain(String needs, RuntimeException error) {
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
                        + ", and " + needs + " needs version 2.0")));
    }

    private static long integer(Object value) {
        if (value instanceof Long number) return number;
        throw new RedisErrorException("ERR redislock: an integer was expected, not " + (value == null ? null : value.getClass()));
    }
}
