/** Lets Lettuce send the commands of {@code redislock}. */
package redislock.lettuce;
