<?php

// What the tests need besides PHPUnit: the packages of Debian, or those of Composer.
if (is_file(__DIR__.'/../vendor/autoload.php')) {
    require __DIR__.'/../vendor/autoload.php';
} else {
    foreach (['Symfony/Component/Lock', 'Predis', 'Illuminate/Redis', 'Illuminate/Cache'] as $package) {
        is_file($file = "/usr/share/php/$package/autoload.php") && require_once $file;
    }
    spl_autoload_register(static function (string $class): void {
        $prefix = 'RedisLockModule\\Symfony\\';
        if (str_starts_with($class, $prefix) && is_file($file = __DIR__.'/../src/'.substr($class, strlen($prefix)).'.php')) {
            require $file;
        }
    });
}
require __DIR__.'/Server.php';
require __DIR__.'/Proxy.php';
require __DIR__.'/StoreTestCase.php';
