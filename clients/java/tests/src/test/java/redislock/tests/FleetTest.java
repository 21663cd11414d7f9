package redislock.tests;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.Test;
import redislock.Hold;
import redislock.RedisLock;
import redislock.RedisUnavailableException;

/**
 * Threads of each client read a number and write it one higher, while its connections break. If two held the lock at
 * once an update would be lost.
 */
class FleetTest extends OnServers {
    private static final int ENOUGH = 20;

    @Test
    void no_two_hold_a_lock_while_connections_break() throws Exception {
        work(withModule());
    }

    @Test
    void without_the_module_no_two_hold_a_lock_while_connections_break() throws Exception {
        work(bare());
    }

    private void work(TestServer server) throws Exception {
        AtomicInteger grants = new AtomicInteger();
        long began = System.nanoTime();
        BooleanSupplier goesOn = () -> seconds(began) < 8 || grants.get() < ENOUGH && seconds(began) < 60;
        List<CompletableFuture<Void>> workers = new ArrayList<>();
        for (Kind kind : Kind.values()) {
            Proxy proxy = proxy(server);
            RedisLock market = locks(kind, proxy.port).lock("market", MINUTE);
            workers.add(inBackground(() -> {
                while (goesOn.getAsBoolean()) {
                    Thread.sleep(random(100));
                    String word = List.of("LOCK.ACQUIRE", "LOCK.RELEASE", "EVAL").get(random(3));
                    switch (random(3)) {
                        case 0 -> proxy.cutBefore(word);
                        case 1 -> proxy.cutAfter(word);
                        default -> proxy.stall(word, random(300));
                    }
                }
                return null;
            }));
            for (int i = 0; i < 3; i++) {
                workers.add(inBackground(() -> {
                    while (goesOn.getAsBoolean()) {
                        Optional<Hold> hold;
                        try {
                            hold = market.tryAcquire(Duration.ofMillis(random(3000)));
                        } catch (RedisUnavailableException e) {
                            continue;
                        }
                        if (hold.isEmpty()) continue;
                        Object before = server.ask("GET", "count");
                        Thread.sleep(0, random(999_999));
                        server.ask("SET", "count", before == null ? 1 : Integer.parseInt(before.toString()) + 1);
                        grants.incrementAndGet();
                        hold.get().close();
                    }
                    return null;
                }));
            }
        }
        for (CompletableFuture<Void> worker : workers) worker.get();
        assertTrue(grants.get() >= ENOUGH, grants + " grants");
        assertEquals("" + grants.get(), server.ask("GET", "count"));
        locks(Kind.JEDIS, server.port).lock("market", MINUTE).acquire(Duration.ofSeconds(30)).release();
    }

    private static int random(int bound) {
        return ThreadLocalRandom.current().nextInt(bound);
    }
}
