<?php

namespace RedisLockModule\Symfony;

/**
 * The commands of the module.
 *
 * @internal
 */
final class Module implements Commands
{
    /** How long a place in the queue is kept for an owner that does not poll, in milliseconds; or what the server allows. */
    private int $lease = 10_000;

    /** How much later than asked for the reply to a wait may come, in seconds. */
    private const LATE = 1.0;

    /**
     * An exclusive hold becomes a shared one in one instant. While others wait it stays exclusive, which covers the
     * share: they would get the lock between the two, and the share would have to wait behind them. It also stays
     * exclusive if the share is refused (lock.quarantine): then the key is written again as it was. A hold that stays
     * exclusive has its number below zero.
     */
    private const DEMOTE = <<<'LUA'
        local key, owner, ttl = KEYS[1], ARGV[1], ARGV[2]
        local info = redis.call('LOCK.INFO', key)
        local field = {}
        for i = 1, info and #info or 0, 2 do field[info[i]] = info[i + 1] end
        local left = field.mode == 'exclusive' and redis.call('LOCK.CHECK', key, owner)
        if left and field.queue == 0 then
            redis.call('LOCK.RELEASE', key, owner)
            local share = redis.pcall('LOCK.ACQUIRE', key, owner, ttl, 'SHARED', unpack(ARGV, 3))
            if type(share) == 'number' then return share end
            redis.call('SET', key, owner, 'PX', left > 0 and left or ttl)
        end
        local fence = redis.call('LOCK.ACQUIRE', key, owner, ttl, 'SHARED', unpack(ARGV, 3))
        return fence and left and -fence or fence
        LUA;

    /** @var \WeakMap<object, string> For each client the version of its server's module, once that matters */
    private static ?\WeakMap $versions = null;

    public function __construct(private Connection $connection, private bool $queue, private ?int $replicas = null)
    {
    }

    public function acquire(string $name, string $owner, int $ttl, bool $again, ?float $wait = null): ?int
    {
        return $this->ask($name, $owner, $ttl, [], $wait);
    }

    public function acquireShared(string $name, string $owner, int $ttl, bool $isExclusive, ?float $wait = null): ?int
    {
        if (!$isExclusive) {
            return $this->ask($name, $owner, $ttl, ['SHARED'], $wait);
        }
        // A script can't wait for replicas: they are waited for afterwards.
        $without = null === $this->replicas ? [] : ['REPLICAS', 0];
        try {
            $fence = $this->connection->send($name, ['EVAL', self::DEMOTE, 1, $this->connection->key($name), $owner, $ttl, ...$without]);
        } catch (ServerError $e) {
            // What servers say of an unknown command in a script.
            throw 1 === preg_match('/\bunknown (\w+ )?command/i', $e->getMessage()) ? new ModuleRequiredException('A shared lock', $e) : $e;
        }
        if (!$this->replicas || null === $fence) {
            return $fence;
        }
        $acknowledged = $this->ask($name, $owner, $ttl, ['SHARED'], null);

        return $fence < 0 && null !== $acknowledged ? -$acknowledged : $acknowledged;
    }

    public function renew(string $name, string $owner, int $ttl): bool
    {
        return 1 === $this->connection->send($name, ['LOCK.RENEW', $this->connection->key($name), $owner, $ttl, ...$this->acknowledged()], $this->limit());
    }

    public function release(string $name, string $owner, ?float $timeout = null): bool
    {
        return 1 === $this->connection->send($name, ['LOCK.RELEASE', $this->connection->key($name), $owner], $timeout);
    }

    public function holds(string $name, string $owner): bool
    {
        return null !== $this->connection->send($name, ['LOCK.CHECK', $this->connection->key($name), $owner]);
    }

    public function guard(string $name, string $owner, array $command): mixed
    {
        return $this->connection->send($name, ['LOCK.GUARD', $this->connection->key($name), $owner, ...$command], once: true);
    }

    /** Whether to wait is to ask for one's place in the queue, and not one command that waits. */
    public function keepsPlace(): bool
    {
        return $this->queue || 0.0 === $this->connection->longestWait();
    }

    private function ask(string $name, string $owner, int $ttl, array $mode, ?float $wait): ?int
    {
        $words = ['LOCK.ACQUIRE', $this->connection->key($name), $owner, $ttl, ...$mode, ...$this->acknowledged()];
        if (null === $wait) {
            return $this->send($name, $words, $this->limit());
        }
        if (!$this->keepsPlace()) {
            $wait = min($wait, 1000 * $this->connection->longestWait());

            return $this->send($name, [...$words, 'BLOCK', max(1, (int) ceil($wait))], $wait / 1000 + self::LATE);
        }
        try {
            $place = $this->send($name, [...$words, 'QUEUE', $this->lease]);
        } catch (ServerError $e) {
            $longest = 1 === preg_match('/^ERR lease must be 1 to (\d+) /', $e->getMessage(), $found) ? (int) $found[1] : 0;
            if ($longest < 1 || $longest >= $this->lease) {
                throw $e;
            }
            $this->lease = $longest;

            return $this->ask($name, $owner, $ttl, $mode, $wait);
        }

        return $place > 0 ? $place : null; // below 0 it is a place
    }

    private function acknowledged(): array
    {
        return null === $this->replicas ? [] : ['REPLICAS', $this->replicas];
    }

    /** How many seconds the reply may take that waits for replicas: a limit of the client's is not for that. */
    private function limit(): ?float
    {
        return $this->replicas ? Connection::REPLY : null;
    }

    /** A module that is older calls a word that it does not know a syntax error. */
    private function send(string $name, array $words, ?float $timeout = null): mixed
    {
        try {
            return $this->connection->send($name, $words, $timeout);
        } catch (ServerError $e) {
            if (null === $this->replicas || !$e->startsWith('ERR syntax error')) {
                throw $e;
            }
            $version = $this->version($name);
            throw '' === $version || str_starts_with($version, '1.') ? new ModuleRequiredException('replicas', $e, $version ?: 'older') : $e;
        }
    }

    /** Asked for once; empty if the module does not say. */
    private function version(string $name): string
    {
        self::$versions ??= new \WeakMap();
        $client = $this->connection->client();
        if (!isset(self::$versions[$client])) {
            try {
                $info = $this->connection->send($name, ['INFO', 'lock']);
            } catch (ServerError) {
                $info = '';
            }
            self::$versions[$client] = preg_match('/^lock_version:(\S+)/m', (string) $info, $found) ? $found[1] : '';
        }

        return self::$versions[$client];
    }
}
