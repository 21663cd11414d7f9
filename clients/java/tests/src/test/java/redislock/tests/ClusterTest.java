package redislock.tests;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.lettuce.core.RedisURI;
import io.lettuce.core.cluster.RedisClusterClient;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import redis.clients.jedis.HostAndPort;
import redislock.Hold;
import redislock.Redis;
import redislock.RedisErrorException;
import redislock.RedisLocks;
import redislock.jedis.JedisRedis;
import redislock.lettuce.LettuceRedis;

/** In a cluster of two nodes, so that a command may come to the wrong one. */
class ClusterTest extends OnServers {
    private int startCluster() throws InterruptedException {
        TestServer one = start("--loadmodule", TestServer.module(), "--cluster-enabled", "yes");
        TestServer two = start("--loadmodule", TestServer.module(), "--cluster-enabled", "yes");
        one.ask("CLUSTER", "ADDSLOTSRANGE", 0, 8000);
        two.ask("CLUSTER", "ADDSLOTSRANGE", 8001, 16383);
        one.ask("CLUSTER", "MEET", "127.0.0.1", two.port);
        for (TestServer node : List.of(one, two)) {
            eventually("the cluster is up", () -> {
                String info = node.ask("CLUSTER", "INFO").toString();
                return info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:2");
            });
        }
        return one.port;
    }

    private void findsLocks(Redis redis) throws Exception {
        RedisLocks locks = new RedisLocks(redis);
        atTheEnd(locks::close);
        for (String tag : List.of("{a}", "{b}", "{c}", "{d}")) { // some on each node
            Hold both = held(locks.lockAll(List.of(tag + "x", tag + "y"), MINUTE));
            CompletableFuture<Granted> next = waiter(locks.lock(tag + "y", MINUTE));
            assertEquals("OK", both.guard("SET", tag + "price", 5));
            both.renew();
            both.release();
            next.get().hold().release();
        }
        var refused = assertThrows(RedisErrorException.class, () -> locks.lockAll(List.of("{a}", "{b}"), MINUTE).acquire());
        assertEquals("CROSSSLOT", refused.code());
    }

    @Test
    void jedis_finds_the_locks_of_a_cluster_on_their_nodes() throws Exception {
        var cluster = redis.clients.jedis.RedisClusterClient.builder().nodes(Set.of(new HostAndPort("127.0.0.1", startCluster()))).build();
        atTheEnd(cluster::close);
        findsLocks(JedisRedis.of(cluster));
    }

    @Test
    void lettuce_finds_the_locks_of_a_cluster_on_their_nodes() throws Exception {
        RedisClusterClient cluster = RedisClusterClient.create(RedisURI.create("127.0.0.1", startCluster()));
        atTheEnd(cluster::close);
        cluster.connect().close(); // the first connection takes seconds on a busy machine
        findsLocks(LettuceRedis.of(cluster));
    }
}
