<?php

namespace RedisLockModule\Symfony\Tests;

use RedisLockModule\Symfony\RedisLockStore;
use Symfony\Component\Lock\Exception\LockStorageException;
use Symfony\Component\Lock\LockFactory;
use Symfony\Component\Lock\Store\CombinedStore;
use Symfony\Component\Lock\Strategy\ConsensusStrategy;

/** What the module adds. */
final class ModuleTest extends StoreTestCase
{
    /** @dataProvider ways */
    public function test_a_guarded_command_runs_while_the_lock_is_held_and_never_after(string $library, bool $module): void
    {
        $store = self::store($library, $module);
        $key = self::key();
        $redis = self::client('phpredis', $module);
        self::assertConflict(fn () => $store->guard($key, 'SET', "$key:price", 1));
        $store->save($key);
        $store->guard($key, 'SET', "$key:price", 5);
        self::assertSame(7, $store->guard($key, 'INCRBY', "$key:price", 2));
        self::assertSame('7', $store->guard($key, 'GET', "$key:price"));
        self::assertNull($store->guard($key, 'GET', "$key:none"));
        self::assertThrows(LockStorageException::class, fn () => $store->guard($key, 'INCR', (string) $key));
        $redis->set((string) $key, 'another owner');
        self::assertConflict(fn () => $store->guard($key, 'SET', "$key:price", 0));
        self::assertSame('7', $redis->get("$key:price"));
    }

    /** @dataProvider ways */
    public function test_a_guarded_command_is_not_sent_for_a_hold_that_has_ended(string $library, bool $module): void
    {
        $redis = self::client('phpredis', $module);
        $store = self::store($library, $module, initialTtl: 0.2);
        $key = self::key();
        $store->save($key);
        $copy = unserialize(serialize($key));
        self::waitUntil(fn () => 0 === $redis->exists((string) $key));
        // The server compares the owner, and would let it pass.
        $redis->set((string) $key, self::owner($key), ['PX' => 20_000]);
        self::assertConflict(fn () => $store->guard($key, 'INCR', "$key:count"));
        self::assertConflict(fn () => self::store($library, $module)->guard($copy, 'INCR', "$key:count"));
        self::assertSame(0, $redis->exists("$key:count"));
        $key->resetLifetime();
        $store->putOffExpiration($key, 20);
        self::assertSame(1, $store->guard($key, 'INCR', "$key:count"));
        $redis->del((string) $key);
        self::assertConflict(fn () => $store->putOffExpiration($key, 20));
        $redis->set((string) $key, self::owner($key), ['PX' => 20_000]);
        self::assertConflict(fn () => $store->guard($key, 'INCR', "$key:count"));
        $store->delete($key);
        self::assertConflict(fn () => $store->guard($key, 'INCR', "$key:count"));
        self::assertSame('1', $redis->get("$key:count"));
    }

    /** @dataProvider libraries */
    public function test_waiting_is_one_command_and_the_wait_is_in_the_server(string $library): void
    {
        $store = self::store($library);
        $key = self::key();
        $store->save($key);
        $asked = self::server()->calls('lock.acquire');
        $child = self::inChild(fn () => self::store($library)->waitAndSave(self::key((string) $key)));
        self::waitUntil(fn () => 1 === self::waiters($key));
        usleep(300_000);
        $store->delete($key);
        self::assertChildEnds($child);
        self::assertSame($asked + 1, self::server()->calls('lock.acquire'));
    }

    public function test_those_who_wait_are_served_in_the_order_in_which_they_came(): void
    {
        $store = self::store();
        $key = self::key();
        $store->save($key);
        $children = [];
        foreach (['phpredis', 'Predis', 'phpredis', 'Predis'] as $number => $library) {
            $children[] = self::inChild(function () use ($library, $key, $number) {
                $store = self::store($library, queue: $number > 1);
                $mine = self::key((string) $key);
                $store->waitAndSave($mine);
                $store->guard($mine, 'RPUSH', "$key:order", $number);
                $store->delete($mine);
            });
            self::waitUntil(fn () => $number + 1 === self::waiters($key));
        }
        $store->delete($key);
        array_map([self::class, 'assertChildEnds'], $children);
        self::assertSame(['0', '1', '2', '3'], self::client()->lRange("$key:order", 0, -1));
    }

