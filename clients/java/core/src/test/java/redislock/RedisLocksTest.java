package redislock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What a client makes of a server's replies. */
class RedisLocksTest {
    private static final Duration MINUTE = Duration.ofMinutes(1);
    private static final Duration SECOND = Duration.ofSeconds(1);

    private final Scripted server = new Scripted();
    private final RedisLocks locks = new RedisLocks(server);

    private void waitForReleases() throws InterruptedException {
        assertTrue(locks.await(MINUTE), server::toString);
    }

    @Test
    void what_makes_no_sense_is_refused_before_anything_is_sent() {
        String tooLong = "x".repeat(1025);
        RedisLock lock = locks.lock("k", SECOND);
        List<Executable> wrong = List.of(
                () -> locks.lock("k", Duration.ZERO),
                () -> locks.lock("k", SECOND.negated()),
                () -> locks.lock("k", Duration.ofNanos(10)),
                () -> locks.lock("k", Duration.ofSeconds(Long.MAX_VALUE)),
                () -> locks.lockAll(List.of(), SECOND),
                () -> locks.lock("", SECOND),
                () -> locks.lockAll(List.of("k", ""), SECOND),
                () -> lock.limit(0),
                () -> lock.limit(1).shared(),
                () -> lock.limit(1).fair("ann:b"),
                () -> lock.limit(1).fair(""),
                () -> lock.limit(1).fair(tooLong).tryAcquire(),
                () -> lock.fair("ann").tryAcquire(),
                () -> locks.lockAll(List.of("k", "l"), SECOND).limit(1).fair("ann").tryAcquire(),
                () -> lock.limit(1).per(1).tryAcquire(),
                () -> lock.limit(1).fair("ann").per(0),
                () -> lock.replicas(-1),
                () -> lock.replicas(65),
                () -> lock.replicas(1).tryAcquire(), // without pipelines
                () -> lock.maxQueue(-1),
                () -> lock.renewedFor(Duration.ZERO),
                () -> lock.retryInterval(Duration.ZERO),
                () -> lock.owner("*"),
                () -> lock.owner("@lock:shared"),
                () -> lock.owner(""),
                () -> lock.owner(tooLong),
                () -> lock.ownerPrefix(""),
                () -> lock.ownerPrefix(tooLong.substring(0, 988)));
        for (int i = 0; i < wrong.size(); i++) assertThrows(IllegalArgumentException.class, wrong.get(i), "the " + i + ".");
        assertEquals(0, server.count(""), server::toString);
    }

    @Test
    void what_others_hold_is_empty_or_an_exception() throws Exception {
        server.reply("LOCK.ACQUIRE", 0L);
        RedisLock market = locks.lock("market", MINUTE);
        assertTrue(market.tryAcquire().isEmpty() && market.tryAcquire(Duration.ZERO).isEmpty());
        assertThrows(LockNotAcquiredException.class, () -> market.acquire(Duration.ZERO));
        assertEquals(0, server.count("QUEUE"), "without patience it does not wait");
        assertTrue(market.tryAcquire(Duration.ofMillis(20)).isEmpty());
        assertThrows(LockNotAcquiredException.class, () -> market.acquire(Duration.ofMillis(20)));
    }

    @Test
    void a_code_word_is_an_exception_of_its_own_and_never_retried() throws Exception {
        Map<String, Class<? extends RedisErrorException>> all = Map.of(
                "DEADLOCK", DeadlockException.class,
                "TOOCOMPLEX", TooComplexException.class,
                "QUEUEFULL", QueueFullException.class,
                "REPLACED", ReplacedException.class,
                "ONEWAIT", OneWaitException.class,
                "NOUPGRADE", NoUpgradeException.class,
                "NOREPLICAS", NoReplicasException.class,
                "WRONGTYPE", RedisErrorException.class);
        for (var each : all.entrySet()) {
            Scripted server = new Scripted()
                    .reply("LOCK.ACQUIRE", RedisErrorException.of(each.getKey() + " and why"))
                    .reply("LOCK.RELEASE", 0L);
            RedisErrorException error = assertThrows(RedisErrorException.class,
                    () -> new RedisLocks(server).lock("market", SECOND).acquire());
            assertEquals(each.getValue(), error.getClass());
            assertEquals(each.getKey() + " and why", error.getMessage());
            assertEquals(1, server.count("ACQUIRE"), server::toString);
        }
    }

