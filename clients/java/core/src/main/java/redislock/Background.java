package redislock;

import java.time.Duration;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/**
 * What goes on without a caller: renewals, releases and what users do when a hold is lost. Its threads are daemons, and
 * end when there is nothing to do. A server that does not reply keeps a thread for each of them, so that none waits for
 * another.
 */
final class Background {
    private final ScheduledThreadPoolExecutor timer;
    private final ExecutorService workers;

    private int releases; // that are under way

    Background() {
        ThreadFactory threads = job -> {
            Thread thread = new Thread(null, job, "redis-lock", 256 * 1024);
            thread.setDaemon(true);
            return thread;
        };
        timer = new ScheduledThreadPoolExecutor(1, threads);
        timer.setKeepAliveTime(10, TimeUnit.SECONDS);
        timer.allowCoreThreadTimeOut(true);
        timer.setRemoveOnCancelPolicy(true);
        workers = new ThreadPoolExecutor(0, Integer.MAX_VALUE, 10, TimeUnit.SECONDS, new SynchronousQueue<>(), threads);
    }

    void run(Runnable job) {
        try {
            workers.execute(job);
        } catch (RejectedExecutionException e) {
            // It was closed: nothing goes on any more, and what is held expires.
        }
    }

    /** Runs it after that time; if it is cancelled, never. */
    Future<?> runIn(Duration time, Runnable job) {
        try {
            return timer.schedule(() -> run(job), time.toNanos(), TimeUnit.NANOSECONDS);
        } catch (RejectedExecutionException e) {
            return null;
        }
    }

    synchronized void beginsRelease() {
        releases++;
    }

    synchronized void endsRelease() {
        if (--releases == 0) notifyAll();
    }

    /** Whether no release is under way any more, at the deadline at the latest. */
    synchronized boolean awaitReleases(Deadline deadline) throws InterruptedException {
        while (releases > 0 && !deadline.hasPassed()) {
            TimeUnit.NANOSECONDS.timedWait(this, Math.max(1_000_000, deadline.left()));
        }
        return releases == 0;
    }

    void close() {
        timer.shutdownNow();
        workers.shutdown();
    }
}
