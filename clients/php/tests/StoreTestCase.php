<?php

namespace RedisLockModule\Symfony\Tests;

use PHPUnit\Framework\TestCase;
use RedisLockModule\Symfony\RedisLockStore;
use Symfony\Component\Lock\Exception\LockConflictedException;
use Symfony\Component\Lock\Key;

/** One server with the module and one without, for all the tests of a process. */
abstract class StoreTestCase extends TestCase
{
    private static array $servers = [];

    protected static function server(bool $module = true): Server
    {
        return self::$servers[(int) $module] ??= new Server($module, program: $module ? null : (getenv('REDIS_BARE_SERVER') ?: null));
    }

    public static function libraries(): array
    {
        return ['phpredis' => ['phpredis'], 'Predis' => ['Predis']];
    }

    public static function ways(): array
    {
        return [
            'phpredis, with the module' => ['phpredis', true],
            'phpredis, without' => ['phpredis', false],
            'Predis, with the module' => ['Predis', true],
            'Predis, without' => ['Predis', false],
        ];
    }

    protected static function client(string $library = 'phpredis', bool $module = true): object
    {
        return 'Predis' === $library ? self::server($module)->predis() : self::server($module)->redis();
    }

    protected static function store(string $library = 'phpredis', bool $module = true, mixed ...$options): RedisLockStore
    {
        return new RedisLockStore(self::client($library, $module), ...$options);
    }

    /** A key for a lock that no other test has. */
    protected static function key(?string $name = null): Key
    {
        return new Key($name ?? 'lock:'.bin2hex(random_bytes(6)));
    }

    protected static function owner(Key $key): string
    {
        return $key->getState(RedisLockStore::class)['owner'];
    }

    protected static function assertConflict(callable $work): LockConflictedException
    {
        try {
            $work();
        } catch (LockConflictedException $e) {
            self::assertTrue(true);

            return $e;
        }
        self::fail('No LockConflictedException.');
    }

    /** @param class-string $class */
    protected static function assertThrows(string $class, callable $work): \Throwable
    {
        try {
            $work();
        } catch (\Throwable $e) {
            self::assertInstanceOf($class, $e);

            return $e;
        }
        self::fail("No $class.");
    }

    /** Runs this in a process of its own, which ends with status 0 if it returned. */
    protected static function inChild(callable $work): int
    {
        if ($pid = pcntl_fork()) {
            return $pid;
        }
        try {
            $work();
            $status = 0;
        } catch (\Throwable $e) {
            fwrite(\STDERR, "in a child: $e\n");
            $status = 1;
        }
        // Neither destructors nor PHPUnit's end: they are the parent's.
        posix_kill(getmypid(), 0 === $status ? \SIGKILL : \SIGABRT);
        exit;
    }

    protected static function assertChildEnds(int $pid): void
    {
        pcntl_waitpid($pid, $status);
        self::assertSame(\SIGKILL, pcntl_wtermsig($status), 'The child has failed.');
    }

    protected static function waitUntil(callable $condition): void
    {
        for ($end = microtime(true) + 20; !$condition();) {
            self::assertLessThan($end, microtime(true), 'It has not come about.');
            usleep(2_000);
        }
    }

    protected static function waiters(Key $key): int
    {
        $info = self::server()->redis()->rawCommand('LOCK.INFO', (string) $key) ?: [];
        foreach (array_chunk($info, 2) as [$name, $value]) {
            if ('queue' === $name) {
                return $value;
            }
        }

        return 0;
    }
}
