package redislock;

import java.time.Duration;
import java.util.Locale;

/** What is known of the server's module, by what the server refused. Hosts may forbid MODULE LIST. */
final class ModuleState {
    private static final System.Logger LOGGER = System.getLogger("redislock");

    /** For so long a server is taken to be without the module. */
    private static final Duration ASK_AGAIN = Duration.ofSeconds(5);

    private Deadline askAgain; // null while it is not missing
    private boolean logged;

    /** Whether to try the module's commands. One request in five seconds finds out for the others. */
    synchronized boolean mayBeLoaded() {
        if (askAgain == null) return true;
        if (!askAgain.hasPassed()) return false;
        askAgain = Deadline.in(ASK_AGAIN);
        return true;
    }

    /** The same without finding out. */
    synchronized boolean isMissing() {
        return askAgain != null && !askAgain.hasPassed();
    }

    synchronized void isLoaded() {
        askAgain = null;
    }

    synchronized void isNotLoaded() {
        askAgain = Deadline.in(ASK_AGAIN);
        if (logged) return;
        logged = true;
        LOGGER.log(System.Logger.Level.WARNING, "The server has not loaded the redis-lock module. Locks are taken by "
                + "SET NX: waiters poll, in no order, and there is no fencing token.");
    }

    /** Whether the server does not know our command. (Another that it does not know may have been run by LOCK.GUARD.) */
    static boolean lacksModule(RuntimeException error) {
        if (!(error instanceof RedisErrorException)) return false;
        String message = error.getMessage();
        for (String words : new String[] {"ERR unknown command", "ERR Command is not available:"}) { // as Upstash says it
            if (message.startsWith(words)) {
                String name = message.substring(words.length()).replaceAll("^[ '`\",]+", "");
                return name.toUpperCase(Locale.ROOT).startsWith("LOCK.");
            }
        }
        return false;
    }
}
