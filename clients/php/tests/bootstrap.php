<?php

// What the tests need besides PHPUnit: the packages of Composer, or those of Debian.
if (is_file(__DIR__.'/../vendor/autoload.php')) {
    require __DIR__.'/../vendor/autoload.php';
} else {
    foreach (['Symfony/Component/Lock', 'Predis', 'Illuminate/Redis', 'Illuminate/Cache'] as $package) {
        is_file($file = "/usr/share/php/$package/autoload.php") && require_once $file;
    }
}
spl_autoload_register(static function (string $class): void {
    foreach (['RedisLockModule\\Symfony\\Tests\\' => __DIR__, 'RedisLockModule\\Symfony\\' => __DIR__.'/../src'] as $prefix => $folder) {
        if (str_starts_with($class, $prefix) && is_file($file = $folder.'/'.substr($class, strlen($prefix)).'.php')) {
            require $file;

            return;
        }
    }
});