    /** @dataProvider libraries */
    public function test_a_wait_ends_when_its_time_is_up_and_leaves_nothing_behind(string $library): void
    {
        foreach ([false, true] as $queue) {
            $key = self::key();
            self::store()->save($key);
            $store = self::store($library, maxWait: 0.3, queue: $queue);
            foreach (['waitAndSave', 'waitAndSaveRead'] as $wait) {
                $began = microtime(true);
                self::assertConflict(fn () => $store->$wait(self::key((string) $key)));
                self::assertGreaterThan(0.29, microtime(true) - $began);
            }
            self::assertSame(0, self::waiters($key));
        }
    }

    /** @dataProvider libraries */
    public function test_a_client_that_reads_for_a_second_only_waits_for_longer(string $library): void
    {
        $client = 'Predis' === $library
            ? new \Predis\Client(['host' => '127.0.0.1', 'port' => self::server()->port, 'read_write_timeout' => 1])
            : self::client();
        'Predis' === $library || $client->setOption(\Redis::OPT_READ_TIMEOUT, 1);
        $key = self::key();
        $other = self::store(initialTtl: 2.2);
        $other->save($key);
        $store = new RedisLockStore($client);
        $mine = self::key((string) $key);
        $store->waitAndSave($mine);
        self::assertTrue($store->exists($mine));
        // Its own limit holds again.
        $began = microtime(true);
        self::assertThrows(\Exception::class, fn () => $client->blpop(["$key:never"], 5));
        self::assertLessThan(4, microtime(true) - $began);
    }

    public function test_a_client_keeps_its_own_options(): void
    {
        $redis = self::client();
        $own = [\Redis::OPT_READ_TIMEOUT => 7.5, \Redis::OPT_MAX_RETRIES => 3, \Redis::OPT_BACKOFF_BASE => 11, \Redis::OPT_BACKOFF_CAP => 700];
        foreach ($own as $option => $value) {
            $redis->setOption($option, $value);
        }
        $store = new RedisLockStore($redis, maxWait: 0.1);
        $store->save($key = self::key());
        self::assertConflict(fn () => $store->waitAndSave(self::key((string) $key)));
        $store->guard($key, 'PING');
        self::assertSame($own, array_combine(array_keys($own), array_map([$redis, 'getOption'], array_keys($own))));
    }

    public function test_a_client_without_a_limit_of_its_own_gets_that_of_php_ini_back(): void
    {
        $redis = self::client();
        $key = self::key();
        self::store(initialTtl: 0.1)->save($key);
        $store = new RedisLockStore($redis);
        $store->waitAndSave(self::key((string) $key));
        self::assertEmpty($redis->blPop(["$key:never"], 1)); // and is not cut off at once
    }

    /** @dataProvider libraries */
    public function test_the_lifetime_after_a_wait_is_counted_from_the_grant(string $library): void
    {
        $key = self::key();
        self::store(initialTtl: 1.5)->save($key);
        $store = self::store($library, initialTtl: 1.0);
        $mine = self::key((string) $key);
        $store->waitAndSave($mine);
        self::assertGreaterThan(0.5, $mine->getRemainingLifetime());
        self::assertLessThanOrEqual(self::client()->pttl((string) $key) / 1000 + 0.001, $mine->getRemainingLifetime());
    }

    /** @dataProvider libraries */
    public function test_a_place_is_asked_for_with_the_time_that_the_server_allows(string $library): void
    {
        $redis = self::server()->redis();
        $redis->rawCommand('CONFIG', 'SET', 'lock.max-place-ttl', 600);
        try {
            $store = self::store(queue: true);
            $store->save($ann = self::key());
            $child = self::inChild(fn () => self::store($library, queue: true)->waitAndSave(self::key((string) $ann)));
            self::waitUntil(fn () => 1 === self::waiters($ann));
            $store->delete($ann);
            self::assertChildEnds($child);
        } finally {
            $redis->rawCommand('CONFIG', 'SET', 'lock.max-place-ttl', 60_000);
        }
    }

