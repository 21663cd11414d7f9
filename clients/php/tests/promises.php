<?php

// The program by which tests/clients/promises tests this package. Its lines are described in program.py there.

use RedisLockModule\Symfony\ConnectionLost;
use RedisLockModule\Symfony\ModuleRequiredException;
use RedisLockModule\Symfony\RedisLockStore;
use RedisLockModule\Symfony\ServerError;
use Symfony\Component\Lock\Exception\InvalidArgumentException;
use Symfony\Component\Lock\Exception\InvalidTtlException;
use Symfony\Component\Lock\Exception\LockConflictedException;
use Symfony\Component\Lock\Exception\LockExpiredException;
use Symfony\Component\Lock\Key;

require __DIR__.'/bootstrap.php';

[, $library, $port] = $argv;
if ('Predis' === $library) {
    $client = new Predis\Client(['host' => '127.0.0.1', 'port' => (int) $port]);
} else {
    $client = new Redis();
    $client->connect('127.0.0.1', (int) $port, 5);
}
$holds = [];

$verbs = [
    'acquire' => function (string $name, string $ttl, string ...$words) use ($client, &$holds): string {
        $given = [];
        foreach ($words as $word) {
            [$option, $value] = explode('=', $word) + [1 => ''];
            $given[$option] = $value;
        }
        if (str_contains($name, ',') || array_intersect_key($given, ['renew' => 1, 'owner' => 1, 'limit' => 1, 'fair' => 1, 'per' => 1, 'max-queue' => 1, 'cancellable' => 1])) {
            return 'cannot';
        }
        $wait = $given['wait'] ?? null;
        $store = new RedisLockStore(
            $client,
            initialTtl: $ttl / 1000,
            maxWait: in_array($wait, [null, 'forever'], true) ? null : $wait / 1000,
            requireModule: isset($given['module']),
            ownerPrefix: $given['prefix'] ?? null,
            replicas: isset($given['replicas']) ? (int) $given['replicas'] : null,
        );
        $key = new Key($name);
        match (true) {
            isset($given['shared']) => null === $wait ? $store->saveRead($key) : $store->waitAndSaveRead($key),
            null === $wait => $store->save($key),
            default => $store->waitAndSave($key),
        };
        $holds[] = [$store, $key];

        return 'hold '.(count($holds) - 1).' '.($store->fence($key) ?? '-');
    },
    // Symfony's stores don't say that a lock was lost before its release.
    'release' => function (string $number) use (&$holds): string {
        [$store, $key] = $holds[$number];
        $store->delete($key);

        return 'done';
    },
    'renew' => function (string $number, string $ttl) use (&$holds): string {
        [$store, $key] = $holds[$number];
        try {
            $key->resetLifetime(); // as Symfony's Lock does
            $store->putOffExpiration($key, $ttl / 1000);
        } catch (LockConflictedException) {
            return 'lost';
        }

        return 'ok';
    },
    'held' => function (string $number) use (&$holds): string {
        [$store, $key] = $holds[$number];

        return !$key->isExpired() && $store->exists($key) ? 'yes' : 'no';
    },
    'guard' => function (string $number, string ...$command) use (&$holds): string {
        [$store, $key] = $holds[$number];
        try {
            $reply = $store->guard($key, ...$command);
        } catch (LockConflictedException) {
            return 'lost';
        }

        return 'reply '.(true === $reply ? 'OK' : $reply);
    },
    'losses' => fn (): string => 'cannot', // nothing goes on in the background
    'forked' => fn (): string => 'cannot', // a Key is a hold in whichever process it is
];

$wordFor = function (Throwable $e): string {
    $text = preg_replace('/\s+/', ' ', $e->getMessage());
    $cause = $e->getPrevious();

    return match (true) {
        $e instanceof ModuleRequiredException, $cause instanceof ModuleRequiredException => "missing $text",
        $e instanceof ValueError, $e instanceof InvalidArgumentException, $e instanceof InvalidTtlException => "invalid $text",
        $cause instanceof ServerError => 'refused '.$cause->getMessage(),
        $cause instanceof ConnectionLost => "unknown $text",
        $e instanceof LockConflictedException, $e instanceof LockExpiredException => 'busy',
        default => 'error '.$e::class.": $text",
    };
};

echo "ready without background\n";
while (false !== $line = fgets(STDIN)) {
    $words = explode(' ', trim($line));
    try {
        echo $verbs[$words[0]](...array_slice($words, 1)), "\n";
    } catch (Throwable $e) {
        echo $wordFor($e), "\n";
    }
}
