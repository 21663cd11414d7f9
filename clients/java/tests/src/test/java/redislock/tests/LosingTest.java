package redislock.tests;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import redislock.Hold;

/** Renewals, and holds that end. */
class LosingTest extends OnServers {
    private static final Duration TTL = Duration.ofSeconds(3);

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
    void what_remains_of_a_hold_is_never_more_than_in_the_server(Kind kind) throws Exception {
        TestServer server = withModule();
        Hold hold = held(locks(kind, server.port).lock("market", MINUTE));
        for (Duration ttl : List.of(MINUTE.multipliedBy(2), MINUTE.dividedBy(2))) {
            hold.renew(ttl);
            // It counts in whole milliseconds, and the key goes only after the last of them.
            long theirs = (Long) server.ask("PTTL", "market");
            long ours = hold.remaining().toMillis();
            assertTrue(ours <= theirs + 1 && theirs <= ttl.toMillis() && ours > ttl.toMillis() - 10_000, ours + " " + theirs);
        }
        assertThrows(IllegalArgumentException.class, () -> hold.renew(Duration.ZERO));
        hold.release();
    }
}