    /** @dataProvider libraries */
    public function test_a_share_becomes_exclusive_as_soon_as_no_other_owner_shares(string $library): void
    {
        foreach ([false, true] as $queue) {
            $store = self::store($library, queue: $queue);
            [$ann, $bob] = [$key = self::key(), self::key((string) $key)];
            $store->saveRead($ann);
            $store->saveRead($bob);
            $tried = self::server()->calls('lock.acquire');
            $copy = serialize($bob);
            $child = self::inChild(function () use ($library, $queue, $copy) {
                self::store($library, queue: $queue)->waitAndSave($bob = unserialize($copy));
                self::store()->guard($bob, 'SET', "$bob:alone", 1);
            });
            self::waitUntil(fn () => self::server()->calls('lock.acquire') > $tried + 3);
            self::assertSame(0, self::waiters($key)); // no other client is kept from the lock meanwhile
            $store->delete($ann);
            self::assertChildEnds($child);
            self::assertConflict(fn () => $store->saveRead($ann));
        }
    }

    /** @dataProvider libraries */
    public function test_two_who_share_and_both_want_it_alone_give_up_when_their_time_is_up(string $library): void
    {
        $store = self::store($library, maxWait: 0.3);
        [$ann, $bob] = [$key = self::key(), self::key((string) $key)];
        $store->saveRead($ann);
        $store->saveRead($bob);
        $copy = serialize($bob);
        $child = self::inChild(fn () => self::assertConflict(fn () => self::store($library, maxWait: 0.3)->waitAndSave(unserialize($copy))));
        $began = microtime(true);
        self::assertConflict(fn () => $store->waitAndSave($ann));
        self::assertGreaterThan(0.29, microtime(true) - $began);
        self::assertChildEnds($child);
        self::assertTrue($store->exists($ann));
        self::assertTrue($store->exists($bob));
    }

    /** @dataProvider libraries */
    public function test_a_share_that_is_lost_on_the_way_waits_like_others(string $library): void
    {
        $store = self::store($library);
        [$ann, $bob] = [$key = self::key(), self::key((string) $key)];
        $store->saveRead($ann);
        $store->saveRead($bob);
        $copy = serialize($bob);
        $child = self::inChild(fn () => self::store($library)->waitAndSave(unserialize($copy)));
        $tried = self::server()->calls('lock.acquire');
        self::waitUntil(fn () => self::server()->calls('lock.acquire') > $tried);
        self::client()->zRem((string) $key, self::owner($bob));
        self::waitUntil(fn () => 1 === self::waiters($key));
        $store->delete($ann);
        self::assertChildEnds($child);
    }

    /** @dataProvider libraries */
    public function test_giving_up_an_upgrade_keeps_the_share(string $library): void
    {
        foreach ([false, true] as $queue) {
            $store = self::store($library, maxWait: 0.1, queue: $queue);
            [$ann, $bob] = [$key = self::key(), self::key((string) $key)];
            $store->saveRead($ann);
            $store->saveRead($bob);
            self::assertConflict(fn () => $store->waitAndSave($ann));
            self::assertTrue($store->exists($ann));
            $store->delete($bob);
            $store->waitAndSave($ann);
        }
    }

    public function test_the_prefix_of_the_client_is_kept(): void
    {
        $key = self::key();
        $redis = self::client();
        $redis->setOption(\Redis::OPT_PREFIX, 'shop:');
        $redis->setOption(\Redis::OPT_SERIALIZER, \Redis::SERIALIZER_PHP);
        $store = new RedisLockStore($redis);
        $store->save($key);
        self::assertSame(self::owner($key), self::client()->get("shop:$key"));

        $store = new RedisLockStore(self::server()->predis(['prefix' => 'shop:']));
        self::assertConflict(fn () => $store->save(self::key((string) $key)));
        $mine = self::key();
        $store->save($mine);
        self::assertSame(self::owner($mine), self::client()->get("shop:$mine"));
    }

