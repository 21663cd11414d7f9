package redislock.lettuce;

import io.lettuce.core.RedisChannelHandler;
import io.lettuce.core.RedisConnectionStateListener;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.api.StatefulRedisConnection;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import redislock.RedisUnavailableException;

/**
 * A connection that is closed when it breaks. Lettuce would connect again and send once more what has no reply yet; then
 * a guarded command could run twice, and a release would look like a loss.
 */
final class Link implements RedisConnectionStateListener {
    /** Without any reply for so long, a connection to a host that has vanished looks like this. */
    private static final Duration SILENCE = Duration.ofMillis(1900);

    private final StatefulRedisConnection<String, String> connection;
    private final Set<CompletableFuture<Object>> pending = ConcurrentHashMap.newKeySet();
    private volatile long lastReply = System.nanoTime();
    private volatile boolean broken;

    private Link(StatefulRedisConnection<String, String> connection) {
        this.connection = connection;
    }

    static Link on(StatefulRedisConnection<String, String> connection) {
        Link link = new Link(connection);
        connection.setTimeout(Duration.ZERO); // none: each command has a limit of ours
        connection.addListener(link);
        if (!connection.isOpen()) link.close();
        return link;
    }

    boolean isBroken() {
        return broken;
    }

    /** Completes {@code reply} with the reply. If that is done before, the command is taken back, if it was not sent yet. */
    void send(CompletableFuture<Object> reply, Object[] words) {
        RedisFuture<Object> sent;
        long began = System.nanoTime();
        pending.add(reply);
        try {
            sent = connection.async().dispatch(new Words.Name(words[0].toString()), new ReplyOutput(), Words.args(words));
        } catch (RuntimeException e) {
            pending.remove(reply);
            reply.completeExceptionally(Words.failure(e));
            return;
        }
        sent.whenComplete((value, error) -> {
            lastReply = System.nanoTime();
            if (error == null) {
                reply.complete(value);
            } else {
                reply.completeExceptionally(Words.failure(error));
            }
        });
        reply.whenComplete((value, error) -> {
            pending.remove(reply);
            if (error == null) return;
            boolean isSilent = lastReply - began < 0 && System.nanoTime() - began > SILENCE.toNanos();
            sent.cancel(true);
            if (isSilent) close();
        });
        if (broken) fail(reply);
    }

    @Override
    public void onRedisDisconnected(RedisChannelHandler<?, ?> disconnected) {
        close();
    }

    /** The future is completed when it is closed. */
    CompletableFuture<Void> close() {
        broken = true;
        // Lettuce warns of what is closed twice: the client, when it is closed, closes this, and that is heard here.
        boolean isClosed = ((RedisChannelHandler<?, ?>) connection).isClosed();
        CompletableFuture<Void> closed = isClosed ? CompletableFuture.completedFuture(null) : connection.closeAsync();
        pending.forEach(Link::fail);
        return closed;
    }

    private static void fail(CompletableFuture<Object> reply) {
        reply.completeExceptionally(new RedisUnavailableException("the connection broke", null));
    }
}
