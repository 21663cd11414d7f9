/** Measures locks beside those that people use. */
package redislock.bench;
