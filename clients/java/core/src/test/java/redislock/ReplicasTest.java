package redislock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;

/** Replicas and fair limits: what a client makes of a server's replies. */
class ReplicasTest {
    private static final Duration MINUTE = Duration.ofMinutes(1);

    private final Scripted server = new Scripted().pipelining(2);
    private final RedisLocks locks = new RedisLocks(server);
    private final RedisLock market = locks.lock("market", MINUTE).owner("me");

    private static RedisErrorException few(int least) {
        return RedisErrorException.of("NOREPLICAS lock was not acknowledged by " + least + " replicas in time");
    }

    @Test
    void a_group_stands_before_the_owner() throws Exception {
        server.reply("LOCK.ACQUIRE", 7L);
        Hold first = locks.lock("reports", MINUTE).fair("ann").limit(10).ownerPrefix("web-3").acquire();
        assertTrue(first.owner().startsWith("ann:web-3:"), first.owner());
        market.limit(10).fair("ann").per(2).maxQueue(5).polling().acquire();
        assertEquals(List.of("LOCK.ACQUIRE reports " + first.owner() + " 60000 QUEUE 3000 LIMIT 10 FAIR",
                "LOCK.ACQUIRE market ann:me 60000 QUEUE 3000 LIMIT 10 FAIR PER 2 MAXQUEUE 5"), server.sent());
    }

    @Test
    void what_waits_for_replicas_has_a_connection_of_its_own() {
        server.reply("LOCK.ACQUIRE", 7L).reply("LOCK.RENEW", 1L);
        Hold hold = market.replicas(2).tryAcquire().orElseThrow();
        hold.renew(Duration.ofSeconds(2));
        market.tryAcquire();
        assertEquals(List.of("LOCK.ACQUIRE market me 60000 REPLICAS 2", "LOCK.RENEW market me 2000 REPLICAS 2",
                "LOCK.ACQUIRE market me 60000"), server.sent());
        assertEquals(List.of("LOCK.ACQUIRE", "LOCK.RENEW"), server.pipelines);
    }

    @Test
    void a_place_is_claimed_by_one_request_and_its_ttl_counts_from_the_one_before() throws Exception {
        server.reply("LOCK.ACQUIRE", -2L, -1L, 7L);
        Duration ttl = Duration.ofSeconds(2);
        Hold hold = locks.lock("market", ttl).replicas(1).polling().acquire();
        long now = System.nanoTime();
        long most = server.times.get(1) + ttl.toNanos() - now; // replicas may have had it since
        assertTrue(hold.remaining().toNanos() <= most, hold.remaining() + " of " + most);
        assertEquals(3, server.count("QUEUE 3000 REPLICAS 1"), server::toString);
        assertEquals(3, server.sent().size(), server::toString);
        assertEquals(List.of(), server.pipelines);
    }

    @Test
    void a_grant_of_which_much_may_be_over_is_retried() throws Exception {
        server.reply("LOCK.ACQUIRE", -1L, 7L);
        locks.lock("market", Duration.ofMillis(50)).replicas(1).polling().acquire();
        assertEquals(2, server.count("QUEUE"), server::toString);
        assertTrue(server.count("REPLICAS 1") >= 3, server::toString);
    }

    @Test
    void a_grant_that_too_few_replicas_acknowledged_is_released() throws Exception {
        RedisErrorException few = few(2);
        server.reply("LOCK.ACQUIRE", few).reply("LOCK.RELEASE", 0L);
        assertEquals(few.getMessage(), assertThrows(NoReplicasException.class, market.replicas(2)::acquire).getMessage());
        assertTrue(locks.await(MINUTE));
        assertEquals(1, server.count("ACQUIRE"), server::toString);
        assertEquals(1, server.count("RELEASE"), server::toString);
    }

    @Test
    void a_renewal_that_too_few_replicas_acknowledged_may_have_shortened_the_hold() {
        server.reply("LOCK.ACQUIRE", 7L).reply("LOCK.RENEW", few(1));
        Hold hold = market.replicas(1).tryAcquire().orElseThrow();
        assertThrows(NoReplicasException.class, () -> hold.renew(Duration.ofSeconds(5)));
        assertTrue(hold.isHeld() && hold.remaining().compareTo(Duration.ofSeconds(5)) < 0, hold.remaining()::toString);
    }

    @Test
    void without_the_module_wait_follows_in_the_same_pipeline() throws Exception {
        server.reply("EVAL", 1L).reply("WAIT", 2L, 1L, RedisErrorException.of("NOPERM no"));
        RedisLock two = locks.lock("market", MINUTE).replicas(2);
        two.tryAcquire().orElseThrow();
        for (String why : List.of("acknowledged by 1 of 2 replicas", "NOPERM no")) {
            String said = assertThrows(NoReplicasException.class, two::tryAcquire).getMessage();
            assertTrue(said.contains(why), said);
        }
        assertTrue(locks.await(MINUTE));
        assertEquals(3, server.count("WAIT 2 1000"), server::toString);
        assertEquals(5, server.count("EVAL"), "three grants, of which two are released");
        assertEquals(List.of("LOCK.ACQUIRE", "EVAL WAIT", "EVAL WAIT", "EVAL WAIT"), server.pipelines);
    }

    @Test
    void without_the_module_replicas_are_refused_where_wait_cant_be_sent() {
        Scripted cluster = new Scripted().pipelining(1).reply("EVAL", 1L);
        RedisLock lock = new RedisLocks(cluster).lock("market", MINUTE).replicas(1);
        String said = assertThrows(ModuleMissingException.class, lock::tryAcquire).getMessage();
        assertTrue(said.contains("WAIT"), said);
        assertEquals(0, cluster.count("EVAL"), cluster::toString);
    }

    @Test
    void an_older_module_is_named_with_what_it_lacks() {
        server.reply("LOCK.ACQUIRE", RedisErrorException.of("ERR syntax error")).reply("INFO", "lock_version:1.0.0\r\n");
        for (String what : List.of("fair", "replicas")) {
            RedisLock lock = what.equals("fair") ? market.limit(3).fair("ann") : market.replicas(1);
            String said = assertThrows(ModuleMissingException.class, lock::tryAcquire).getMessage();
            assertTrue(said.contains("is 1.0.0, and " + what + " needs version 2.0"), said);
        }
        assertEquals(1, server.count("INFO lock"), server::toString);
    }
}
