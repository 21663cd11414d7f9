package redislock.tests;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import redis.clients.jedis.RedisClient;
import redislock.DeadlockException;
import redislock.Hold;
import redislock.LockLostException;
import redislock.LockNotAcquiredException;
import redislock.QueueFullException;
import redislock.RedisErrorException;
import redislock.RedisLock;
import redislock.RedisLocks;
import redislock.jedis.JedisRedis;

/** What a lock does while nothing goes wrong. */
class HabitsTest extends OnServers {
    @ParameterizedTest
    @EnumSource
    void a_lock_is_held_by_one_owner_and_passes_to_the_next_when_it_is_released(Kind kind) throws Exception {
        TestServer server = withModule();
        RedisLock market = locks(kind, server.port).lock("market", MINUTE);
        Hold first = held(market);
        assertEquals(first.owner(), server.ask("GET", "market"), "the key is the bare name, and its value the owner");
        CompletableFuture<Granted> next = waiter(market);
        waits(server, "market", 1);
        assertTrue(first.isHeld() && first.remaining().compareTo(MINUTE) <= 0 && first.remaining().toSeconds() > 30);
        assertFalse(next.isDone());
        first.release();
        Hold second = next.get().hold();
        assertTrue(second.fence() > first.fence() && first.fence() > 0);
        second.close();
        assertTrue(server.isFree("market"));
    }

