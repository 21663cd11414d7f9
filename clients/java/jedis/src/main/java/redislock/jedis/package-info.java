/** Lets Jedis send the commands of {@code redislock}. */
package redislock.jedis;
