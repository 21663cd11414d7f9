<?php
// The market under a lock, with phpredis. check.php beside it runs it.

// One tag, so that a cluster keeps them in one slot: GUARD needs the lock beside the data.
const MARKET = '{market}:goods', LOCK = '{market}:lock';
const BLOCK = 10_000; // for how long to wait for the lock, in milliseconds

class Busy extends Exception {} // others have the market
class LockLost extends Exception {} // the hold ended before the work did: another owner may have worked beside us

// phpredis stops reading after default_socket_timeout of php.ini (60 seconds), or after the read timeout that is the
// last argument here: it must be longer than the longest BLOCK.
function connect(Redis $db, int $port): Redis
{
    $db->connect('127.0.0.1', $port, 5, null, 0, BLOCK / 1000 + 5);
    return $db;
}

// When the connection breaks, close it before you retry: otherwise phpredis reads the late answer to this question
// as the answer to the next one; with pconnect, even in another request of another user. A retry is harmless: same
// owner, so same fencing token. (rawCommand leaves your OPT_PREFIX out: write the lock's whole name.)
function ask(Redis $db, ...$words)
{
    for ($tries = 1; ; $tries++) {
        try {
            $db->clearLastError();
            $answer = $db->rawCommand(...$words); // nil is false, and so are some errors
            return $db->getLastError() === null ? $answer : throw new RedisException($db->getLastError());
        } catch (RedisException $broken) {
            if ($db->getLastError() !== null || $tries === 5) {
                throw $broken; // what the server has said stands: NOTOWNER, DEADLOCK, READONLY ...
            }
            $port = $db->getPort();
            $db->close();
            connect($db, $port);
        }
    }
}

function withLock(Redis $db, int $ttl, array $how, callable $work)
{
    $owner = bin2hex(random_bytes(16)); // a fresh one for each piece of work, not for each worker
    $fence = null;
    try {
        $fence = ask($db, 'LOCK.ACQUIRE', LOCK, $owner, $ttl, ...$how) ?: throw new Busy();
        return $work($owner);
    } finally {
        // The one way out, whatever has become of the request: a worker that gives up in the moment of its grant (a
        // read timeout, an exception from a signal) has the lock, and does not know it.
        // Asked twice, RELEASE answers 0 the second time: this may be a false alarm, but never a missed one.
        if (!ask($db, 'LOCK.RELEASE', LOCK, $owner) && $fence) {
            throw new LockLost();
        }
    }
}

// All of it or nothing, and nothing (NOTOWNER) once the lock is lost. New values and no differences (HINCRBY), because
// ask() may ask twice.
function write(Redis $db, string $owner, array $values): void
{
    $pairs = array_merge(...array_map(null, array_keys($values), array_values($values)));
    ask($db, 'LOCK.GUARD', LOCK, $owner, 'HSET', MARKET, ...$pairs);
}

function sell(Redis $db, string $seller, string $item, int $price): void
{
    withLock($db, 5_000, [], fn ($owner) => // tries once
        write($db, $owner, ["$item:owner" => $seller, "$item:price" => $price]));
}

function buy(Redis $db, string $buyer, string $item): bool
{
    return withLock($db, 5_000, ['BLOCK', BLOCK], function ($owner) use ($db, $buyer, $item) { // waits in line
        $market = $db->hGetAll(MARKET);
        $seller = $market["$item:owner"];
        $price = (int) $market["$item:price"];
        $purse = (int) $market["$buyer:funds"];
        if ($price === 0 || $price > $purse) {
            return false;
        }
        write($db, $owner, ["$buyer:funds" => $purse - $price, "$seller:funds" => $market["$seller:funds"] + $price,
            "$item:owner" => $buyer, "$item:price" => 0]);
        return true;
    });
}

function takeStock(Redis $db, int $shelves): void
{
    withLock($db, 1_000, ['BLOCK', BLOCK], function ($owner) use ($db, $shelves) {
        for ($shelf = 0; $shelf < $shelves; $shelf++) {
            usleep(300_000); // longer than the ttl in all: so it renews, and stops when that comes too late
            ask($db, 'LOCK.RENEW', LOCK, $owner, 1_000) ?: throw new LockLost();
        }
    });
}
