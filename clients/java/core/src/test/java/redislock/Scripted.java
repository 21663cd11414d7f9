package redislock;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** Replies to each command by its name, and writes down what was sent. */
final class Scripted implements Redis {
    static final Object SILENCE = new Object();

    private final Map<String, Deque<Object>> replies = new HashMap<>();
    private final List<String> sent = new ArrayList<>();
    final List<String> pipelines = new ArrayList<>(); // the first words of each
    final List<Long> times = new ArrayList<>(); // at which each came, by System.nanoTime
    private int longestPipeline;

    /** The replies to a command. The last one stays. */
    synchronized Scripted reply(String command, Object... replies) {
        this.replies.put(command, new ArrayDeque<>(List.of(replies)));
        return this;
    }

    @Override
    public synchronized CompletableFuture<Object> send(Duration timeout, Object... words) {
        times.add(System.nanoTime());
        sent.add(Stream.of(words).map(Object::toString).collect(Collectors.joining(" ")));
        Deque<Object> all = replies.get(words[0].toString());
        if (all == null) {
            return CompletableFuture.failedFuture(
                    RedisErrorException.of("ERR unknown command '" + words[0] + "', with args beginning with: "));
        }
        Object reply = all.size() > 1 ? all.remove() : all.element();
        if (reply == SILENCE) {
            return new CompletableFuture<>().orTimeout(timeout.toMillis(), TimeUnit.MILLISECONDS);
        }
        return reply instanceof Throwable error ? CompletableFuture.failedFuture(error) : CompletableFuture.completedFuture(reply);
    }

    /** Sends pipelines of so many commands. */
    Scripted pipelining(int most) {
        longestPipeline = most;
        return this;
    }

    @Override
    public Pipeline pipeline() {
        return longestPipeline == 0 ? null : this::sendAll;
    }

    private synchronized CompletableFuture<List<Object>> sendAll(Duration timeout, Object[]... commands) {
        if (commands.length > longestPipeline) return null;
        pipelines.add(Stream.of(commands).map(words -> words[0].toString()).collect(Collectors.joining(" ")));
        List<Object> replies = new ArrayList<>();
        for (Object[] words : commands) replies.add(send(timeout, words).exceptionally(error -> error).join());
        return CompletableFuture.completedFuture(replies);
    }

    synchronized List<String> sent() {
        return List.copyOf(sent);
    }

    synchronized int count(String word) {
        return (int) sent.stream().filter(words -> words.contains(word)).count();
    }

    @Override
    public synchronized String toString() {
        return sent.toString();
    }
}
