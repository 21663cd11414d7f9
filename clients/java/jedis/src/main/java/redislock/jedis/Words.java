package redislock.jedis;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import redis.clients.jedis.util.KeyValue;

/** Words as bytes, and replies as {@link redislock.Redis} has them. */
final class Words {
    private Words() {}

    static byte[] bytes(Object word) {
        if (word instanceof byte[] bytes) return bytes;
        if (word instanceof String || word instanceof Number) return word.toString().getBytes(StandardCharsets.UTF_8);
        throw new IllegalArgumentException("a word must be a string, bytes or a number, not " + word);
    }

    static Object decoded(Object reply) {
        if (reply instanceof byte[] bytes) return new String(bytes, StandardCharsets.UTF_8);
        if (!(reply instanceof List<?> list)) return reply;
        List<Object> decoded = new ArrayList<>(list.size());
        for (Object one : list) {
            if (one instanceof KeyValue<?, ?> pair) { // of a map
                decoded.add(decoded(pair.getKey()));
                decoded.add(decoded(pair.getValue()));
            } else {
                decoded.add(decoded(one));
            }
        }
        return decoded;
    }
}
