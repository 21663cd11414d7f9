package redislock.lettuce;

import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CompletionException;
import redislock.Redis;
import redislock.RedisErrorException;
import redislock.RedisUnavailableException;

/** Words as Lettuce takes them, and its exceptions as {@link Redis} has them. */
final class Words {
    private Words() {}

    record Name(String word) implements ProtocolKeyword {
        @Override
        public byte[] getBytes() {
            return word.getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public String toString() {
            return word;
        }
    }

    static CommandArgs<String, String> args(Object[] words) {
        CommandArgs<String, String> args = new CommandArgs<>(StringCodec.UTF8);
        int key = Redis.keyAt(words);
        for (int i = 1; i < words.length; i++) {
            if (i == key) {
                args.addKey(words[i].toString());
            } else if (words[i] instanceof byte[] bytes) {
                args.add(bytes);
            } else if (words[i] instanceof String || words[i] instanceof Number) {
                args.add(words[i].toString());
            } else {
                throw new IllegalArgumentException("a word must be a string, bytes or a number, not " + words[i]);
            }
        }
        return args;
    }

    static RuntimeException failure(Throwable error) {
        while (error instanceof CompletionException && error.getCause() != null) error = error.getCause();
        if (error instanceof RedisCommandExecutionException) return RedisErrorException.of(error.getMessage());
        if (error instanceof IllegalArgumentException wrong) return wrong;
        return new RedisUnavailableException(error.toString(), error);
    }
}
