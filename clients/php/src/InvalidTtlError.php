<?php

namespace RedisLockModule\Symfony;

use Symfony\Component\Lock\Exception\ExceptionInterface;

/**
 * A ttl that makes no sense, such as NAN. An error and no exception, because the component would put an exception behind
 * a "Failed to acquire the lock" of its own.
 */
final class InvalidTtlError extends \ValueError implements ExceptionInterface
{
}
