<?php

namespace RedisLockModule\Symfony\Tests;

use Illuminate\Cache\RedisStore;
use Illuminate\Redis\RedisManager;

/** Laravel's lock, which is the same key with the same value. */
final class LaravelTest extends StoreTestCase
{
    protected function setUp(): void
    {
        class_exists(RedisStore::class) && class_exists(RedisManager::class) || self::markTestSkipped('No illuminate/cache and illuminate/redis.');
    }

    /** @dataProvider ways */
    public function test_laravels_lock_and_this_one_exclude_each_other(string $library, bool $module): void
    {
        $cache = self::cache($library, $module);
        $store = self::store('phpredis', $module);
        $name = 'lock:'.bin2hex(random_bytes(6));
        $key = self::key("shop_cache:$name");

        $lock = $cache->lock($name, 10);
        self::assertTrue($lock->acquire());
        self::assertConflict(fn () => $store->save($key));
        self::assertTrue($lock->release());
        $store->save($key);
        self::assertFalse($cache->lock($name, 10)->acquire());
        self::assertFalse($cache->lock($name, 10)->release());
        $store->delete($key);
        self::assertTrue($cache->lock($name, 10)->acquire());
    }

    public function test_who_waits_in_the_queue_gets_what_laravel_releases(): void
    {
        $name = 'lock:'.bin2hex(random_bytes(6));
        $key = self::key("shop_cache:$name");
        $lock = self::cache('phpredis', true)->lock($name, 60);
        self::assertTrue($lock->acquire());
        $child = self::inChild(fn () => self::store()->waitAndSave(self::key((string) $key)));
        self::waitUntil(fn () => 1 === self::waiters($key));
        self::assertTrue($lock->release());
        self::assertChildEnds($child);
    }

    /** @dataProvider libraries */
    public function test_the_lock_of_the_page_waits_in_the_queue(string $library): void
    {
        $page = \dirname(__DIR__, 3).'/docs/libraries/README.md';
        is_file($page) || self::markTestSkipped('No page.');
        if (!class_exists('QueuedLock')) {
            preg_match('/```php\n(use .*?)```/s', file_get_contents($page), $code);
            eval($code[1]);
        }
        $name = 'lock:'.bin2hex(random_bytes(6));
        $cache = self::cache($library, true, 'app:');
        $lock = static fn (int $seconds = 10) => new \QueuedLock($cache->lockConnection(), 'app:'.$cache->getPrefix().$name, $seconds);
        $key = self::key('app:'.$cache->getPrefix().$name);
        self::store(initialTtl: 0.5)->save($key);
        self::assertSame('done', $lock()->block(5, function ($lock, $fence) {
            self::assertGreaterThan(0, $fence);

            return 'done';
        }));
        self::assertTrue(($held = $lock())->block(1));
        self::assertThrows(\Illuminate\Contracts\Cache\LockTimeoutException::class, fn () => $lock()->block(0));
        self::assertSame(0, self::waiters($key));
        self::assertFalse($cache->lock($name, 10)->acquire());
        self::assertTrue($held->release());
        self::assertFalse($held->release());
    }

    private static function cache(string $library, bool $module, string $prefix = ''): RedisStore
    {
        $client = 'Predis' === $library ? 'predis' : 'phpredis';
        $redis = new RedisManager(null, $client, [
            'default' => ['host' => '127.0.0.1', 'port' => self::server($module)->port, 'database' => 0],
            'options' => ['prefix' => $prefix],
        ]);

        return new RedisStore($redis, 'shop_cache', 'default');
    }
}
