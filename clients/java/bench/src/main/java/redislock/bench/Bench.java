package redislock.bench;

import com.sun.management.OperatingSystemMXBean;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Lock;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import org.springframework.data.redis.connection.RedisStandaloneConfiguration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.integration.redis.util.RedisLockRegistry;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redislock.Hold;
import redislock.RedisLocks;
import redislock.jedis.JedisRedis;
import redislock.lettuce.LettuceRedis;

/**
 * One lock without contention, 64 contenders for it, and from a release to the next grant: beside Redisson and Spring
 * Integration, in one run. Its arguments are the port of a server with the module, and the number of rounds.
 */
public final class Bench {
    private static final Duration TTL = Duration.ofSeconds(30);
    private static final int PAIRS = 2000;
    private static final int CONTENDERS = 64;
    private static final double CONTENDED = 3; // seconds
    private static final int HANDOFFS = 7;

    private static final OperatingSystemMXBean SYSTEM = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    private Bench() {}

    /**
     * Prints a table of medians.
     *
     * @param args the port, and the number of rounds
     * @throws Exception if anything fails
     */
    public static void main(String[] args) throws Exception {
        int port = Integer.parseInt(args[0]);
        int rounds = Integer.parseInt(args[1]);
        RedisLocks jedis = new RedisLocks(JedisRedis.of(new HostAndPort("127.0.0.1", port), DefaultJedisClientConfig.builder().build()));
        RedisClient lettuceClient = RedisClient.create();
        RedisLocks lettuce = new RedisLocks(LettuceRedis.of(lettuceClient, RedisURI.create("127.0.0.1", port)));
        Config config = new Config();
        config.useSingleServer().setAddress("redis://127.0.0.1:" + port);
        RedissonClient redisson = Redisson.create(config);
        LettuceConnectionFactory factory = new LettuceConnectionFactory(new RedisStandaloneConfiguration("127.0.0.1", port));
        factory.start();
        List<Library> libraries = List.of(
                new Library("Jedis", contender -> key -> hold(jedis, key)),
                new Library("Lettuce", contender -> key -> hold(lettuce, key)),
                new Library("Redisson RLock", contender -> key -> {
                    RLock lock = redisson.getLock("redisson:" + key);
                    lock.lock(TTL.toMillis(), TimeUnit.MILLISECONDS);
                    return lock::unlock;
                }),
                new Library("Redisson fair", contender -> key -> {
                    RLock lock = redisson.getFairLock("fair:" + key);
                    lock.lock(TTL.toMillis(), TimeUnit.MILLISECONDS);
                    return lock::unlock;
                }),
                // The threads of one registry wait for each other before they ask the server: here each has its own.
                new Library("Spring", contender -> registry(factory, RedisLockRegistry.RedisLockType.SPIN_LOCK)),
                new Library("Spring pub/sub", contender -> registry(factory, RedisLockRegistry.RedisLockType.PUB_SUB_LOCK)));
        try (Jedis admin = new Jedis("127.0.0.1", port)) {
            for (int round = -1; round < rounds; round++) { // the first one warms up
                for (int i = 0; i < libraries.size(); i++) {
                    Library library = libraries.get(Math.floorMod(i + round, libraries.size()));
                    Library counted = round < 0 ? new Library("warm", library::locker) : library;
                    pairs(counted);
                    contend(counted, admin);
                    handOff(counted);
                }
                System.err.println("round " + round);
            }
        }
        List<String> figures = List.of("pair, us", "pair, us of CPU", "64: grants/s", "64: fewest", "64: most",
                "64: commands/grant", "64: us of CPU/grant", "handoff, ms");
        System.out.printf("%-16s", "");
        for (String figure : figures) System.out.printf("%21s", figure);
        for (Library library : libraries) {
            System.out.printf("%n%-16s", library.name);
            for (String figure : figures) System.out.printf("%21.1f", library.median(figure));
        }
        System.out.println();
        System.exit(0);
    }

