<?php

namespace RedisLockModule\Symfony\Tests;

use RedisLockModule\Symfony\RedisLockStore;
use Symfony\Component\Lock\Exception\LockExpiredException;
use Symfony\Component\Lock\LockFactory;

/** What the Lock component expects of any store. */
final class ContractTest extends StoreTestCase
{
    /** @dataProvider ways */
    public function test_a_lock_is_saved_and_deleted(string $library, bool $module): void
    {
        $store = self::store($library, $module);
        $key = self::key();
        self::assertFalse($store->exists($key));
        $store->save($key);
        self::assertTrue($store->exists($key));
        $store->delete($key);
        self::assertFalse($store->exists($key));
    }

    /** @dataProvider ways */
    public function test_two_keys_of_one_name_exclude_each_other(string $library, bool $module): void
    {
        $store = self::store($library, $module);
        $first = self::key();
        $second = self::key((string) $first);
        $store->save($first);
        self::assertConflict(fn () => $store->save($second));
        self::assertFalse($store->exists($second));
        $store->delete($second);
        self::assertTrue($store->exists($first));
        $store->delete($first);
        $store->save($second);
        self::assertFalse($store->exists($first));
        self::assertTrue($store->exists($second));
    }

    /** @dataProvider ways */
    public function test_a_key_may_be_saved_twice(string $library, bool $module): void
    {
        $store = self::store($library, $module);
        $key = self::key();
        $store->save($key);
        $fence = $store->fence($key);
        $store->save($key);
        self::assertSame($fence, $store->fence($key));
        $store->delete($key);
        $store->save(self::key((string) $key));
    }

    /** @dataProvider ways */
    public function test_a_hold_ends_after_its_ttl_and_is_not_revived(string $library, bool $module): void
    {
        $store = self::store($library, $module);
        $key = self::key();
        $store->save($key);
        $store->putOffExpiration($key, 0.05);
        self::waitUntil(fn () => !$store->exists($key));
        $key->resetLifetime();
        self::assertConflict(fn () => $store->putOffExpiration($key, 10));
        self::assertNull($store->fence($key));
        $store->delete($key);
    }

    /** @dataProvider ways */
    public function test_a_refreshed_hold_lasts_from_then_on(string $library, bool $module): void
    {
        $store = self::store($library, $module, initialTtl: 0.5);
        $key = self::key();
        $store->save($key);
        $key->resetLifetime();
        $store->putOffExpiration($key, 60);
        self::assertGreaterThan(50, $key->getRemainingLifetime());
        self::assertLessThanOrEqual(60, $key->getRemainingLifetime());
        self::assertGreaterThan(50_000, self::client('phpredis', $module)->pttl((string) $key));
    }

    /** @dataProvider ways */
    public function test_a_ttl_that_is_over_at_once_releases_the_lock(string $library, bool $module): void
    {
        $store = self::store($library, $module);
        $key = self::key();
        $store->save($key);
        self::assertThrows(LockExpiredException::class, fn () => $store->putOffExpiration($key, 0.000001));
        $store->save(self::key((string) $key));
    }

    /** @dataProvider ways */
    public function test_a_key_that_has_expired_leaves_nothing_behind(string $library, bool $module): void
    {
        $store = self::store($library, $module);
        $key = self::key();
        $key->reduceLifetime(0);
        self::assertThrows(LockExpiredException::class, fn () => $store->save($key));
        self::assertFalse($store->exists($key));
        $store->save(self::key((string) $key));
    }

    /** @dataProvider ways */
    public function test_who_waits_gets_the_lock_when_it_is_released(string $library, bool $module): void
    {
        $store = self::store($library, $module);
        $key = self::key();
        $store->save($key);
        $child = self::inChild(function () use ($library, $module, $key) {
            $store = self::store($library, $module);
            $mine = self::key((string) $key);
            $store->waitAndSave($mine);
            $store->exists($mine) || throw new \LogicException('It does not hold the lock.');
            $store->delete($mine);
        });
        usleep(100_000);
        self::assertSame(0, pcntl_waitpid($child, $status, \WNOHANG));
        $store->delete($key);
        self::assertChildEnds($child);
        $store->save($key);
    }

    /** @dataProvider ways */
    public function test_a_key_takes_its_hold_along_when_it_is_serialized(string $library, bool $module): void
    {
        $store = self::store($library, $module);
        $key = self::key();
        $store->save($key);
        $copy = unserialize(serialize($key));
        $elsewhere = self::store($library, $module);
        self::assertSame($store->fence($key), $elsewhere->fence($copy));
        self::assertTrue($elsewhere->exists($copy));
        $elsewhere->putOffExpiration($copy, 20);
        $elsewhere->guard($copy, 'SET', "$key:done", 1);
        $elsewhere->delete($copy);
        self::assertFalse($store->exists($key));
    }