    @ParameterizedTest
    @EnumSource
    void waiters_are_served_in_the_order_in_which_they_came(Kind kind) throws Exception {
        TestServer server = withModule();
        RedisLock market = locks(kind, server.port).lock("market", MINUTE);
        Hold first = held(market);
        List<Integer> order = Collections.synchronizedList(new ArrayList<>());
        List<CompletableFuture<Void>> all = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
            int number = i;
            all.add(inBackground(() -> {
                try (Hold hold = held(market)) {
                    order.add(number);
                }
                return null;
            }));
            waits(server, "market", i + 1);
        }
        first.release();
        for (CompletableFuture<Void> one : all) one.get();
        assertEquals(List.of(0, 1, 2, 3, 4, 5, 6, 7, 8, 9), order);
    }

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
    void a_try_returns_at_once_if_others_hold_the_lock(Kind kind) throws Exception {
        TestServer server = withModule();
        RedisLock market = locks(kind, server.port).lock("market", MINUTE);
        Hold hold = held(market);
        assertTrue(market.tryAcquire().isEmpty());
        assertTrue(market.tryAcquire(Duration.ZERO).isEmpty());
        assertThrows(LockNotAcquiredException.class, () -> market.acquire(Duration.ZERO));
        assertEquals(0, server.info("market", "queue"));
        hold.release();
        market.tryAcquire().orElseThrow().release();
    }

    @ParameterizedTest
    @EnumSource
    void a_deadline_ends_a_wait_and_leaves_nothing_behind(Kind kind) throws Exception {
        TestServer server = withModule();
        RedisLocks locks = locks(kind, server.port);
        RedisLock market = locks.lock("market", MINUTE);
        Hold hold = held(market);
        long began = System.nanoTime();
        assertTrue(market.tryAcquire(Duration.ofMillis(200)).isEmpty());
        assertTrue(seconds(began) > 0.19 && seconds(began) < 3, () -> "" + seconds(began));
        assertThrows(LockNotAcquiredException.class, () -> market.acquire(Duration.ofMillis(1)));
        eventually("nothing waits", () -> server.info("market", "queue") == 0);
        hold.release();
        assertTrue(await(locks, MINUTE));
        assertTrue(server.isFree("market"));
    }

    @ParameterizedTest
    @EnumSource
    void an_interruption_ends_a_wait_and_leaves_nothing_behind(Kind kind) throws Exception {
        TestServer server = withModule();
        RedisLocks locks = locks(kind, server.port);
        RedisLock market = locks.lock("market", MINUTE);
        Hold hold = held(market);
        CompletableFuture<Thread> running = new CompletableFuture<>();
        CompletableFuture<Void> waiter = inBackground(() -> {
            running.complete(Thread.currentThread());
            assertThrows(InterruptedException.class, market::acquire);
            return null;
        });
        waits(server, "market", 1);
        running.get().interrupt();
        waiter.get();
        eventually("nothing waits", () -> server.info("market", "queue") == 0);
        hold.release();
        assertTrue(await(locks, MINUTE));
        assertTrue(server.isFree("market"));
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
    void a_lock_is_shared_limited_and_of_several_keys(Kind kind) throws Exception {
        TestServer server = withModule();
        RedisLocks locks = locks(kind, server.port);
        RedisLock prices = locks.lock("prices", MINUTE);
        try (Hold one = held(prices.shared()); Hold other = held(prices.shared())) {
            assertTrue(one.isHeld() && other.isHeld());
            assertTrue(prices.tryAcquire().isEmpty());
        }
        RedisLock printer = locks.lock("printer", MINUTE);
        try (Hold permit = held(printer.limit(1))) {
            assertTrue(permit.isHeld());
            assertTrue(printer.limit(1).tryAcquire().isEmpty());
            printer.limit(2).tryAcquire().orElseThrow().release();
        }
        RedisLock both = locks.lockAll(List.of("{a}ann", "{a}bob", "{a}ann"), MINUTE);
        try (Hold hold = held(both)) {
            assertTrue(locks.lock("{a}bob", MINUTE).tryAcquire().isEmpty());
            hold.renew(MINUTE.multipliedBy(2));
            assertTrue(hold.remaining().compareTo(MINUTE) > 0);
            assertEquals("OK", hold.guard("SET", "{a}x", 5));
        }
        Hold again = both.tryAcquire().orElseThrow();
        server.ask("DEL", "{a}bob");
        assertThrows(LockLostException.class, again::release, "one of two was gone");
    }

    @ParameterizedTest
    @EnumSource
    void what_the_server_refuses_is_an_exception_in_words_and_not_retried(Kind kind) throws Exception {
        TestServer server = withModule();
        RedisLocks locks = locks(kind, server.port);
        Hold x = held(locks.lock("x", MINUTE).owner("ann"));
        Hold y = held(locks.lock("y", MINUTE).owner("ben"));
        CompletableFuture<Granted> ben = waiter(locks.lock("x", MINUTE).owner("ben"));
        waits(server, "x", 1);
        var deadlock = assertThrows(DeadlockException.class, () -> locks.lock("y", MINUTE).owner("ann").acquire());
        assertTrue(deadlock.getMessage().contains("\"ben\" waits for \"x\""), deadlock::getMessage);
        assertEquals("DEADLOCK", deadlock.code());
        assertThrows(QueueFullException.class, () -> locks.lock("x", MINUTE).maxQueue(1).acquire());
        server.ask("RPUSH", "list", "a");
        var wrong = assertThrows(RedisErrorException.class, () -> locks.lock("list", MINUTE).acquire());
        assertEquals("WRONGTYPE", wrong.code());
        x.release();
        ben.get().hold().release();
        y.release();
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
    void a_guarded_command_runs_only_while_the_lock_is_held(Kind kind) throws Exception {
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
        assertTrue(hold.isHeld());
        AtomicInteger lost = new AtomicInteger();
        hold.onLost(loss -> lost.incrementAndGet());
        server.ask("DEL", "market");
        assertThrows(LockLostException.class, () -> hold.guard("INCR", "price"));
        eventually("the loss is told", () -> lost.get() == 1);
        assertThrows(LockLostException.class, hold::ensureHeld);
        assertThrows(LockLostException.class, hold::release);
        assertEquals("5", server.ask("GET", "price"));
    }

    @ParameterizedTest
    @EnumSource
    void one_lock_serves_many_threads_and_no_two_of_them_at_once(Kind kind) throws Exception {
        TestServer server = withModule();
        RedisLock market = locks(kind, server.port).lock("market", MINUTE);
        int[] sum = new int[1];
        List<CompletableFuture<Void>> all = new ArrayList<>();
        for (int i = 0; i < 16; i++) {
            all.add(inBackground(() -> {
                for (int j = 0; j < 50; j++) {
                    try (Hold hold = market.acquire()) {
                        int before = sum[0];
                        Thread.yield();
                        sum[0] = before + 1;
                    }
                }
                return null;
            }));
        }
        for (CompletableFuture<Void> one : all) one.get();
        assertEquals(800, sum[0]);
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
