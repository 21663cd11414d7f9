package redislock;

/**
 * On a server without the module a lock is the same key with the same value and expiry, so that clients with and without
 * it exclude each other, and a hold outlasts that the module is loaded or unloaded.
 */
final class Plain {
    private Plain() {}

    // Another type than a string is no lock of this owner's.
    private static final String OWNER = """
            local owner = redis.pcall('get', KEYS[1])
            if type(owner) == 'table' and not string.find(owner.err, 'WRONGTYPE', 1, true) then return owner end
            """;

    /**
     * Like LOCK.ACQUIRE, a repeated request is granted, and never shortens a hold. SET NX alone would be refused, and a
     * client may have sent it twice by itself. A sorted set is a lock that others share, by the module. A grant always
     * writes, so that WAIT has something to wait for.
     */
    static final String ACQUIRE = """
            if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
            """ + OWNER + """
            if type(owner) == 'table' and redis.call('type', KEYS[1]).ok ~= 'zset' then return owner end
            if owner ~= ARGV[1] then return 0 end
            return redis.call('pexpire', KEYS[1], math.max(redis.call('pttl', KEYS[1]), tonumber(ARGV[2])))
            """;

    static final String RENEW = OWNER + """
            if owner ~= ARGV[1] then return 0 end
            return redis.call('pexpire', KEYS[1], ARGV[2])
            """;

    static final String RELEASE = OWNER + """
            if owner ~= ARGV[1] then return 0 end
            return redis.call('del', KEYS[1])
            """;

    static final String GUARD = OWNER + """
            if owner ~= ARGV[1] then
            return redis.error_reply('NOTOWNER this owner does not hold the lock') end
            return redis.pcall(unpack(ARGV, 2))
            """;
}
