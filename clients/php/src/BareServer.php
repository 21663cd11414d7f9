<?php

namespace RedisLockModule\Symfony;

/**
 * A server without the module: the same key with the same value and the same end, by SET NX and what goes with it.
 *
 * Where the server has no command that compares, a script does it. A transaction would be left half-way on a persistent
 * connection when PHP ends the request in the middle of it, and the next request would find itself inside of it.
 *
 * @internal
 */
final class BareServer implements Commands
{
    private const RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
    private const RENEW = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0";
    private const HOLDS = "return redis.call('GET', KEYS[1]) == ARGV[1]";
    /** How many milliseconds replicas have to acknowledge. With the module, lock.replica-timeout says so. */
    private const REPLICAS_WAIT = 1000;

    private const GUARD = <<<'LUA'
        if redis.call('GET', KEYS[1]) ~= ARGV[1] then
            return redis.error_reply('NOTOWNER this owner does not hold the lock')
        end
        return redis.call(unpack(ARGV, 2))
        LUA;

    /** @var array<string, true> The commands that this server does not have, or not with that option, or not for us. */
    private array $missing = [];

    public function __construct(private Connection $connection, private ?int $replicas = null)
    {
    }

    public function acquire(string $name, string $owner, int $ttl, bool $again, ?float $wait = null): ?int
    {
        if ($this->acknowledged($name, ['SET', $this->connection->key($name), $owner, 'NX', 'PX', $ttl])) {
            return 0;
        }

        return $again && $this->renew($name, $owner, $ttl) ? 0 : null;
    }

    public function acquireShared(string $name, string $owner, int $ttl, bool $isExclusive, ?float $wait = null): ?int
    {
        throw new ModuleRequiredException('A shared lock');
    }

    public function renew(string $name, string $owner, int $ttl): bool
    {
        $key = $this->connection->key($name);
        if ($this->replicas) {
            return (bool) $this->acknowledged($name, ['EVAL', self::RENEW, 1, $key, $owner, $ttl]);
        }

        return (bool) $this->first($name, null, [
            ['SET', $key, $owner, 'IFEQ', $owner, 'PX', $ttl],
            ['EVAL', self::RENEW, 1, $key, $owner, $ttl],
        ]);
    }

    public function release(string $name, string $owner, ?float $timeout = null): bool
    {
        $key = $this->connection->key($name);

        return (bool) $this->first($name, $timeout, [
            ['DELEX', $key, 'IFEQ', $owner],
            ['DELIFEQ', $key, $owner],
            ['EVAL', self::RELEASE, 1, $key, $owner],
        ]);
    }

    public function holds(string $name, string $owner): bool
    {
        return (bool) $this->connection->send($name, ['EVAL', self::HOLDS, 1, $this->connection->key($name), $owner]);
    }

    public function guard(string $name, string $owner, array $command): mixed
    {
        return $this->connection->send($name, ['EVAL', self::GUARD, 1, $this->connection->key($name), $owner, ...$command], once: true);
    }

    /**
     * Sends a command. If replicas are to acknowledge what it wrote, WAIT follows in the same pipeline: over another
     * connection it would wait for nothing.
     */
    private function acknowledged(string $name, array $words): mixed
    {
        if (!$this->replicas) {
            return $this->connection->send($name, $words);
        }
        try {
            $replies = $this->connection->sendTogether($name, [$words, ['WAIT', $this->replicas, self::REPLICAS_WAIT]]);
        } catch (ServerError $e) {
            throw new ServerError("NOREPLICAS lock can't wait for replicas: ".$e->getMessage(), 0, $e);
        }
        if (null === $replies) {
            throw new ModuleRequiredException('In a cluster, replicas');
        }
        [$reply, $acknowledged] = $replies;
        if ($reply && $acknowledged < $this->replicas) {
            throw new ServerError(sprintf('NOREPLICAS lock was acknowledged by %d of %d replicas within %d ms', $acknowledged, $this->replicas, self::REPLICAS_WAIT));
        }

        return $reply;
    }

    /** The reply to the first of these commands that the server has. */
    private function first(string $name, ?float $timeout, array $commands): mixed
    {
        foreach ($commands as $words) {
            if (isset($this->missing[$words[0]])) {
                continue;
            }
            try {
                return $this->connection->send($name, $words, $timeout);
            } catch (ServerError $e) {
                if ('EVAL' === $words[0] || !$e->isUnknownCommand($words[0]) && !$e->startsWith('ERR syntax error', 'NOPERM')) {
                    throw $e;
                }
                $this->missing[$words[0]] = true;
            }
        }
    }
}
