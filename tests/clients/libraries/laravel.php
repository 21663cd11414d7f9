<?php
// Laravel's cache lock: SET EX NX with a random owner, and a script that compares and deletes. Seconds, and no renewal.
// (Its cache puts a prefix before the name, laravel_cache: by default; the lock itself does not.)
require 'Illuminate/Cache/autoload.php';
require 'Illuminate/Redis/autoload.php';
require __DIR__ . '/speak.php';

use Illuminate\Cache\PhpRedisLock;
use Illuminate\Contracts\Cache\LockTimeoutException;
use Illuminate\Redis\Connections\PhpRedisConnection;

$redis = new Redis();
$redis->connect('127.0.0.1', (int) $argv[1]);
$db = new PhpRedisConnection($redis);
$lock = null;

answer_each([
    'acquire' => function (string $key, int $ttl) use ($db, &$lock) {
        $lock = new PhpRedisLock($db, $key, (int) ceil($ttl / 1000));
        return $lock->acquire() ? $lock->owner() : false;
    },
    'wait' => function (string $key, int $ttl, int $wait) use ($db, &$lock) {
        $lock = (new PhpRedisLock($db, $key, (int) ceil($ttl / 1000)))->betweenBlockedAttemptsSleepFor(20);
        try {
            $lock->block((int) ceil($wait / 1000));
            return $lock->owner();
        } catch (LockTimeoutException $tooLate) {
            return false;
        }
    },
    'adopt' => function (string $key, string $owner) use ($db, &$lock) {
        $lock = new PhpRedisLock($db, $key, 60, $owner);
    },
    'release' => function () use (&$lock) {
        return $lock->release();
    },
]);
