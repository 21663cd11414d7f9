package redislock;

import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * All requests of one owner until it has the lock or gives up. It tries once, and then waits by a connection of its own.
 * Until there is such a connection it keeps a place in the queue, and polls.
 */
final class Attempt {
    /** A request that does not wait, a release or a renewal may take so long in all. */
    static final Duration TRY_FOR = Duration.ofSeconds(5);

    static final Duration LONGEST_RETRY_PAUSE = Duration.ofMillis(500);

    /** For so long a waiter retries without a reply. */
    private static final Duration RETRY_FOR = Duration.ofSeconds(10);

    /** So long a waiter without a deadline blocks at a time. */
    private static final Duration LONGEST_BLOCK = Duration.ofDays(1);

    /** So long a place in the queue is kept after it was last asked for. */
    private static final Duration LEASE = Duration.ofSeconds(3);

    private static final Duration SHORTEST_TIMEOUT = Duration.ofMillis(100);

    private static final Pattern LEASE_TOO_LONG = Pattern.compile("ERR lease must be 1 to (\\d{1,9}) .*");

    private final RedisLocks locks;
    private final OwnedLock lock;
    private final Deadline deadline;

    private CompletableFuture<Server.Reply> last;
    private boolean blocks; // the last request waits in the server
    private boolean queues; // it keeps a place
    private boolean tried; // the last request was a try, before one that waits
    private Duration lease = LEASE; // or what the server allows of it
    private long place; // the last one known
    private Pauses pauses = new Pauses();

    private RuntimeException failure; // of the last request
    private Deadline retryUntil; // null while requests are answered
    private Pauses retries = new Pauses();
    private boolean left; // something of it may be left in the server
    private boolean unanswered; // a request without a reply may still reach the server

    Attempt(RedisLocks locks, OwnedLock lock, Deadline deadline) {
        this.locks = locks;
        this.lock = lock;
        this.deadline = deadline;
    }

    /** Waits until the deadline. */
    Optional<Hold> acquire() throws InterruptedException {
        return run(true);
    }

    /** Asks once, and retries until the deadline if there is no reply. The thread's interruption is kept for later. */
    Optional<Hold> tryAcquire() {
        boolean interrupted = false;
        try {
            while (true) {
                try {
                    return run(false);
                } catch (InterruptedException e) {
                    interrupted = true; // in a pause: the same owner goes on asking
                }
            }
        } finally {
            if (interrupted) Thread.currentThread().interrupt();
        }
    }

    private Optional<Hold> run(boolean waits) throws InterruptedException {
        Hold hold = null;
        boolean isOver = true;
        try {
            hold = attempt(waits);
            return Optional.ofNullable(hold);
        } catch (InterruptedException e) {
            left |= last != null;
            isOver = waits;
            throw e;
        } finally {
            if (hold == null && left && isOver) {
                Withdrawal.begin(locks, lock, last, unanswered, lock.ttl.compareTo(LEASE) > 0 ? lock.ttl : LEASE);
            }
        }
    }

    /** Returns the hold, or null if others have the lock. */
    private Hold attempt(boolean waits) throws InterruptedException {
        boolean confirms = false;
        long since = 0; // the ttl of a place may begin at any time after a reply that was no grant: when replicas have it
        while (true) {
            if (Thread.interrupted()) throw new InterruptedException();
            if (deadline.hasPassed() && last != null) return givesUp();
            boolean isFirst = last == null;
            long sent = System.nanoTime();
            Duration pause;
            boolean mayBeWoken = false;
            try {
                Deadline patience = ask(waits && !confirms);
                if (isFirst || !queues) since = sent;
                Server.Reply reply = waits ? Replies.await(last, patience) : Replies.awaitCalmly(last, patience);
                failure = null;
                retryUntil = null;
                retries = new Pauses();
                if (reply.granted()) {
                    if (isPrompt(System.nanoTime() - since)) return Hold.begin(locks, lock, reply.fence(), since, unanswered);
                    left = true;
                    if (!confirms) {
                        confirms = true;
                        continue;
                    }
                    pause = pauses.next(lock.settings.retryInterval); // its ttl is shorter than the way to the server
                } else {
                    confirms = false;
                    since = sent;
                    left |= reply.place() > 0;
                    if (!waits) return null;
                    if (tried) continue; // to wait
                    if (reply.place() != place) {
                        place = reply.place();
                        pauses = new Pauses();
                    }
                    mayBeWoken = place == 0;
                    Duration longest = lock.settings.retryInterval;
                    pause = pauses.next(place > 0 ? shorter(longest, lease.dividedBy(3)) : longest); // else it would lapse
                }
            } catch (TimeoutException e) {
                left = true;
                if (blocks) return givesUp();
                pause = pauseAfter(new RedisUnavailableException("the server did not reply in time", e), waits);
            } catch (RuntimeException e) {
                if (isLeaseTooLong(e)) continue;
                if (tried && e instanceof NoReplicasException) { // by the server's lock.replicas: a waiter waits for them
                    left = true;
                    continue;
                }
                pause = pauseAfter(e, waits);
            }
            pause(pause, mayBeWoken);
        }
    }

