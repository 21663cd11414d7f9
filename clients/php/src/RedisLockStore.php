<?php

namespace RedisLockModule\Symfony;

use Predis\ClientInterface;
use Psr\Log\LoggerAwareInterface;
use Psr\Log\LoggerAwareTrait;
use Psr\Log\NullLogger;
use Symfony\Component\Lock\BlockingSharedLockStoreInterface;
use Symfony\Component\Lock\BlockingStoreInterface;
use Symfony\Component\Lock\Exception\InvalidArgumentException;
use Symfony\Component\Lock\Exception\InvalidTtlException;
use Symfony\Component\Lock\Exception\LockAcquiringException;
use Symfony\Component\Lock\Exception\LockConflictedException;
use Symfony\Component\Lock\Exception\LockReleasingException;
use Symfony\Component\Lock\Exception\LockStorageException;
use Symfony\Component\Lock\Key;
use Symfony\Component\Lock\Store\ExpiringStoreTrait;

/**
 * A store on the commands of the redis-lock module for Redis and Valkey. On a server without it the locks are exclusive
 * only and have no fencing tokens; they are the same keys, so clients with and without exclude each other.
 *
 * A Key is one hold. Its owner, "host:pid:uuid", is kept in it and is serialized with it. The first save() after a
 * delete() makes a new one.
 */
final class RedisLockStore implements BlockingStoreInterface, BlockingSharedLockStoreInterface, LoggerAwareInterface
{
    use ExpiringStoreTrait;
    use LoggerAwareTrait;

    private Connection $connection;
    private Server $server;

    /** @var \WeakMap<Key, float> When the hold of a key ends, as far as this process knows, by Server::now() */
    private \WeakMap $ends;

    /**
     * @param \Redis|\RedisArray|\RedisCluster|ClientInterface|object $redis The client; proxies of symfony/cache too
     * @param float      $initialTtl    How long a lock lasts that is not refreshed, in seconds
     * @param float|null $maxWait       How long acquire(true) waits, in seconds; null is as long as it takes
     * @param bool       $queue         Waits by asking every 100 ms for its place in the queue: signals are handled meanwhile
     * @param bool       $requireModule Throws on a server without the module
     * @param string|null $ownerPrefix  What owners begin with, before a UUID; null is "host:pid", of the process that acquires
     * @param int|null   $replicas      How many replicas must acknowledge a grant or a refresh; else "NOREPLICAS". Without
     *                                  the module it sends WAIT, but not in a cluster. Null is the server's lock.replicas
     */
    public function __construct(
        object $redis,
        private float $initialTtl = 300.0,
        private ?float $maxWait = null,
        bool $queue = false,
        bool $requireModule = false,
        private ?string $ownerPrefix = null,
        ?int $replicas = null,
    ) {
        $this->connection = match (true) {
            $redis instanceof \Redis, $redis instanceof \RedisArray, $redis instanceof \RedisCluster,
            is_a($redis, 'Symfony\Component\Cache\Traits\RedisProxy'),
            is_a($redis, 'Symfony\Component\Cache\Traits\RedisClusterProxy') => new PhpRedisConnection($redis),
            $redis instanceof ClientInterface => new PredisConnection($redis),
            default => throw new InvalidArgumentException(sprintf('The client must be Redis, RedisArray, RedisCluster or %s, and is %s.', ClientInterface::class, get_debug_type($redis))),
        };
        if (!self::isTtl($initialTtl) || $initialTtl < 0.001) {
            throw new InvalidTtlException(sprintf('The initial ttl must be a number of seconds, a millisecond or more, and is %s.', $initialTtl));
        }
        if (null !== $maxWait && !($maxWait >= 0 && $maxWait < \INF)) {
            throw new InvalidArgumentException(sprintf('The longest wait must be 0 seconds or more, or null, and is %s.', $maxWait));
        }
        // Of the 1024 bytes of an owner a colon and the UUID take 37.
        if (null !== $ownerPrefix && ('' === $ownerPrefix || \strlen($ownerPrefix) > 1024 - 37)) {
            throw new InvalidArgumentException(sprintf('The prefix of owners must be 1 to 987 bytes, and is %d.', \strlen($ownerPrefix)));
        }
        if (null !== $replicas && ($replicas < 0 || $replicas > 64)) {
            throw new InvalidArgumentException(sprintf('The replicas must be 0 to 64, or null, and are %d.', $replicas));
        }
        $this->server = new Server($this->connection, $queue, $requireModule, $replicas);
        $this->ends = new \WeakMap();
        $this->logger = new NullLogger();
    }

