package redislock.tests;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.TimeoutOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import redislock.Hold;
import redislock.RedisLocks;
import redislock.lettuce.LettuceRedis;

/** What only Lettuce has. */
class LettuceTest extends OnServers {
    @Test
    void a_waiter_waits_for_longer_than_the_timeout_of_lettuce() throws Exception {
        TestServer server = withModule();
        RedisClient client = RedisClient.create();
        atTheEnd(client::close);
        client.setOptions(ClientOptions.builder().timeoutOptions(TimeoutOptions.enabled()).build());
        RedisURI uri = RedisURI.builder().withHost("127.0.0.1").withPort(server.port).withTimeout(Duration.ofSeconds(2)).build();
        RedisLocks locks = new RedisLocks(LettuceRedis.of(client, uri));
        Hold first = held(locks.lock("market", MINUTE));
        CompletableFuture<Granted> next = waiter(locks.lock("market", MINUTE));
        waits(server, "market", 1);
        Thread.sleep(4000);
        assertEquals(3, server.calls("lock.acquire"), "one of the holder, a try, and one that waits");
        first.release();
        next.get().hold().release();
        locks.close();
    }

    @Test
    void in_a_cluster_replicas_are_refused_before_anything_is_sent() {
        RedisClusterClient client = RedisClusterClient.create("redis://127.0.0.1:1"); // where nothing listens
        atTheEnd(client::close);
        RedisLocks locks = new RedisLocks(LettuceRedis.of(client));
        assertThrows(IllegalArgumentException.class, locks.lock("market", MINUTE).replicas(1)::tryAcquire);
        locks.close();
    }
}
