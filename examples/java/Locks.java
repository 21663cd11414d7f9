// Locks with the JDK alone: what the server replies, and with which errors. docs/libraries/README.md shows what it prints.
//
//     java examples/java/Locks.java        # JDK 17; PORT says where a server with the module is (`make run` starts one)
import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.net.Socket;
import java.util.Arrays;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;

public class Locks {
    /** One connection, for one thread: while it waits for a lock it can do nothing else. */
    static class Redis implements AutoCloseable {
        private final Socket socket;
        private final DataInputStream in;

        Redis(int port) throws IOException {
            socket = new Socket("127.0.0.1", port);
            socket.setSoTimeout(15_000); // longer than the longest BLOCK
            in = new DataInputStream(socket.getInputStream());
        }

        Object ask(Object... words) throws IOException {
            var request = new ByteArrayOutputStream();
            request.writeBytes(("*" + words.length + "\r\n").getBytes(UTF_8));
            for (Object word : words) {
                byte[] bytes = word.toString().getBytes(UTF_8);
                request.writeBytes(("$" + bytes.length + "\r\n").getBytes(UTF_8));
                request.writeBytes(bytes);
                request.writeBytes("\r\n".getBytes(UTF_8));
            }
            socket.getOutputStream().write(request.toByteArray());
            return reply();
        }

        private Object reply() throws IOException {
            String line = line(), rest = line.substring(1);
            switch (line.charAt(0)) {
                case '+': return rest;
                case ':': return Long.parseLong(rest); // numbers are below 2^53: a long, no int
                case '-': throw new RedisError(rest);
                case '$': return rest.equals("-1") ? null : text(Integer.parseInt(rest));
                case '*':
                    var all = new Object[Math.max(0, Integer.parseInt(rest))];
                    for (int i = 0; i < all.length; i++) all[i] = reply();
                    return rest.equals("-1") ? null : all;
                default: throw new IOException("no RESP2: " + line);
            }
        }

        private String line() throws IOException {
            var line = new ByteArrayOutputStream();
            for (int next = in.read(); next != '\r'; next = in.read()) {
                if (next < 0) throw new EOFException();
                line.write(next);
            }
            in.skipNBytes(1); // the line feed
            return line.toString(UTF_8);
        }

        private String text(int length) throws IOException {
            String text = new String(in.readNBytes(length), UTF_8);
            in.skipNBytes(2);
            return text;
        }

        @Override
        public void close() throws IOException {
            socket.close();
        }
    }

    /** What the server refuses. The first word says why: NOTOWNER, DEADLOCK, WRONGTYPE ... */
    static class RedisError extends IOException {
        RedisError(String words) {
            super(words);
        }
    }

    interface Work {
        void run(String owner, long fence) throws IOException;
    }

    /**
     * Waits for the lock for ten seconds, and releases it whatever happens. False: others have it. If the connection
     * breaks or a read times out, the RELEASE fails too: close the connection, because a late reply would be taken for the
     * next one, and send the RELEASE over another.
     */
    static boolean withLock(Redis redis, String key, long ttl, Work work) throws IOException {
        String owner = UUID.randomUUID().toString(); // a fresh one for each piece of work
        Object fence = null;
        boolean held;
        try {
            fence = redis.ask("LOCK.ACQUIRE", key, owner, ttl, "BLOCK", 10_000);
            if (fence != null) work.run(owner, (Long) fence);
        } finally {
            held = redis.ask("LOCK.RELEASE", key, owner).equals(1L);
        }
        if (fence != null && !held) throw new IllegalStateException("the lock was lost before the work was done");
        return fence != null;
    }

    static void say(Redis redis, Object... words) throws IOException {
        System.out.println("sent   " + String.join(" ", Arrays.stream(words).map(Object::toString).toList()));
        try {
            Object reply = redis.ask(words);
            System.out.println("reply  " + (reply == null ? "null" : reply + ", a " + reply.getClass().getSimpleName()));
        } catch (RedisError error) {
            System.out.println("error  " + error.getMessage());
        }
    }

    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(System.getenv().getOrDefault("PORT", "6379"));
        try (var ann = new Redis(port); var bob = new Redis(port)) {
            ann.ask("DEL", "market", "price", "list");
            say(ann, "LOCK.ACQUIRE", "market", "ann", 10_000);
            say(bob, "LOCK.ACQUIRE", "market", "bob", 10_000);
            say(ann, "LOCK.GUARD", "market", "ann", "SET", "price", 5);

            var waits = CompletableFuture.supplyAsync(() -> {
                try {
                    return bob.ask("LOCK.ACQUIRE", "market", "bob", 10_000, "BLOCK", 10_000);
                } catch (IOException error) {
                    throw new java.io.UncheckedIOException(error);
                }
            });
            while (!String.valueOf(ann.ask("INFO", "lock")).contains("lock_waiters:1")) Thread.sleep(5);
            say(ann, "LOCK.RELEASE", "market", "ann");
            System.out.println("bob, who has waited, is granted it: " + waits.get());

            say(ann, "LOCK.RENEW", "market", "ann", 10_000);
            say(ann, "LOCK.RELEASE", "market", "ann");
            say(ann, "LOCK.GUARD", "market", "ann", "SET", "price", 4);
            say(ann, "GET", "price");
            say(bob, "LOCK.ACQUIRE", "market", "bob", -1);
            ann.ask("LPUSH", "list", "data");
            say(bob, "LOCK.ACQUIRE", "list", "bob", 10_000);
            say(bob, "LOCK.RELEASE", "market", "bob");

            System.out.println("with a lock: " + withLock(ann, "market", 10_000,
                    (owner, fence) -> ann.ask("LOCK.GUARD", "market", owner, "SET", "price", 6)));
            try {
                withLock(ann, "market", 50, (owner, fence) -> ann.ask("BLPOP", "nothing", 0.2));
            } catch (IllegalStateException lost) {
                System.out.println("work for longer than the ttl: " + lost.getMessage());
            }
        }
    }
}