    /** Acquires the lock, or throws a LockConflictedException if others have it. */
    public function save(Key $key): void
    {
        $this->acquire($key, shared: false, patience: null);
    }

    /** The same for a lock that is shared with others who read. */
    public function saveRead(Key $key): void
    {
        $this->acquire($key, shared: true, patience: null);
    }

    /** Waits for the lock, in a queue in the server, first come first served. */
    public function waitAndSave(Key $key): void
    {
        $this->acquire($key, shared: false, patience: $this->maxWait ?? \INF);
    }

    public function waitAndSaveRead(Key $key): void
    {
        $this->acquire($key, shared: true, patience: $this->maxWait ?? \INF);
    }

    /**
     * Renews the hold, or throws a LockConflictedException if it was lost. It never revives a lost one.
     *
     * @throws InvalidTtlError The ttl is no number of seconds above 0
     */
    public function putOffExpiration(Key $key, float $ttl): void
    {
        if (!self::isTtl($ttl)) {
            throw new InvalidTtlError(sprintf('The ttl of the lock "%s" must be a number of seconds above 0, and is %s.', $key, $ttl));
        }
        $hold = $this->hold($key);
        $key->reduceLifetime($ttl);
        $this->checkNotExpired($key);
        if (null === $hold) {
            throw new LockConflictedException(sprintf('The lock "%s" is not held.', $key));
        }
        $renewed = $this->ask($key, LockStorageException::class, function (Commands $commands) use ($key, $hold, $ttl, &$sent) {
            $sent = Server::now();

            return $commands->renew($key, $hold['owner'], self::milliseconds($ttl));
        });
        if (!$renewed) {
            $this->keep($key, ['mode' => null, 'fence' => null] + $hold);
            throw new LockConflictedException(sprintf('The lock "%s" was lost: it expired or was broken before it was refreshed.', $key));
        }
        $this->ends[$key] = $sent + $ttl;
        $this->checkNotExpired($key);
    }

    /** Releases the lock. One that was lost meanwhile is no error, as with every store. */
    public function delete(Key $key): void
    {
        if (null === $hold = $this->hold($key)) {
            return;
        }
        // Whatever becomes of this request, it must not end what this key acquires later.
        $this->keep($key, ['released' => true] + $hold);
        $this->ask($key, LockReleasingException::class, fn (Commands $commands) => $commands->release($key, $hold['owner']));
        $this->keep($key, ['released' => true, 'mode' => null, 'fence' => null] + $hold);
    }

    /** Whether this key holds the lock, as the server sees it. */
    public function exists(Key $key): bool
    {
        $hold = $this->hold($key);
        if (null === $hold || $hold['released'] && null === $hold['mode']) {
            return false;
        }

        return $this->ask($key, LockStorageException::class, fn (Commands $commands) => $commands->holds($key, $hold['owner']));
    }

    /**
     * The fencing token of this hold: higher than that of every earlier grant. For what can't be guarded, because it is
     * not on this server: it must refuse numbers below the highest that it has seen. Null if the lock is not held, or if
     * the server has no module.
     */
    public function fence(Key $key): ?int
    {
        return $this->hold($key)['fence'] ?? null;
    }

