package redislock.tests;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.UnaryOperator;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import redislock.Hold;
import redislock.LockLostException;
import redislock.ModuleMissingException;
import redislock.RedisErrorException;
import redislock.RedisLock;
import redislock.RedisLocks;

/** Servers without the module, and one that loads it meanwhile. */
class BareTest extends OnServers {
    @ParameterizedTest
    @EnumSource
    void without_the_module_a_lock_is_the_same_key(Kind kind) throws Exception {
        TestServer server = bare();
        RedisLock market = locks(kind, server.port).lock("market", MINUTE);
        Hold hold = held(market);
        assertEquals(hold.owner(), server.ask("GET", "market"));
        assertEquals(0, hold.fence());
        long left = (Long) server.ask("PTTL", "market");
        assertTrue(left <= 60_000 && left > 30_000);
        assertTrue(market.tryAcquire().isEmpty());
        hold.renew(MINUTE.multipliedBy(2));
        assertTrue((Long) server.ask("PTTL", "market") > 60_000);
        assertEquals(5L, hold.guard("INCRBY", "price", 5));
        hold.release();
        assertEquals(0L, server.ask("EXISTS", "market"));
        Hold other = held(market);
        server.ask("SET", "market", "another");
        assertThrows(LockLostException.class, () -> other.guard("INCRBY", "price", 5));
        assertThrows(LockLostException.class, other::release);
        assertEquals("another", server.ask("GET", "market"));
    }

    @ParameterizedTest
    @EnumSource
    void without_the_module_waiters_poll_at_the_interval_that_the_user_chose(Kind kind) throws Exception {
        TestServer server = bare();
        RedisLock market = locks(kind, server.port).lock("market", MINUTE);
        Hold hold = held(market);
        int before = server.calls("eval");
        assertTrue(market.tryAcquire(Duration.ofSeconds(3)).isEmpty());
        int calls = server.calls("eval") - before;
        assertTrue(calls >= 10 && calls <= 50, calls + " requests in three seconds, at most 100 ms apart");
        before = server.calls("eval");
        assertTrue(market.retryInterval(Duration.ofSeconds(1)).tryAcquire(Duration.ofSeconds(3)).isEmpty());
        calls = server.calls("eval") - before;
        assertTrue(calls >= 3 && calls <= 15, calls + " requests in three seconds, up to a second apart");
        CompletableFuture<Granted> next = waiter(market);
        hold.release();
        long released = System.nanoTime();
        Granted granted = next.get();
        assertTrue(granted.at() - released < Duration.ofSeconds(2).toNanos());
        granted.hold().release();
    }

    @ParameterizedTest
    @EnumSource
    void without_the_module_a_release_wakes_a_waiter_of_its_process(Kind kind) throws Exception {
        TestServer server = bare();
        RedisLock market = locks(kind, server.port).lock("market", MINUTE);
        Hold hold = held(market);
        List<CompletableFuture<Void>> all = new ArrayList<>();
        for (int i = 0; i < 5; i++) {
            all.add(inBackground(() -> {
                market.retryInterval(Duration.ofHours(1)).acquire(MINUTE).release();
                return null;
            }));
        }
        Thread.sleep(6000); // by now they pause for five seconds
        long began = System.nanoTime();
        hold.release();
        for (CompletableFuture<Void> one : all) one.get();
        assertTrue(seconds(began) < 2, "it took " + seconds(began));
    }

