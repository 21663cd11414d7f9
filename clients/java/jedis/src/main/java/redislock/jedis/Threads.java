package redislock.jedis;

import java.util.concurrent.ExecutorService;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/** Threads for what waits. They end when they have nothing to do, and do not keep the process alive. */
final class Threads {
    private Threads() {}

    static ExecutorService daemons() {
        return new ThreadPoolExecutor(0, Integer.MAX_VALUE, 10, TimeUnit.SECONDS, new SynchronousQueue<>(), job -> {
            Thread thread = new Thread(null, job, "redis-lock-jedis", 256 * 1024);
            thread.setDaemon(true);
            return thread;
        });
    }
}
