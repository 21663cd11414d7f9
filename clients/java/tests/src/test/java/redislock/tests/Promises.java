package redislock.tests;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicInteger;
import redislock.Hold;
import redislock.LockLostException;
import redislock.ModuleMissingException;
import redislock.RedisErrorException;
import redislock.RedisLock;
import redislock.RedisLocks;

/** The program by which {@code tests/clients/promises} tests this package. Its lines are described in program.py there. */
final class Promises {
    private static final String END = ""; // after the last line

    private record Held(Hold hold, AtomicInteger losses) {}

    private final BlockingQueue<String> lines = new LinkedBlockingQueue<>();
    private final List<Held> holds = new ArrayList<>();
    private final Kind kind;
    private Kind.Connected connected;
    private RedisLocks locks;

    private Promises(Kind kind) {
        this.kind = kind;
    }

    public static void main(String[] args) throws InterruptedException {
        Promises program = new Promises(Kind.valueOf(args[0]));
        program.lines.add("connect " + args[1]);
        program.run();
        System.exit(0); // Lettuce's threads go on
    }

    private void run() throws InterruptedException {
        start(this::listen);
        for (String line = lines.take(); !line.equals(END); line = lines.take()) {
            if (line.equals("rest")) rest();
            else System.out.println(answer(line.split(" ")));
        }
    }

    private String connect(int port) {
        connected = kind.connect(port);
        locks = new RedisLocks(connected.redis());
        return "ready";
    }

    private void rest() {
        RedisLocks before = locks;
        Runnable close = connected.close();
        start(() -> { // while what is released in the background may need seconds
            before.close();
            close.run();
        });
    }

    private static void start(Runnable job) {
        Thread thread = new Thread(job);
        thread.setDaemon(true);
        thread.start();
    }

    private void listen() {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        try {
            for (String line = in.readLine(); line != null; line = in.readLine()) lines.add(line);
        } catch (IOException e) {
            // It is over.
        }
        lines.add(END);
    }

    private String answer(String[] words) {
        try {
            switch (words[0]) {
                case "connect":
                    return connect(Integer.parseInt(words[1]));
                case "acquire":
                    return acquire(words);
                default:
                    return about(holds.get(Integer.parseInt(words[1])), words);
            }
        } catch (InterruptedException e) {
            return "cancelled";
        } catch (IllegalArgumentException e) {
            return "invalid " + e.getMessage();
        } catch (ModuleMissingException e) {
            return "missing " + e.getMessage();
        } catch (LockLostException e) {
            return "lost";
        } catch (RedisErrorException e) {
            return "refused " + e.getMessage();
        } catch (RuntimeException e) {
            return "unknown " + String.valueOf(e.getMessage()).replace('\n', ' ');
        }
    }

    private String about(Held held, String[] words) {
        Hold hold = held.hold;
        switch (words[0]) {
            case "release":
                hold.release();
                return "ok";
            case "renew":
                hold.renew(milliseconds(words[2]));
                return "ok";
            case "held":
                return hold.isHeld() ? "yes" : "no";
            case "guard":
                return "reply " + hold.guard((Object[]) Arrays.copyOfRange(words, 2, words.length));
            case "losses":
                return held.losses.toString();
            default:
                return "cannot";
        }
    }

    private String acquire(String[] words) throws InterruptedException {
        RedisLock lock = locks.lockAll(List.of(words[1].split(",")), milliseconds(words[2]));
        String wait = null;
        boolean cancellable = false;
        for (String word : Arrays.asList(words).subList(3, words.length)) {
            String value = word.substring(word.indexOf('=') + 1);
            switch (word.split("=")[0]) {
                case "wait" -> wait = value;
                case "cancellable" -> cancellable = true;
                case "renew" -> lock = lock.renewed();
                case "owner" -> lock = lock.owner(value);
                case "prefix" -> lock = lock.ownerPrefix(value);
                case "shared" -> lock = lock.shared();
                case "limit" -> lock = lock.limit(Integer.parseInt(value));
                case "fair" -> lock = lock.fair(value);
                case "per" -> lock = lock.per(Integer.parseInt(value));
                case "replicas" -> lock = lock.replicas(Integer.parseInt(value));
                case "max-queue" -> lock = lock.maxQueue(Integer.parseInt(value));
                case "module" -> lock = lock.requireModule();
                default -> {
                    return "cannot";
                }
            }
        }
        if (cancellable) interruptAtTheNextLine(Thread.currentThread());
        Optional<Hold> hold = wait == null ? lock.tryAcquire()
                : wait.equals("forever") ? Optional.of(lock.acquire()) : lock.tryAcquire(milliseconds(wait));
        if (hold.isEmpty()) return "busy";
        AtomicInteger losses = new AtomicInteger();
        hold.get().onLost(loss -> losses.incrementAndGet());
        holds.add(new Held(hold.get(), losses));
        return "hold " + (holds.size() - 1) + " " + (hold.get().fence() == 0 ? "-" : hold.get().fence());
    }

    private void interruptAtTheNextLine(Thread waiter) {
        start(() -> {
            try {
                lines.take();
            } catch (InterruptedException e) {
                throw new AssertionError(e);
            }
            waiter.interrupt();
        });
    }

    private static Duration milliseconds(String text) {
        return Duration.ofMillis(Long.parseLong(text));
    }
}