    @Test
    void a_wait_that_was_taken_over_is_not_withdrawn() throws Exception {
        RedisErrorException replaced = RedisErrorException.of("REPLACED a later request of this owner waits");
        server.reply("LOCK.ACQUIRE", -1L, replaced).reply("LOCK.RELEASE", 0L);
        assertThrows(ReplacedException.class, () -> locks.lock("market", SECOND).owner("order-7").acquire());
        waitForReleases();
        assertEquals(0, server.count("RELEASE"), "that would end the later request's wait");
        // A fresh owner is that of one request, so nothing else may wait by it.
        server.reply("LOCK.ACQUIRE", -1L, replaced);
        assertThrows(ReplacedException.class, () -> locks.lock("market", SECOND).acquire());
        waitForReleases();
        assertEquals(1, server.count("RELEASE"), server::toString);
    }

    @Test
    void a_hold_whose_owner_was_granted_another_token_is_lost() throws Exception {
        server.reply("LOCK.ACQUIRE", 7L, 7L, 7L, 9L).reply("LOCK.GUARD", "OK").reply("LOCK.RELEASE", 1L);
        RedisLock market = locks.lock("market", MINUTE).owner("order-7");
        Hold first = market.acquire();
        Hold again = market.acquire();
        Hold other = locks.lock("elsewhere", MINUTE).owner("order-7").acquire();
        assertTrue(first.isHeld() && again.isHeld(), "the same token is the same grant");
        Hold later = market.acquire();
        assertThrows(LockLostException.class, () -> first.guard("SET", "price", 5));
        assertEquals(0, server.count("GUARD"), "the server would take it for the later one");
        assertTrue(!again.isHeld() && later.isHeld() && other.isHeld());
        assertThrows(LockLostException.class, first::release);
        waitForReleases();
        assertEquals(0, server.count("RELEASE"), "that would end the later hold");
        later.release();
    }

    @Test
    void an_owner_that_is_still_being_released_is_refused() throws Exception {
        RedisLock market = locks.lock("market", MINUTE).owner("order-7");
        server.reply("LOCK.ACQUIRE", 7L).reply("LOCK.RELEASE", RedisErrorException.of("NOPERM no"));
        Hold hold = market.acquire();
        assertThrows(RedisErrorException.class, hold::release);
        assertThrows(IllegalArgumentException.class, market::tryAcquire, "the release would end its hold");
        assertTrue(locks.lock("market", MINUTE).tryAcquire().isPresent());
        server.reply("LOCK.RELEASE", 1L);
        waitForReleases();
        assertTrue(market.tryAcquire().isPresent());
    }

    @Test
    void a_refusal_after_a_lost_reply_is_withdrawn() throws Exception {
        server.reply("LOCK.ACQUIRE", new IOException("broken"), RedisErrorException.of("QUEUEFULL 1 waiting")).reply("LOCK.RELEASE", 1L);
        assertThrows(QueueFullException.class, () -> locks.lock("market", Duration.ofMillis(1)).acquire());
        waitForReleases();
        assertTrue(server.count("RELEASE") > 0, "the lost request may have been granted");
    }

    @ParameterizedTest
    @ValueSource(strings = {"", " (lock.max-place-ttl): the time after QUEUE is \"5000\""}) // 1.0, and later ones
    void a_place_is_asked_for_with_the_lease_that_the_server_allows(String rest) throws Exception {
        server.reply("LOCK.ACQUIRE", RedisErrorException.of("ERR lease must be 1 to 1500 milliseconds" + rest), 7L);
        assertEquals(7, locks.lock("market", SECOND).acquire().fence());
        assertEquals(1, server.count("QUEUE 1500"), server::toString);
    }

    @Test
    void a_lease_of_nothing_is_an_error() {
        server.reply("LOCK.ACQUIRE", RedisErrorException.of("ERR lease must be 1 to 0 milliseconds"));
        assertThrows(RedisErrorException.class, () -> locks.lock("market", SECOND).acquire());
    }

