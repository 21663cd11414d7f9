<?php

namespace RedisLockModule\Symfony;

use Psr\Log\LoggerInterface;

/**
 * Finds out whether the server has the module, by asking for what is wanted and by nothing else: many hosts forbid
 * MODULE LIST. Holds are the same either way, so the module may be loaded and unloaded while they last.
 *
 * @internal
 */
final class Server
{
    /** For how long a server is taken to have no module before it is asked again, in seconds. */
    private const REMEMBERED = 5;

    /** For how long a command is sent again after the connection has failed, in seconds. */
    private const PERSISTENT = 2.5;

    /** @var \WeakMap<object, float> For each client when its server turned out to have no module */
    private static ?\WeakMap $bare = null;

    /** @var \WeakMap<object, true> The clients for which that was logged */
    private static ?\WeakMap $logged = null;

    private Module $module;
    private BareServer $bareServer;

    public function __construct(private Connection $connection, bool $queue, private bool $requireModule, ?int $replicas = null)
    {
        self::$bare ??= new \WeakMap();
        self::$logged ??= new \WeakMap();
        $this->module = new Module($connection, $queue, $replicas);
        $this->bareServer = new BareServer($connection, $replicas);
    }

    /**
     * @template T
     *
     * @param callable(Commands): T $question
     *
     * @return T
     */
    public function ask(callable $question, LoggerInterface $logger): mixed
    {
        $client = $this->connection->client();
        $found = self::$bare[$client] ?? null;
        if (null !== $found && self::now() - $found < self::REMEMBERED && !$this->requireModule) {
            return $question($this->bareServer);
        }

        return $this->askModule($question, $logger);
    }

    /**
     * The same for what only the module can do: it may have been loaded a moment ago.
     *
     * @template T
     *
     * @param callable(Commands): T $question
     *
     * @return T
     */
    public function askModule(callable $question, LoggerInterface $logger): mixed
    {
        $client = $this->connection->client();
        try {
            $reply = $question($this->module);
            unset(self::$bare[$client]);

            return $reply;
        } catch (ServerError $e) {
            if (!$e->isUnknownCommand('LOCK.')) {
                throw $e;
            }
        }
        if ($this->requireModule) {
            throw new ModuleRequiredException('This store', $e);
        }
        if (!isset(self::$logged[$client])) {
            self::$logged[$client] = true;
            $logger->warning('This server has not loaded the redis-lock module: exclusive locks only, without fencing tokens, and waiting means polling.');
        }
        self::$bare[$client] = self::now();

        return $question($this->bareServer);
    }

    /**
     * Asks again after the connection has failed, for a while, and at least once unless it waits.
     *
     * @template T
     *
     * @param callable(bool): T $ask Is told whether it has been sent before
     * @param float|null        $end Until when it waits for the lock: then the connection may break after any time
     *
     * @return T
     */
    public static function persist(callable $ask, ?float $end = null): mixed
    {
        $until = null;
        for ($began = self::now(), $again = false;; $again = true) {
            try {
                return $ask($again);
            } catch (ConnectionLost $e) {
                $now = self::now();
                $until ??= null === $end ? $began + self::PERSISTENT : min($end, $now + self::PERSISTENT);
                if ($now >= $until && ($again || null !== $end)) {
                    throw $e;
                }
                usleep(random_int(20_000, 100_000));
            }
        }
    }

    /** Whether those who wait keep a place in the queue, and ask for it. */
    public function keepsPlace(): bool
    {
        return !isset(self::$bare[$this->connection->client()]) && $this->module->keepsPlace();
    }

    /** Seconds on a clock that is never set. */
    public static function now(): float
    {
        return hrtime(true) / 1e9;
    }
}
