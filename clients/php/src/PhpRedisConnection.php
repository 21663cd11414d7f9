<?php

namespace RedisLockModule\Symfony;

/**
 * phpredis: Redis, RedisArray, RedisCluster, and the proxies of symfony/cache for them.
 *
 * @internal
 */
final class PhpRedisConnection implements Connection
{
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
    public function canBlock(): bool
    {
        return !$this->isCluster;
    }

    /** phpredis sends nothing twice: it connects again before it sends a command, never after that. */
    public function send(string $name, array $words, ?float $timeout = null, bool $once = false): mixed
    {
        $redis = $this->node($name);
        if (\Redis::ATOMIC !== $redis->getMode()) {
            throw new \LogicException('The Redis client is in MULTI or a pipeline: a lock needs its reply at once.');
        }

        $own = $this->isCluster || null === $timeout ? null : (float) $redis->getOption(\Redis::OPT_READ_TIMEOUT);
        $redis->clearLastError();
        try {
            if (null !== $own) {
                $redis->setOption(\Redis::OPT_READ_TIMEOUT, $timeout);
            }
            $reply = $this->isCluster ? $redis->rawCommand($name, ...$words) : $redis->rawCommand(...$words);
        } catch (\RedisException|\RedisClusterException $e) {
            if (null !== $said = $redis->getLastError()) {
                throw new ServerError($said, 0, $e);
            }
            $redis->close();
            throw new ConnectionLost($e->getMessage(), 0, $e);
        } finally {
            if (null !== $own) {
                // 0 stands for the limit in php.ini when it connects, but for none at all on an open connection.
                $redis->setOption(\Redis::OPT_READ_TIMEOUT, $own ?: (float) \ini_get('default_socket_timeout'));
            }
        }
        if (null !== $said = $redis->getLastError()) {
            $redis->clearLastError();
            throw new ServerError($said);
        }

        return false === $reply ? null : $reply;
    }

    private function node(string $name): object
    {
        return $this->redis instanceof \RedisArray ? $this->redis->_instance($this->redis->_target($name)) : $this->redis;
    }
}
