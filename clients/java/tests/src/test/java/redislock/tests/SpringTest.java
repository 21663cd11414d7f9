package redislock.tests;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ConcurrentModificationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.springframework.dao.CannotAcquireLockException;
import org.springframework.integration.support.locks.DistributedLock;
import redislock.spring.RedisLockRegistry;

/** The locks of Spring Integration. */
class SpringTest extends OnServers {
    private static boolean othersGet(DistributedLock lock) throws Exception {
        return inBackground(() -> {
            if (!lock.tryLock()) return false;
            lock.unlock();
            return true;
        }).get();
    }

    @ParameterizedTest
    @EnumSource
    void a_lock_is_reentrant_within_a_thread_and_excludes_all_others(Kind kind) throws Exception {
        TestServer server = withModule();
        RedisLockRegistry registry = new RedisLockRegistry(locks(kind, server.port), "shop", MINUTE);
        DistributedLock lock = registry.obtain("market");
        assertEquals(lock, registry.obtain("market"));
        lock.lock();
        assertTrue(registry.obtain("market").tryLock() && lock.tryLock(1, TimeUnit.SECONDS));
        assertEquals(1, server.info("shop:market", "count"), "the key is that of Spring's own registry");
        assertFalse(othersGet(registry.obtain("market")));
        assertFalse(new RedisLockRegistry(locks(kind, server.port), "shop", MINUTE).obtain("market").tryLock());
        assertTrue(othersGet(registry.obtain("bank")));
        CompletableFuture<Void> other = inBackground(() -> {
            registry.executeLocked("market", Duration.ofMillis(50), () -> {});
            return null;
        });
        assertInstanceOf(TimeoutException.class, other.handle((done, error) -> error).get());
        for (int i = 0; i < 3; i++) {
            assertFalse(othersGet(lock));
            lock.unlock();
        }
        // The one that gave up may have been granted it a moment too late, and gives it back in the background.
        OnServers.eventually("free", () -> server.isFree("shop:market"));
        assertTrue(othersGet(lock));
        assertThrows(IllegalStateException.class, lock::unlock);
    }

    @ParameterizedTest
    @EnumSource
    void a_lock_that_was_lost_is_not_entered_again_and_its_unlock_says_so(Kind kind) throws Exception {
        TestServer server = withModule();
        DistributedLock lock = new RedisLockRegistry(locks(kind, server.port), "shop", MINUTE).obtain("market");
        lock.lock(Duration.ofMillis(50));
        becomesFree(server, "shop:market");
        server.ask("SET", "shop:market", "another");
        assertFalse(lock.tryLock());
        assertThrows(CannotAcquireLockException.class, lock::lock);
        assertThrows(ConcurrentModificationException.class, lock::unlock);
        assertEquals("another", server.ask("GET", "shop:market"));
        server.ask("DEL", "shop:market");
        lock.lock();
        lock.unlock();
    }

    @ParameterizedTest
    @EnumSource
    void an_interruption_ends_a_wait_that_may_be_interrupted_and_no_other(Kind kind) throws Exception {
        TestServer server = withModule();
        RedisLockRegistry registry = new RedisLockRegistry(locks(kind, server.port), "shop", MINUTE);
        DistributedLock lock = registry.obtain("market");
        lock.lock();
        CompletableFuture<Thread> running = new CompletableFuture<>();
        CompletableFuture<Void> waiter = inBackground(() -> {
            running.complete(Thread.currentThread());
            assertThrows(InterruptedException.class, lock::lockInterruptibly);
            Thread.currentThread().interrupt();
            lock.lock();
            assertTrue(Thread.interrupted());
            lock.unlock();
            return null;
        });
        waits(server, "shop:market", 1);
        running.get().interrupt();
        eventually("it waits anew", () -> server.calls("lock.release") > 0 && server.info("shop:market", "queue") == 1);
        lock.unlock();
        waiter.get();
    }

    @ParameterizedTest
    @EnumSource
    void a_lock_is_renewed_by_the_thread_that_holds_it(Kind kind) throws Exception {
        TestServer server = withModule();
        RedisLockRegistry registry = new RedisLockRegistry(locks(kind, server.port), "shop", MINUTE);
        assertThrows(IllegalStateException.class, () -> registry.renewLock("market"));
        DistributedLock lock = registry.obtain("market");
        assertTrue(lock.tryLock(Duration.ZERO, Duration.ofSeconds(20)));
        registry.renewLock("market");
        assertTrue((Long) server.ask("PTTL", "shop:market") > 30_000);
        server.ask("DEL", "shop:market");
        assertThrows(IllegalStateException.class, () -> registry.renewLock("market", MINUTE));
        assertThrows(ConcurrentModificationException.class, lock::unlock);
    }
}
