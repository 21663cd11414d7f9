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
        if (settings.group != null) words.add("FAIR");
        if (settings.per != null) words.addAll(List.of("PER", settings.per.toString()));
        addReplicas(words);
        if (settings.maxQueue != null && wait.length > 0) words.addAll(List.of("MAXQUEUE", settings.maxQueue.toString()));
        return command("ACQUIRE", words.toArray(String[]::new));
    }

    Object[] renewal(Duration ttl) {
        List<String> words = new ArrayList<>(List.of(milliseconds(ttl)));
        addReplicas(words);
        return command("RENEW", words.toArray(String[]::new));
    }

    private void addReplicas(List<String> words) {
        if (settings.replicas != null) words.addAll(List.of("REPLICAS", settings.replicas.toString()));
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

    /** What of this lock needs version 2.0 of the module, or null. */
    String needsVersion2() {
        if (settings.group != null) return "fair";
        if (settings.replicas != null) return "replicas";
        return settings.maxQueue != null ? "maxQueue" : null;
    }

    /** What options can't be together, once all are known. */
    void check() {
        if (settings.group != null && settings.limit == null) throw new IllegalArgumentException("fair without limit");
        if (settings.group != null && keys.size() > 1) throw new IllegalArgumentException("fair with several keys");
        if (settings.per != null && settings.group == null) throw new IllegalArgumentException("per without fair");
        Settings.checkBytes("an owner", owner, Settings.LONGEST_OWNER);
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
