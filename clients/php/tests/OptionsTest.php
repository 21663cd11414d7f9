<?php

namespace RedisLockModule\Symfony\Tests;

use RedisLockModule\Symfony\InvalidTtlError;
use RedisLockModule\Symfony\RedisLockStore;
use Symfony\Component\Lock\Exception\ExceptionInterface;
use Symfony\Component\Lock\Exception\InvalidArgumentException;
use Symfony\Component\Lock\Exception\InvalidTtlException;
use Symfony\Component\Lock\LockFactory;

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
            'owners without a beginning' => [InvalidArgumentException::class, ['ownerPrefix' => '']],
            'owners of more than 1024 bytes' => [InvalidArgumentException::class, ['ownerPrefix' => str_repeat('x', 988)]],
            'less than no replicas' => [InvalidArgumentException::class, ['replicas' => -1]],
            'too many replicas' => [InvalidArgumentException::class, ['replicas' => 65]],
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
            self::assertThrows(InvalidTtlError::class, fn () => $store->putOffExpiration($key, $ttl));
        }
        self::assertTrue($store->exists($key));
        self::assertGreaterThan(290_000, self::client()->pttl((string) $key));
        self::assertFalse($key->isExpired());
    }

    public function test_the_component_shows_what_is_wrong_with_a_ttl(): void
    {
        $name = (string) self::key();
        foreach ([-1, \NAN, \INF] as $ttl) {
            $lock = (new LockFactory(self::store()))->createLock($name, $ttl);
            foreach ([false, true] as $blocking) {
                $said = self::assertThrows(ExceptionInterface::class, fn () => $lock->acquire($blocking))->getMessage();
                self::assertSame("The ttl of the lock \"$name\" must be a number of seconds above 0, and is $ttl.", $said);
            }
            unset($lock); // and the lock is free
        }
        self::store()->save(self::key($name));
    }

    public function test_an_owner_says_which_process_it_is(): void
    {
        $store = self::store();
        $store->save($key = self::key());
        $uuid = '[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}';
        $host = preg_quote(substr(gethostname(), 0, 64), '/');
        self::assertMatchesRegularExpression("/^$host:".getmypid().":$uuid\$/", self::client()->get((string) $key));
        self::assertChildEnds(self::inChild(function () use ($store) {
            $store = self::store();
            $store->save($key = self::key());
            str_contains(self::owner($key), ':'.getmypid().':') || throw new \LogicException(self::owner($key));
        }));
        foreach (['worker-7', str_repeat('x', 987)] as $prefix) {
            $store = self::store(ownerPrefix: $prefix);
            $store->save($key = self::key());
            self::assertMatchesRegularExpression("/^$prefix:$uuid\$/", self::client()->get((string) $key));
        }
        $store->save($other = self::key());
        self::assertNotSame(self::owner($key), self::owner($other));
    }

    public function test_fractions_of_a_millisecond_are_rounded_up(): void
    {
        $store = self::store(initialTtl: 30.0001);
        $key = self::key();
        $store->save($key);
        self::assertThat(self::client()->pttl((string) $key), self::logicalAnd(self::greaterThan(25_000), self::lessThanOrEqual(30_001)));
    }
}