    /**
     * Runs a command in the instant in which this key holds the lock, and returns what the client makes of the reply.
     * If the lock was lost nothing has run, and it throws a LockConflictedException. So it does, and sends nothing, when
     * the hold has ended as far as this process knows: the server compares the owner, and not the fencing token.
     *
     * The command is sent once. If the reply is lost it throws a LockStorageException, and the command may have run.
     * The client's prefix is not added to its keys. In a cluster they must be in the slot of the lock.
     */
    public function guard(Key $key, string $command, string|int|float ...$arguments): mixed
    {
        $hold = $this->hold($key);
        if (null === ($hold['mode'] ?? null)) {
            throw new LockConflictedException(sprintf('The lock "%s" is not held: nothing has run.', $key));
        }
        if ($key->isExpired() || Server::now() >= ($this->ends[$key] ?? \INF)) {
            throw new LockConflictedException(sprintf('The lock "%s" has expired: nothing has run.', $key));
        }
        try {
            return $this->server->ask(static fn (Commands $commands) => $commands->guard($key, $hold['owner'], [$command, ...array_values($arguments)]), $this->logger);
        } catch (ServerError $e) {
            if ($e->startsWith('NOTOWNER')) {
                throw new LockConflictedException(sprintf('The lock "%s" was lost: nothing has run.', $key), 0, $e);
            }
            throw new LockStorageException($e->getMessage(), 0, $e);
        } catch (ConnectionLost $e) {
            throw new LockStorageException(sprintf('No reply came to a command under the lock "%s": it may have run. %s', $key, $e->getMessage()), 0, $e);
        }
    }

    private function acquire(Key $key, bool $shared, ?float $patience): void
    {
        $hold = $this->hold($key);
        if (null === $hold || $hold['released']) {
            $hold = ['owner' => $this->newOwner(), 'mode' => null, 'fence' => null, 'released' => false];
        }
        $this->keep($key, $hold);
        $acquisition = new Acquisition($this->server, $this->logger, $key, $hold['owner'], self::milliseconds($this->initialTtl), $shared, $hold['mode']);
        $done = false;
        try {
            $fence = null === $patience ? $acquisition->once() : $acquisition->wait(Server::now() + $patience);
            if (null === $fence) {
                throw new LockConflictedException(sprintf('Others hold the lock "%s".', $key));
            }
            $this->keep($key, ['mode' => $shared && $fence > 0 ? 'read' : 'write', 'fence' => abs($fence) ?: null] + $hold);
            $this->ends[$key] = $acquisition->ends();
            $done = true;
        } catch (ServerError $e) {
            if ($e->startsWith('DEADLOCK', 'TOOCOMPLEX', 'QUEUEFULL', 'REPLACED', 'ONEWAIT', 'NOUPGRADE')) {
                throw new LockConflictedException($e->getMessage(), 0, $e);
            }
            throw new LockAcquiringException(sprintf('The server refused the lock "%s": %s', $key, $e->getMessage()), 0, $e);
        } catch (ConnectionLost $e) {
            throw new LockAcquiringException(sprintf('The lock "%s" could not be asked for: %s', $key, $e->getMessage()), 0, $e);
        } finally {
            // Not in a catch: what a signal handler throws can be anything.
            if (!$done && $acquisition->withdraw()) {
                $this->keep($key, ['released' => true] + $hold);
            }
        }
        $key->reduceLifetime($acquisition->ends() - Server::now());
        $this->checkNotExpired($key);
    }

    /** @param class-string<\Throwable> $failure */
    private function ask(Key $key, string $failure, callable $question): mixed
    {
        try {
            return Server::persist(fn () => $this->server->ask($question, $this->logger));
        } catch (ServerError|ConnectionLost $e) {
            throw new $failure(sprintf('The lock "%s": %s', $key, $e->getMessage()), 0, $e);
        }
    }

    /** @return array{owner: string, mode: 'read'|'write'|null, fence: int|null, released: bool}|null */
    private function hold(Key $key): ?array
    {
        return $key->hasState(__CLASS__) ? $key->getState(__CLASS__) : null;
    }

    private function keep(Key $key, array $hold): void
    {
        $key->setState(__CLASS__, $hold);
    }

    private function newOwner(): string
    {
        $uuid = random_bytes(16);
        $uuid[6] = $uuid[6] & "\x0f" | "\x40";
        $uuid[8] = $uuid[8] & "\x3f" | "\x80";

        return ($this->ownerPrefix ?? substr(gethostname() ?: 'unknown', 0, 64).':'.getmypid())
            .vsprintf(':%s%s-%s-%s-%s-%s%s%s', str_split(bin2hex($uuid), 4));
    }

    private static function isTtl(float $ttl): bool
    {
        // As far as a number in Unix time goes that every client can read.
        return $ttl > 0 && $ttl < 2 ** 53 / 1000 - time();
    }

    private static function milliseconds(float $ttl): int
    {
        return (int) ceil($ttl * 1000);
    }
}
