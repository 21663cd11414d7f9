package redislock;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;

/** Sends commands over a connection that nothing else uses meanwhile: for {@link RedisLock#replicas}. */
@FunctionalInterface
public interface Pipeline {
    /**
     * Sends commands as {@link Redis#send} does, all before the first reply.
     *
     * @param timeout for all replies
     * @param commands with their arguments
     * @return the reply to each; an error that the server replied is a {@link RedisErrorException} among them. {@code null}
     *     if several commands can't be sent over one connection
     */
    CompletableFuture<List<Object>> sendAll(Duration timeout, Object[]... commands);
}
