<?php

namespace RedisLockModule\Symfony\Tests;

use RedisLockModule\Symfony\RedisLockStore;
use Symfony\Component\Lock\Exception\LockAcquiringException;
use Symfony\Component\Lock\Exception\LockReleasingException;
use Symfony\Component\Lock\Exception\LockStorageException;

/** Connections that break, replies that are lost, servers that stand still. */
final class FaultTest extends StoreTestCase
{
    public static function faults(): array
    {
        $all = [];
        foreach (self::ways() as $way => [$library, $module]) {
            foreach (['cut', 'lose-reply', 'refuse'] as $fault) {
                foreach (['acquire', 'wait', 'renew', 'release', 'check'] as $step) {
                    $all["$way: $fault at $step"] = [$library, $module, $fault, $step];
                }
            }
        }

        return $all;
    }

    /** @dataProvider faults */
    public function test_a_command_is_said_again_when_its_connection_breaks(string $library, bool $module, string $fault, string $step): void
    {
        $word = $module
            ? ['acquire' => 'LOCK.ACQUIRE', 'wait' => 'LOCK.ACQUIRE', 'renew' => 'LOCK.RENEW', 'release' => 'LOCK.RELEASE', 'check' => 'LOCK.CHECK']
            : ['acquire' => 'NX', 'wait' => 'NX', 'renew' => 'IFEQ', 'release' => 'DEL', 'check' => 'return redis'];
        $proxy = new Proxy(self::server($module), $word[$step], $fault);
        $client = $proxy->client($library);
        $store = new RedisLockStore($client);
        $redis = self::client('phpredis', $module);
        $key = self::key();
        'wait' === $step ? $store->waitAndSave($key) : $store->save($key);
        self::assertSame(self::owner($key), $redis->get((string) $key));
        $store->putOffExpiration($key, 20);
        self::assertTrue($store->exists($key));
        $store->delete($key);
        self::assertSame(0, $redis->exists((string) $key));
        // The connection reads the reply to what it asks, and to nothing else.
        self::assertSame('hello', $client->echo('hello'));
    }

    /** @dataProvider ways */
    public function test_a_connection_that_ends_at_once_holds_a_call_up_for_seconds_only(string $library, bool $module): void
    {
        foreach (['cut-at-once', 'refuse-at-once'] as $fault) {
            for ($round = 0; $round < 5; ++$round) {
                $proxy = new Proxy(self::server($module), $module ? 'LOCK.ACQUIRE' : 'NX', $fault);
                $client = $proxy->client($library);
                $store = new RedisLockStore($client);
                $began = microtime(true);
                $store->save($key = self::key());
                self::assertLessThan(8, microtime(true) - $began);
                self::assertSame(self::owner($key), self::client('phpredis', $module)->get((string) $key));
                self::assertSame('hello', $client->echo('hello')); // the client lives
            }
        }
    }

    /** @dataProvider libraries */
    public function test_a_wait_that_is_ended_by_others_goes_on(string $library): void
    {
        self::assertWaitGoesOnAfter($library, fn ($redis, $client) => $redis->rawCommand('CLIENT', 'UNBLOCK', $client['id'], 'ERROR'));
    }

    /** @param \Closure(\Redis, array<string, mixed>): mixed $end Ends the wait of this client of the server */
    private static function assertWaitGoesOnAfter(string $library, \Closure $end): void
    {
        $key = self::key();
        $holder = self::store();
        $holder->save($key);
        $child = self::inChild(fn () => self::store($library)->waitAndSave(self::key((string) $key)));
        self::waitUntil(fn () => 1 === self::waiters($key));
        $redis = self::client();
        foreach ($redis->client('list') as $client) {
            'lock.acquire' === $client['cmd'] && $end($redis, $client);
        }
        self::waitUntil(fn () => 1 === self::waiters($key));
        $holder->delete($key);
        self::assertChildEnds($child);
    }

    /** @dataProvider ways */
    public function test_a_stopped_server_holds_up_no_call_for_longer_than_some_seconds(string $library, bool $module): void
    {
        $server = new Server($module);
        $client = static function () use ($library, $server): object {
            if ('Predis' === $library) { // a guarded command gets the client's own limit
                return new \Predis\Client(['host' => '127.0.0.1', 'port' => $server->port, 'read_write_timeout' => 1]);
            }
            $redis = $server->redis();
            $redis->setOption(\Redis::OPT_READ_TIMEOUT, 1);

            return $redis;
        };
        $children = [];
        foreach ([
            fn ($store, $key) => $store->save(self::key()),
            fn ($store, $key) => $store->exists($key),
            fn ($store, $key) => $store->putOffExpiration($key, 20),
            fn ($store, $key) => $store->guard($key, 'INCR', 'count'),
            fn ($store, $key) => $store->delete($key),
        ] as $number => $call) {
            $children[] = self::inChild(function () use ($server, $client, $number, $call) {
                $store = new RedisLockStore($client());
                $store->save($key = self::key());
                $server->redis()->incr('ready');
                self::waitUntil(static fn () => !$server->runs());
                $began = microtime(true);
                self::assertThrows(\RuntimeException::class, fn () => $call($store, $key));
                self::assertLessThan(15, microtime(true) - $began, "call $number");
            });
        }
        self::waitUntil(fn () => '5' === $server->redis()->get('ready'));
        $server->pause();
        array_map([self::class, 'assertChildEnds'], $children);
        $server->resume();
    }

    /** @dataProvider libraries */
    public function test_a_request_whose_fate_is_unknown_is_withdrawn(string $library): void
    {
        $proxy = new Proxy(self::server(), 'LOCK.ACQUIRE', 'stall');
        $client = $proxy->client($library);
        $store = new RedisLockStore($client, maxWait: 0.2);
        $key = self::key();
        self::assertThrows(LockAcquiringException::class, fn () => $store->waitAndSave($key));
        $spent = self::owner($key);
        self::waitUntil(fn () => 0 === self::client()->exists((string) $key));
        $store->save($key);
        self::assertNotSame($spent, self::owner($key));
    }

    /** @dataProvider libraries */
    public function test_a_server_that_is_gone_is_an_error_of_the_component(string $library): void
    {
        $server = new Server();
        $store = new RedisLockStore('Predis' === $library ? $server->predis() : $server->redis());
        $key = self::key();
        $store->save($key);
        $server->stop();
        self::assertThrows(LockAcquiringException::class, fn () => $store->save(self::key()));
        self::assertThrows(LockAcquiringException::class, fn () => $store->waitAndSave(self::key()));
        self::assertThrows(LockStorageException::class, fn () => $store->exists($key));
        self::assertThrows(LockStorageException::class, fn () => $store->putOffExpiration($key, 10));
        self::assertThrows(LockStorageException::class, fn () => $store->guard($key, 'PING'));
        self::assertThrows(LockReleasingException::class, fn () => $store->delete($key));
    }
}
