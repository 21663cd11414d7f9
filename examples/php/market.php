<?php
// The market under a lock, with phpredis. Needs a server with the module (`make run`); PORT says where.

// One tag, so that a cluster keeps them in one slot: GUARD needs the lock beside the data.
const MARKET = 'market';
const LOCK = '{market}:lock';
const BLOCK = 10_000; // for how long to wait for the lock, in milliseconds

class LockLost extends Exception {} // the hold ended before the work did: somebody else may have worked beside us

// phpredis stops reading after default_socket_timeout of php.ini (60 seconds), or after the read timeout that is the
// last argument here: it must be longer than the longest BLOCK.
function connect(Redis $db, float $readTimeout = BLOCK / 1000 + 5): Redis
{
    $db->connect('127.0.0.1', (int) (getenv('PORT') ?: 6379), 5, null, 0, $readTimeout);
    return $db;
}

// When the connection breaks, close it before you ask again. Otherwise phpredis reads the late answer to this question
// as the answer to the next one; with pconnect, even in another request of another user. Asking again is harmless:
// same owner, so same fencing number. (rawCommand leaves your OPT_PREFIX out: write the lock's whole name.)
function ask(Redis $db, ...$command)
{
    for ($tries = 1; ; $tries++) {
        $db->clearLastError();
        try {
            $answer = $db->rawCommand(...$command);
        } catch (RedisException $e) {
            if ($db->getLastError() !== null || $tries === 5) {
                throw $e; // the server has said no: READONLY, NOTOWNER, DEADLOCK ...
            }
            $readTimeout = $db->getReadTimeout();
            $db->close();
            connect($db, $readTimeout);
            continue;
        }
        if ($answer === false && $db->getLastError() !== null) {
            throw new RedisException($db->getLastError()); // an error that phpredis does not throw: ERR ...
        }
        return $answer; // nil is false
    }
}

function withLock(Redis $db, int $ttl, callable $work)
{
    $owner = bin2hex(random_bytes(16)); // a fresh one for each piece of work, not for each worker
    if (ask($db, 'LOCK.ACQUIRE', LOCK, $owner, $ttl, 'BLOCK', BLOCK) === false) {
        throw new RuntimeException('the market was not free within ' . BLOCK . ' ms');
    }
    try {
        return $work($owner);
    } finally {
        // Asked twice, RELEASE answers 0 the second time: so this may be a false alarm, but never a missed one.
        if (ask($db, 'LOCK.RELEASE', LOCK, $owner) === 0) {
            throw new LockLost();
        }
    }
}

// One command, so all or nothing, and nothing (NOTOWNER) once the lock is lost. It sets new values instead of adding
// (HINCRBY), because ask() may do it twice.
function write(Redis $db, string $owner, array $values): void
{
    $pairs = [];
    foreach ($values as $field => $value) {
        array_push($pairs, $field, $value);
    }
    ask($db, 'LOCK.GUARD', LOCK, $owner, 'HSET', MARKET, ...$pairs);
}

function sell(Redis $db, string $seller, string $item, int $price): void
{
    withLock($db, 5_000, function (string $owner) use ($db, $seller, $item, $price) {
        if ($db->hGet(MARKET, "$item:owner") !== $seller) {
            throw new DomainException("$seller has no $item");
        }
        write($db, $owner, ["$item:price" => $price]);
    });
}

function buy(Redis $db, string $buyer, string $item): bool
{
    return withLock($db, 5_000, function (string $owner) use ($db, $buyer, $item) {
        $market = $db->hGetAll(MARKET);
        $seller = $market["$item:owner"];
        $price = (int) $market["$item:price"];
        $purse = (int) $market["$buyer:funds"];
        if ($price === 0 || $price > $purse) {
            return false;
        }
        write($db, $owner, [
            "$buyer:funds" => $purse - $price, "$seller:funds" => $market["$seller:funds"] + $price,
            "$item:owner" => $buyer, "$item:price" => 0,
        ]);
        return true;
    });
}

// A job longer than its ttl renews between its steps, and stops as soon as that comes too late.
function takeStock(Redis $db, int $shelves): void
{
    withLock($db, 1_000, function (string $owner) use ($db, $shelves) {
        for ($shelf = 0; $shelf < $shelves; $shelf++) {
            usleep(300_000);
            if (ask($db, 'LOCK.RENEW', LOCK, $owner, 1_000) === 0) {
                throw new LockLost();
            }
        }
    });
}

// From here on: the examples at work, and what must come of it.
function must(bool $true): void
{
    $true || throw new LogicException('this must be true');
}

$db = connect(new Redis());
$operator = connect(new Redis());
$db->del(MARKET, LOCK);
$db->hMSet(MARKET, ['ann:funds' => 0, 'bob:funds' => 100, 'sword:owner' => 'ann']);

sell($db, 'ann', 'sword', 80);
must(buy($db, 'bob', 'sword') && !buy($db, 'bob', 'sword'));
must(array_values($db->hMGet(MARKET, ['ann:funds', 'bob:funds', 'sword:owner'])) === ['80', '20', 'bob']);
echo "bob has bought the sword\n";

ask($db, 'LOCK.ACQUIRE', LOCK, 'a worker that dies', 5_500);
must(ask($db, 'LOCK.ACQUIRE', LOCK, 'one that only tries', 1_000) === false);
$began = microtime(true);
withLock($db, 5_000, fn () => must(microtime(true) - $began > 5));
echo "waited for more than 5 seconds\n";

takeStock($db, 5);
echo "renewed a long job\n";

try {
    withLock($db, 50, function (string $owner) use ($db) {
        usleep(100_000);
        write($db, $owner, ['bob:funds' => 1_000_000]);
    });
    must(false);
} catch (LockLost $lost) {
    must(str_starts_with($lost->getPrevious()->getMessage(), 'NOTOWNER') && $db->hGet(MARKET, 'bob:funds') === '20');
}
echo "a lost lock: the write was refused, and RELEASE said so\n";

$fence = ask($db, 'LOCK.ACQUIRE', LOCK, 'ann', 5_000);
$operator->rawCommand('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
must(ask($db, 'LOCK.ACQUIRE', LOCK, 'ann', 1_500) === $fence);
echo "connection broken while holding: the same number $fence\n";

ask($operator, 'LOCK.RELEASE', LOCK, 'ann');
ask($operator, 'LOCK.ACQUIRE', LOCK, 'ben', 1_500);
$hasty = connect(new Redis(), 1); // reads for 1 second only: its first wait breaks off, the second is served
$fence = ask($hasty, 'LOCK.ACQUIRE', LOCK, 'ann', 5_000, 'BLOCK', BLOCK);
must($fence > 0 && ask($hasty, 'LOCK.RELEASE', LOCK, 'ann') === 1 && $hasty->rawCommand('GET', MARKET . ':none') === false);
echo "connection broken while waiting: asked again, and served\n";