    @ParameterizedTest
    @EnumSource
    void without_the_module_no_two_hold_a_lock(Kind kind) throws Exception {
        TestServer server = bare();
        RedisLock market = locks(kind, server.port).lock("market", MINUTE);
        int[] sum = new int[1];
        List<CompletableFuture<Void>> all = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            all.add(inBackground(() -> {
                try (Hold hold = market.acquire()) {
                    int before = sum[0];
                    Thread.yield();
                    sum[0] = before + 1;
                }
                return null;
            }));
        }
        for (CompletableFuture<Void> one : all) one.get();
        assertEquals(20, sum[0]);
    }

    /** A client learns only after some seconds that the module was loaded. */
    @ParameterizedTest
    @EnumSource
    void without_the_module_a_lock_that_others_share_is_waited_for(Kind kind) throws Exception {
        TestServer server = bare();
        RedisLock market = locks(kind, server.port).lock("market", MINUTE);
        Hold hold = held(market);
        server.ask("DEL", "market");
        server.ask("ZADD", "market", 1, "reader");
        assertThrows(LockLostException.class, hold::release);
        assertTrue(market.tryAcquire().isEmpty());
        CompletableFuture<Granted> next = waiter(market);
        int asked = server.calls("eval");
        eventually("it polls", () -> server.calls("eval") > asked + 1);
        server.ask("DEL", "market");
        next.get().hold().release();

        server.ask("RPUSH", "market", "no lock");
        assertEquals("WRONGTYPE", assertThrows(RedisErrorException.class, market::acquire).code());
    }

    @ParameterizedTest
    @EnumSource
    void without_the_module_lost_replies_and_silence_are_survived(Kind kind) throws Exception {
        TestServer server = bare();
        Proxy proxy = proxy(server);
        RedisLocks locks = locks(kind, proxy.port);
        RedisLock market = locks.lock("market", MINUTE);
        held(market).release(); // the module is known to be missing
        proxy.cutAfter("NX");
        Hold hold = held(market);
        assertTrue(proxy.happened());
        assertEquals(hold.owner(), server.ask("GET", "market"));
        proxy.cutAfter("del");
        hold.release();
        hold = held(market);
        server.stop();
        long began = System.nanoTime();
        try {
            hold.close();
            assertTrue(seconds(began) < 9, "it took " + seconds(began));
        } finally {
            server.goOn();
        }
        eventually("it is released", () -> server.ask("EXISTS", "market").equals(0L));
    }

    @ParameterizedTest
    @EnumSource
    void what_needs_the_module_says_so(Kind kind) {
        TestServer server = bare();
        RedisLocks locks = locks(kind, server.port);
        Map<String, UnaryOperator<RedisLock>> all = Map.of("shared", RedisLock::shared, "limit", lock -> lock.limit(3),
                "maxQueue", lock -> lock.maxQueue(3), "requireModule", RedisLock::requireModule);
        for (var each : all.entrySet()) {
            RedisLock lock = each.getValue().apply(locks.lock("market", MINUTE));
            var missing = assertThrows(ModuleMissingException.class, lock::acquire);
            assertTrue(missing.getMessage().contains(each.getKey()), missing::getMessage);
        }
        assertThrows(ModuleMissingException.class, locks.lockAll(List.of("a", "b"), MINUTE)::tryAcquire);
    }

    @ParameterizedTest
    @EnumSource
    void the_module_is_unloaded_and_loaded_meanwhile(Kind kind) throws Exception {
        TestServer server = withModule();
        Hold hold = held(locks(kind, server.port).lock("market", MINUTE));
        CompletableFuture<Granted> next = waiter(locks(kind, server.port).lock("market", MINUTE));
        for (int i = 0; i < 2; i++) {
            server.ask("CONFIG", "SET", "lock.drain", "yes");
            eventually("the module can be unloaded", () -> {
                try {
                    return server.ask("MODULE", "UNLOAD", "lock").equals("OK");
                } catch (Admin.Refused e) {
                    return false;
                }
            });
            hold.renew(MINUTE);
            server.ask("MODULE", "LOAD", TestServer.module());
            hold.renew(MINUTE);
        }
        eventually("the next has found the module again, or polls",
                () -> server.info("market", "queue") == 1 || server.calls("eval") > 0);
        assertEquals(hold.owner(), server.ask("GET", "market"));
        hold.release();
        next.get().hold().release();
        assertNull(server.ask("GET", "market"));
    }
}
