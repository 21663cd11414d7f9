package redislock;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;

/**
 * A lock that is held: what one {@link RedisLock#acquire} has brought. It may be used by many threads.
 *
 * <p>What ends a hold is known by the clock: after a pause of the process the first look says that it is lost, if it is.
 */
public final class Hold implements AutoCloseable {
    /** Clocks may run by a thousandth faster or slower, so a hold ends by so much of its ttl earlier here. */
    private static final long MARGIN = 1000;

    final OwnedLock lock;

    private final RedisLocks locks;
    private final long fence;
    private final long granted; // as all times here, by System.nanoTime
    private final boolean unanswered; // a request without a reply may still reach the server
    private final ReentrantLock renewing = new ReentrantLock(true);

    // With the monitor of this object:
    private long ends; // in the server, not before this
    private long latest; // in the server, not after this
    private LockLostException loss;
    private boolean released;
    private boolean over; // by a loss or a release
    private RuntimeException failure; // of the last renewal
    private List<Consumer<LockLostException>> onLost = List.of();
    private Future<?> expiry; // only if it matters when
    private Future<?> renewal;

    private Hold(RedisLocks locks, OwnedLock lock, long fence, long sent, boolean unanswered) {
        this.locks = locks;
        this.lock = lock;
        this.fence = fence;
        this.unanswered = unanswered;
        granted = sent;
        ends = end(sent, lock.ttl);
        latest = System.nanoTime() + lock.ttl.toNanos();
    }

    static Hold begin(RedisLocks locks, OwnedLock lock, long fence, long sent, boolean unanswered) {
        Hold hold = new Hold(locks, lock, fence, sent, unanswered);
        locks.named.begins(hold);
        if (lock.settings.renewed) hold.scheduleRenewal(sent);
        return hold;
    }

    private static long end(long from, Duration ttl) {
        return from + ttl.toNanos() - ttl.toNanos() / MARGIN;
    }

    /**
     * The fencing token: greater than those of all earlier grants. Let what the lock protects refuse smaller ones.
     *
     * @return 0 without the module; where it is needed use {@link RedisLock#requireModule}
     */
    public long fence() {
        return fence;
    }

    /**
     * What the server knows the hold by.
     *
     * @return the owner
     */
    public String owner() {
        return lock.owner;
    }

    /**
     * Whether the lock is held, as far as this process knows, and by the clock.
     *
     * @return false after a loss or a release
     */
    public synchronized boolean isHeld() {
        look();
        return !over;
    }

    /**
     * Throws if {@link #isHeld} is false.
     *
     * @throws LockLostException if the lock was lost
     * @throws IllegalStateException if it was released
     */
    public synchronized void ensureHeld() {
        look();
        if (loss != null) throw lostBefore();
        if (over) throw new IllegalStateException("the lock was released: " + this);
    }

    /**
     * How long the hold lasts, by the clock of this process. In the server it lasts at least so long.
     *
     * @return zero if it has ended
     */
    public synchronized Duration remaining() {
        look();
        return over ? Duration.ZERO : Duration.ofNanos(Math.max(0, ends - System.nanoTime()));
    }

    /**
     * What to do if the hold is lost, in a thread of the background: once, at its end or when the server says that it has
     * ended. After a release it is not done any more.
     *
     * @param action gets the reason
     * @return this hold
     */
    public synchronized Hold onLost(Consumer<LockLostException> action) {
        look();
        if (loss != null) {
            locks.background.run(() -> action.accept(loss));
        } else if (!over) {
            onLost = new ArrayList<>(onLost);
            onLost.add(action);
            scheduleExpiry();
        }
        return this;
    }

    /** With the monitor. */
    private void scheduleExpiry() {
        if (expiry != null) expiry.cancel(false);
        expiry = locks.background.runIn(Duration.ofNanos(Math.max(0, ends - System.nanoTime())), this::isHeld);
    }

    /** Ends the hold if its time is over. With the monitor. */
    private void look() {
        if (over || System.nanoTime() - ends < 0) return;
        if (failure != null) {
            lose("it could not be renewed in time", failure);
        } else {
            lose(lock.settings.renewed ? "it was not renewed in time" : "its ttl is over", null);
        }
    }

    private synchronized void lose(String why, Throwable cause) {
        if (over) return;
        loss = new LockLostException("the lock was lost: " + this + ": " + why, cause);
        end();
        for (Consumer<LockLostException> action : onLost) locks.background.run(() -> action.accept(loss));
    }

