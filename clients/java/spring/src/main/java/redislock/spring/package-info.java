/** Locks of Spring Integration by {@code redislock}. */
package redislock.spring;