    @Test
    void a_hold_is_over_by_the_clock_a_little_before_the_server_ends_it() throws Exception {
        server.reply("LOCK.ACQUIRE", 7L).reply("LOCK.RELEASE", 0L);
        Hold hold = locks.lock("market", Duration.ofSeconds(1000)).acquire();
        assertTrue(hold.remaining().compareTo(Duration.ofSeconds(999)) <= 0, "clocks may differ by a thousandth");
        assertTrue(hold.remaining().compareTo(Duration.ofSeconds(900)) > 0);
        Hold brief = locks.lock("market", Duration.ofMillis(20)).acquire();
        while (brief.remaining().toNanos() > 0) Thread.onSpinWait();
        assertFalse(brief.isHeld());
        assertThrows(LockLostException.class, brief::ensureHeld);
    }

    @Test
    void a_loss_that_the_work_has_met_is_no_riddle_at_the_end_of_its_block() {
        server.reply("LOCK.ACQUIRE", 7L).reply("LOCK.GUARD", RedisErrorException.of("NOTOWNER no")).reply("LOCK.RELEASE", 0L);
        var lost = assertThrows(LockLostException.class, () -> {
            try (Hold hold = locks.lock("market", MINUTE).acquire()) {
                hold.guard("SET", "price", 5);
            }
        });
        assertEquals(1, lost.getSuppressed().length);
        assertNotSame(lost, lost.getSuppressed()[0]);
    }

    @Test
    void a_block_whose_lock_was_lost_ends_with_that() {
        server.reply("LOCK.ACQUIRE", 7L).reply("LOCK.RELEASE", 0L);
        assertThrows(LockLostException.class, () -> {
            try (Hold hold = locks.lock("market", MINUTE).acquire()) {
                assertTrue(hold.isHeld());
            }
        });
    }

    @Test
    void a_released_hold_does_nothing_more() throws Exception {
        server.reply("LOCK.ACQUIRE", 7L).reply("LOCK.RELEASE", 1L);
        Hold hold = locks.lock("market", MINUTE).acquire();
        hold.release();
        hold.close();
        assertEquals(1, server.count("RELEASE"), server::toString);
        assertFalse(hold.isHeld());
        assertEquals(Duration.ZERO, hold.remaining());
        assertThrows(IllegalStateException.class, () -> hold.guard("SET", "price", 5));
        assertThrows(IllegalStateException.class, hold::renew);
    }

    @Test
    void what_is_done_on_a_loss_is_done_once_and_not_after_a_release() throws Exception {
        server.reply("LOCK.ACQUIRE", 7L).reply("LOCK.RELEASE", 1L).reply("LOCK.RENEW", 0L);
        List<String> seen = new ArrayList<>();
        Hold released = locks.lock("market", Duration.ofSeconds(2)).acquire();
        released.onLost(loss -> seen.add("released"));
        released.release();
        CountDownLatch expired = new CountDownLatch(1);
        locks.lock("market", Duration.ofSeconds(3)).acquire().onLost(loss -> expired.countDown());
        assertTrue(expired.await(20, TimeUnit.SECONDS), "nothing looks at this hold but its own timer");
        Hold hold = locks.lock("market", MINUTE).acquire();
        CountDownLatch lost = new CountDownLatch(1);
        hold.onLost(loss -> {
            seen.add("lost");
            lost.countDown();
        });
        assertThrows(LockLostException.class, hold::renew);
        assertThrows(LockLostException.class, hold::renew);
        assertTrue(lost.await(20, TimeUnit.SECONDS));
        CountDownLatch late = new CountDownLatch(1);
        hold.onLost(loss -> late.countDown());
        assertTrue(late.await(20, TimeUnit.SECONDS), "it is lost already");
        assertEquals(List.of("lost"), seen);
    }

    @Test
    void a_renewal_that_is_refused_leaves_the_end_as_it_was_and_one_without_reply_may_have_shortened_it() throws Exception {
        server.reply("LOCK.ACQUIRE", 7L).reply("LOCK.RELEASE", 1L).reply("LOCK.RENEW", RedisErrorException.of("NOPERM no"));
        Hold hold = locks.lock("market", MINUTE).acquire();
        assertThrows(RedisErrorException.class, () -> hold.renew(Duration.ofSeconds(20)));
        assertTrue(hold.remaining().compareTo(Duration.ofSeconds(30)) > 0);
        server.reply("LOCK.RENEW", new IOException("broken"), RedisErrorException.of("NOPERM no"));
        assertThrows(RedisErrorException.class, () -> hold.renew(Duration.ofSeconds(20)));
        assertTrue(hold.remaining().compareTo(Duration.ofSeconds(20)) <= 0, () -> "" + hold.remaining());
    }

