package redislock.jedis;

import java.time.Duration;
import java.util.Collections;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import redis.clients.jedis.Builder;
import redis.clients.jedis.CommandArguments;
import redis.clients.jedis.CommandObject;
import redis.clients.jedis.UnifiedJedis;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisException;
import redislock.Pipeline;
import redislock.Redis;
import redislock.RedisErrorException;
import redislock.RedisUnavailableException;

/** Sends commands by a client that finds the server itself. A thread waits for it, because its timeouts are its own. */
final class SharedJedis implements Redis {
    private static final Builder<Object> RAW = new Builder<>() {
        @Override
        public Object build(Object reply) {
            return reply;
        }
    };

    private final UnifiedJedis jedis;
    private final ExecutorService threads = Threads.daemons();

    SharedJedis(UnifiedJedis jedis) {
        this.jedis = jedis;
    }

    @Override
    public CompletableFuture<Object> send(Duration timeout, Object... words) {
        try {
            return CompletableFuture.supplyAsync(() -> execute(words), threads)
                    .orTimeout(timeout.toNanos(), TimeUnit.NANOSECONDS);
        } catch (RejectedExecutionException e) {
            return CompletableFuture.failedFuture(new IllegalStateException("the client is closed"));
        }
    }

    /** Each command has a connection of the client's pool, which can't be had for two. */
    @Override
    public Pipeline pipeline() {
        return (timeout, commands) -> commands.length > 1 ? null
                : send(timeout, commands[0]).thenApply(Collections::singletonList);
    }

    private Object execute(Object[] words) {
        byte[] name = Words.bytes(words[0]);
        CommandArguments args = new CommandArguments(() -> name);
        int key = Redis.keyAt(words);
        for (int i = 1; i < words.length; i++) {
            if (i == key) {
                args.key(Words.bytes(words[i]));
            } else {
                args.add(Words.bytes(words[i]));
            }
        }
        try {
            return Words.decoded(jedis.executeCommand(new CommandObject<>(args, RAW)));
        } catch (JedisDataException e) {
            throw RedisErrorException.of(e.getMessage());
        } catch (JedisException e) {
            throw new RedisUnavailableException(e.getMessage(), e);
        }
    }

    @Override
    public void close() {
        threads.shutdown();
    }
}
