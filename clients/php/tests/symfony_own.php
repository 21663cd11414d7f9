<?php

// Runs the Lock component's own tests for stores on this one. They come with its sources, not with its package:
//
//   php clients/php/tests/symfony_own.php /path/to/Symfony/Component/Lock/Tests/Store [PHPUNIT-OPTION ...]
//
// (Where apt has sources: apt-get source php-symfony-lock.)

namespace RedisLockModule\Symfony\Tests;

require __DIR__.'/bootstrap.php';

$folder = $argv[1] ?? '';
is_dir($folder) || exit("No folder with the component's tests for stores: $folder\n");

$work = sys_get_temp_dir().'/redis-lock-symfony-own-'.getmypid();
mkdir($work);
$failed = 0;
foreach (['with the module' => new Server(), 'without' => new Server(false, program: getenv('REDIS_BARE_SERVER') ?: null)] as $how => $server) {
    foreach (['redis', 'predis', 'queue'] as $client) {
        $class = 'Own'.substr(md5($how.$client), 0, 8).'Test';
        $make = 'predis' === $client ? "new \Predis\Client(['host' => '127.0.0.1', 'port' => {$server->port}])" : 'new \Redis()';
        $connect = 'predis' === $client ? '' : "\$redis->connect('127.0.0.1', {$server->port});";
        $queue = 'queue' === $client ? 'queue: true' : '';
        $traits = ['BlockingStoreTestTrait', 'ExpiringStoreTestTrait', ...('without' === $how ? [] : ['SharedLockStoreTestTrait'])];
        $requires = implode("\n", array_map(static fn ($file) => "require_once '$folder/$file.php';", ['AbstractStoreTestCase', ...$traits]));
        $uses = implode("\n", array_map(static fn ($trait) => "use \Symfony\Component\Lock\Tests\Store\\$trait;", $traits));
        file_put_contents("$work/$class.php", <<<PHP
            <?php
            $requires
            final class $class extends \Symfony\Component\Lock\Tests\Store\AbstractStoreTestCase
            {
                $uses
                public function getStore(): \Symfony\Component\Lock\PersistingStoreInterface
                {
                    \$redis = $make;
                    $connect
                    return new \RedisLockModule\Symfony\RedisLockStore(\$redis, $queue);
                }
                protected function getClockDelay(): int { return 250000; }
            }
            PHP);
        echo "--- $client, $how\n";
        passthru('phpunit --no-configuration --do-not-cache-result --bootstrap '.escapeshellarg(__DIR__.'/bootstrap.php').' '.implode(' ', array_map('escapeshellarg', array_slice($argv, 2)))." $work/$class.php", $status);
        $failed += (int) (0 !== $status);
        unlink("$work/$class.php");
    }
}
rmdir($work);
exit($failed ? 1 : 0);
