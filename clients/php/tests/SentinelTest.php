<?php

namespace RedisLockModule\Symfony\Tests;

use RedisLockModule\Symfony\RedisLockStore;

/** Predis with Sentinel: it finds the master, also after a failover. */
final class SentinelTest extends StoreTestCase
{
    public function test_a_hold_is_found_on_the_next_master(): void
    {
        $master = new Server(true, ['--repl-diskless-sync-delay', '0']);
        $replica = new Server(true, ['--replicaof', '127.0.0.1', (string) $master->port]);
        self::waitUntil(fn () => 'up' === ($replica->redis()->info('replication')['master_link_status'] ?? ''));
        $configuration = tempnam(sys_get_temp_dir(), 'redis-lock-sentinel');
        file_put_contents($configuration, "sentinel monitor main 127.0.0.1 {$master->port} 1\n".
            "sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 1000\n");
        $sentinel = new Server(false, [$configuration, '--sentinel']);
        self::waitUntil(function () use ($sentinel) {
            $known = array_merge(...$sentinel->redis()->rawCommand('SENTINEL', 'REPLICAS', 'main'));

            return 'ok' === ($known[1 + array_search('master-link-status', $known)] ?? null);
        });
        $store = fn (mixed ...$options) => new RedisLockStore(new \Predis\Client(["tcp://127.0.0.1:{$sentinel->port}"], ['replication' => 'sentinel', 'service' => 'main']), ...$options);

        $holder = $store();
        $key = self::key();
        $holder->save($key);
        $number = $holder->fence($key);
        self::assertSame(1, $holder->guard($key, 'INCR', 'count'));
        self::assertConflict(fn () => $store(maxWait: 0.2)->waitAndSave(self::key((string) $key)));
        self::waitUntil(fn () => '1' === $replica->redis()->get('count'));
        $master->stop();

        // The first that asks again finds the next master; what must not be sent twice says that it is not sure.
        self::waitUntil(function () use ($holder, $key) {
            try {
                return $holder->exists($key);
            } catch (\Symfony\Component\Lock\Exception\ExceptionInterface) {
                return false;
            }
        });
        $holder->save($key);
        self::assertGreaterThan($number, $holder->fence($key));
        self::assertSame(2, $holder->guard($key, 'INCR', 'count'));
        self::assertConflict(fn () => $store()->save(self::key((string) $key)));
        $holder->delete($key);
        unlink($configuration);
    }
}
