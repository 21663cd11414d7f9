package redislock.tests;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.Optional;
import net.javacrumbs.shedlock.core.ClockProvider;
import net.javacrumbs.shedlock.core.DefaultLockingTaskExecutor;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.SimpleLock;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import redislock.shedlock.RedisLockProvider;

/** ShedLock's locks. */
class ShedLockTest extends OnServers {
    private static LockConfiguration configuration(Duration atMost, Duration atLeast) {
        return new LockConfiguration(ClockProvider.now(), "report", atMost, atLeast);
    }

    @ParameterizedTest
    @EnumSource
    void a_task_runs_in_one_process_at_a_time(Kind kind) throws Throwable {
        TestServer server = withModule();
        RedisLockProvider provider = new RedisLockProvider(locks(kind, server.port));
        DefaultLockingTaskExecutor executor = new DefaultLockingTaskExecutor(provider);
        boolean[] ran = new boolean[2];
        executor.executeWithLock((Runnable) () -> {
            ran[0] = true;
            assertEquals(1, server.info("job-lock:default:report", "count"), "the key is that of ShedLock's own provider");
            executor.executeWithLock((Runnable) () -> ran[1] = true, configuration(MINUTE, Duration.ZERO));
        }, configuration(MINUTE, Duration.ZERO));
        assertTrue(ran[0]);
        assertTrue(ran[1], "ShedLock takes that for the same task");
        Optional<SimpleLock> lock = provider.lock(configuration(MINUTE, Duration.ZERO));
        assertTrue(lock.isPresent());
        assertTrue(provider.lock(configuration(MINUTE, Duration.ZERO)).isEmpty());
        lock.get().unlock();
        assertThrows(IllegalStateException.class, lock.get()::unlock);
        assertTrue(server.isFree("job-lock:default:report"));
    }

    @ParameterizedTest
    @EnumSource
    void a_lock_is_kept_for_as_long_as_it_must_be_at_least(Kind kind) throws Exception {
        TestServer server = bare();
        RedisLockProvider provider = new RedisLockProvider(locks(kind, server.port), "shop");
        SimpleLock lock = provider.lock(configuration(MINUTE, Duration.ofSeconds(10))).orElseThrow();
        lock.unlock();
        long left = (Long) server.ask("PTTL", "job-lock:shop:report");
        assertTrue(left > 0 && left <= 10_000, left + " ms");
        assertTrue(provider.lock(configuration(MINUTE, Duration.ZERO)).isEmpty());
    }

    @ParameterizedTest
    @EnumSource
    void a_lock_is_extended_while_it_is_held(Kind kind) throws Exception {
        TestServer server = withModule();
        RedisLockProvider provider = new RedisLockProvider(locks(kind, server.port));
        SimpleLock lock = provider.lock(configuration(MINUTE, Duration.ZERO)).orElseThrow();
        SimpleLock extended = lock.extend(MINUTE.multipliedBy(2), Duration.ZERO).orElseThrow();
        assertTrue((Long) server.ask("PTTL", "job-lock:default:report") > 60_000);
        assertThrows(IllegalStateException.class, lock::unlock);
        server.ask("DEL", "job-lock:default:report");
        assertFalse(extended.extend(MINUTE, Duration.ZERO).isPresent());
    }

    @ParameterizedTest
    @EnumSource
    void an_unlock_of_what_was_lost_takes_nothing_from_the_next(Kind kind) throws Exception {
        TestServer server = withModule();
        RedisLockProvider provider = new RedisLockProvider(locks(kind, server.port));
        SimpleLock lock = provider.lock(configuration(MINUTE, Duration.ZERO)).orElseThrow();
        server.ask("SET", "job-lock:default:report", "another");
        lock.unlock();
        assertEquals("another", server.ask("GET", "job-lock:default:report"));
        assertTrue(provider.lock(configuration(Duration.ZERO, Duration.ZERO)).isEmpty(), "it would be over at once");
    }
}
