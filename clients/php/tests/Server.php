<?php

namespace RedisLockModule\Symfony\Tests;

/**
 * A server of its own, on a free port, in a folder of its own.
 *
 * REDIS_SERVER is the program, REDIS_LOCK_MODULE the module. REDIS_BARE_SERVER is that of the servers without the module,
 * which may be older than the module allows.
 */
final class Server
{
    public readonly int $port;
    private string $folder;

    /** @var resource */
    private $process;

    /** @param list<string> $options */
    public function __construct(bool $module = true, array $options = [], ?string $program = null)
    {
        $program ??= getenv('REDIS_SERVER') ?: 'redis-server';
        // A port may be another process's: then the server ends, and another is tried.
        for ($tries = 1;; ++$tries) {
            $port = random_int(20000, 29999);
            $this->folder = sys_get_temp_dir().'/redis-lock-php-'.$port.'-'.bin2hex(random_bytes(4));
            mkdir($this->folder);
            $configuration = array_filter($options, static fn ($option) => is_file($option));
            $command = [$program, ...$configuration, '--port', (string) $port, '--bind', '127.0.0.1', '--dir', $this->folder, '--save', '', '--appendonly', 'no', ...array_diff($options, $configuration)];
            if ($module) {
                array_push($command, '--loadmodule', self::module());
            }
            $log = ['file', $this->folder.'/log', 'w'];
            $this->process = proc_open($command, [['file', '/dev/null', 'r'], $log, $log], $pipes);
            if ($this->isUp($port)) {
                $this->port = $port;

                return;
            }
            $said = file_get_contents($this->folder.'/log');
            $this->stop();
            if (20 === $tries) {
                throw new \RuntimeException("No server: $said");
            }
        }
    }

    public function __destruct()
    {
        $this->stop();
    }

    public static function module(): string
    {
        return getenv('REDIS_LOCK_MODULE') ?: \dirname(__DIR__, 3).'/target/release/libredis_lock.so';
    }

    public function redis(): \Redis
    {
        $redis = new \Redis();
        $redis->connect('127.0.0.1', $this->port, 5);

        return $redis;
    }

    public function predis(array $options = []): \Predis\Client
    {
        return new \Predis\Client(['host' => '127.0.0.1', 'port' => $this->port], $options);
    }

    /** How often this command was called, and ended without an error. */
    public function calls(string $command): int
    {
        $line = $this->redis()->info('commandstats')['cmdstat_'.strtolower($command)] ?? 'calls=0';

        return (int) substr($line, \strlen('calls='));
    }

    public function pause(): void
    {
        posix_kill(proc_get_status($this->process)['pid'], \SIGSTOP);
    }

    /** Whether it is not paused. */
    public function runs(): bool
    {
        $status = file_get_contents('/proc/'.proc_get_status($this->process)['pid'].'/status');

        return !str_contains($status, "State:\tT");
    }

    public function resume(): void
    {
        posix_kill(proc_get_status($this->process)['pid'], \SIGCONT);
    }

    public function stop(): void
    {
        if (!\is_resource($this->process)) {
            return;
        }
        proc_terminate($this->process, \SIGKILL);
        proc_close($this->process);
        array_map('unlink', glob($this->folder.'/*'));
        rmdir($this->folder);
    }

    private function isUp(int $port): bool
    {
        $end = microtime(true) + 20;
        do {
            if (!proc_get_status($this->process)['running']) {
                return false;
            }
            try {
                $redis = new \Redis();
                $redis->connect('127.0.0.1', $port, 1);
                if ($redis->ping() && $redis->info('server')['process_id'] == proc_get_status($this->process)['pid']) {
                    return true;
                }
            } catch (\RedisException) {
            }
            usleep(20_000);
        } while (microtime(true) < $end);

        return false;
    }
}
