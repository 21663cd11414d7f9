/**
 * Locks by the native commands of the redis-lock module for Redis and Valkey. Waiters are in a queue in the server and
 * get the lock in order, and each grant has a fencing token. On a server without the module the same locks are taken by
 * {@code SET NX}, with less.
 *
 * <pre>{@code
 * RedisLocks locks = new RedisLocks(JedisRedis.of(jedis.getPool()));   // once in a process
 * RedisLock market = locks.lock("market", Duration.ofSeconds(10));
 *
 * try (Hold hold = market.acquire()) {
 *     hold.guard("SET", "price", 5);
 * }
 * }</pre>
 *
 * The key in the server is the bare name. A lock is not re-entrant.
 */
package redislock;
