package redislock.tests;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** A connection beside those that are tested. */
final class Admin implements AutoCloseable {
    static final class Refused extends RuntimeException {
        private static final long serialVersionUID = 1;

        Refused(String message) {
            super(message);
        }
    }

    private final Socket socket;
    private final InputStream in;

    Admin(int port) throws IOException {
        socket = new Socket("127.0.0.1", port);
        socket.setSoTimeout(60_000);
        in = new BufferedInputStream(socket.getInputStream());
    }

    synchronized Object ask(Object... words) {
        try {
            ByteArrayOutputStream request = new ByteArrayOutputStream();
            request.writeBytes(("*" + words.length + "\r\n").getBytes(StandardCharsets.UTF_8));
            for (Object word : words) {
                byte[] bytes = word.toString().getBytes(StandardCharsets.UTF_8);
                request.writeBytes(("$" + bytes.length + "\r\n").getBytes(StandardCharsets.UTF_8));
                request.writeBytes(bytes);
                request.writeBytes("\r\n".getBytes(StandardCharsets.UTF_8));
            }
            socket.getOutputStream().write(request.toByteArray());
            return reply();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private Object reply() throws IOException {
        String line = line();
        String rest = line.substring(1);
        switch (line.charAt(0)) {
            case '+':
                return rest;
            case ':':
                return Long.parseLong(rest);
            case '-':
                throw new Refused(rest);
            case '$':
                if (rest.equals("-1")) return null;
                byte[] bytes = in.readNBytes(Integer.parseInt(rest));
                in.readNBytes(2);
                return new String(bytes, StandardCharsets.UTF_8);
            case '*':
                if (rest.equals("-1")) return null;
                List<Object> all = new ArrayList<>();
                for (int i = Integer.parseInt(rest); i > 0; i--) all.add(reply());
                return all;
            default:
                throw new IOException("no RESP2: " + line);
        }
    }

    private String line() throws IOException {
        StringBuilder line = new StringBuilder();
        for (int next = in.read(); next != '\r'; next = in.read()) {
            if (next < 0) throw new IOException("the connection is closed");
            line.append((char) next);
        }
        in.read();
        return line.toString();
    }

    @Override
    public void close() {
        try {
            socket.close();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