    /** Thrown several times: by {@code guard} and {@code close} of one {@code try}, which must not be the same object. */
    private LockLostException lostBefore() {
        return new LockLostException(loss.getMessage(), loss);
    }

    private void isLostInTheServer() {
        lose("the server says that this owner does not hold it", null);
    }

    void isGrantedAnew() {
        lose("its owner was granted the lock anew, with a later fencing token", null);
    }

    /** The one way out of a hold. With the monitor. */
    private void end() {
        over = true;
        if (expiry != null) expiry.cancel(false);
        if (renewal != null) renewal.cancel(false);
        locks.named.ends(this);
    }

    /**
     * Runs a command in the server in the instant in which it sees that the lock is held, or not at all. Of several locks
     * the first counts. In a cluster the command's keys must be in its slot.
     *
     * <p>It is sent once.
     *
     * @param command the command and its arguments: strings, byte arrays and numbers
     * @return the reply: {@code null}, a {@code Long}, a {@code String}, or a {@code List} of those; without the module a
     *     script runs the command, and the reply has the form of a script's
     * @throws LockLostException if the lock is not held; nothing has run
     * @throws RedisErrorException if the server refused the command
     * @throws RedisUnavailableException if the connection broke or there was no reply: it is unknown whether it ran
     */
    public Object guard(Object... command) {
        if (command.length == 0) throw new IllegalArgumentException("no command to guard");
        Duration left;
        synchronized (this) {
            ensureHeld();
            left = Duration.ofNanos(latest - System.nanoTime()); // later the server would refuse it
        }
        Duration timeout = left.plus(Server.REPLY_TIMEOUT);
        try {
            return Replies.awaitCalmly(locks.server.guard(lock, timeout, command), Deadline.in(timeout));
        } catch (TimeoutException e) {
            throw new RedisUnavailableException("no reply to a guarded command: it is unknown whether it ran", e);
        } catch (RedisErrorException e) {
            if (!e.code().equals("NOTOWNER")) throw e;
            isLostInTheServer();
            ensureHeld();
            throw e;
        }
    }

    /** Lets the hold last for its ttl from now on. See {@link #renew(Duration)}. */
    public void renew() {
        renew(lock.ttl);
    }

    /**
     * Lets the hold last for so long from now on. In the background it goes on being renewed by the ttl that it was taken
     * with, if at all.
     *
     * @param ttl from now on
     * @throws LockLostException if the lock was lost: it does not come back
     * @throws RedisUnavailableException if there was no reply for five seconds
     */
    public void renew(Duration ttl) {
        OwnedLock.checkTtl(ttl);
        Deadline deadline = Deadline.in(Attempt.TRY_FOR);
        Pauses retries = new Pauses();
        boolean interrupted = false;
        try {
            while (true) {
                try {
                    if (!renewing.tryLock(deadline.left(), TimeUnit.NANOSECONDS)) {
                        throw new RedisUnavailableException("another renewal is not over", null);
                    }
                    RuntimeException error;
                    try {
                        error = renewOnce(ttl, deadline);
                    } finally {
                        renewing.unlock();
                    }
                    if (error == null) return;
                    if (!Replies.mayPass(error) || deadline.hasPassed()) throw error;
                    TimeUnit.NANOSECONDS.sleep(deadline.atMost(retries.next(Attempt.LONGEST_RETRY_PAUSE)).toNanos());
                } catch (InterruptedException e) {
                    interrupted = true; // it takes five seconds at most
                }
            }
        } finally {
            if (interrupted) Thread.currentThread().interrupt();
        }
    }

    /** Sends one renewal. Returns what went wrong, or throws that the hold has ended. */
    private RuntimeException renewOnce(Duration ttl, Deadline deadline) {
        long sent;
        long before;
        synchronized (this) {
            ensureHeld();
            sent = System.nanoTime();
            before = ends;
            if (end(sent, ttl) - ends < 0) setEnd(end(sent, ttl)); // in the server, perhaps, from now on
        }
        RuntimeException error = null;
        boolean renewed = false;
        try {
            renewed = Replies.awaitCalmly(locks.server.renew(lock, ttl), deadline) > 0;
        } catch (TimeoutException e) {
            error = new RedisUnavailableException("not renewed: the server did not reply in time", e);
        } catch (RuntimeException e) {
            error = e;
        }
        if (error == null && !renewed) isLostInTheServer();
        synchronized (this) {
            long now = System.nanoTime();
            if (now + ttl.toNanos() - latest > 0) latest = now + ttl.toNanos();
            ensureHeld();
            failure = error;
            if (error == null) {
                setEnd(end(sent, ttl));
            } else if (!Replies.isUnanswered(error) && !(error instanceof NoReplicasException few && few.leavesEndOpen())) {
                setEnd(before); // it was refused, so the end is as it was
            }
        }
        return error;
    }

