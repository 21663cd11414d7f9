<?php

namespace RedisLockModule\Symfony;

use Predis\ClientInterface;
use Predis\Command\CommandInterface;
use Predis\Command\RawCommand;
use Predis\CommunicationException;
use Predis\Connection\ConnectionInterface;
use Predis\Connection\NodeConnectionInterface;
use Predis\Connection\StreamConnection;
use Predis\Response\ErrorInterface;

/**
 * Predis: a single server, replication (also with Sentinel), or a cluster.
 *
 * @internal
 */
final class PredisConnection implements Connection
{
    public function __construct(private ClientInterface $client)
    {
    }

    public function client(): object
    {
        return $this->client;
    }

    public function key(string $name): string
    {
        return $this->client->getOptions()->prefix?->getPrefix().$name;
    }

    public function longestWait(): float
    {
        $connection = $this->client->getConnection();

        return $connection instanceof StreamConnection || method_exists($connection, 'switchToMaster') ? 600 : 0;
    }

    public function send(string $name, array $words, ?float $timeout = null, bool $once = false): mixed
    {
        $command = self::command($words);

        return $this->exchange($command, $timeout, $once, function (ConnectionInterface $connection, NodeConnectionInterface $node) use ($name, $command, $once) {
            $reply = ($once ? $node : $connection)->executeCommand($command);
            if ($once && $reply instanceof ErrorInterface && 1 === preg_match('/^(MOVED|ASK) /', $reply->getMessage())) {
                // Nothing has run. A command that may be sent twice finds the way.
                $this->send($name, ['EXISTS', $this->key($name)]);
                $reply = $this->node($connection, $command)->executeCommand($command);
            }

            return [$reply];
        })[0];
    }

    public function sendTogether(string $name, array $commands): ?array
    {
        if (method_exists($this->client->getConnection(), 'getClusterStrategy')) {
            return null; // not every command says where it goes
        }
        $commands = array_map(self::command(...), $commands);

        return $this->exchange($commands[0], self::REPLY, false, static function (ConnectionInterface $connection, NodeConnectionInterface $node) use ($commands) {
            foreach ($commands as $command) {
                $node->writeRequest($command);
            }

            return array_map($node->readResponse(...), $commands);
        });
    }

    private static function command(array $words): RawCommand
    {
        return RawCommand::create(...array_map('strval', $words));
    }

    /** @return array The replies, none of which is an error */
    private function exchange(RawCommand $command, ?float $timeout, bool $once, callable $send): array
    {
        $connection = $this->client->getConnection();
        $limited = null;
        try {
            if (method_exists($connection, 'getClusterStrategy')) {
                // Commands that Predis does not know have no key until it is told where that is.
                $connection->getClusterStrategy()->setCommandHandler($command->getId(), 'EVAL' === $command->getId()
                    ? static fn (CommandInterface $command) => $command->getArgument(2)
                    : static fn (CommandInterface $command) => $command->getArgument(0));
            } elseif (method_exists($connection, 'switchToMaster')) {
                $connection->switchToMaster();
            }
            $node = $this->node($connection, $command);
            if (!$once && $node instanceof StreamConnection) {
                $limited = $node;
                $own = (float) ($node->getParameters()->read_write_timeout ?? \ini_get('default_socket_timeout'));
                $this->limit($limited, $timeout ?? ($own > 0 ? min($own, self::REPLY) : self::REPLY));
            }
            $replies = $send($connection, $node);
        } catch (CommunicationException $e) {
            $e->getConnection()->disconnect();
            throw new ConnectionLost($e->getMessage(), 0, $e);
        } finally {
            if ($limited?->isConnected()) {
                $this->limit($limited, $own);
            }
        }
        foreach ($replies as $reply) {
            if ($reply instanceof ErrorInterface) {
                throw new ServerError($reply->getMessage());
            }
        }

        return $replies;
    }

    /** The connection to the one server that this command goes to. */
    private function node(ConnectionInterface $connection, CommandInterface $command): NodeConnectionInterface
    {
        return match (true) {
            $connection instanceof NodeConnectionInterface => $connection,
            method_exists($connection, 'switchToMaster') => $connection->getMaster(),
            // The name of Predis 2, and that of Predis 1.
            method_exists($connection, 'getConnectionByCommand') => $connection->getConnectionByCommand($command),
            default => $connection->getConnection($command),
        };
    }

    private function limit(StreamConnection $node, float $seconds): void
    {
        $seconds = $seconds > 0 ? $seconds : -1;
        stream_set_timeout($node->getResource(), (int) floor($seconds), (int) (($seconds - floor($seconds)) * 1e6));
    }
}
