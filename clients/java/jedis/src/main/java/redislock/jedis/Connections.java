package redislock.jedis;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.RejectedExecutionException;
import java.util.function.Supplier;
import redis.clients.jedis.Connection;
import redis.clients.jedis.exceptions.JedisException;

/** Connections, each of which is used by one command at a time. Some are kept for the next ones. */
final class Connections {
    private static final int MOST_IDLE = 16;

    /** After so long a connection is tried before a command relies on it. */
    private static final long FRESH = Duration.ofSeconds(1).toNanos();

    private static final long LONGEST_TRIAL = Duration.ofMillis(500).toNanos();

    private static final long LONGEST_IDLE = Duration.ofMinutes(1).toNanos();

    private record Idle(Connection connection, long since) {}

    private final Supplier<Connection> connect;
    private final ConcurrentLinkedDeque<Idle> idle = new ConcurrentLinkedDeque<>();
    private final ExecutorService threads = Threads.daemons();
    private volatile boolean closed;

    Connections(Supplier<Connection> connect) {
        this.connect = connect;
    }

    /** One that works, or null. */
    Connection idle(long deadline) {
        if (closed) throw new IllegalStateException("the client is closed");
        for (Idle found = idle.pollLast(); found != null; found = idle.pollLast()) {
            long age = System.nanoTime() - found.since;
            if (age < FRESH || age < LONGEST_IDLE && works(found.connection, deadline)) return found.connection;
            close(found.connection);
        }
        return null;
    }

    private static boolean works(Connection connection, long deadline) {
        try {
            limit(connection, Duration.ofNanos(Math.min(LONGEST_TRIAL, (deadline - System.nanoTime()) / 2)));
            return connection.ping();
        } catch (JedisException e) {
            return false;
        }
    }

    /** In a thread of its own, because the client's timeout may be longer than ours. */
    CompletableFuture<Connection> open() {
        return supply(() -> {
            Connection connection = connect.get();
            connection.connect();
            return connection;
        });
    }

    <T> CompletableFuture<T> supply(Supplier<T> job) {
        try {
            return CompletableFuture.supplyAsync(job, threads);
        } catch (RejectedExecutionException e) {
            return CompletableFuture.failedFuture(new IllegalStateException("the client is closed"));
        }
    }

    void giveBack(Connection connection) {
        if (closed || idle.size() >= MOST_IDLE) {
            close(connection);
            return;
        }
        idle.addLast(new Idle(connection, System.nanoTime()));
        if (closed) closeIdle();
    }

    void close() {
        closed = true;
        threads.shutdown();
        closeIdle();
    }

    private void closeIdle() {
        for (Idle found = idle.pollLast(); found != null; found = idle.pollLast()) close(found.connection);
    }

    static void close(Connection connection) {
        try {
            connection.disconnect();
        } catch (JedisException e) {
            // It was broken.
        }
    }

    /** How long to wait for the next reply. */
    static void limit(Connection connection, Duration timeout) {
        connection.setSoTimeout((int) Math.max(1, Math.min(Integer.MAX_VALUE, timeout.toMillis())));
    }
}
