package redislock.tests;

import java.time.Duration;
import redislock.Hold;
import redislock.LockLostException;
import redislock.RedisLocks;

/** The process that is paused by a test. */
final class Sleeper {
    private Sleeper() {}

    public static void main(String[] args) throws Exception {
        RedisLocks locks = new RedisLocks(Kind.JEDIS.connect(Integer.parseInt(args[0])).redis());
        Hold hold = locks.lock("market", Duration.ofSeconds(1)).acquire();
        System.out.println("held");
        if (System.in.read() < 0) return;
        boolean held = hold.isHeld();
        Duration remaining = hold.remaining();
        try {
            hold.ensureHeld();
            System.out.println("held");
        } catch (LockLostException e) {
            System.out.println(held + " " + remaining + " lost");
        }
        System.exit(0);
    }
}
