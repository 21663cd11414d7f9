<?php

namespace RedisLockModule\Symfony\Tests;

/** Does to the first request that contains a word what `proxy-process.php` lists. */
final class Proxy
{
    public readonly int $port;

    /** @var resource */
    private $process;

    public function __construct(Server $server, string $word, string $action)
    {
        $this->process = proc_open([\PHP_BINARY, __DIR__.'/proxy-process.php', (string) $server->port, $word, $action],
            [['file', '/dev/null', 'r'], ['pipe', 'w'], ['file', '/dev/null', 'w']], $pipes);
        $this->port = (int) fgets($pipes[1]);
    }

    public function __destruct()
    {
        proc_terminate($this->process, \SIGKILL);
        proc_close($this->process);
    }

    public function client(string $library): object
    {
        if ('Predis' === $library) {
            return new \Predis\Client(['host' => '127.0.0.1', 'port' => $this->port]);
        }
        $redis = new \Redis();
        $redis->connect('127.0.0.1', $this->port, 5);

        return $redis;
    }
}
