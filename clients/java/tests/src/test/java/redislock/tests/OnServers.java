package redislock.tests;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.AfterEach;
import redislock.Hold;
import redislock.RedisLock;
import redislock.RedisLocks;

/** What the tests here have in common: servers, clients and what ends them. */
abstract class OnServers {
    static final Duration MINUTE = Duration.ofMinutes(1);

    private final List<Runnable> endings = new ArrayList<>();

    @AfterEach
    void end() {
        for (int i = endings.size() - 1; i >= 0; i--) endings.get(i).run();
    }

    synchronized void atTheEnd(Runnable ending) {
        endings.add(ending);
    }

    TestServer withModule() {
        return start("--loadmodule", TestServer.module());
    }

    TestServer bare() {
        return start();
    }

    TestServer start(String... options) {
        TestServer server = TestServer.start(options);
        atTheEnd(server::close);
        Kind.warmUp(server.port);
        return server;
    }

    Proxy proxy(TestServer server) {
        Proxy proxy = new Proxy(server.port);
        atTheEnd(proxy::close);
        return proxy;
    }

    RedisLocks locks(Kind kind, int port) {
        return locks(kind, port, UnaryOperator.identity());
    }

    RedisLocks locks(Kind kind, int port, UnaryOperator<RedisLock> defaults) {
        Kind.Connected connected = kind.connect(port);
        RedisLocks locks = new RedisLocks(connected.redis(), defaults);
        atTheEnd(() -> {
            await(locks, Duration.ofSeconds(1));
            connected.redis().close();
            connected.close().run();
        });
        return locks;
    }

    static boolean await(RedisLocks locks, Duration patience) {
        try {
            return locks.await(patience);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    static Hold held(RedisLock lock) throws InterruptedException {
        return lock.acquire(Duration.ofSeconds(30));
    }

    record Granted(Hold hold, long at) {}

    /** Asks for the lock in the background. */
    static CompletableFuture<Granted> waiter(RedisLock lock) {
        return inBackground(() -> {
            Hold hold = lock.acquire(Duration.ofMinutes(1));
            return new Granted(hold, System.nanoTime());
        });
    }

    static <T> CompletableFuture<T> inBackground(Callable<T> job) {
        CompletableFuture<T> result = new CompletableFuture<>();
        Thread thread = new Thread(() -> {
            try {
                result.complete(job.call());
            } catch (Throwable e) {
                result.completeExceptionally(e);
            }
        });
        thread.setDaemon(true);
        thread.start();
        return result;
    }

    static void eventually(String what, BooleanSupplier holds) throws InterruptedException {
        long began = System.nanoTime();
        while (!holds.getAsBoolean()) {
            assertTrue(seconds(began) < 30, "never: " + what);
            TimeUnit.MILLISECONDS.sleep(2);
        }
    }

    static void waits(TestServer server, String key, long count) throws InterruptedException {
        eventually(count + " wait", () -> server.info(key, "queue") == count);
    }

    static void becomesFree(TestServer server, String key) throws InterruptedException {
        eventually(key + " is free", () -> server.isFree(key));
    }

    static void isLost(Hold hold, Duration limit) throws InterruptedException {
        long began = System.nanoTime();
        while (hold.isHeld()) {
            assertTrue(System.nanoTime() - began < limit.toNanos(), "not known to be lost after " + limit);
            TimeUnit.MILLISECONDS.sleep(2);
        }
        assertTrue(hold.remaining().isZero());
        assertFalse(hold.isHeld());
    }

    static double seconds(long began) {
        return (System.nanoTime() - began) / 1e9;
    }
}
