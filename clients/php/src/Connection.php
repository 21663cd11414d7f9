<?php

namespace RedisLockModule\Symfony;

/**
 * What the store needs of a client library. Every command concerns one lock, whose name leads to its node in a cluster.
 *
 * @internal
 */
interface Connection
{
    /** How many seconds the reply to a command that does not wait may take. Then it is sent again. */
    public const REPLY = 2.0;

    /** The library's own client: what is found out about its server is remembered for it. */
    public function client(): object;

    /** The key of a lock: its name with the client's prefix, which raw commands leave out. */
    public function key(string $name): string;

    /** For how many seconds a command may wait in the server; 0 where the time limit for its reply can't be set. */
    public function longestWait(): float;

    /**
     * Sends a command and returns its reply, nil as null.
     *
     * @param float|null $timeout How many seconds the reply may take, for commands that wait
     * @param bool       $once    Is not sent again by the library, as Predis does with Sentinel and in a cluster, and the
     *                            reply may take as long as the client allows
     *
     * @throws ServerError    The server has refused it
     * @throws ConnectionLost It is not known whether it has run
     */
    public function send(string $name, array $words, ?float $timeout = null, bool $once = false): mixed;

    /**
     * Sends commands in one pipeline over one connection, and returns their replies; null if the library can't.
     *
     * @throws ServerError    The server has refused one of them
     * @throws ConnectionLost It is not known which of them have run
     */
    public function sendTogether(string $name, array $commands): ?array;
}
