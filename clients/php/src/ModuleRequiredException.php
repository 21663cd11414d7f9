<?php

namespace RedisLockModule\Symfony;

use Symfony\Component\Lock\Exception\ExceptionInterface;

/**
 * The server has not loaded the redis-lock module, and what was asked for needs it.
 */
final class ModuleRequiredException extends \RuntimeException implements ExceptionInterface
{
    public function __construct(string $what, ?\Throwable $previous = null)
    {
        parent::__construct($what.' needs the redis-lock module, which this server has not loaded. Load it with "loadmodule /path/to/libredis_lock.so" in the server\'s configuration, or with MODULE LOAD.', 0, $previous);
    }
}
