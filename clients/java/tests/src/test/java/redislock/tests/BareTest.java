package redislock.tests;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import redislock.Hold;
import redislock.LockLostException;
import redislock.RedisErrorException;
import redislock.RedisLock;

/** Servers without the module. */
class BareTest extends OnServers {
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
}
