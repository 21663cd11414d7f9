<?php

namespace RedisLockModule\Symfony;

use Psr\Log\LoggerInterface;

/**
 * One request for a lock, by one owner.
 *
 * @internal
 */
final class Acquisition
{
    /** How many commands were sent whose reply has not been seen. */
    private int $unanswered = 0;

    /** Whether a place in the queue may be left behind. */
    private bool $waited = false;

    /** Whether what this owner has or waits for is not of this request. */
    private bool $isOfOthers = false;

    /** Since when its time to live may run: it ends not before this and the ttl. */
    private float $sent = 0;

    /** @param string|null $held The mode in which the owner held the lock before, as far as it knows */
    public function __construct(
        private Server $server,
        private LoggerInterface $logger,
        private string $name,
        private string $owner,
        private int $ttl,
        private bool $shared,
        private ?string $held,
    ) {
    }

    /** The fencing token, 0 without the module, or null if others have the lock. */
    public function once(): ?int
    {
        return Server::persist(fn (bool $again) => $this->send(null, $again));
    }

    /** The same, and waits for it until then. */
    public function wait(float $end): ?int
    {
        for ($pause = 0.01;; $pause = min(2 * $pause, 1)) {
            $this->waited = true;
            $left = 0;
            try {
                $fence = Server::persist(function (bool $again) use ($end, &$left) {
                    $left = max(0, $end - Server::now());

                    return $this->send($left > 0 && !$this->isPromotion() ? $left * 1000 : null, $again);
                }, $end);
            } catch (ServerError $e) {
                if (!$e->startsWith('UNBLOCKED ')) {
                    throw $e;
                }
                $fence = null; // an operator, lock.drain or a failover has ended the wait, and not the patience
            }

            if (null !== $fence && $this->isFresh()) {
                return $fence;
            }
            if (null !== $fence) {
                continue; // it has expired before we heard of it
            }
            if (0 == $left) {
                return null;
            }
            if ($this->isPromotion() && !$this->ask(fn (Commands $commands) => $commands->holds($this->name, $this->owner), $end)) {
                $this->held = null; // the share was lost: like others it waits in the queue
                continue;
            }
            if (Server::now() - $this->sent < 1) {
                // Nothing waits in the server: it has no module, lets no client wait (lock.drain), or keeps a place; or
                // it is a promotion.
                $longest = $this->isPromotion() || $this->server->keepsPlace() ? min($pause, 0.1) : $pause;
                usleep((int) (1e6 * min($longest * random_int(50, 100) / 100, max(0, $end - Server::now()))));
            }
        }
    }

    /** Ends whatever may have become of this request, unless that is sure: then it returns false. */
    public function withdraw(): bool
    {
        if ($this->isOfOthers || null !== $this->held || 0 === $this->unanswered && !$this->waited) {
            return false; // a hold from before stays what it is
        }
        try {
            $this->server->ask(fn (Commands $commands) => $commands->release($this->name, $this->owner, 1.0), $this->logger);
        } catch (ServerError|ConnectionLost|ModuleRequiredException) {
            // What the server can't be told ends after its ttl.
        }

        return true;
    }

    /** A share is to become exclusive. It does not wait in the queue, but tries until no other owner shares the lock. */
    private function isPromotion(): bool
    {
        return !$this->shared && 'read' === $this->held;
    }

    /** When the hold ends at the earliest. */
    public function ends(): float
    {
        return $this->sent + $this->ttl / 1000;
    }

    private function send(?float $wait, bool $again): ?int
    {
        ++$this->unanswered;
        $sent = Server::now();
        // The ttl of a place may begin at any time after a reply that was no grant: when replicas have it.
        if (!$this->sent || null === $wait || !$this->server->keepsPlace()) {
            $this->sent = $sent;
        }
        $mayHold = $again || null !== $this->held;
        try {
            $fence = $this->shared
                ? $this->server->askModule(fn (Commands $commands) => $commands->acquireShared($this->name, $this->owner, $this->ttl, 'write' === $this->held, $wait), $this->logger)
                : $this->server->ask(fn (Commands $commands) => $commands->acquire($this->name, $this->owner, $this->ttl, $mayHold, $wait), $this->logger);
        } catch (ServerError|ModuleRequiredException $e) {
            if (!$e instanceof ServerError || !$e->startsWith('NOREPLICAS')) {
                --$this->unanswered; // else it may have been granted
            }
            // Then the wait is of a later request, or of one for other locks, or the owner has had a share before.
            $this->isOfOthers = $e instanceof ServerError && $e->startsWith('REPLACED', 'ONEWAIT', 'NOUPGRADE');
            throw $e;
        }
        --$this->unanswered;
        if (null === $fence) {
            $this->sent = $sent;
            if ('write' === $this->held) {
                $this->held = null; // it was lost long ago
            }
        }

        return $fence;
    }

    /**
     * The ttl counts from the grant, and it is not known when that was if the reply was long under way: after a
     * wait of more than a tenth of the ttl it is counted afresh.
     */
    private function isFresh(): bool
    {
        if ((Server::now() - $this->sent) * 1000 < $this->ttl / 10) {
            return true;
        }

        return $this->ask(function (Commands $commands) {
            $this->sent = Server::now();

            return $commands->renew($this->name, $this->owner, $this->ttl);
        });
    }

    private function ask(callable $question, ?float $end = null): mixed
    {
        return Server::persist(fn () => $this->server->ask($question, $this->logger), $end);
    }
}
