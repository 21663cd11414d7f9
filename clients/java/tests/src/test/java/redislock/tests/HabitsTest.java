package redislock.tests;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import redis.clients.jedis.RedisClient;
import redislock.Hold;
import redislock.LockLostException;
import redislock.RedisErrorException;
import redislock.RedisLock;
import redislock.RedisLocks;
import redislock.jedis.JedisRedis;

/** What a lock does while nothing goes wrong. */
class HabitsTest extends OnServers {
    @ParameterizedTest
    @EnumSource
    void more_waiters_than_connections_are_served_and_take_those_that_come_free(Kind kind) throws Exception {
        TestServer server = withModule();
        RedisLock market = locks(kind, server.port).lock("market", MINUTE);
        Hold first = held(market);
        int[] sum = new int[1];
        CountDownLatch granted = new CountDownLatch(1);
        CountDownLatch blocked = new CountDownLatch(1);
        List<CompletableFuture<Void>> all = new ArrayList<>();
        for (int i = 0; i < 150; i++) {
            all.add(inBackground(() -> {
                try (Hold hold = market.acquire()) {
                    granted.countDown();
                    blocked.await();
                    sum[0]++;
                }
                return null;
            }));
        }
        waits(server, "market", 150);
        first.release();
        granted.await(); // and so its connection is free
        String most = kind == Kind.POLLING ? "blocked_clients:0" : "blocked_clients:128";
        eventually("they wait by as many connections", () -> server.ask("INFO", "clients").toString().contains(most));
        blocked.countDown();
        for (CompletableFuture<Void> one : all) one.get();
        assertEquals(150, sum[0]);
    }

    @Test
    void a_lock_is_taken_by_connections_beside_a_pool_of_which_all_are_in_use() throws Exception {
        TestServer server = withModule();
        try (RedisClient jedis = RedisClient.create("127.0.0.1", server.port)) {
            int size = jedis.getPool().getMaxTotal();
            for (int i = 0; i < size; i++) jedis.getPool().getResource();
            try (RedisLocks locks = new RedisLocks(JedisRedis.of(jedis.getPool()))) {
                held(locks.lock("market", MINUTE)).release();
            }
        }
    }

    @ParameterizedTest
    @EnumSource
    void the_ttl_of_a_waiter_counts_from_its_grant(Kind kind) throws Exception {
        TestServer server = withModule();
        RedisLocks locks = locks(kind, server.port);
        Hold first = held(locks.lock("market", MINUTE));
        Duration ttl = Duration.ofSeconds(5);
        CompletableFuture<Granted> next = waiter(locks.lock("market", ttl));
        waits(server, "market", 1);
        Thread.sleep(ttl.toMillis() / 2);
        first.release();
        long ours = next.get().hold().remaining().toMillis();
        long theirs = (Long) server.ask("PTTL", "market");
        assertTrue(ours > ttl.toMillis() / 2 && theirs + 2000 > ours && ours < theirs + 100, ours + " here, there " + theirs);
    }

    @ParameterizedTest
    @EnumSource
    void several_locks_are_renewed_and_guarded_as_one_and_lost_with_one_of_them(Kind kind) throws Exception {
        TestServer server = withModule();
        RedisLocks locks = locks(kind, server.port);
        RedisLock both = locks.lockAll(List.of("{a}ann", "{a}bob", "{a}ann"), MINUTE);
        try (Hold hold = held(both)) {
            hold.renew(MINUTE.multipliedBy(2));
            assertTrue(hold.remaining().compareTo(MINUTE) > 0);
            assertEquals("OK", hold.guard("SET", "{a}x", 5));
        }
        Hold again = both.tryAcquire().orElseThrow();
        server.ask("DEL", "{a}bob");
        assertThrows(LockLostException.class, again::release);
    }

    @ParameterizedTest
    @EnumSource
    void an_owner_that_shares_a_lock_alone_gets_it_exclusively(Kind kind) throws Exception {
        TestServer server = withModule();
        if (kind == Kind.POLLING) return; // a place is no upgrade
        RedisLock market = locks(kind, server.port).lock("market", MINUTE).owner("ann");
        held(market.shared());
        held(market).release();
        assertTrue(server.isFree("market"));
    }

    @ParameterizedTest
    @EnumSource(names = "POLLING", mode = EnumSource.Mode.EXCLUDE)
    void a_waiter_that_the_server_sends_away_comes_back(Kind kind) throws Exception {
        TestServer server = withModule();
        RedisLock market = locks(kind, server.port).lock("market", MINUTE);
        Hold first = held(market);
        CompletableFuture<Granted> next = waiter(market);
        Pattern blocked = Pattern.compile("(?m)^id=(\\d+) .* flags=b .*cmd=lock.acquire.*$");
        for (int i = 0; i < 3; i++) {
            eventually("it waits, and is sent away", () -> {
                Matcher client = blocked.matcher(server.ask("CLIENT", "LIST").toString());
                return client.find() && server.ask("CLIENT", "UNBLOCK", client.group(1), "ERROR").equals(1L);
            });
        }
        waits(server, "market", 1);
        first.release();
        next.get().hold().release();
    }

    @ParameterizedTest
    @EnumSource
    void a_guarded_command_takes_and_brings_what_one_without_a_lock_does(Kind kind) throws Exception {
        TestServer server = withModule();
        Hold hold = held(locks(kind, server.port).lock("market", MINUTE));
        assertEquals(5L, hold.guard("INCRBY", "price", 5));
        assertNull(hold.guard("GET", "nothing"));
        assertEquals(Arrays.asList("5", null), hold.guard("MGET", "price".getBytes(), "nothing"));
        hold.guard("HSET", "h", "field", "value");
        assertEquals(List.of("field", "value"), hold.guard("HGETALL", "h"));
        assertEquals("WRONGTYPE", assertThrows(RedisErrorException.class, () -> hold.guard("LPUSH", "price", 1)).code());
        assertThrows(IllegalArgumentException.class, hold::guard);
        assertThrows(IllegalArgumentException.class, () -> hold.guard("SET", "price", new Object()));
        hold.release();
    }

    @ParameterizedTest
    @EnumSource
    void a_closed_client_is_said_to_be_closed(Kind kind) {
        TestServer server = withModule();
        if (kind == Kind.POLLING) return; // nothing to close
        RedisLocks locks = locks(kind, server.port);
        locks.lock("market", MINUTE).tryAcquire().orElseThrow().release();
        locks.close();
        assertThrows(IllegalStateException.class, () -> locks.lock("market", MINUTE).tryAcquire());
        assertThrows(IllegalStateException.class, () -> locks.lock("market", MINUTE).acquire());
    }

    @ParameterizedTest
    @EnumSource
    void a_client_whose_server_is_not_there_yet_works_once_it_is(Kind kind) throws Exception {
        TestServer server = withModule();
        Proxy proxy = proxy(server);
        proxy.close();
        CompletableFuture<Granted> waiter = waiter(locks(kind, proxy.port).lock("market", MINUTE));
        Thread.sleep(500);
        assertFalse(waiter.isDone());
        proxy.listen();
        waiter.get().hold().release();
    }
}
