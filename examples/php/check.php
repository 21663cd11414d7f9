<?php
// What must come of market.php. PORT says where a server with the module is (`make run` starts one).
//
// apt install php-cli php-redis, or: pecl install redis
require __DIR__ . '/market.php';

function open(): Redis
{
    return connect(new Redis(), (int) (getenv('PORT') ?: 6379));
}

function must(bool $true): void
{
    $true || throw new LogicException('this must be true');
}

function throws(string $class, callable $work): Exception
{
    try {
        $work();
    } catch (Exception $thrown) {
        return $thrown instanceof $class ? $thrown : throw $thrown;
    }
    throw new LogicException("no $class");
}

$db = open();
$operator = open();
$db->del(MARKET, LOCK);
$db->hMSet(MARKET, ['ann:funds' => 0, 'bob:funds' => 100]);

sell($db, 'ann', 'sword', 80);
must(buy($db, 'bob', 'sword') && !buy($db, 'bob', 'sword'));
must(array_values($db->hMGet(MARKET, ['ann:funds', 'bob:funds', 'sword:owner'])) === ['80', '20', 'bob']);
echo "bob has bought the sword\n";

ask($db, 'LOCK.ACQUIRE', LOCK, 'a worker that dies', 5_500);
throws(Busy::class, fn () => sell($db, 'bob', 'sword', 90));
echo "tried, and did not wait\n";
$began = microtime(true);
must(!buy($db, 'ann', 'sword') && microtime(true) - $began > 5);
echo "waited for more than 5 seconds\n";

takeStock($db, 5);
echo "renewed a long job\n";

$lost = throws(LockLost::class, fn () => withLock($db, 50, [], function ($owner) use ($db) {
    usleep(100_000);
    write($db, $owner, ['bob:funds' => 1_000_000]);
}));
must(str_starts_with($lost->getPrevious()->getMessage(), 'NOTOWNER') && $db->hGet(MARKET, 'bob:funds') === '20');
must(str_starts_with(throws(RedisException::class, fn () => ask($db, 'LOCK.RENEW', LOCK, 'ann', 0))->getMessage(), 'ERR'));
echo "a lost lock: the write was refused, and RELEASE said so\n";

$fence = ask($db, 'LOCK.ACQUIRE', LOCK, 'ann', 5_000);
$operator->rawCommand('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
must(ask($db, 'LOCK.ACQUIRE', LOCK, 'ann', 1_500) === $fence);
echo "connection broken while holding: the same number $fence\n";

ask($operator, 'LOCK.RELEASE', LOCK, 'ann');
ask($operator, 'LOCK.ACQUIRE', LOCK, 'ben', 1_500);
$hasty = open();
$hasty->setOption(Redis::OPT_READ_TIMEOUT, 1); // its first wait breaks off after 1 second, the second is served
$fence = ask($hasty, 'LOCK.ACQUIRE', LOCK, 'ann', 5_000, 'BLOCK', BLOCK);
must($fence > 0 && ask($hasty, 'LOCK.RELEASE', LOCK, 'ann') === 1 && $hasty->rawCommand('GET', MARKET . ':none') === false);
echo "connection broken while waiting: asked again, and served\n";

class GivenUp extends Exception {}

/** Gives up waiting when its patience is over, in seconds. */
class Hasty extends Redis
{
    public float $patience = 0;

    #[ReturnTypeWillChange]
    public function rawCommand($command, ...$words)
    {
        if ($command !== 'LOCK.ACQUIRE') {
            return parent::rawCommand($command, ...$words);
        }
        $this->setOption(Redis::OPT_READ_TIMEOUT, $this->patience);
        try {
            return parent::rawCommand($command, ...$words);
        } catch (RedisException $late) {
            $port = $this->getPort();
            $this->close();
            connect($this, $port);
            throw new GivenUp();
        } finally {
            $this->setOption(Redis::OPT_READ_TIMEOUT, BLOCK / 1000 + 5);
        }
    }
}

// Another owner's hold ends at the very moment in which a worker gives up.
$hasty = new Hasty();
connect($hasty, (int) (getenv('PORT') ?: 6379));
$givenUp = 0;
for ($round = 0; $round < 1000; $round++) {
    $moment = random_int(1, 6);
    ask($operator, 'LOCK.ACQUIRE', LOCK, 'another owner', $moment);
    $hasty->patience = ($moment + random_int(-5, 15) / 10) / 1000;
    try {
        withLock($hasty, 60_000, ['BLOCK', BLOCK], fn () => null);
    } catch (GivenUp $none) {
        $givenUp++;
    }
    for ($end = microtime(true) + 5; ask($operator, 'LOCK.INFO', LOCK) !== false;) {
        must(microtime(true) < $end);
    }
}
must($givenUp > 100);
echo "$givenUp of 1000 gave up about the moment of their grant, and left nothing behind\n";
