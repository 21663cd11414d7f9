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
    public function longestWait(): float
    {
        return $this->isCluster ? 0 : 60;
    }

    /**
     * phpredis sends nothing twice. But if a connection ends right after a command was sent, it may connect again and
     * wait for the reply there, in vain: therefore the limits on what it waits for.
     */
    public function send(string $name, array $words, ?float $timeout = null, bool $once = false): mixed
    {
        $redis = $this->node($name);
        if (\Redis::ATOMIC !== $redis->getMode()) {
            throw new \LogicException('The Redis client is in MULTI or a pipeline: a lock needs its reply at once.');
        }

        $limits = !$this->isCluster && !$once;
        // 0 stands for the limit in php.ini when it connects, but for no time at all on an open connection.
        $own = $limits ? $redis->getOption(\Redis::OPT_READ_TIMEOUT) ?: (float) \ini_get('default_socket_timeout') : null;
        $redis->clearLastError();
        try {
            if ($limits) {
                $redis->setOption(\Redis::OPT_READ_TIMEOUT, $timeout ?? ($own < 0 ? self::REPLY : min($own, self::REPLY)));
            }
            if ($once && $this->isCluster) {
                $this->findSlot($name);
            }
            $reply = $this->isCluster ? $redis->rawCommand($name, ...$words) : $redis->rawCommand(...$words);
        } catch (\RedisException|\RedisClusterException $e) {
            if (null !== $said = $redis->getLastError()) {
                throw new ServerError($said, 0, $e);
            }
            $redis->close();
            if ($this->isCluster && !$once) {
                $this->findSlot($name);
            }
            throw new ConnectionLost($e->getMessage(), 0, $e);
        } finally {
            if ($limits) {
                $redis->setOption(\Redis::OPT_READ_TIMEOUT, $own);
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
