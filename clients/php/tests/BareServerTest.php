<?php

namespace RedisLockModule\Symfony\Tests;

use Psr\Log\AbstractLogger;
use RedisLockModule\Symfony\ModuleRequiredException;
use RedisLockModule\Symfony\RedisLockStore;
use RedisLockModule\Symfony\ServerError;
use Symfony\Component\Lock\LockFactory;

/** A server without the module, and one that gets it and loses it. */
final class BareServerTest extends StoreTestCase
{
    /** @dataProvider libraries */
    public function test_a_try_that_fails_is_one_command(string $library): void
    {
        $server = new Server(false, program: getenv('REDIS_BARE_SERVER') ?: null);
        $client = 'Predis' === $library ? $server->predis() : $server->redis();
        $store = new RedisLockStore($client);
        $key = self::key();
        $store->save($key);
        $before = $server->redis()->info('stats')['total_commands_processed'];
        self::assertConflict(fn () => $store->save(self::key((string) $key)));
        // Each look is a connection, and a command of its own.
        self::assertSame(2, $server->redis()->info('stats')['total_commands_processed'] - $before);
    }

    /** @dataProvider libraries */
    public function test_what_needs_the_module_says_so(string $library): void
    {
        $store = self::store($library, false, maxWait: 5);
        $key = self::key();
        foreach (['saveRead', 'waitAndSaveRead'] as $read) {
            $said = self::assertThrows(ModuleRequiredException::class, fn () => $store->$read($key))->getMessage();
            self::assertStringContainsString('A shared lock needs the redis-lock module', $said);
        }
        $store->save($key);
        self::assertThrows(ModuleRequiredException::class, fn () => $store->saveRead($key));
        self::assertTrue($store->exists($key));
        $store = self::store($library, false, requireModule: true);
        $said = self::assertThrows(ModuleRequiredException::class, fn () => $store->save(self::key()))->getMessage();
        self::assertStringContainsString('loadmodule', $said);
        $lock = (new LockFactory($store))->createLock('x');
        self::assertInstanceOf(ModuleRequiredException::class, self::assertThrows(\Exception::class, fn () => $lock->acquire())->getPrevious());
    }

    public function test_it_is_known_by_the_words_of_every_server(): void
    {
        foreach (["unknown command 'LOCK.ACQUIRE', with args beginning with: ", 'unknown command `lock.acquire`', "Command is not available: 'LOCK.ACQUIRE'. See"] as $said) {
            self::assertTrue((new ServerError("ERR $said"))->isUnknownCommand('LOCK.'), $said);
        }
        foreach (["ERR unknown command 'JSON.SET'", "ERR LOCK commands can't be run inside LOCK.GUARD", "NOPERM 'lock.acquire'"] as $said) {
            self::assertFalse((new ServerError($said))->isUnknownCommand('LOCK.'), $said);
        }
    }

    public function test_it_is_logged_once_for_a_client(): void
    {
        $server = new Server(false, self::mayLoad());
        $log = new class() extends AbstractLogger {
            public array $lines = [];

            public function log($level, $message, array $context = []): void
            {
                $this->lines[] = "$level: $message";
            }
        };
        $client = $server->redis();
        for ($round = 0; $round < 3; ++$round) {
            $store = new RedisLockStore($client);
            $store->setLogger($log);
            $key = self::key();
            $store->save($key);
            $store->delete($key);
            // And not anew when the module was there meanwhile.
            $client->rawCommand('MODULE', 'LOAD', Server::module());
            $store->saveRead(self::key());
            self::waitUntil(fn () => $client->rawCommand('MODULE', 'UNLOAD', 'lock'));
        }
        self::assertCount(1, $log->lines);
        self::assertStringStartsWith('warning: This server has not loaded the redis-lock module', $log->lines[0]);
    }

    /** @dataProvider libraries */
    public function test_holds_stay_while_the_module_is_loaded_and_unloaded(string $library): void
    {
        $server = new Server(false, self::mayLoad());
        $redis = $server->redis();
        $store = fn () => new RedisLockStore('Predis' === $library ? $server->predis() : $server->redis());
        $old = $store();
        [$before, $during] = [self::key(), self::key()];
        $old->save($before);
        self::assertTrue($redis->rawCommand('MODULE', 'LOAD', Server::module()));
        self::assertConflict(fn () => $old->save(self::key((string) $before)));
        self::assertConflict(fn () => $store()->save(self::key((string) $before)));
        foreach ([$old, $store()] as $one) {
            self::assertTrue($one->exists($before));
            $one->putOffExpiration($before, 50);
            $one->guard($before, 'INCR', 'guarded');
        }
        $new = $store();
        $new->save($during);
        self::assertGreaterThan(0, $new->fence($during));
        self::assertConflict(fn () => $old->save(self::key((string) $during)));
        $old->saveRead(self::key()); // what only the module can do is asked of it, whatever is remembered
        self::assertTrue($redis->rawCommand('MODULE', 'UNLOAD', 'lock'));
        foreach ([$old, $new, $store()] as $one) {
            self::assertTrue($one->exists($during));
            $one->putOffExpiration($during, 50);
            $one->guard($during, 'INCR', 'guarded');
            self::assertConflict(fn () => $one->save(self::key((string) $during)));
        }
        self::assertSame('5', $redis->get('guarded'));
        $new->delete($before);
        $old->delete($during);
        self::assertSame(0, $redis->exists((string) $before, (string) $during));
    }

    private static function mayLoad(): array
    {
        return self::server()->redis()->info('server')['redis_version'] >= '7' ? ['--enable-module-command', 'local'] : [];
    }
}