    public function test_every_attempt_has_a_token_of_its_own(): void
    {
        $store = self::store();
        $key = self::key();
        $store->save($key);
        $first = self::owner($key);
        $copy = unserialize(serialize($key));
        $store->delete($key);
        $store->save($key);
        self::assertNotSame($first, self::owner($key));
        $store->delete($copy); // a release that comes late
        self::assertTrue($store->exists($key));
    }

    public function test_a_release_costs_one_command(): void
    {
        $lock = (new LockFactory(self::store()))->createLock((string) self::key(), 10);
        $lock->acquire();
        $checked = self::server()->calls('lock.check');
        $lock->release();
        self::assertSame($checked, self::server()->calls('lock.check'));
    }

    public function test_a_client_within_a_transaction_is_refused_and_goes_on(): void
    {
        $redis = self::client();
        $key = self::key();
        $redis->multi();
        self::assertThrows(\LogicException::class, fn () => (new RedisLockStore($redis))->save($key));
        self::assertSame([true], $redis->set("$key:x", 1)->exec());
    }

    public function test_a_key_that_is_no_lock_is_left_alone(): void
    {
        $key = self::key();
        self::client()->hSet((string) $key, 'a', 'b');
        self::assertThrows(\Symfony\Component\Lock\Exception\LockAcquiringException::class, fn () => self::store()->save($key));
        self::assertSame(['a' => 'b'], self::client()->hGetAll((string) $key));
    }

    public function test_a_handler_of_a_signal_may_end_the_wait_and_leaves_nothing_behind(): void
    {
        $key = self::key();
        self::store()->save($key);
        $child = self::inChild(function () use ($key) {
            pcntl_async_signals(true);
            pcntl_signal(\SIGTERM, static fn () => throw new \DomainException('enough'));
            try {
                self::store(queue: true)->waitAndSave(self::key((string) $key));
            } catch (\DomainException) {
                return;
            }
            throw new \LogicException('It was not ended.');
        });
        self::waitUntil(fn () => 1 === self::waiters($key));
        posix_kill($child, \SIGTERM);
        self::assertChildEnds($child);
        self::assertSame(0, self::waiters($key));
    }

    public function test_several_servers_can_be_combined(): void
    {
        $servers = [new Server(), new Server(), new Server()];
        $combined = fn () => new CombinedStore(array_map(static fn ($server) => new RedisLockStore($server->redis(), 30), $servers), new ConsensusStrategy());
        $key = self::key();
        $other = self::key((string) $key);
        for ($round = 0; $round < 3; ++$round) {
            $combined()->save($key);
            self::assertConflict(fn () => $combined()->save($other));
            $combined()->putOffExpiration($key, 20);
            self::assertTrue($combined()->exists($key));
            $combined()->delete($key);
            $combined()->save($other);
            $combined()->delete($other);
        }
        $servers[1]->stop();
        $combined = new CombinedStore([new RedisLockStore($servers[0]->redis()), new RedisLockStore($servers[2]->redis())], new ConsensusStrategy());
        $combined->save($key);
        $combined->delete($key);
        self::assertSame(0, $servers[0]->redis()->exists((string) $key) + $servers[2]->redis()->exists((string) $key));
    }

    public function test_a_redis_array_finds_the_server_of_the_lock(): void
    {
        $servers = [new Server(), new Server()];
        $store = new RedisLockStore(new \RedisArray(array_map(static fn ($server) => '127.0.0.1:'.$server->port, $servers)));
        for ($round = 0; $round < 10; ++$round) {
            $key = self::key();
            $store->save($key);
            self::assertConflict(fn () => $store->save(self::key((string) $key)));
            $store->guard($key, 'SET', (string) $key, self::owner($key), 'XX', 'KEEPTTL');
            $store->delete($key);
        }
        self::assertGreaterThan(0, min($servers[0]->calls('lock.release'), $servers[1]->calls('lock.release')));
    }
}
