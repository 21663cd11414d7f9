package redislock.lettuce;

import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.CommandOutput;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;

/** A reply of any kind, as {@link redislock.Redis} has it. A map is a list of its keys and values. */
final class ReplyOutput extends CommandOutput<String, String, Object> {
    private final Deque<List<Object>> open = new ArrayDeque<>(); // arrays that are not complete, the innermost first

    ReplyOutput() {
        super(StringCodec.UTF8, null);
    }

    private void add(Object value) {
        if (open.isEmpty()) {
            output = value;
        } else {
            open.element().add(value);
        }
    }

    @Override
    public void set(ByteBuffer bytes) {
        add(bytes == null ? null : codec.decodeValue(bytes));
    }

    @Override
    public void setSingle(ByteBuffer bytes) {
        set(bytes);
    }

    @Override
    public void setBigNumber(ByteBuffer bytes) {
        set(bytes);
    }

    @Override
    public void set(long number) {
        add(number);
    }

    @Override
    public void set(double number) {
        add(number);
    }

    @Override
    public void set(boolean value) {
        add(value);
    }

    @Override
    public void multi(int count) {
        List<Object> array = new ArrayList<>();
        add(count < 0 ? null : array);
        open.push(array);
    }

    @Override
    public void complete(int depth) {
        if (depth > 0 && depth < open.size()) open.pop();
    }
}
