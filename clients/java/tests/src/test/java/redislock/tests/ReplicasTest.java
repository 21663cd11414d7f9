package redislock.tests;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import redislock.Hold;
import redislock.NoReplicasException;
import redislock.RedisLock;
import redislock.RedisLocks;

/** Replicas of servers without the module. */
class ReplicasTest extends OnServers {
    /** A replica that has caught up. */
    private TestServer replicaOf(TestServer master) throws InterruptedException {
        master.ask("CONFIG", "SET", "repl-diskless-sync-delay", 0);
        TestServer replica = start("--replicaof", "127.0.0.1", Integer.toString(master.port));
        eventually("the replica is online", () -> String.valueOf(master.ask("INFO", "replication")).contains("state=online"));
        return replica;
    }

    @ParameterizedTest
    @EnumSource
    void replicas_acknowledge_a_grant_or_nothing_is_left_of_it(Kind kind) throws Exception {
        TestServer server = bare();
        TestServer replica = replicaOf(server);
        RedisLocks locks = locks(kind, server.port, lock -> lock.replicas(1));
        Hold hold = held(locks.lock("market", MINUTE));
        assertEquals(hold.owner(), replica.ask("GET", "market"));
        assertThrows(NoReplicasException.class, locks.lock("shop", MINUTE).replicas(2)::tryAcquire);
        replica.stop();
        assertThrows(NoReplicasException.class, locks.lock("bank", MINUTE)::tryAcquire);
        for (String key : List.of("shop", "bank")) eventually("it is released", () -> server.ask("GET", key) == null);
        hold.release();
    }

    @ParameterizedTest
    @EnumSource
    void a_retry_writes_what_the_replicas_acknowledge(Kind kind) throws Exception {
        TestServer server = bare();
        TestServer replica = replicaOf(server);
        server.ask("SET", "market", "me", "PX", 10 * MINUTE.toMillis()); // as by a request whose reply was lost
        replica.stop();
        RedisLock market = locks(kind, server.port).lock("market", MINUTE).owner("me").replicas(1);
        assertThrows(NoReplicasException.class, market::tryAcquire, "nothing was acknowledged");
    }

    @ParameterizedTest
    @EnumSource
    void a_renewal_that_waits_for_replicas_does_not_delay_others(Kind kind) throws Exception {
        TestServer server = bare();
        TestServer replica = replicaOf(server);
        RedisLocks locks = locks(kind, server.port);
        Hold hold = held(locks.lock("market", MINUTE).replicas(1));
        held(locks.lock("shop", MINUTE)).release(); // so that there is a connection
        replica.stop();
        CompletableFuture<Void> renewal = inBackground(() -> {
            hold.renew();
            return null;
        });
        eventually("it waits", () -> String.valueOf(server.ask("INFO", "clients")).contains("blocked_clients:1"));
        held(locks.lock("shop", MINUTE)).release();
        assertFalse(renewal.isDone(), "the others waited for the renewal, or it for nothing");
        assertTrue(assertThrows(ExecutionException.class, renewal::get).getCause() instanceof NoReplicasException);
        assertTrue(hold.isHeld());
    }
}
