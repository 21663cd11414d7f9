package redislock;

import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.CountDownLatch;

/**
 * The waiters of one process on a server without the module. A release wakes the one that has waited for longest, so that
 * it need not wait for its next poll. A wake-up that comes too late costs that poll, and nothing else.
 */
final class Neighbours {
    private final Map<String, Queue<CountDownLatch>> waiting = new HashMap<>();

    /** What counts down at a release of this key. {@link #leave} must be called afterwards. */
    synchronized CountDownLatch join(String key) {
        CountDownLatch woken = new CountDownLatch(1);
        waiting.computeIfAbsent(key, any -> new ArrayDeque<>()).add(woken);
        return woken;
    }

    synchronized void wake(String key) {
        Queue<CountDownLatch> waiters = waiting.get(key);
        if (waiters == null) return;
        waiters.remove().countDown();
        if (waiters.isEmpty()) waiting.remove(key);
    }

    synchronized void leave(String key, CountDownLatch woken) {
        Queue<CountDownLatch> waiters = waiting.get(key);
        if (waiters != null && waiters.remove(woken) && waiters.isEmpty()) waiting.remove(key);
    }
}
