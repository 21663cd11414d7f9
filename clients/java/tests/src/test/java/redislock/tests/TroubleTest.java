package redislock.tests;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadLocalRandom;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import redislock.Hold;
import redislock.LockLostException;
import redislock.RedisLock;
import redislock.RedisLocks;
import redislock.RedisUnavailableException;

/** Connections that break, servers that are silent, and clients that give up. */
class TroubleTest extends OnServers {
    @ParameterizedTest
    @EnumSource
    void a_request_whose_reply_is_lost_is_retried_with_the_same_owner(Kind kind) throws Exception {
        TestServer server = withModule();
        Proxy proxy = proxy(server);
        RedisLock market = locks(kind, proxy.port).lock("market", MINUTE);
        for (int i = 0; i < 2; i++) {
            if (i == 0) {
                proxy.cutAfter("LOCK.ACQUIRE");
            } else {
                proxy.cutBefore("LOCK.ACQUIRE");
            }
            Hold hold = held(market);
            assertTrue(proxy.happened() && hold.isHeld());
            assertEquals(hold.owner(), server.ask("GET", "market"));
            hold.release();
            assertTrue(server.isFree("market"));
        }
    }

    @ParameterizedTest
    @EnumSource
    void a_waiter_whose_connection_breaks_waits_on(Kind kind) throws Exception {
        TestServer server = withModule();
        Proxy proxy = proxy(server);
        Hold first = held(locks(kind, server.port).lock("market", MINUTE));
        CompletableFuture<Granted> next = waiter(locks(kind, proxy.port).lock("market", MINUTE));
        waits(server, "market", 1);
        proxy.close();
        Thread.sleep(300);
        proxy.listen();
        waits(server, "market", 1);
        first.release();
        next.get().hold().release();
        becomesFree(server, "market");
    }

    @ParameterizedTest
    @EnumSource
    void a_lost_reply_to_a_release_is_no_loss(Kind kind) throws Exception {
        TestServer server = withModule();
        Proxy proxy = proxy(server);
        Hold hold = held(locks(kind, proxy.port).lock("market", MINUTE));
        proxy.cutAfter("LOCK.RELEASE");
        hold.release();
        assertTrue(proxy.happened());
        assertTrue(server.isFree("market"));
    }

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
    void deadlines_hold_if_the_server_does_not_reply(Kind kind) throws Exception {
        TestServer server = withModule();
        RedisLocks locks = locks(kind, server.port);
        RedisLock free = locks.lock("free", MINUTE);
        Hold hold = held(locks.lock("market", MINUTE.multipliedBy(2)));
        Hold other = held(locks.lock("other", MINUTE.multipliedBy(2)));
        Hold brief = held(locks.lock("brief", Duration.ofSeconds(3)));
        held(free).release();
        Map<String, Callable<Object>> calls = new LinkedHashMap<>();
        calls.put("acquire", () -> assertThrows(RedisUnavailableException.class, () -> free.acquire(Duration.ofMillis(300))));
        calls.put("tryAcquire", () -> assertThrows(RedisUnavailableException.class, () -> free.tryAcquire(Duration.ofMillis(300))));
        server.stop();
        try {
            for (var call : calls.entrySet()) {
                long began = System.nanoTime();
                call.getValue().call();
                assertTrue(seconds(began) < 3, call.getKey() + " took " + seconds(began));
            }
            calls.clear();
            calls.put("try", () -> assertThrows(RedisUnavailableException.class, free::tryAcquire));
            calls.put("guard", () -> assertThrows(RedisUnavailableException.class, () -> brief.guard("SET", "x", 1)));
            calls.put("renew", () -> assertThrows(RedisUnavailableException.class, () -> hold.renew(MINUTE.multipliedBy(2))));
            calls.put("close", () -> {
                other.close();
                return null;
            });
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
        becomesFree(server, "free");
        becomesFree(server, "other");
        assertTrue(await(locks, MINUTE));
        assertTrue(server.isFree("free"), "a request of before came later");
        assertTrue(hold.isHeld());
        hold.release();
    }

    @ParameterizedTest
    @EnumSource
    void a_request_that_arrives_after_it_was_given_up_is_withdrawn(Kind kind) throws Exception {
        TestServer server = withModule();
        Proxy proxy = proxy(server);
        RedisLocks locks = locks(kind, proxy.port);
        int before = server.calls("lock.acquire");
        proxy.stall("LOCK.ACQUIRE", 1500);
        assertThrows(RedisUnavailableException.class, () -> locks.lock("market", MINUTE).tryAcquire(Duration.ofMillis(200)));
        eventually("it arrives", () -> server.calls("lock.acquire") > before);
        becomesFree(server, "market");
        assertTrue(await(locks, MINUTE));
        assertTrue(server.isFree("market"));
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
    void a_waiter_outlives_that_the_server_is_killed(Kind kind) throws Exception {
        TestServer server = withModule();
        RedisLocks locks = locks(kind, server.port);
        held(locks.lock("market", MINUTE));
        CompletableFuture<Granted> next = waiter(locks.lock("market", MINUTE));
        waits(server, "market", 1);
        server.kill();
        assertTrue(server.run());
        next.get().hold().release(); // the server has forgotten the hold
    }

    @ParameterizedTest
    @EnumSource
    void a_guarded_command_is_sent_once(Kind kind) throws Exception {
        TestServer server = withModule();
        Proxy proxy = proxy(server);
        Hold hold = held(locks(kind, proxy.port).lock("market", MINUTE));
        proxy.cutAfter("LOCK.GUARD");
        assertThrows(RedisUnavailableException.class, () -> hold.guard("INCR", "count"));
        assertTrue(hold.isHeld());
        eventually("it runs", () -> server.ask("GET", "count") != null);
        hold.release();
        Thread.sleep(300);
        assertEquals("1", server.ask("GET", "count"));
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

    @ParameterizedTest
    @EnumSource
    void a_lock_that_another_took_away_is_not_released(Kind kind) throws Exception {
        TestServer server = withModule();
        Hold hold = held(locks(kind, server.port).lock("market", MINUTE));
        server.ask("SET", "market", "another");
        assertThrows(LockLostException.class, hold::close);
        assertEquals("another", server.ask("GET", "market"));
    }
}
