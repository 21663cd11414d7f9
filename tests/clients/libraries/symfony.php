<?php
// Symfony's RedisStore: since 5.2 a sorted set, for exclusive locks too.
require 'Symfony/Component/Lock/autoload.php';
require __DIR__ . '/speak.php';

use Symfony\Component\Lock\LockFactory;
use Symfony\Component\Lock\Store\RedisStore;

$redis = new Redis();
$redis->connect('127.0.0.1', (int) $argv[1]);
$lock = null;

// The store's own ttl (300 seconds, if you say nothing) is what a lock has until the factory's is set.
function factory(int $ttl): LockFactory
{
    global $redis;
    return new LockFactory(new RedisStore($redis, $ttl / 1000));
}

answer_each([
    'acquire' => function (string $key, int $ttl) use (&$lock) {
        $lock = factory($ttl)->createLock($key, $ttl / 1000, false);
        return $lock->acquire();
    },
    'share' => function (string $key, int $ttl) use (&$lock) {
        $lock = factory($ttl)->createLock($key, $ttl / 1000, false);
        return $lock->acquireRead();
    },
    'release' => function () use (&$lock) {
        $lock->release();
        return true;
    },
]);
