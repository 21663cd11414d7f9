package redislock;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/**
 * Releases in the background what an attempt or a hold has left in the server, until that is certain or has expired: so
 * long after the last request was answered or given up.
 */
final class Withdrawal {
    private static final Duration LONGEST_PAUSE = Duration.ofSeconds(2);

    /** So often it is released after a request without a reply, which may still be on its way. It takes some seconds. */
    private static final int OFTEN_ENOUGH = 8;

    private final RedisLocks locks;
    private final OwnedLock lock;
    private final CompletableFuture<Server.Reply> last; // request, or null
    private final Duration lasts;
    private final Pauses pauses = new Pauses(Duration.ofMillis(50));

    private boolean unanswered;
    private Deadline until;
    private int released;

    private Withdrawal(RedisLocks locks, OwnedLock lock, CompletableFuture<Server.Reply> last, boolean unanswered, Duration lasts) {
        this.locks = locks;
        this.lock = lock;
        this.last = last;
        this.unanswered = unanswered;
        this.lasts = lasts;
        until = Deadline.in(lasts);
    }

    static void begin(RedisLocks locks, OwnedLock lock, CompletableFuture<Server.Reply> last, boolean unanswered, Duration lasts) {
        locks.named.beginsRelease(lock);
        locks.background.beginsRelease();
        Withdrawal withdrawal = new Withdrawal(locks, lock, last, unanswered, lasts);
        locks.background.run(withdrawal::step);
    }

    private void step() {
        boolean over = last == null || last.isDone();
        if (!over) {
            until = Deadline.in(lasts);
        } else if (last != null && Replies.isUnanswered(Replies.errorOf(last))) {
            unanswered = true;
        }
        locks.server.release(lock).whenComplete((count, error) -> locks.background.run(() -> {
            if (isDone(error == null ? null : Replies.failure(error), over)) {
                locks.named.endsRelease(lock);
                locks.background.endsRelease();
            } else {
                goOn(over);
            }
        }));
    }

    private boolean isDone(RuntimeException error, boolean over) {
        if (error instanceof IllegalStateException) return true; // the client is closed
        if (error == null && over && (!unanswered || ++released >= OFTEN_ENOUGH)) return true;
        if (error == null && !over && !unanswered && last.isDone() && !last.isCompletedExceptionally() && last.join().leftNothing()) {
            return true; // the release has ended its wait
        }
        return over && until.hasPassed();
    }

    private void goOn(boolean over) {
        Duration pause = pauses.next(LONGEST_PAUSE);
        if (over) {
            locks.background.runIn(pause, this::step);
            return;
        }
        // When the request is answered it goes on at once.
        CompletableFuture<Object> answered = last.handle((reply, error) -> null);
        answered.completeOnTimeout(null, pause.toNanos(), TimeUnit.NANOSECONDS)
                .thenRun(() -> locks.background.run(this::step));
    }
}
