/** Locks of ShedLock by {@code redislock}. */
package redislock.shedlock;
