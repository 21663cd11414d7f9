import java.time.Duration;
import redis.clients.jedis.RedisClient;
import redislock.Hold;
import redislock.RedisLock;
import redislock.RedisLocks;
import redislock.jedis.JedisRedis;

/** The package of the repository locks on the server at PORT. */
class Lock {
    public static void main(String[] args) throws InterruptedException {
        try (RedisClient jedis = RedisClient.create("127.0.0.1", Integer.parseInt(System.getenv("PORT")));
                RedisLocks locks = new RedisLocks(JedisRedis.of(jedis.getPool()))) {
            RedisLock tried = locks.lock("tried:java", Duration.ofSeconds(10));
            try (Hold hold = tried.acquire(Duration.ofSeconds(10))) {
                hold.guard("SET", "tried:price", 5);
                if (hold.fence() <= 0 || tried.tryAcquire().isPresent()) throw new AssertionError("not held");
            }
            tried.tryAcquire().orElseThrow().release();
        }
        System.out.println("  Java: locks");
    }
}
