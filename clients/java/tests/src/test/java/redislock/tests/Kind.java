package redislock.tests;

import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.resource.ClientResources;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redislock.Pipeline;
import redislock.Redis;
import redislock.jedis.JedisRedis;
import redislock.lettuce.LettuceRedis;

/** Each test runs with each of these. */
enum Kind {
    JEDIS {
        @Override
        Connected connect(int port) {
            Redis redis = JedisRedis.of(new HostAndPort("127.0.0.1", port), DefaultJedisClientConfig.builder().build());
            return new Connected(redis, () -> {});
        }
    },
    LETTUCE {
        @Override
        Connected connect(int port) {
            RedisClient client = RedisClient.create(Lettuce.RESOURCES);
            Redis redis = LettuceRedis.of(client, RedisURI.create("127.0.0.1", port));
            return new Connected(redis, client::close);
        }
    },
    /** Without connections that wait. */
    POLLING {
        @Override
        Connected connect(int port) {
            Connected jedis = JEDIS.connect(port);
            Redis polling = new Redis() {
                @Override
                public CompletableFuture<Object> send(Duration timeout, Object... words) {
                    return jedis.redis().send(timeout, words);
                }

                @Override
                public Pipeline pipeline() {
                    return jedis.redis().pipeline();
                }
            };
            return new Connected(polling, () -> jedis.redis().close());
        }
    };

    /** Its threads are started for those who need them. */
    private static final class Lettuce {
        static final ClientResources RESOURCES = ClientResources.create();
    }

    private static boolean isWarm;

    /** Lettuce's first connection takes seconds on a busy machine, which is no deadline's business. */
    static synchronized void warmUp(int port) {
        if (isWarm) return;
        isWarm = true;
        try (RedisClient client = RedisClient.create(Lettuce.RESOURCES, RedisURI.create("127.0.0.1", port))) {
            client.connect().close();
        }
    }

    record Connected(Redis redis, Runnable close) {}

    abstract Connected connect(int port);
}
