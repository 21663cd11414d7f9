package redislock.lettuce;

import io.lettuce.core.resource.ClientResources;
import io.netty.util.Timeout;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Limits how long a reply may take, by Lettuce's own timer: that of {@code CompletableFuture} wakes a thread for each. */
final class Limits {
    private Limits() {}

    static CompletableFuture<Object> within(Duration limit, ClientResources resources) {
        CompletableFuture<Object> reply = new CompletableFuture<>();
        Timeout timeout = resources.timer().newTimeout(
                due -> reply.completeExceptionally(new TimeoutException("no reply within " + limit)), limit.toNanos(), TimeUnit.NANOSECONDS);
        reply.whenComplete((value, error) -> timeout.cancel());
        return reply;
    }
}
