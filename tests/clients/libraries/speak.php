<?php
// Answers one line for each line that it is asked: `acquire KEY TTL`, `wait KEY TTL MS`, `adopt KEY TOKEN`, `extend TTL`, `release`.
function answer_each(array $verbs): void
{
    while (($line = fgets(STDIN)) !== false) {
        $args = explode(' ', trim($line));
        try {
            $got = $verbs[array_shift($args)](...$args);
            echo is_string($got) ? $got : ($got ? 'yes' : 'no'), "\n";
        } catch (Throwable $error) {
            echo 'error ', get_class($error), ' ', strtok($error->getMessage(), "\n"), "\n";
        }
    }
}
