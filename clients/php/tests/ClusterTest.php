<?php

namespace RedisLockModule\Symfony\Tests;

use RedisLockModule\Symfony\RedisLockStore;

/** A cluster of two masters, with the module and without. */
final class ClusterTest extends StoreTestCase
{
    private static array $clusters = [];

    /** @dataProvider ways */
    public function test_locks_of_a_cluster_are_found_on_their_nodes(string $library, bool $module): void
    {
        $store = self::clusterStore($library, $module);
        for ($round = 0; $round < 20; ++$round) {
            $key = self::key();
            $store->save($key);
            self::assertSame($module, null !== $store->fence($key));
            self::assertConflict(fn () => $store->save(self::key((string) $key)));
            $store->putOffExpiration($key, 20);
            self::assertTrue($store->exists($key));
            $store->guard($key, 'SET', '{'.$key.'}:done', 1);
            $store->delete($key);
            self::assertFalse($store->exists($key));
        }
        if ($module) {
            $store->saveRead($key);
            $store->saveRead($other = self::key((string) $key));
            $store->delete($other);
            $store->save($key);
            $store->saveRead($key);
            $store->saveRead($other);
        }
    }

    /** @dataProvider ways */
    public function test_who_waits_in_a_cluster_is_served(string $library, bool $module): void
    {
        $store = self::clusterStore($library, $module);
        $key = self::key();
        $store->save($key);
        $child = self::inChild(function () use ($library, $module, $key) {
            $store = self::clusterStore($library, $module);
            $store->waitAndSave($mine = self::key((string) $key));
            $store->delete($mine);
        });
        usleep(100_000);
        $store->delete($key);
        self::assertChildEnds($child);
        $store->save($key);
        $hasty = self::clusterStore($library, $module, maxWait: 0.2);
        self::assertConflict(fn () => $hasty->waitAndSave(self::key((string) $key)));
        $store->delete($key);
        $hasty->save($key); // no client waits any more
    }

    /** @dataProvider libraries */
    public function test_a_guarded_command_follows_a_slot_that_has_moved(string $library): void
    {
        $store = self::clusterStore($library, true);
        [$one, $two] = self::cluster(true);
        $key = self::key('{moved}:'.bin2hex(random_bytes(6)));
        $store->save(self::key('{moved}:first')); // knows the slots now
        $slot = $one->redis()->rawCommand('CLUSTER', 'KEYSLOT', (string) $key);
        [$from, $to] = $one->redis()->rawCommand('CLUSTER', 'COUNTKEYSINSLOT', $slot) > 0 ? [$one, $two] : [$two, $one];
        $from->redis()->flushAll();
        $id = $to->redis()->rawCommand('CLUSTER', 'MYID');
        foreach ([$to, $from] as $node) {
            self::assertTrue($node->redis()->rawCommand('CLUSTER', 'SETSLOT', $slot, 'NODE', $id));
        }
        $other = self::clusterStore($library, true);
        $other->save($key);
        self::assertSame(1, $store->guard(unserialize(serialize($key)), 'INCR', "$key:count"));
        self::assertSame(2, $store->guard($key, 'INCR', "$key:count"));
    }

    private static function clusterStore(string $library, bool $module, mixed ...$options): RedisLockStore
    {
        $nodes = array_map(static fn ($server) => '127.0.0.1:'.$server->port, self::cluster($module));

        return new RedisLockStore('Predis' === $library
            ? new \Predis\Client(array_map(static fn ($node) => "tcp://$node", $nodes), ['cluster' => 'redis'])
            : new \RedisCluster(null, $nodes, 5, 5), ...$options);
    }

    /** @return list<Server> */
    private static function cluster(bool $module): array
    {
        return self::$clusters[(int) $module] ??= self::newCluster($module);
    }

    private static function newCluster(bool $module): array
    {
        $nodes = [];
        foreach ([[0, 8191], [8192, 16383]] as [$first, $last]) {
            $nodes[] = $node = new Server($module, ['--cluster-enabled', 'yes', '--cluster-node-timeout', '60000']);
            self::assertTrue($node->redis()->rawCommand('CLUSTER', 'ADDSLOTS', ...range($first, $last)));
        }
        self::assertTrue($nodes[0]->redis()->rawCommand('CLUSTER', 'SET-CONFIG-EPOCH', 1));
        self::assertTrue($nodes[1]->redis()->rawCommand('CLUSTER', 'SET-CONFIG-EPOCH', 2));
        self::assertTrue($nodes[0]->redis()->rawCommand('CLUSTER', 'MEET', '127.0.0.1', $nodes[1]->port));
        foreach ($nodes as $node) {
            self::waitUntil(fn () => str_contains($info = $node->redis()->rawCommand('CLUSTER', 'INFO'), 'cluster_state:ok')
                && str_contains($info, 'cluster_slots_assigned:16384'));
        }

        return $nodes;
    }
}
