package redislock.tests;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

/** A server of a test's own. */
final class TestServer implements AutoCloseable {
    private static final Set<Integer> TAKEN = ConcurrentHashMap.newKeySet();

    final int port;
    private final List<String> options;
    private final Path folder;
    private Process process;
    private Admin admin;

    private TestServer(int port, List<String> options) throws IOException {
        this.port = port;
        this.options = options;
        folder = Files.createTempDirectory("redis-lock");
    }

    static String module() {
        String module = System.getenv("REDIS_LOCK_MODULE");
        if (module == null) throw new IllegalStateException("REDIS_LOCK_MODULE must name the module's file");
        return module;
    }

    static TestServer start(String... options) {
        try {
            for (int i = 0; i < 10; i++) { // the port may be taken meanwhile
                TestServer server = new TestServer(freePort(), List.of(options));
                if (server.run()) return server;
                server.close();
            }
        } catch (IOException e) {
            throw new AssertionError(e);
        }
        throw new AssertionError("the server does not start");
    }

    private static int freePort() {
        for (int port = 21_000 + (int) (ProcessHandle.current().pid() % 4000); port < 30_000; port++) {
            try (ServerSocket socket = new ServerSocket(port, 1, InetAddress.getLoopbackAddress())) {
                if (TAKEN.add(socket.getLocalPort())) return port;
            } catch (IOException e) {
                // The next one.
            }
        }
        throw new AssertionError("no port is free");
    }

    /** Whether it started. */
    boolean run() {
        String program = System.getenv().getOrDefault("REDIS_SERVER", "redis-server");
        List<String> command = new ArrayList<>(List.of(program, "--port", "" + port, "--bind", "127.0.0.1", "--dir",
                folder.toString(), "--save", "", "--enable-module-command", "yes"));
        command.addAll(options);
        try {
            process = new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(log()).start();
            for (int i = 0; i < 2000 && process.isAlive(); i++) {
                try {
                    admin = new Admin(port);
                    return admin.ask("INFO", "server").toString().contains("process_id:" + process.pid() + "\r\n");
                } catch (IOException | UncheckedIOException | Admin.Refused e) { // the cluster's port may be taken, too
                    TimeUnit.MILLISECONDS.sleep(10);
                }
            }
            return false;
        } catch (IOException | InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    private File log() {
        return folder.resolve("log").toFile();
    }

    Object ask(Object... words) {
        try {
            return admin.ask(words);
        } catch (UncheckedIOException e) {
            try {
                throw new AssertionError(Files.readString(log().toPath()), e);
            } catch (IOException unread) {
                throw e;
            }
        }
    }

    /** What LOCK.INFO says in a field; 0 of a lock that has neither holder nor waiter. */
    long info(String key, String field) {
        if (!(ask("LOCK.INFO", key) instanceof List<?> fields)) return 0;
        return (Long) fields.get(fields.indexOf(field) + 1);
    }

    boolean isFree(String key) {
        return info(key, "count") == 0 && info(key, "queue") == 0;
    }

    /** How often a command was called. */
    int calls(String command) {
        String stats = ask("INFO", "commandstats").toString();
        int at = stats.indexOf("cmdstat_" + command + ":calls=");
        if (at < 0) return 0;
        String rest = stats.substring(stats.indexOf('=', at) + 1);
        return Integer.parseInt(rest.substring(0, rest.indexOf(',')));
    }

    void stop() {
        signal(process.pid(), "STOP");
    }

    void goOn() {
        signal(process.pid(), "CONT");
    }

    static void signal(long pid, String name) {
        try {
            new ProcessBuilder("kill", "-" + name, "" + pid).start().waitFor();
        } catch (IOException | InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    void kill() {
        if (admin != null) admin.close();
        process.destroyForcibly();
        try {
            process.waitFor();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public void close() {
        kill();
        try (var files = Files.walk(folder)) {
            files.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }
}
