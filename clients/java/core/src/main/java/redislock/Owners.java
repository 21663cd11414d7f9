package redislock;

import java.io.IOException;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.UUID;

/** Owners are {@code host:pid:uuid}, so that the server shows where a hold belongs. */
final class Owners {
    private static final String HOST_AND_PID = host() + ":" + ProcessHandle.current().pid();

    private Owners() {}

    static String next(String prefix) {
        return (prefix == null ? HOST_AND_PID : prefix) + ":" + UUID.randomUUID();
    }

    private static String host() {
        try {
            return Files.readString(Path.of("/proc/sys/kernel/hostname")).strip();
        } catch (IOException noLinux) {
            try {
                return InetAddress.getLocalHost().getHostName(); // may ask the network
            } catch (UnknownHostException e) {
                return "localhost";
            }
        }
    }
}
