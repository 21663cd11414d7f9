//! Servers that read and parse on several threads. Nothing of the module may run on any but the
//! server's own, whatever the clients send at once.

use crate::support::*;
use std::thread;

const CLIENTS: usize = 8;
const ROUNDS: usize = 60;
const PIPELINED: usize = 64;

/// A server or a node that hands the reading to three more threads, also when little is to be read.
fn with_io_threads(setup: Setup) -> Setup {
    setup.append_only().io_threads(4)
}

/// Each client sends its commands in pipelines, all at once, so that the server's threads have work.
/// Every command is answered by whom it should be.
fn storm(server: &Server, lines: &(dyn Fn(usize, usize) -> Vec<Command> + Sync)) {
    thread::scope(|scope| {
        for client in 0..2 * CLIENTS {
            scope.spawn(move || {
                let mut connection = server.client();
                for round in 0..ROUNDS {
                    let commands = lines(client, round);
                    for answer in connection.pipeline(&commands) {
                        assert!(!answer.is_error(""), "client {client}: {answer:?}");
                    }
                }
            });
        }
    });
    assert!(server.is_alive());
    assert_eq!(cmd!(server.client(), "PING"), "PONG");
    let log = server.log();
    assert!(!log.contains("<lock> internal error"), "{log}");
}

/// Half of the clients write plainly, the others with these commands.
fn beside_plain_writes(server: &Server, of_client: &(dyn Fn(usize, usize) -> Vec<Command> + Sync)) {
    storm(server, &|client, round| {
        if client < CLIENTS {
            return of_client(client, round);
        }
        let key = format!("{{a}}plain{client}");
        (0..PIPELINED / 2).flat_map(|n| [args!["SET", key, n], args!["DEL", key]]).collect()
    });
}

#[test]
fn guarded_writes_beside_plain_ones_leave_a_server_with_io_threads_alive() {
    let server = with_io_threads(Server::with()).start();
    let mut admin = server.client();
    for client in 0..CLIENTS {
        admin.acquire(format!("{{a}}{client}"), "o");
    }
    beside_plain_writes(&server, &|client, round| {
        (0..PIPELINED)
            .map(|n| {
                let (lock, data) = (format!("{{a}}{client}"), format!("{{a}}d{client}"));
                args!["LOCK.GUARD", lock, "o", "SET", data, round * PIPELINED + n]
            })
            .collect()
    });
    let last = (ROUNDS * PIPELINED - 1).to_string();
    for client in 0..CLIENTS {
        assert_eq!(cmd!(admin, "GET", format!("{{a}}d{client}")), last);
    }
}

#[test]
fn several_locks_beside_plain_writes_leave_a_node_with_io_threads_alive() {
    let cluster = Cluster::with(1, with_io_threads);
    beside_plain_writes(cluster.node(0), &|client, round| {
        let keys: Vec<String> = (0..3).map(|n| format!("{{a}}{client}:{n}")).collect();
        let owner = format!("{client}:{round}");
        (0..PIPELINED / 4)
            .flat_map(|n| {
                [
                    macquire(&keys, &owner),
                    [counted("LOCK.MRENEW", &keys), args![owner, LONG]].concat(),
                    args!["LOCK.GUARD", keys[0], owner, "SET", format!("{{a}}d"), n],
                    [counted("LOCK.MRELEASE", &keys), args![owner]].concat(),
                ]
            })
            .collect()
    });
}
