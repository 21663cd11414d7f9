package redislock.tests;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadLocalRandom;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import redislock.Hold;
import redislock.RedisLock;
import redislock.RedisLocks;
import redislock.RedisUnavailableException;

/** Connections that break, servers that are silent, and clients that give up. */
class TroubleTest extends OnServers {
    @ParameterizedTest
    @EnumSource
    void a_failed_release_goes_on_in_the_background(Kind kind) throws Exception {
        TestServer server = withModule();
        Proxy proxy = proxy(server);
        RedisLocks locks = locks(kind, proxy.port);
        Hold hold = held(locks.lock("market", MINUTE));
        Hold other = held(locks.lock("other", MINUTE));
        proxy.close();
        long began = System.nanoTime();
        hold.close();
        assertTrue(seconds(began) < 15, "it took " + seconds(began));
        assertThrows(RedisUnavailableException.class, other::release);
        assertFalse(locks.await(Duration.ofMillis(100)));
        proxy.listen();
        becomesFree(server, "market");
        becomesFree(server, "other");
        assertTrue(locks.await(MINUTE));
    }

    @ParameterizedTest
    @EnumSource
    void a_hold_is_no_endless_wait_if_the_server_does_not_reply(Kind kind) throws Exception {
        TestServer server = withModule();
        RedisLocks locks = locks(kind, server.port);
        Hold hold = held(locks.lock("market", MINUTE.multipliedBy(2)));
        Hold other = held(locks.lock("other", MINUTE.multipliedBy(2)));
        Hold brief = held(locks.lock("brief", Duration.ofSeconds(3)));
        Map<String, Callable<Object>> calls = Map.of(
                "guard", () -> assertThrows(RedisUnavailableException.class, () -> brief.guard("SET", "x", 1)),
                "renew", () -> assertThrows(RedisUnavailableException.class, () -> hold.renew(MINUTE.multipliedBy(2))),
                "close", () -> {
                    other.close();
                    return null;
                });
        server.stop();
        try {
            List<CompletableFuture<Void>> all = new ArrayList<>();
            for (var call : calls.entrySet()) {
                all.add(inBackground(() -> {
                    long began = System.nanoTime();
                    try {
                        call.getValue().call();
                    } catch (Exception e) {
                        throw new AssertionError(call.getKey(), e);
                    }
                    assertTrue(seconds(began) < 9, call.getKey() + " took " + seconds(began));
                    return null;
                }));
            }
            for (CompletableFuture<Void> one : all) one.get();
        } finally {
            server.goOn();
        }
        becomesFree(server, "other");
        assertTrue(hold.isHeld());
        hold.release();
    }

    @ParameterizedTest
    @EnumSource
    void a_repeated_request_that_arrives_after_the_release_is_withdrawn(Kind kind) throws Exception {
        TestServer server = withModule();
        Proxy proxy = proxy(server);
        RedisLocks locks = locks(kind, proxy.port);
        // It is asked for again after two seconds without a reply, over another connection, so this request comes last.
        proxy.stall("LOCK.ACQUIRE", 4000);
        held(locks.lock("market", MINUTE)).release();
        if (kind != Kind.LETTUCE) eventually("both have arrived", () -> server.calls("lock.acquire") >= 2);
        assertTrue(await(locks, MINUTE));
        assertTrue(server.isFree("market"));
    }

    @ParameterizedTest
    @EnumSource
    void giving_up_at_any_moment_leaves_nothing_behind(Kind kind) throws Exception {
        TestServer server = withModule();
        RedisLocks locks = locks(kind, server.port);
        RedisLock market = locks.lock("market", MINUTE);
        held(market).release(); // it is connected
        List<CompletableFuture<Void>> all = new ArrayList<>();
        for (int i = 0; i < 200; i++) {
            all.add(inBackground(() -> {
                Thread thread = Thread.currentThread();
                boolean interrupts = ThreadLocalRandom.current().nextBoolean();
                Duration patience = Duration.ofNanos(ThreadLocalRandom.current().nextLong(100_000_000));
                if (interrupts) {
                    inBackground(() -> {
                        Thread.sleep(patience.toMillis());
                        thread.interrupt();
                        return null;
                    });
                }
                try {
                    market.tryAcquire(interrupts ? MINUTE : patience).ifPresent(Hold::close);
                } catch (InterruptedException | RedisUnavailableException e) {
                    // It has given up; on a busy machine before the first reply.
                }
                return null;
            }));
        }
        for (CompletableFuture<Void> one : all) one.get();
        assertTrue(await(locks, MINUTE));
        assertTrue(server.isFree("market"));
    }

    @ParameterizedTest
    @EnumSource
    void a_connection_that_has_idled_and_broken_fails_no_guarded_command(Kind kind) throws Exception {
        TestServer server = withModule();
        Proxy proxy = proxy(server);
        Hold hold = held(locks(kind, proxy.port).lock("market", MINUTE));
        Thread.sleep(1200);
        proxy.close();
        proxy.listen();
        Thread.sleep(2000); // the client has noticed
        assertEquals(1L, hold.guard("INCR", "count"));
        hold.release();
    }

    @ParameterizedTest
    @EnumSource
    void a_connection_to_a_host_that_vanished_is_replaced(Kind kind) throws Exception {
        TestServer server = withModule();
        Proxy proxy = proxy(server);
        Hold hold = held(locks(kind, proxy.port).lock("market", MINUTE));
        Thread.sleep(1200); // it has idled
        proxy.vanish();
        hold.renew(MINUTE.multipliedBy(2));
        assertTrue(hold.remaining().compareTo(MINUTE) > 0);
        hold.release();
    }
}
