package redislock

// On a server without the module a lock is the same key with the same value and expiry, so that clients with and without
// it exclude each other, and a hold outlasts that the module is loaded or unloaded.

const (
	// Like LOCK.ACQUIRE, a repeated request is granted, and never shortens a hold. SET NX alone would be refused, and the
	// client may have sent it twice by itself.
	plainAcquire = `if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then redis.call('pexpire', KEYS[1], ARGV[2]) end
return 1`
	plainRenew = `if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('pexpire', KEYS[1], ARGV[2])`
	plainRelease = `if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('del', KEYS[1])`
	plainGuard = `if redis.call('get', KEYS[1]) ~= ARGV[1] then
return redis.error_reply('NOTOWNER this owner does not hold the lock') end
return redis.pcall(unpack(ARGV, 2))`
)

func (l *lock) eval(script string, args ...any) []any {
	return append([]any{"EVAL", script, "1", l.keys[0], l.owner}, args...)
}
