package redislock;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * What a client remembers of owners that its user has chosen, since the server compares owners alone: it takes a later
 * grant, or a late release, to the same owner for that of an earlier one.
 */
final class NamedOwners {
    private final Map<List<String>, List<Hold>> holds = new HashMap<>();
    private final Map<List<String>, Integer> releasing = new HashMap<>(); // in the background

    private static boolean isNamed(OwnedLock lock) {
        return lock.settings.owner != null;
    }

    private static List<String> name(OwnedLock lock) {
        List<String> name = new ArrayList<>(lock.keys);
        name.sort(null);
        name.add(lock.owner);
        return name;
    }

    /** Ends the holds of this owner that have a smaller token. Without the module there are none to compare. */
    void begins(Hold hold) {
        if (!isNamed(hold.lock)) return;
        List<Hold> earlier;
        synchronized (this) {
            List<Hold> all = holds.computeIfAbsent(name(hold.lock), any -> new ArrayList<>());
            earlier = List.copyOf(all);
            all.add(hold);
        }
        for (Hold other : earlier) {
            if (other.fence() > 0 && other.fence() < hold.fence()) other.isGrantedAnew();
        }
    }

    synchronized void ends(Hold hold) {
        if (!isNamed(hold.lock)) return;
        holds.computeIfPresent(name(hold.lock), (name, all) -> {
            all.remove(hold);
            return all.isEmpty() ? null : all;
        });
    }

    /** Whether this owner holds the lock by another hold than one that has ended. */
    synchronized boolean isHeld(OwnedLock lock) {
        return isNamed(lock) && holds.containsKey(name(lock));
    }

    synchronized void beginsRelease(OwnedLock lock) {
        if (isNamed(lock)) releasing.merge(name(lock), 1, Integer::sum);
    }

    synchronized void endsRelease(OwnedLock lock) {
        if (isNamed(lock)) releasing.computeIfPresent(name(lock), (name, count) -> count == 1 ? null : count - 1);
    }

    /** Whether a release in the background might end what this owner asks for. */
    synchronized boolean isSpent(OwnedLock lock) {
        return isNamed(lock) && releasing.containsKey(name(lock));
    }
}
