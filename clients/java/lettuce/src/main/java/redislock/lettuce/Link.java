package redislock.lettuce;

import io.lettuce.core.RedisChannelHandler;
import io.lettuce.core.RedisConnectionStateListener;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.api.StatefulRedisConnection;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import redislock.RedisUnavailableException;

/**
 * A connection that is closed when it breaks. Lettuce would connect again and send once more what has no reply yet; then
 * a guarded command could run twice, and a release would look like a loss.
 */
final class Link implements RedisConnectionStateListener {
    private final StatefulRedisConnection<String, String> connection;
    private final Set<CompletableFuture<Object>> pending = ConcurrentHashMap.newKeySet();
    private volatile boolean broken;

    private Link(StatefulRedisConnection<String, String> connection) {
        this.connection = connection;
    }

    static Link on(StatefulRedisConnection<String, String> connection) {
        Link link = new Link(connection);
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
        pending.add(reply);
        try {
            sent = connection.async().dispatch(new Words.Name(words[0].toString()), new ReplyOutput(), Words.args(words));
        } catch (RuntimeException e) {
            pending.remove(reply);
            reply.completeExceptionally(Words.failure(e));
            return;
        }
        sent.whenComplete((value, error) -> {
            if (error == null) {
                reply.complete(value);
            } else {
                reply.completeExceptionally(Words.failure(error));
            }
        });
        reply.whenComplete((value, error) -> {
            pending.remove(reply);
            if (error != null) sent.cancel(true);
        });
        if (broken) fail(reply);
    }

    @Override
    public void onRedisDisconnected(RedisChannelHandler<?, ?> disconnected) {
        close();
    }

    void close() {
        broken = true;
        // Lettuce warns of what is closed twice: the client, when it is closed, closes this, and that is heard here.
        if (!((RedisChannelHandler<?, ?>) connection).isClosed()) connection.closeAsync();
        pending.forEach(Link::fail);
    }

    private static void fail(CompletableFuture<Object> reply) {
        reply.completeExceptionally(new RedisUnavailableException("the connection broke", null));
    }
}
