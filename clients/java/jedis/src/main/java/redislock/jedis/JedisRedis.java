package redislock.jedis;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.BooleanSupplier;
import java.util.function.Supplier;
import java.util.stream.Stream;
import redis.clients.jedis.Connection;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.util.Pool;
import redislock.Pipeline;
import redislock.Redis;
import redislock.RedisErrorException;
import redislock.RedisUnavailableException;

/**
 * Sends commands by connections of its own to a single server. Each is sent once, and the connection's read timeout is
 * that of the command. It is closed by {@link redislock.RedisLocks#close}.
 */
public final class JedisRedis implements Redis {
    private final Connections connections;
    private final BooleanSupplier isClosed;
    private final Redis alone = new Alone();

    private JedisRedis(Supplier<Connection> connect, BooleanSupplier isClosed) {
        connections = new Connections(connect);
        this.isClosed = isClosed;
    }

    /**
     * Connects as this pool does, and takes no connection from it.
     *
     * @param pool of a {@code RedisClient} or {@code JedisPooled}: {@code getPool()}
     * @return what {@link redislock.RedisLocks} takes
     */
    public static JedisRedis of(Pool<Connection> pool) {
        return new JedisRedis(() -> {
            try {
                return pool.getFactory().makeObject().getObject();
            } catch (JedisException e) {
                throw e;
            } catch (Exception e) {
                throw new JedisException(e);
            }
        }, pool::isClosed);
    }

    /**
     * Connects to a server.
     *
     * @param server its address
     * @param config user, password, TLS and timeouts
     * @return what {@link redislock.RedisLocks} takes
     */
    public static JedisRedis of(HostAndPort server, JedisClientConfig config) {
        return new JedisRedis(() -> new Connection(server, config), () -> false);
    }

    /**
     * Uses a client for a cluster or Sentinel as it is. Waiters poll. If that client retries by itself when a connection
     * breaks, a guarded command may run twice, and a release whose reply was lost throws
     * {@link redislock.LockLostException}.
     *
     * @param jedis a {@code RedisClusterClient}, {@code RedisSentinelClient} or the like
     * @return what {@link redislock.RedisLocks} takes
     */
    public static Redis of(UnifiedJedis jedis) {
        return new SharedJedis(jedis);
    }

    /** Sends in the thread of its caller. */
    @Override
    public CompletableFuture<Object> send(Duration timeout, Object... words) {
        try {
            return CompletableFuture.completedFuture(exchangeOne(timeout, words));
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
        return (timeout, commands) -> connections.supply(() -> exchange(timeout, commands));
    }

    @Override
    public void close() {
        connections.close();
    }

    private Object exchangeOne(Duration timeout, Object[] words) {
        Object reply = exchange(timeout, words).get(0);
        if (reply instanceof RedisErrorException refused) throw refused;
        return reply;
    }

    private List<Object> exchange(Duration timeout, Object[]... commands) {
        if (isClosed.getAsBoolean()) throw new IllegalStateException("the pool is closed");
        byte[][][] all = new byte[commands.length][][];
        for (int i = 0; i < all.length; i++) all[i] = Stream.of(commands[i]).map(Words::bytes).toArray(byte[][]::new);
        long deadline = System.nanoTime() + timeout.toNanos();
        Connection connection = connection(deadline);
        boolean reusable = false;
        try {
            Connections.limit(connection, Duration.ofNanos(deadline - System.nanoTime()));
            for (byte[][] words : all) connection.sendCommand(() -> words[0], Arrays.copyOfRange(words, 1, words.length));
            List<Object> replies = new ArrayList<>(all.length);
            for (int i = 0; i < all.length; i++) replies.add(read(connection));
            reusable = true;
            return replies;
        } catch (JedisException e) {
            throw new RedisUnavailableException(e.getMessage(), e);
        } finally {
            if (reusable) {
                connections.giveBack(connection);
            } else {
                Connections.close(connection);
            }
        }
    }

    private static Object read(Connection connection) {
        try {
            return Words.decoded(connection.getOne());
        } catch (JedisDataException e) {
            return RedisErrorException.of(e.getMessage());
        }
    }

    private Connection connection(long deadline) {
        Connection idle = connections.idle(deadline);
        if (idle != null) return idle;
        CompletableFuture<Connection> opened = connections.open();
        boolean interrupted = false;
        try {
            while (true) {
                try {
                    return opened.get(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
                } catch (InterruptedException e) {
                    interrupted = true; // it does not take longer than the timeout
                }
            }
        } catch (ExecutionException e) {
            if (e.getCause() instanceof IllegalStateException closed) throw closed;
            throw new RedisUnavailableException("no connection: " + e.getCause().getMessage(), e.getCause());
        } catch (TimeoutException e) {
            opened.thenAccept(connections::giveBack);
            throw new RedisUnavailableException("no connection in time", e);
        } finally {
            if (interrupted) Thread.currentThread().interrupt();
        }
    }

    /** A thread of its own waits for the reply. */
    private final class Alone implements Redis {
        @Override
        public CompletableFuture<Object> send(Duration timeout, Object... words) {
            return connections.supply(() -> exchangeOne(timeout, words));
        }
    }
}
