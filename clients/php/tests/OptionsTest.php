<?php

namespace RedisLockModule\Symfony\Tests;

use RedisLockModule\Symfony\RedisLockStore;
use Symfony\Component\Lock\Exception\InvalidArgumentException;
use Symfony\Component\Lock\Exception\InvalidTtlException;

/** Nonsense is refused before anything is sent. */
final class OptionsTest extends StoreTestCase
{
    public static function nonsense(): array
    {
        return [
            'a ttl of 0' => [InvalidTtlException::class, ['initialTtl' => 0]],
            'a negative ttl' => [InvalidTtlException::class, ['initialTtl' => -1]],
            'a ttl below a millisecond' => [InvalidTtlException::class, ['initialTtl' => 0.0001]],
            'an endless ttl' => [InvalidTtlException::class, ['initialTtl' => \INF]],
            'a ttl that is no number' => [InvalidTtlException::class, ['initialTtl' => \NAN]],
            'a ttl beyond all clocks' => [InvalidTtlException::class, ['initialTtl' => 1e13]],
            'a ttl in words' => [\TypeError::class, ['initialTtl' => 'ten']],
            'a negative wait' => [InvalidArgumentException::class, ['maxWait' => -1]],
            'an endless wait' => [InvalidArgumentException::class, ['maxWait' => \INF]],
            'a wait that is no number' => [InvalidArgumentException::class, ['maxWait' => \NAN]],
            'an unknown option' => [\Error::class, ['limit' => 3]],
        ];
    }

    /** @dataProvider nonsense */
    public function test_a_store_with_a_nonsensical_option_is_refused(string $class, array $options): void
    {
        self::assertThrows($class, fn () => new RedisLockStore(new \Redis(), ...$options));
    }

    public function test_a_client_of_another_kind_is_refused(): void
    {
        self::assertThrows(InvalidArgumentException::class, fn () => new RedisLockStore(new \ArrayObject()));
    }

    public function test_a_refresh_by_nonsense_is_refused_and_changes_nothing(): void
    {
        $store = self::store();
        $key = self::key();
        $store->save($key);
        foreach ([0, -1, \NAN, \INF, 1e13] as $ttl) {
            self::assertThrows(InvalidTtlException::class, fn () => $store->putOffExpiration($key, $ttl));
        }
        self::assertTrue($store->exists($key));
        self::assertGreaterThan(290_000, self::client()->pttl((string) $key));
        self::assertFalse($key->isExpired());
    }

    public function test_fractions_of_a_millisecond_are_rounded_up(): void
    {
        $store = self::store(initialTtl: 30.0001);
        $key = self::key();
        $store->save($key);
        self::assertThat(self::client()->pttl((string) $key), self::logicalAnd(self::greaterThan(25_000), self::lessThanOrEqual(30_001)));
    }
}