    /** With the monitor. */
    private void setEnd(long end) {
        ends = end;
        if (expiry != null) scheduleExpiry();
    }

    private synchronized void scheduleRenewal(long notBefore) {
        long third = lock.ttl.toNanos() / 3;
        long due = ends - 2 * third - notBefore > 0 ? ends - 2 * third : notBefore;
        Duration limit = lock.settings.renewedFor;
        if (over || limit != null && due - granted > limit.toNanos()) return;
        renewal = locks.background.runIn(Duration.ofNanos(Math.max(0, due - System.nanoTime())), this::renewInTheBackground);
    }

    private void renewInTheBackground() {
        long notBefore = granted;
        renewing.lock();
        try {
            if (renewOnce(lock.ttl, Deadline.in(Attempt.TRY_FOR)) != null) {
                notBefore = System.nanoTime() + Math.max(lock.ttl.toNanos() / 10, 1_000_000);
            }
        } catch (LockLostException | IllegalStateException e) {
            return; // it has ended
        } finally {
            renewing.unlock();
        }
        scheduleRenewal(notBefore);
    }

    /**
     * Gives the lock to the next. From the call on it is not to be relied on. A second call does nothing.
     *
     * @throws LockLostException if the hold had ended before
     * @throws RedisUnavailableException if there was no reply for five seconds; then it goes on in the background until the
     *     hold has expired, and {@link RedisLocks#await} waits for it
     */
    public void release() {
        long until;
        synchronized (this) {
            look();
            if (released) return;
            released = true;
            if (loss == null) end();
            until = ends;
        }
        if (loss != null) { // but the server may have it a little longer
            if (!locks.named.isHeld(lock)) inBackground();
            throw lostBefore();
        }
        Deadline deadline = Deadline.in(Attempt.TRY_FOR);
        Pauses retries = new Pauses();
        boolean repeated = false;
        boolean interrupted = false;
        try {
            while (true) {
                RuntimeException error;
                try {
                    CompletableFuture<Long> sent = locks.server.release(lock);
                    long count = Replies.awaitCalmly(sent, deadline);
                    locks.neighbours.wake(lock.keys.get(0));
                    if (unanswered) inBackground();
                    // If the reply to the first was lost, the second finds nothing more to release.
                    if (count == lock.keys.size() || repeated && count == 0 && System.nanoTime() - until < 0) return;
                    throw new LockLostException("the lock was lost: " + this + ": the server says that this owner did not hold it", null);
                } catch (TimeoutException e) {
                    error = new RedisUnavailableException("the server did not reply in time", e);
                } catch (LockLostException e) {
                    throw e;
                } catch (RuntimeException e) {
                    error = e;
                }
                repeated |= Replies.isUnanswered(error);
                if (!Replies.mayPass(error) || deadline.hasPassed()) {
                    inBackground();
                    if (!Replies.mayPass(error)) throw error;
                    throw new RedisUnavailableException("the release goes on in the background: " + this, error);
                }
                try {
                    TimeUnit.NANOSECONDS.sleep(deadline.atMost(retries.next(Attempt.LONGEST_RETRY_PAUSE)).toNanos());
                } catch (InterruptedException e) {
                    interrupted = true;
                }
            }
        } finally {
            if (interrupted) Thread.currentThread().interrupt();
        }
    }

    private void inBackground() {
        Duration lasts;
        synchronized (this) {
            lasts = Duration.ofNanos(Math.max(0, latest - System.nanoTime()));
        }
        Withdrawal.begin(locks, lock, null, unanswered, lasts);
    }

    /**
     * {@link #release()}, but if the server can't be reached it returns: the release goes on in the background.
     *
     * @throws LockLostException if the hold had ended before
     */
    @Override
    public void close() {
        try {
            release();
        } catch (RedisUnavailableException e) {
            // It goes on.
        }
    }

    /** The keys of the lock. */
    @Override
    public String toString() {
        return String.join(", ", lock.keys);
    }
}