    private static Runnable hold(RedisLocks locks, String key) throws InterruptedException {
        Hold hold = locks.lock(key, TTL).acquire();
        return hold::release;
    }

    private static Library.Locker registry(LettuceConnectionFactory factory, RedisLockRegistry.RedisLockType type) {
        RedisLockRegistry registry = new RedisLockRegistry(factory, "spring:" + type, TTL.toMillis());
        registry.setRedisLockType(type);
        return key -> {
            Lock lock = registry.obtain(key);
            lock.lock();
            return lock::unlock;
        };
    }

    /** One thread, and nothing else wants the lock. The median, because other programs interrupt some pairs. */
    private static void pairs(Library library) throws Exception {
        Library.Locker locker = library.locker(0);
        locker.acquire("warm").run();
        long[] took = new long[PAIRS];
        long cpu = SYSTEM.getProcessCpuTime();
        for (int i = 0; i < PAIRS; i++) {
            long began = System.nanoTime();
            locker.acquire("pair").run();
            took[i] = System.nanoTime() - began;
        }
        Arrays.sort(took);
        library.add("pair, us", took[PAIRS / 2] / 1e3);
        library.add("pair, us of CPU", (SYSTEM.getProcessCpuTime() - cpu) / 1e3 / PAIRS);
    }

    /** Threads take one lock over and over, and do nothing with it. */
    private static void contend(Library library, Jedis admin) throws Exception {
        int[] grants = new int[CONTENDERS];
        for (int i = 0; i < CONTENDERS; i++) library.locker(i).acquire("warm" + i).run();
        long commands = processed(admin);
        long cpu = SYSTEM.getProcessCpuTime();
        long began = System.nanoTime();
        Thread[] threads = new Thread[CONTENDERS];
        for (int i = 0; i < CONTENDERS; i++) {
            int contender = i;
            threads[i] = new Thread(() -> {
                try {
                    Library.Locker locker = library.locker(contender);
                    while (seconds(began) < CONTENDED) {
                        Runnable release = locker.acquire("contended");
                        if (seconds(began) < CONTENDED) grants[contender]++;
                        release.run();
                    }
                } catch (Exception e) {
                    e.printStackTrace();
                    System.exit(1);
                }
            });
            threads[i].start();
        }
        for (Thread thread : threads) thread.join();
        double sum = Arrays.stream(grants).sum();
        library.add("64: grants/s", sum / CONTENDED);
        library.add("64: fewest", Arrays.stream(grants).min().orElseThrow());
        library.add("64: most", Arrays.stream(grants).max().orElseThrow());
        library.add("64: commands/grant", (processed(admin) - commands) / sum);
        library.add("64: us of CPU/grant", (SYSTEM.getProcessCpuTime() - cpu) / 1e3 / sum);
    }

    /** From a release to the grant of the one that waits. */
    private static void handOff(Library library) throws Exception {
        for (int i = 0; i < HANDOFFS; i++) {
            Runnable release = library.locker(0).acquire("handoff");
            CompletableFuture<Long> granted = new CompletableFuture<>();
            Library.Locker next = library.locker(1);
            Thread waiter = new Thread(() -> {
                try {
                    Runnable done = next.acquire("handoff");
                    granted.complete(System.nanoTime());
                    done.run();
                } catch (Exception e) {
                    granted.completeExceptionally(e);
                }
            });
            waiter.start();
            Thread.sleep(200 + 17L * i);
            long released = System.nanoTime();
            release.run();
            library.add("handoff, ms", (granted.get() - released) / 1e6);
            waiter.join();
        }
    }

    private static double seconds(long began) {
        return (System.nanoTime() - began) / 1e9;
    }

    /** All that the server has run; also what scripts have called. */
    private static long processed(Jedis admin) {
        return admin.info("stats").lines().filter(line -> line.startsWith("total_commands_processed:"))
                .mapToLong(line -> Long.parseLong(line.substring(line.indexOf(':') + 1))).findFirst().orElseThrow();
    }
}
