package redislock;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** A lock, or several that are held together, as one owner asks for it. */
final class OwnedLock {
    final List<String> keys;
    final String owner;
    final Duration ttl;
    final Settings settings;

    OwnedLock(List<String> keys, String owner, Duration ttl, Settings settings) {
        this.keys = keys;
        this.owner = owner;
        this.ttl = ttl;
        this.settings = settings;
    }

    /** A command of the module, with all keys: LOCK.RELEASE for one, LOCK.MRELEASE for several. */
    Object[] command(String verb, String... rest) {
        List<Object> words = new ArrayList<>(keys.size() + rest.length + 3);
        if (keys.size() == 1) {
            words.add("LOCK." + verb);
        } else {
            words.add("LOCK.M" + verb);
            words.add(Integer.toString(keys.size()));
        }
        words.addAll(keys);
        words.add(owner);
        words.addAll(List.of(rest));
        return words.toArray();
    }

    /** Asks for the lock once, or with BLOCK or QUEUE and their time waits for it. */
    Object[] acquire(String... wait) {
        List<String> words = new ArrayList<>();
        words.add(milliseconds(ttl));
        words.addAll(List.of(wait));
        if (settings.shared) words.add("SHARED");
        if (settings.limit != null) words.addAll(List.of("LIMIT", settings.limit.toString()));
        if (settings.maxQueue != null && wait.length > 0) words.addAll(List.of("MAXQUEUE", settings.maxQueue.toString()));
        return command("ACQUIRE", words.toArray(String[]::new));
    }

    Object[] guard(Object[] command) {
        return words(List.of("LOCK.GUARD", keys.get(0), owner), command);
    }

    /** A script of {@link Plain}. */
    Object[] eval(String script, Object... args) {
        return words(List.of("EVAL", script, "1", keys.get(0), owner), args);
    }

    private static Object[] words(List<?> first, Object[] rest) {
        List<Object> words = new ArrayList<>(first);
        words.addAll(List.of(rest));
        return words.toArray();
    }

    /** What this lock can't do without the module, or null. */
    String needsModule() {
        if (settings.requireModule) return "requireModule";
        if (keys.size() > 1) return "a lock of several keys";
        if (settings.shared) return "shared";
        if (settings.limit != null) return "limit";
        return settings.maxQueue != null ? "maxQueue" : null;
    }

    /** Rounded up, so that nothing is shorter than it was asked for. */
    static String milliseconds(Duration time) {
        return Long.toString(time.plusNanos(999_999).toMillis());
    }

    static void checkTtl(Duration ttl) {
        if (ttl.compareTo(Duration.ofMillis(1)) < 0 || ttl.compareTo(Deadline.LONGEST) > 0) {
            throw new IllegalArgumentException("a ttl of " + ttl + "; it must be from a millisecond to a hundred years");
        }
    }
}
