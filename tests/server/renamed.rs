//! Servers on which an administrator has taken commands away, or given them other names.

use crate::support::*;

/// What replicas and the append-only file are told of locks by.
const NEEDED: [&str; 6] = ["SET", "DEL", "PERSIST", "PEXPIREAT", "ZADD", "ZREM"];

#[test]
fn waiters_are_served_whichever_commands_the_server_has_been_deprived_of() {
    for renamed in ["CONFIG", "MODULE", "COMMAND", "CLUSTER", "PING", "KEYS"] {
        for name in ["\"\"", "secret"] {
            let server = Server::with().config(&format!("rename-command {renamed} {name}")).start();
            let mut client = server.client();
            client.acquire("k", "a");
            let mut waiter = server.waiter_for("k", "b");
            client.release("k", "a");
            assert!(waiter.answer().int() > 0, "{renamed}");
            cmd!(client, "LOCK.RENEW", "k", "b", 20);
            let mut next = server.client();
            next.send(&args!["LOCK.ACQUIRE", "k", "c", LONG, "BLOCK", 0]);
            assert!(next.answer().int() > 0, "{renamed}");
            let guarded = cmd!(client, "LOCK.GUARD", "k", "c", "ECHO", "hello");
            if renamed == "COMMAND" {
                assert!(guarded.is_error("ERR"), "{guarded:?}");
            } else {
                assert_eq!(guarded, "hello", "{renamed}");
            }
        }
    }
}

#[test]
fn a_server_without_a_command_that_locks_are_replicated_by_refuses_the_module_and_says_which() {
    for needed in NEEDED {
        let log = Server::with().config(&format!("rename-command {needed} secret")).fail_to_start();
        let refusal = format!("> not loaded: this server has no command {needed},");
        assert!(log.contains(&refusal), "{needed}: {log}");
    }
}
