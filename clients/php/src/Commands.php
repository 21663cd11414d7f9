<?php

namespace RedisLockModule\Symfony;

/**
 * What can be done with a lock, on a server with the module or without. Times are in milliseconds.
 *
 * All of it but guard() may be sent again when it is not known whether it has run.
 *
 * @internal
 */
interface Commands
{
    /**
     * @param bool       $again Whether this owner may hold the lock already
     * @param float|null $wait  For how long to wait for the lock, if it can be waited for in the server
     *
     * @return int|null The fencing token, 0 if there is none, null if the lock was not acquired
     */
    public function acquire(string $name, string $owner, int $ttl, bool $again, ?float $wait = null): ?int;

    /**
     * @param bool $isExclusive Whether this owner holds the lock alone
     *
     * @return int|null As above; the number is below zero if the owner goes on holding the lock alone, which covers a share
     */
    public function acquireShared(string $name, string $owner, int $ttl, bool $isExclusive, ?float $wait = null): ?int;

    public function renew(string $name, string $owner, int $ttl): bool;

    /** Ends the hold and every wait of this owner. A limit in seconds for the reply is for those who give up. */
    public function release(string $name, string $owner, ?float $timeout = null): bool;

    public function holds(string $name, string $owner): bool;

    /** Runs a command in the instant in which this owner holds the lock. Throws a ServerError with NOTOWNER else. */
    public function guard(string $name, string $owner, array $command): mixed;
}
