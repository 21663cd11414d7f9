package redislock;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Waits for replies. */
final class Replies {
    private Replies() {}

    /** Returns the reply, or throws what it ended with; {@code TimeoutException} if the deadline passes before. */
    static <T> T await(CompletableFuture<T> reply, Deadline deadline) throws TimeoutException, InterruptedException {
        try {
            return deadline.isNone() ? reply.get() : reply.get(deadline.left(), TimeUnit.NANOSECONDS);
        } catch (ExecutionException e) {
            throw failure(e);
        }
    }

    /** The same for what takes a bounded time: the thread's interruption is kept for later. */
    static <T> T awaitCalmly(CompletableFuture<T> reply, Deadline deadline) throws TimeoutException {
        boolean interrupted = false;
        try {
            while (true) {
                try {
                    return await(reply, deadline);
                } catch (InterruptedException e) {
                    interrupted = true;
                }
            }
        } finally {
            if (interrupted) Thread.currentThread().interrupt();
        }
    }

    static RuntimeException failure(Throwable error) {
        while ((error instanceof ExecutionException || error instanceof CompletionException) && error.getCause() != null) {
            error = error.getCause();
        }
        if (error instanceof RedisLockException || error instanceof IllegalArgumentException || isClosed(error)) {
            return (RuntimeException) error;
        }
        return new RedisUnavailableException(error.toString(), error);
    }

    /** Whether it means that the client is closed. {@code CancellationException} is of that class, too. */
    private static boolean isClosed(Throwable error) {
        return error.getClass() == IllegalStateException.class;
    }

    /** Whether the request may have had an effect, or may have one later. */
    static boolean isUnanswered(Throwable error) {
        return error instanceof RedisUnavailableException;
    }

    static boolean mayPass(RuntimeException error) {
        return isUnanswered(error) || error instanceof RedisErrorException refused && refused.mayPass();
    }

    /** How the reply ended, if with an error. */
    static RuntimeException errorOf(CompletableFuture<?> reply) {
        if (!reply.isCompletedExceptionally()) return null;
        try {
            reply.getNow(null);
            return null;
        } catch (RuntimeException e) {
            return failure(e);
        }
    }
}
