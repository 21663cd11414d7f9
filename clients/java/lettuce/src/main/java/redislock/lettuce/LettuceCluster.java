package redislock.lettuce;

import io.lettuce.core.RedisFuture;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.api.StatefulRedisClusterConnection;
import io.lettuce.core.codec.StringCodec;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import redislock.Redis;

/** Sends commands by a connection to a cluster, which finds their nodes. */
final class LettuceCluster implements Redis {
    private final RedisClusterClient client;
    private CompletableFuture<StatefulRedisClusterConnection<String, String>> connection; // with the monitor
    private boolean closed;

    LettuceCluster(RedisClusterClient client) {
        this.client = client;
    }

    @Override
    public CompletableFuture<Object> send(Duration timeout, Object... words) {
        CompletableFuture<Object> reply = Limits.within(timeout, client.getResources());
        connection().whenComplete((connected, error) -> {
            if (error != null) {
                reply.completeExceptionally(error instanceof IllegalStateException ? error : Words.failure(error));
            } else if (!reply.isDone()) {
                send(connected, reply, words);
            }
        });
        return reply;
    }

    private static void send(StatefulRedisClusterConnection<String, String> connected, CompletableFuture<Object> reply, Object[] words) {
        RedisFuture<Object> sent;
        try {
            sent = connected.async().dispatch(new Words.Name(words[0].toString()), new ReplyOutput(), Words.args(words));
        } catch (RuntimeException e) {
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
            if (error != null) sent.cancel(true); // else it would be sent after a reconnection
        });
    }

    private synchronized CompletableFuture<StatefulRedisClusterConnection<String, String>> connection() {
        if (closed) return CompletableFuture.failedFuture(new IllegalStateException("the client is closed"));
        if (connection == null || connection.isCompletedExceptionally()) {
            try {
                connection = client.refreshPartitionsAsync().toCompletableFuture()
                        .thenCompose(known -> client.connectAsync(StringCodec.UTF8));
            } catch (RuntimeException e) {
                return CompletableFuture.failedFuture(e);
            }
        }
        return connection;
    }

    @Override
    public synchronized void close() {
        closed = true;
        if (connection != null) connection.thenAccept(StatefulRedisClusterConnection::closeAsync);
    }
}