    /**
     * The ttl began at the grant, and it is unknown for how long its reply was on the way: a short wait is taken off the
     * hold, after a long one the same owner asks again, which counts from then on.
     */
    private boolean isPrompt(long took) {
        long ttl = lock.ttl.toNanos();
        return took < ttl && !((blocks || queues) && took > ttl / 8);
    }

    /** Sends the next request. Returns how long to wait for the reply. */
    private Deadline ask(boolean waits) {
        blocks = false;
        boolean isFirst = last == null;
        queues = waits && !locks.server.lacksModule();
        boolean mayBlock = queues && !lock.settings.polling && locks.server.canBlock(); // in its place, if it has one
        // Mostly the lock is free, and a connection to wait by is not needed. If others of this process wait it is not.
        // A try has no MAXQUEUE: that a module is too old for it would only be seen if others hold the lock. With too few
        // replicas it fails, and a waiter waits for them.
        tried = mayBlock && isFirst && lock.settings.maxQueue == null && !lock.settings.waitsForReplicas() && !locks.server.isWaitedFor(lock);
        if (mayBlock && !tried) {
            CompletableFuture<Server.Reply> reply = locks.server.acquireBlocking(lock, deadline.atMost(LONGEST_BLOCK));
            if (reply != null) {
                blocks = true;
                queues = false;
                last = reply;
                return deadline;
            }
        }
        queues &= !tried;
        // A request that is under way at the deadline gets its reply.
        Duration left = deadline.atMost(Server.REPLY_TIMEOUT);
        Duration timeout = left.compareTo(SHORTEST_TIMEOUT) > 0 ? left : SHORTEST_TIMEOUT;
        last = queues ? locks.server.acquire(lock, timeout, "QUEUE", OwnedLock.milliseconds(lease))
                : locks.server.acquire(lock, timeout);
        return Deadline.in(timeout);
    }

    /** How long to wait before the next request, after an error that may pass. Throws others. */
    private Duration pauseAfter(RuntimeException error, boolean waits) {
        if (!Replies.mayPass(error)) {
            // The later request has the wait now, and a release would end that. An owner of this attempt alone was
            // replaced by a request of its own whose reply was lost.
            if (error instanceof ReplacedException) left = lock.settings.owner == null;
            if (error instanceof NoReplicasException) left = true; // it may have been written
            throw error;
        }
        if (Replies.isUnanswered(error)) {
            left = true;
            unanswered = true;
        }
        failure = error;
        if (retryUntil == null) retryUntil = Deadline.in(RETRY_FOR);
        if (waits && retryUntil.hasPassed()) throw error;
        return retries.next(LONGEST_RETRY_PAUSE);
    }

    /** Takes what the server allows, if that was the error. */
    private boolean isLeaseTooLong(RuntimeException error) {
        if (!(error instanceof RedisErrorException)) return false;
        Matcher words = LEASE_TOO_LONG.matcher(error.getMessage());
        if (!words.matches()) return false;
        Duration most = Duration.ofMillis(Long.parseLong(words.group(1)));
        if (most.isZero() || most.compareTo(lease) >= 0) return false;
        lease = most;
        return true;
    }

    /** Without a place in the server's queue, a release of this process may end the pause. */
    private void pause(Duration pause, boolean mayBeWoken) throws InterruptedException {
        long nanos = deadline.atMost(pause).toNanos();
        if (!mayBeWoken) {
            TimeUnit.NANOSECONDS.sleep(nanos);
            return;
        }
        String key = lock.keys.get(0);
        CountDownLatch woken = locks.neighbours.join(key);
        try {
            woken.await(nanos, TimeUnit.NANOSECONDS);
        } finally {
            locks.neighbours.leave(key, woken);
        }
    }

    /** Returns null if others have the lock, and throws what else is the reason. */
    private Hold givesUp() {
        if (failure != null) throw failure;
        return null;
    }

    private static Duration shorter(Duration one, Duration other) {
        return one.compareTo(other) < 0 ? one : other;
    }
}
