package redislock;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;

/**
 * Sends commands to a server and returns its replies. {@code redislock.jedis} and {@code redislock.lettuce} make it of
 * the clients of those names; another client needs {@link #send}:
 *
 * <ul>
 * <li>A null reply is {@code null}, an integer a {@code Long}, a string a {@code String} (UTF-8).
 * <li>An error that the server replied is a {@link RedisErrorException}, by {@link RedisErrorException#of}. Every other
 * exception means that it is unknown whether the command ran, except for {@link IllegalStateException}: the client is
 * closed, and {@link IllegalArgumentException}: the command can't be sent.
 * <li>Each word that this package passes by itself is a {@code String}. Those of {@link Hold#guard} come as they are.
 * </ul>
 */
public interface Redis extends AutoCloseable {

    /**
     * Sends a command once. The future is completed within the timeout, whatever happens; the method itself may take as
     * long.
     *
     * @param timeout for the reply
     * @param words the command and its arguments
     * @return its reply
     */
    CompletableFuture<Object> send(Duration timeout, Object... words);

    /**
     * Sends the same way, but over connections that nothing else uses, so that a command may wait in the server. There
     * {@code send} returns at once.
     *
     * @return {@code null}, unless there are such connections: waiters poll
     */
    default Redis alone() {
        return null;
    }

    /**
     * Pipelines, so that nothing waits behind a command whose reply waits for replicas.
     *
     * @return {@code null}, unless there are such: {@link RedisLock#replicas} is refused
     */
    default Pipeline pipeline() {
        return null;
    }

    /**
     * Where the key of a command is, by which a cluster finds its node.
     *
     * @param words the command and its arguments
     * @return its index in {@code words}; the first one of several
     */
    static int keyAt(Object[] words) {
        String name = words[0].toString();
        return name.startsWith("LOCK.M") ? 2 : name.equals("EVAL") ? 3 : Math.min(1, words.length - 1);
    }

    /** Closes what was made for the locks. A client that was given stays open. */
    @Override
    default void close() {}
}