    @Test
    void a_silent_server_is_given_up_at_the_deadline_and_said_to_be_silent() throws Exception {
        server.reply("LOCK.ACQUIRE", Scripted.SILENCE).reply("LOCK.RELEASE", 0L);
        RedisLock lock = locks.lock("market", Duration.ofMillis(1));
        long began = System.nanoTime();
        assertThrows(RedisUnavailableException.class, () -> lock.tryAcquire(Duration.ofMillis(200)));
        assertTrue(System.nanoTime() - began < TimeUnit.SECONDS.toNanos(4));
        waitForReleases();
        assertTrue(server.count("RELEASE") > 1, "a request without a reply may still be on its way");
    }

    @Test
    void a_closed_client_is_said_to_be_closed_and_not_retried() {
        server.reply("LOCK.ACQUIRE", new IllegalStateException("the client is closed"));
        assertThrows(IllegalStateException.class, () -> locks.lock("market", SECOND).tryAcquire());
        assertEquals(1, server.count("ACQUIRE"));
    }

    @Test
    void an_interruption_of_a_try_is_kept_for_later() {
        server.reply("LOCK.ACQUIRE", 7L).reply("LOCK.RELEASE", 1L);
        Thread.currentThread().interrupt();
        try (Hold hold = locks.lock("market", MINUTE).tryAcquire().orElseThrow()) {
            assertTrue(hold.isHeld());
            assertTrue(Thread.currentThread().isInterrupted());
        }
        assertTrue(Thread.interrupted());
    }

    @Test
    void an_interrupted_try_that_is_refused_withdraws_what_got_no_reply() throws Exception {
        server.reply("LOCK.ACQUIRE", new IOException("broken"), RedisErrorException.of("NOPERM no")).reply("LOCK.RELEASE", 0L);
        Thread.currentThread().interrupt();
        assertThrows(RedisErrorException.class, () -> locks.lock("market", Duration.ofMillis(1)).tryAcquire());
        assertTrue(Thread.interrupted());
        waitForReleases();
        assertTrue(server.count("RELEASE") > 0, "the lost request may have been granted");
    }

    @Test
    void an_interrupted_thread_does_not_wait_and_sends_nothing() throws Exception {
        Thread.currentThread().interrupt();
        assertThrows(InterruptedException.class, () -> locks.lock("market", MINUTE).acquire());
        waitForReleases();
        assertEquals(0, server.count(""), server::toString);
    }

    @Test
    void the_defaults_of_a_client_are_those_of_all_its_locks() {
        RedisLocks strict = new RedisLocks(server, RedisLock::requireModule);
        assertThrows(ModuleMissingException.class, () -> strict.lock("market", SECOND).acquire());
        assertEquals(0, server.count("EVAL"), server::toString);
    }

    @Test
    void without_the_module_a_refusal_that_only_mentions_a_command_is_not_taken_for_that() {
        server.reply("LOCK.ACQUIRE", 7L).reply("LOCK.GUARD", RedisErrorException.of("ERR unknown command 'NONSENSE', with args"));
        Hold hold = locks.lock("market", MINUTE).tryAcquire().orElseThrow();
        assertThrows(RedisErrorException.class, () -> hold.guard("NONSENSE"));
        assertEquals(0, server.count("EVAL"), server::toString);
    }

    @Test
    void a_grant_whose_reply_took_longer_than_its_ttl_is_asked_for_again() throws Exception {
        Redis slow = (timeout, words) -> {
            try {
                if (server.count("ACQUIRE") == 0) Thread.sleep(60);
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
            return server.send(timeout, words);
        };
        server.reply("LOCK.ACQUIRE", 7L).reply("LOCK.RELEASE", 1L);
        Optional<Hold> hold = new RedisLocks(slow).lock("market", Duration.ofMillis(50)).tryAcquire();
        assertInstanceOf(Hold.class, hold.orElseThrow());
        assertTrue(server.count("ACQUIRE") > 1, server::toString);
    }
}
