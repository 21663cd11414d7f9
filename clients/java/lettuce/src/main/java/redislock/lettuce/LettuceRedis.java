package redislock.lettuce;

import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.codec.StringCodec;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Stream;
import redislock.Pipeline;
import redislock.Redis;
import redislock.RedisErrorException;

/**
 * Sends commands by a connection of its own, and those that wait by one for each. A connection that breaks is closed, so
 * that each command is sent once. They are closed by {@link redislock.RedisLocks#close}.
 */
public final class LettuceRedis implements Redis {
    private static final int MOST_IDLE = 16;

    private final RedisClient client;
    private final RedisURI uri;
    private final AtomicReference<CompletableFuture<Link>> shared = new AtomicReference<>();
    private final ConcurrentLinkedDeque<Link> idle = new ConcurrentLinkedDeque<>();
    private final Alone alone = new Alone();
    private volatile boolean closed;

    private LettuceRedis(RedisClient client, RedisURI uri) {
        this.client = client;
        this.uri = uri;
    }

    /**
     * Connects when the first lock is asked for.
     *
     * @param client stays open
     * @param uri a server, or Sentinels and the name of the master
     * @return what {@link redislock.RedisLocks} takes
     */
    public static LettuceRedis of(RedisClient client, RedisURI uri) {
        return new LettuceRedis(client, uri);
    }

    /**
     * Sends commands by a connection to a cluster. Waiters poll. Lettuce sends a command again when a connection breaks:
     * a guarded command may run twice, and a release whose reply was lost throws {@link redislock.LockLostException}.
     *
     * @param client stays open
     * @return what {@link redislock.RedisLocks} takes
     */
    public static Redis of(RedisClusterClient client) {
        return new LettuceCluster(client);
    }

    @Override
    public CompletableFuture<Object> send(Duration timeout, Object... words) {
        CompletableFuture<Object> reply = within(timeout);
        shared().whenComplete((link, error) -> sendBy(link, error, reply, words));
        return reply;
    }

    private CompletableFuture<Object> within(Duration timeout) {
        return Limits.within(timeout, client.getResources());
    }

    private static void sendBy(Link link, Throwable error, CompletableFuture<Object> reply, Object[] words) {
        if (error != null) {
            reply.completeExceptionally(error instanceof IllegalStateException ? error : Words.failure(error));
        } else if (!reply.isDone()) {
            link.send(reply, words);
        }
    }

    /** An error that the server replied, as the reply. */
    private static Object refusal(Throwable error) {
        if (error instanceof RedisErrorException refused) return refused;
        throw new CompletionException(error);
    }

    private CompletableFuture<Link> shared() {
        CompletableFuture<Link> found = shared.get();
        if (found != null && !(found.isDone() && (found.isCompletedExceptionally() || found.join().isBroken()))) return found;
        CompletableFuture<Link> next = new CompletableFuture<>();
        if (!shared.compareAndSet(found, next)) return shared();
        connect().whenComplete((link, error) -> {
            if (error != null) {
                next.completeExceptionally(error);
            } else {
                next.complete(link);
            }
            if (closed && link != null) link.close();
        });
        return next;
    }

    private CompletableFuture<Link> connect() {
        if (closed) return CompletableFuture.failedFuture(new IllegalStateException("the client is closed"));
        try {
            return client.connectAsync(StringCodec.UTF8, uri).toCompletableFuture().thenApply(Link::on);
        } catch (RuntimeException e) {
            return CompletableFuture.failedFuture(e);
        }
    }

    @Override
    public Redis alone() {
        return alone;
    }

    @Override
    public Pipeline pipeline() {
        return alone::sendAll;
    }

    @Override
    public void close() {
        closed = true;
        CompletableFuture<Link> found = shared.get();
        CompletableFuture<Void> done = found == null ? CompletableFuture.completedFuture(null) : found.thenCompose(Link::close);
        CompletableFuture.allOf(done, closeIdle()).completeOnTimeout(null, 1, TimeUnit.SECONDS).exceptionally(e -> null).join();
    }

    private CompletableFuture<Void> closeIdle() {
        CompletableFuture<Void> all = CompletableFuture.completedFuture(null);
        for (Link link = idle.pollLast(); link != null; link = idle.pollLast()) all = CompletableFuture.allOf(all, link.close());
        return all;
    }

    /** One connection for each command or pipeline. */
    private final class Alone implements Redis {
        @Override
        public CompletableFuture<Object> send(Duration timeout, Object... words) {
            CompletableFuture<Object> reply = within(timeout);
            link().whenComplete((link, error) -> {
                sendBy(link, error, reply, words);
                if (link != null) reply.whenComplete((value, failure) -> giveBack(link, failure));
            });
            return reply;
        }

        CompletableFuture<List<Object>> sendAll(Duration timeout, Object[]... commands) {
            List<CompletableFuture<Object>> replies = Stream.of(commands).map(words -> within(timeout)).toList();
            CompletableFuture<List<Object>> all = CompletableFuture.completedFuture(new ArrayList<>());
            for (CompletableFuture<Object> reply : replies) {
                all = all.thenCombine(reply.exceptionally(LettuceRedis::refusal), (before, value) -> {
                    before.add(value);
                    return before;
                });
            }
            CompletableFuture<List<Object>> outcome = all;
            link().whenComplete((link, error) -> {
                for (int i = 0; i < commands.length; i++) sendBy(link, error, replies.get(i), commands[i]);
                if (link != null) outcome.whenComplete((values, failure) -> giveBack(link, failure));
            });
            return outcome;
        }

        private CompletableFuture<Link> link() {
            for (Link link = idle.pollLast(); link != null; link = idle.pollLast()) {
                if (!link.isBroken()) return CompletableFuture.completedFuture(link);
            }
            return connect();
        }

        private void giveBack(Link link, Throwable failure) {
            boolean isFree = failure == null || failure instanceof RedisErrorException;
            if (!isFree || closed || idle.size() >= MOST_IDLE) {
                link.close();
                return;
            }
            idle.addLast(link);
            if (closed) closeIdle();
        }
    }
}
