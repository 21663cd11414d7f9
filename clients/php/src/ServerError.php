<?php

namespace RedisLockModule\Symfony;

/**
 * The server has replied with an error, whose text is the message.
 *
 * @internal
 */
final class ServerError extends \RuntimeException
{
    /**
     * Whether the server has no such command: a LOCK command without the module, or one of a later version. The second
     * words are those of Upstash.
     */
    public function isUnknownCommand(string $command): bool
    {
        return 1 === preg_match('/^ERR (unknown command|command is not available)\W+'.preg_quote($command, '/').'/i', $this->getMessage());
    }

    public function startsWith(string ...$codes): bool
    {
        foreach ($codes as $code) {
            if (str_starts_with($this->getMessage(), $code)) {
                return true;
            }
        }

        return false;
    }
}
