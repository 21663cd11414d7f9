package redislock.tests;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import redislock.Hold;
import redislock.LockLostException;

/** Renewals, and holds that end. */
class LosingTest extends OnServers {
    private static final Duration TTL = Duration.ofSeconds(3);

    @ParameterizedTest
    @EnumSource
    void a_hold_ends_with_its_ttl(Kind kind) throws Exception {
        TestServer server = withModule();
        Hold hold = held(locks(kind, server.port).lock("market", Duration.ofMillis(400)));
        CountDownLatch lost = new CountDownLatch(1);
        hold.onLost(loss -> lost.countDown());
        assertTrue(lost.await(20, TimeUnit.SECONDS));
        isLost(hold, Duration.ofSeconds(1));
        int guards = server.calls("lock.guard");
        assertThrows(LockLostException.class, () -> hold.guard("SET", "x", 1));
        assertEquals(guards, server.calls("lock.guard"), "nothing is sent after its end");
        assertThrows(LockLostException.class, () -> hold.renew(MINUTE));
        assertThrows(LockLostException.class, hold::release);
    }

    @ParameterizedTest
    @EnumSource
    void a_hold_is_renewed_until_it_is_released(Kind kind) throws Exception {
        TestServer server = withModule();
        Hold hold = held(locks(kind, server.port).lock("market", TTL).renewed());
        Thread.sleep(2 * TTL.toMillis());
        hold.ensureHeld();
        int calls = server.calls("lock.renew");
        assertTrue(calls >= 3 && calls <= 8, calls + " renewals; six, at a third of the ttl");
        hold.release();
        calls = server.calls("lock.renew");
        Thread.sleep(TTL.toMillis());
        assertTrue(server.calls("lock.renew") <= calls + 1, "still renewed");
    }

    @ParameterizedTest
    @EnumSource
    void renewals_end_after_their_time(Kind kind) throws Exception {
        TestServer server = withModule();
        long began = System.nanoTime();
        Hold hold = held(locks(kind, server.port).lock("market", TTL).renewedFor(TTL.dividedBy(2)));
        isLost(hold, Duration.ofSeconds(20));
        assertTrue(seconds(began) > 3.5, "one renewal, after a second; " + seconds(began));
    }

    @ParameterizedTest
    @EnumSource
    void a_renewal_finds_a_loss(Kind kind) throws Exception {
        TestServer server = withModule();
        Hold hold = held(locks(kind, server.port).lock("market", Duration.ofSeconds(15)).renewed());
        CountDownLatch lost = new CountDownLatch(1);
        hold.onLost(loss -> lost.countDown());
        server.ask("DEL", "market");
        assertTrue(lost.await(12, TimeUnit.SECONDS), "before its ttl is over");
        assertThrows(LockLostException.class, hold::release);
    }

    @ParameterizedTest
    @EnumSource
    void a_loss_is_known_in_time_if_the_server_does_not_reply(Kind kind) throws Exception {
        TestServer server = withModule();
        Hold hold = held(locks(kind, server.port).lock("market", TTL).renewed());
        CountDownLatch lost = new CountDownLatch(1);
        hold.onLost(loss -> lost.countDown());
        server.stop();
        try {
            assertTrue(lost.await(TTL.toMillis() + 1500, TimeUnit.MILLISECONDS));
            isLost(hold, Duration.ofMillis(1));
        } finally {
            server.goOn();
        }
    }

    @ParameterizedTest
    @EnumSource
    void a_renewal_prolongs_and_shortens_and_revives_nothing(Kind kind) throws Exception {
        TestServer server = withModule();
        Hold hold = held(locks(kind, server.port).lock("market", MINUTE));
        for (Duration ttl : List.of(MINUTE.multipliedBy(2), MINUTE.dividedBy(2))) {
            hold.renew(ttl);
            long ours = hold.remaining().toMillis();
            long theirs = (Long) server.ask("PTTL", "market");
            assertTrue(ours <= theirs && theirs <= ttl.toMillis() && ours > ttl.toMillis() - 10_000, ours + " " + theirs);
        }
        assertThrows(IllegalArgumentException.class, () -> hold.renew(Duration.ZERO));
        assertTrue(hold.isHeld());
        server.ask("DEL", "market");
        assertThrows(LockLostException.class, () -> hold.renew(MINUTE));
        isLost(hold, Duration.ofSeconds(1));
    }

    @ParameterizedTest
    @EnumSource
    void a_renewal_whose_reply_is_lost_is_repeated(Kind kind) throws Exception {
        TestServer server = withModule();
        Proxy proxy = proxy(server);
        Hold hold = held(locks(kind, proxy.port).lock("market", MINUTE));
        proxy.cutAfter("LOCK.RENEW");
        hold.renew(MINUTE.multipliedBy(2));
        assertTrue(proxy.happened() && hold.remaining().compareTo(MINUTE) > 0);
        proxy.cutBefore("LOCK.RENEW");
        hold.renew(MINUTE.multipliedBy(4));
        assertTrue(proxy.happened() && hold.remaining().compareTo(MINUTE.multipliedBy(3)) > 0);
        hold.release();
    }

    /** The first look after a pause tells the truth: no timer has run yet. */
    @Test
    void after_a_pause_of_the_process_the_first_look_says_that_the_hold_is_lost() throws Exception {
        TestServer server = withModule();
        for (int i = 0; i < 3; i++) {
            Process sleeper = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                    "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", System.getProperty("java.class.path"),
                    Sleeper.class.getName(), "" + server.port).redirectError(ProcessBuilder.Redirect.INHERIT).start();
            atTheEnd(sleeper::destroyForcibly);
            try (BufferedReader said = sleeper.inputReader(StandardCharsets.UTF_8);
                    var in = sleeper.outputWriter(StandardCharsets.UTF_8)) {
                assertEquals("held", said.readLine());
                TestServer.signal(sleeper.pid(), "STOP");
                becomesFree(server, "market");
                in.write("look\n");
                in.flush();
                TestServer.signal(sleeper.pid(), "CONT");
                assertEquals("false PT0S lost", said.readLine());
            }
            assertEquals(0, sleeper.waitFor());
        }
    }
}