    /** @dataProvider ways */
    public function test_the_component_itself_works_with_it(string $library, bool $module): void
    {
        $factory = new LockFactory(self::store($library, $module));
        $name = (string) self::key();
        $lock = $factory->createLock($name, 10);
        self::assertTrue($lock->acquire());
        self::assertFalse($factory->createLock($name, 10)->acquire());
        $lock->refresh();
        self::assertTrue($lock->isAcquired());
        self::assertGreaterThan(8, $lock->getRemainingLifetime());
        $lock->release();
        self::assertFalse($lock->isAcquired());

        $lock = $factory->createLock($name, 10);
        self::assertTrue($lock->acquire(true));
        unset($lock); // is released with its object
        self::assertTrue($factory->createLock($name, 10)->acquire());
    }

    /** @dataProvider libraries */
    public function test_readers_share_a_lock_and_exclude_a_writer(string $library): void
    {
        $store = self::store($library);
        [$ann, $bob, $writer] = [$key = self::key(), self::key((string) $key), self::key((string) $key)];
        $store->saveRead($ann);
        $store->saveRead($bob);
        self::assertConflict(fn () => $store->save($writer));
        $store->delete($ann);
        self::assertTrue($store->exists($bob));
        self::assertConflict(fn () => $store->save($writer));
        $store->delete($bob);
        $store->save($writer);
        self::assertConflict(fn () => $store->saveRead($ann));
    }

    /** @dataProvider libraries */
    public function test_a_share_becomes_exclusive_when_nobody_else_shares(string $library): void
    {
        $store = self::store($library);
        [$ann, $bob] = [$key = self::key(), self::key((string) $key)];
        $store->saveRead($ann);
        $store->saveRead($bob);
        self::assertConflict(fn () => $store->save($ann));
        self::assertTrue($store->exists($ann));
        self::assertTrue($store->exists($bob));
        $store->delete($bob);
        $fence = $store->fence($ann);
        $store->save($ann);
        self::assertGreaterThan($fence, $store->fence($ann));
        self::assertConflict(fn () => $store->saveRead($bob));
    }

    /** @dataProvider libraries */
    public function test_an_exclusive_hold_becomes_a_share_that_others_join(string $library): void
    {
        $store = self::store($library);
        [$ann, $bob] = [$key = self::key(), self::key((string) $key)];
        $store->save($ann);
        $fence = $store->fence($ann);
        $store->saveRead($ann);
        self::assertGreaterThan($fence, $store->fence($ann));
        $store->saveRead($bob);
        self::assertTrue($store->exists($ann));
        $store->saveRead($ann);
        self::assertTrue($store->exists($ann));
    }

    public function test_an_exclusive_hold_is_not_given_up_for_a_share_while_others_wait(): void
    {
        $store = self::store();
        $key = self::key();
        $store->save($key);
        $fence = $store->fence($key);
        $child = self::inChild(fn () => self::store()->waitAndSave(self::key((string) $key)));
        self::waitUntil(fn () => 1 === self::waiters($key));
        $store->saveRead($key);
        self::assertSame($fence, $store->fence($key));
        self::assertTrue($store->exists($key));
        $store->delete($key);
        self::assertChildEnds($child);
    }

    /** @dataProvider libraries */
    public function test_a_share_that_is_refused_leaves_the_hold_exclusive(string $library): void
    {
        $server = new Server(options: ['--enable-debug-command', 'local']);
        $redis = $server->redis();
        $store = new RedisLockStore('Predis' === $library ? $server->predis() : $server->redis(), 20);
        [$ann, $bob] = [$key = self::key(), self::key((string) $key)];
        $store->save($ann);
        $redis->rawCommand('CONFIG', 'SET', 'lock.quarantine', 60_000);
        $redis->rawCommand('DEBUG', 'RELOAD');
        self::assertConflict(fn () => $store->save(self::key()));
        $store->saveRead($ann);
        self::assertTrue($store->exists($ann));
        self::assertGreaterThan(15_000, $redis->pttl((string) $ann));
        $store->guard($ann, 'INCR', 'guarded');
        $redis->rawCommand('CONFIG', 'SET', 'lock.quarantine', 0);
        self::assertConflict(fn () => $store->saveRead($bob));
        $store->saveRead($ann); // now it becomes one
        $store->saveRead($bob);
        self::assertTrue($store->exists($ann));
    }

    /** @dataProvider libraries */
    public function test_a_share_that_was_exclusive_and_is_lost_is_asked_for_anew(string $library): void
    {
        $store = self::store($library);
        $key = self::key();
        $store->save($key);
        self::client()->del((string) $key);
        $store->saveRead($key);
        self::assertTrue($store->exists($key));
        $store->save($key);
        $store->delete($key);
        $other = self::key((string) $key);
        $store->save($other);
        self::assertConflict(fn () => $store->saveRead($key));
        self::assertTrue($store->exists($other));
    }
}
