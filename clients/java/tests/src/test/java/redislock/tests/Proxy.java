package redislock.tests;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;

/** Stands between a client and its server, and breaks what passes. */
final class Proxy implements AutoCloseable {
    private interface Fault {
        /** Whether the connection goes on. */
        boolean happen(byte[] request, Socket client, Socket server) throws IOException, InterruptedException;
    }

    private record Due(String word, Fault fault) {}

    final int port;
    private final int server;
    private final Set<Socket> open = new HashSet<>();
    private final Set<Socket> vanished = new HashSet<>();
    private final List<Due> faults = new ArrayList<>();
    private ServerSocket listener;

    Proxy(int server) {
        this.server = server;
        port = listen(0);
    }

    /** Accepts connections again. */
    void listen() {
        listen(port);
    }

    private synchronized int listen(int port) {
        long began = System.nanoTime();
        while (true) {
            try {
                listener = new ServerSocket();
                listener.setReuseAddress(true);
                listener.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
                break;
            } catch (IOException e) { // connections of before are not over
                if (System.nanoTime() - began > TimeUnit.SECONDS.toNanos(20)) throw new AssertionError(e);
            }
        }
        start(() -> accept(listener));
        return listener.getLocalPort();
    }

    private static void start(Runnable job) {
        Thread thread = new Thread(job, "proxy");
        thread.setDaemon(true);
        thread.start();
    }

    private void accept(ServerSocket listener) {
        try {
            while (true) {
                Socket client = listener.accept();
                try {
                    Socket target = new Socket(InetAddress.getLoopbackAddress(), server);
                    client.setTcpNoDelay(true);
                    target.setTcpNoDelay(true);
                    synchronized (this) {
                        open.add(client);
                        open.add(target);
                        if (listener.isClosed()) cut();
                    }
                    start(() -> requests(client, target));
                    start(() -> replies(client, target));
                } catch (IOException e) {
                    client.close();
                }
            }
        } catch (IOException e) {
            // It was closed.
        }
    }

    private void requests(Socket client, Socket target) {
        byte[] buffer = new byte[65536];
        try {
            for (int count = client.getInputStream().read(buffer); count > 0; count = client.getInputStream().read(buffer)) {
                byte[] request = Arrays.copyOf(buffer, count);
                if (hasVanished(client)) continue;
                Fault fault = fault(new String(request, StandardCharsets.ISO_8859_1));
                if (fault == null) {
                    target.getOutputStream().write(request);
                } else if (!fault.happen(request, client, target)) {
                    break;
                }
            }
        } catch (IOException | InterruptedException e) {
            // It broke.
        }
        drop(client, target);
    }

    private void replies(Socket client, Socket target) {
        try {
            target.getInputStream().transferTo(client.getOutputStream());
        } catch (IOException e) {
            // It broke.
        }
        drop(client, target);
    }

    private synchronized Fault fault(String request) {
        for (Due due : faults) {
            if (request.contains(due.word)) {
                faults.remove(due);
                return due.fault;
            }
        }
        return null;
    }

    private synchronized void drop(Socket... sockets) {
        for (Socket socket : sockets) {
            open.remove(socket);
            try {
                socket.close();
            } catch (IOException e) {
                throw new AssertionError(e);
            }
        }
    }

    private synchronized void add(String word, Fault fault) {
        faults.add(new Due(word, fault));
    }

    /** Loses the next request with this word, and its connection. */
    void cutBefore(String word) {
        add(word, (request, client, target) -> false);
    }

    /** Lets the server have the request, and loses the reply with the connection. */
    void cutAfter(String word) {
        add(word, (request, client, target) -> {
            drop(client);
            target.getOutputStream().write(request);
            TimeUnit.MILLISECONDS.sleep(50); // the server does it, and replies to a connection that is still there
            return false;
        });
    }

    /** Keeps the request back, and sends it even if the client has gone meanwhile. */
    void stall(String word, long milliseconds) {
        add(word, (request, client, target) -> {
            TimeUnit.MILLISECONDS.sleep(milliseconds);
            target.getOutputStream().write(request);
            return true;
        });
    }

    /** From now on nothing gets through what is open, as if the host had vanished. New connections work. */
    synchronized void vanish() {
        vanished.addAll(open);
    }

    private synchronized boolean hasVanished(Socket socket) {
        return vanished.contains(socket);
    }

    private synchronized void cut() {
        drop(open.toArray(Socket[]::new));
    }

    /** Breaks all connections, and refuses new ones. */
    @Override
    public synchronized void close() {
        try {
            listener.close();
        } catch (IOException e) {
            throw new AssertionError(e);
        }
        cut();
    }
}
