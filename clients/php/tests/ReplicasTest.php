<?php

namespace RedisLockModule\Symfony\Tests;

use RedisLockModule\Symfony\Connection;
use RedisLockModule\Symfony\Module;
use RedisLockModule\Symfony\ModuleRequiredException;
use RedisLockModule\Symfony\RedisLockStore;
use RedisLockModule\Symfony\ServerError;
use Symfony\Component\Lock\Exception\ExceptionInterface;
use Symfony\Component\Lock\Exception\LockAcquiringException;
use Symfony\Component\Lock\Exception\LockStorageException;

/** Grants and renewals that replicas acknowledge. */
final class ReplicasTest extends StoreTestCase
{
    /** @return array{Server, Server} A server and its replica, which has caught up */
    private static function pair(bool $module = false): array
    {
        $program = $module ? null : (getenv('REDIS_BARE_SERVER') ?: null);
        $master = new Server($module, ['--repl-diskless-sync-delay', '0'], $program);
        $replica = new Server($module, ['--replicaof', '127.0.0.1', (string) $master->port], $program);
        self::waitUntil(fn () => str_contains($master->redis()->info('replication')['slave0'] ?? '', 'state=online'));

        return [$master, $replica];
    }

    /** @dataProvider libraries */
    public function test_without_the_module_replicas_acknowledge_a_hold_or_nothing_is_left_of_it(string $library): void
    {
        [$master, $replica] = self::pair();
        $client = 'Predis' === $library ? $master->predis() : $master->redis();
        $store = new RedisLockStore($client, replicas: 1);
        $store->save($key = self::key());
        self::assertSame(self::owner($key), $replica->redis()->get((string) $key));
        $said = self::assertThrows(LockAcquiringException::class, fn () => (new RedisLockStore($client, replicas: 2))->save($other = self::key()))->getMessage();
        self::assertStringContainsString('NOREPLICAS lock was acknowledged by 1 of 2 replicas', $said);
        self::assertSame(1, $master->redis()->dbSize());
        $store->putOffExpiration($key, 600);
        self::assertGreaterThan(500_000, $replica->redis()->pttl((string) $key));

        $replica->pause();
        foreach (['save', 'waitAndSave'] as $save) {
            self::assertThrows(LockAcquiringException::class, fn () => $store->$save(self::key()));
            self::assertSame(1, $master->redis()->dbSize());
        }
        $key->resetLifetime();
        $said = self::assertThrows(LockStorageException::class, fn () => $store->putOffExpiration($key, 700))->getMessage();
        self::assertStringContainsString('NOREPLICAS', $said);
        self::assertTrue($store->exists($key));
        $replica->resume();
        $store->delete($key);
        self::assertSame(0, $master->redis()->dbSize());
    }

    /** @dataProvider libraries */
    public function test_a_place_is_claimed_by_one_request_and_its_ttl_counts_from_the_one_before(string $library): void
    {
        [$master, $replica] = self::pair(true);
        $client = 'Predis' === $library ? $master->predis() : $master->redis();
        $store = new RedisLockStore($client, 20, queue: true, replicas: 1);
        $store->waitAndSave($key = self::key());
        self::assertLessThanOrEqual($master->redis()->pttl((string) $key) / 1000, $key->getRemainingLifetime());
        self::assertSame(self::owner($key), $replica->redis()->get((string) $key));
        self::assertStringContainsString("\nlock_replicated_total:1\r", $master->redis()->rawCommand('INFO', 'lock'));
        $store->delete($key);
    }

    /** @dataProvider libraries */
    public function test_an_owner_that_asks_again_waits_for_replicas_too(string $library): void
    {
        [$master, $replica] = self::pair();
        $store = new RedisLockStore('Predis' === $library ? $master->predis() : $master->redis(), replicas: 1);
        $store->save($key = self::key());
        $replica->pause();
        self::assertThrows(ExceptionInterface::class, fn () => $store->save($key));
        self::assertTrue($store->exists($key));
        $replica->resume();
    }

    /** @dataProvider libraries */
    public function test_a_client_goes_on_after_a_pipeline_that_broke(string $library): void
    {
        [$master, $replica] = self::pair();
        $client = 'Predis' === $library ? $master->predis() : $master->redis();
        $store = new RedisLockStore($client, replicas: 1);
        $replica->pause();
        // The connection is cut while it waits for replicas; then it is sent again.
        $child = self::inChild(function () use ($master, $replica) {
            $admin = $master->redis();
            self::waitUntil(fn () => 1 === (int) $admin->info('clients')['blocked_clients']);
            $admin->rawCommand('CLIENT', 'KILL', 'TYPE', 'normal');
            $replica->resume();
        });
        $store->save($key = self::key());
        self::assertChildEnds($child);
        self::assertSame(self::owner($key), $replica->redis()->get((string) $key));
        $store->delete($key);
        self::assertSame(0, $master->redis()->dbSize());
    }

    public function test_an_older_module_is_asked_for_its_version_once(): void
    {
        $connection = new class() implements Connection {
            public array $sent = [];
            public string $version = '1.0.0';

            public function client(): object
            {
                return $this;
            }

            public function key(string $name): string
            {
                return $name;
            }

            public function longestWait(): float
            {
                return 60;
            }

            public function send(string $name, array $words, ?float $timeout = null, bool $once = false): mixed
            {
                $this->sent[] = implode(' ', $words);

                return 'INFO' === $words[0] ? "lock_version:$this->version\r\n" : throw new ServerError('ERR syntax error');
            }

            public function sendTogether(string $name, array $commands): ?array
            {
                return null;
            }
        };
        foreach ([null, 60_000.0] as $wait) {
            $said = self::assertThrows(ModuleRequiredException::class, fn () => (new Module($connection, false, 1))->acquire('market', 'me', 1000, false, $wait))->getMessage();
            self::assertStringContainsString("replicas needs version 2.0 of the redis-lock module, and this server's is 1.0.0", $said);
        }
        self::assertSame(['LOCK.ACQUIRE market me 1000 REPLICAS 1', 'INFO lock', 'LOCK.ACQUIRE market me 1000 REPLICAS 1 BLOCK 60000'], $connection->sent);
        $connection = clone $connection;
        $connection->version = '2.0.0';
        self::assertThrows(ServerError::class, fn () => (new Module($connection, false, 1))->acquire('market', 'me', 1000, false));
    }
}
