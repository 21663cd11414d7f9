package redislock.bench;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.IntFunction;

/** One way to take a lock, and what was measured of it. */
final class Library {
    /** Takes a lock, and returns what releases it. */
    interface Locker {
        Runnable acquire(String key) throws Exception;
    }

    final String name;
    private final IntFunction<Locker> lockers;
    private final List<Locker> all = new ArrayList<>();
    private final Map<String, List<Double>> figures = new TreeMap<>();

    /** {@code lockers} makes the locker of each contender. */
    Library(String name, IntFunction<Locker> lockers) {
        this.name = name;
        this.lockers = lockers;
    }

    Locker locker(int contender) {
        while (all.size() <= contender) all.add(lockers.apply(all.size()));
        return all.get(contender);
    }

    void add(String figure, double value) {
        figures.computeIfAbsent(figure, any -> new ArrayList<>()).add(value);
    }

    double median(String figure) {
        List<Double> values = new ArrayList<>(figures.get(figure));
        values.sort(null);
        return values.get(values.size() / 2);
    }
}
