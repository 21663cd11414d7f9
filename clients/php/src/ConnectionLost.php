<?php

namespace RedisLockModule\Symfony;

/**
 * The connection broke, or no reply came in time. The connection is closed: a reply that comes late is never read.
 *
 * @internal
 */
final class ConnectionLost extends \RuntimeException
{
}
