<?php

namespace RedisLockModule\Symfony;

/**
 * phpredis: Redis, RedisArray, RedisCluster, and the proxies of symfony/cache for them.
 *
 * @internal
 */
final class PhpRedisConnection implements Connection
{
    /** Milliseconds between two attempts to connect: of no more attempts than phpredis makes anyway, each may take long. */
    private const PAUSE = 200;

    private bool $isCluster;

    public function __construct(private object $redis)
    {
        $this->isCluster = $redis instanceof \RedisCluster || is_a($redis, 'Symfony\Component\Cache\Traits\RedisClusterProxy');
    }

    public function client(): object
    {
        return $this->redis;
    }

    public function key(string $name): string
    {
        return $this->node($name)->_prefix($name);
    }

    /** RedisCluster's time limit is set when it connects, and can't be read. */
    public function longestWait(): float
    {
        return $this->isCluster ? 0 : 60;
    }

    public function send(string $name, array $words, ?float $timeout = null, bool $once = false): mixed
    {
        return $this->exchange($name, $timeout, $once, fn (object $redis) => $this->isCluster ? $redis->rawCommand($name, ...$words) : $redis->rawCommand(...$words));
    }

    public function sendTogether(string $name, array $commands): ?array
    {
        return $this->isCluster ? null : $this->exchange($name, self::REPLY, false, static function (object $redis) use ($commands): array {
            $redis->pipeline();
            try {
                foreach ($commands as $words) {
                    $redis->rawCommand(...$words);
                }

                return array_map(static fn ($reply) => false === $reply ? null : $reply, $redis->exec());
            } catch (\RedisException $e) {
                $redis->close(); // replies may be unread
                throw $e;
            }
        });
    }

    /**
     * phpredis sends nothing twice. But if a connection ends right after a command was sent, it may connect again and
     * wait there for a reply that never comes: therefore the limits on what it waits for. If it can't connect it gives
     * up after ten tries in one instant, and then its client fails until the application calls connect(): therefore the pauses.
     */
    private function exchange(string $name, ?float $timeout, bool $once, callable $send): mixed
    {
        $redis = $this->node($name);
        if (\Redis::ATOMIC !== $redis->getMode()) {
            throw new \LogicException('The Redis client is in MULTI or a pipeline: a lock needs its reply at once.');
        }

        $own = $limits = [];
        if (!$this->isCluster) {
            // 0 stands for the limit in php.ini when it connects, but for no time at all on an open connection.
            $own[\Redis::OPT_READ_TIMEOUT] = $most = $redis->getOption(\Redis::OPT_READ_TIMEOUT) ?: (float) \ini_get('default_socket_timeout');
            if (!$once) {
                $limits[\Redis::OPT_READ_TIMEOUT] = $timeout ?? ($most < 0 ? self::REPLY : min($most, self::REPLY));
            }
            if (\defined('Redis::OPT_MAX_RETRIES')) {
                $limits[\Redis::OPT_MAX_RETRIES] = (int) ceil(min($timeout ?? self::REPLY, self::REPLY) * 1000 / self::PAUSE);
                $limits[\Redis::OPT_BACKOFF_BASE] = $limits[\Redis::OPT_BACKOFF_CAP] = self::PAUSE;
            }
            foreach ($limits as $option => $limit) {
                $own[$option] ??= $redis->getOption($option);
            }
        }
        $redis->clearLastError();
        try {
            foreach ($limits as $option => $limit) {
                $redis->setOption($option, $limit);
            }
            if ($once && $this->isCluster) {
                $this->findSlot($name);
            }
            $reply = $send($redis);
        } catch (\RedisException|\RedisClusterException $e) {
            // An error of the server is the message too. After a lost connection, why it could not connect again stands here.
            if ($redis->getLastError() === $e->getMessage()) {
                throw new ServerError($e->getMessage(), 0, $e);
            }
            $redis->close();
            if ($this->isCluster && !$once) {
                $this->findSlot($name);
            }
            throw new ConnectionLost($e->getMessage(), 0, $e);
        } finally {
            foreach ($limits as $option => $limit) {
                $redis->setOption($option, $own[$option]);
            }
        }
        if (null !== $said = $redis->getLastError()) {
            $redis->clearLastError();
            throw new ServerError($said);
        }

        return false === $reply ? null : $reply;
    }

    /** rawCommand() fails where a slot has moved, and learns nothing from that. Commands that phpredis knows do. */
    private function findSlot(string $name): void
    {
        try {
            $this->redis->exists($name);
        } catch (\RedisClusterException) {
            // The command that is sent again will see.
        }
    }

    private function node(string $name): object
    {
        return $this->redis instanceof \RedisArray ? $this->redis->_instance($this->redis->_target($name)) : $this->redis;
    }
}
