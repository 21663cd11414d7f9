<?php
// The unpacked package locks on the server at PORT.
require '/usr/share/php/Symfony/Component/Lock/autoload.php';

// As Composer would find its classes.
$package = __DIR__ . '/php';
$folders = json_decode(file_get_contents("$package/composer.json"), true)['autoload']['psr-4'];
spl_autoload_register(function (string $class) use ($package, $folders): void {
    foreach ($folders as $prefix => $folder) {
        if (str_starts_with($class, $prefix)) {
            require "$package/$folder" . strtr(substr($class, strlen($prefix)), '\\', '/') . '.php';
        }
    }
});

$redis = new Redis();
$redis->connect('127.0.0.1', (int) getenv('PORT'));
$store = new RedisLockModule\Symfony\RedisLockStore($redis, initialTtl: 30);
$lock = (new Symfony\Component\Lock\LockFactory($store))->createLock('tried:php');
$held = fn () => (bool) $redis->rawCommand('LOCK.INFO', 'tried:php');
$lock->acquire() && $held() || exit("not held\n");
$lock->release();
$held() && exit("not released\n");
echo "  PHP: locks\n";
