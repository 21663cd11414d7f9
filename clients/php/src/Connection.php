<?php

namespace RedisLockModule\Symfony;

/**
 * What the store needs of a client library. Every command concerns one lock, whose name leads to its node in a cluster.
 *
 * @internal
 */
interface Connection
{
    /** The library's own client: what is found out about its server is remembered for it. */
    public function client(): object;

    /** The key of a lock: its name with the client's prefix, which raw commands leave out. */
    public function key(string $name): string;

    /** Whether a command may wait in the server, because the time limit for its reply can be set. */
    public function canBlock(): bool;

    /**
     * Sends a command and returns its reply, nil as null.
     *
     * @param float|null $timeout How many seconds the reply may take; null is the client's own limit
     * @param bool       $once    Never sends it again by itself, as Predis does with Sentinel and in a cluster
     *
     * @throws ServerError    The server has refused it
     * @throws ConnectionLost Nobody knows whether it has run
     */
    public function send(string $name, array $words, ?float $timeout = null, bool $once = false): mixed;
}
