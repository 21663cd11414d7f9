<?php

namespace RedisLockModule\Symfony;

use Symfony\Component\Lock\Exception\ExceptionInterface;

/**
 * The server has not loaded the redis-lock module, or an older one, and what was asked for needs it.
 */
final class ModuleRequiredException extends \RuntimeException implements ExceptionInterface
{
    /** @param string|null $version What the server has loaded, if it is older */
    public function __construct(string $what, ?\Throwable $previous = null, ?string $version = null)
    {
        parent::__construct(null !== $version ? "$what needs version 2.0 of the redis-lock module, and this server's is $version." : $what.' needs the redis-lock module, which this server has not loaded. Load it with "loadmodule /path/to/libredis_lock.so" in the server\'s configuration, or with MODULE LOAD.', 0, $previous);
    }
}
