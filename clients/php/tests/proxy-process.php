<?php

// Between a client and a server. Does something once, to the first request that contains WORD:
//
//   php proxy-process.php SERVER-PORT WORD cut|cut-at-once|lose-reply|refuse|refuse-at-once|stall
//
// "refuse" loses the reply, and then refuses connections for half a second. "at-once" is before the client reads.

[, $upstream, $word, $action] = $argv;
$listener = stream_socket_server('tcp://127.0.0.1:0', $errno, $error) ?: exit($error);
$address = stream_socket_get_name($listener, false);
echo substr(strrchr($address, ':'), 1), "\n";
$pairs = []; // by the number of the stream: the stream, its other side, whether it is the client's
$losing = [];
$close = static function ($stream) use (&$pairs): void {
    foreach ([$stream, $pairs[(int) $stream][1]] as $one) {
        unset($pairs[(int) $one]);
        fclose($one);
    }
};
for (;;) {
    $ready = [$listener, ...array_column($pairs, 0)];
    $none = [];
    stream_select($ready, $none, $none, null);
    foreach ($ready as $stream) {
        if ($stream === $listener) {
            $client = stream_socket_accept($listener);
            $server = stream_socket_client("tcp://127.0.0.1:$upstream");
            $pairs[(int) $client] = [$client, $server, true];
            $pairs[(int) $server] = [$server, $client, false];
            continue;
        }
        if (!isset($pairs[(int) $stream])) {
            continue; // closed a moment ago, with its other side
        }
        [, $other, $isClient] = $pairs[(int) $stream];
        $bytes = fread($stream, 65536);
        if ('' === $bytes || false === $bytes) {
            $close($stream);
            continue;
        }
        if ($isClient && '' !== $word && str_contains($bytes, $word)) {
            $word = '';
            if (str_starts_with($action, 'cut')) {
                usleep('cut' === $action ? 20_000 : 0);
                $close($stream);
                continue;
            }
            $losing[(int) $other] = true;
        } elseif (!$isClient && isset($losing[(int) $stream])) {
            if ('stall' === $action) {
                continue;
            }
            unset($losing[(int) $stream]);
            str_ends_with($action, 'at-once') || usleep(20_000);
            $refuses = str_starts_with($action, 'refuse');
            $refuses && fclose($listener);
            $close($stream);
            if ($refuses) {
                usleep(500_000);
                $listener = stream_socket_server("tcp://$address", $errno, $error) ?: exit($error);
            }
            continue;
        }
        fwrite($other, $bytes);
    }
}
