//! SESSION: holds that end with the connection that asked for them.

mod ties;
mod trouble;

use crate::support::*;
use std::time::Duration;

/// What "at once" may take on a machine that is busy with other tests.
const AT_ONCE: Duration = Duration::from_millis(400);

/// The three ways to hold a lock.
fn modes() -> [Command; 3] {
    [args![], args!["SHARED"], args!["LIMIT", 2]]
}

/// `LOCK.ACQUIRE` of a lock that ends with the connection.
fn tied(key: &str, owner: &str, mode: &Command) -> Command {
    let command = args!["LOCK.ACQUIRE", key, owner, LONG, "SESSION"];
    [command, mode.clone()].concat()
}

impl Server {
    /// A new connection with a hold that ends with it.
    #[track_caller]
    fn session(&self, key: &str, owner: &str) -> Client {
        let mut client = self.client();
        client.run(&tied(key, owner, &args![])).fence();
        client
    }

    /// Returns when the server has seen the end of this connection, and has done what follows.
    #[track_caller]
    fn wait_for_the_end_of(&self, id: i64) {
        let mut client = self.client();
        eventually("the connection is gone", || {
            cmd!(client, "CLIENT", "LIST", "ID", id).text().is_empty()
        });
        // What is put off to the next turn of the server's loop has been done after a few turns.
        for _ in 0..5 {
            cmd!(self.client(), "PING");
        }
    }
}

impl Client {
    /// Whether this owner holds the lock.
    #[track_caller]
    fn is_held_by(&mut self, key: &str, owner: &str) -> bool {
        !cmd!(self, "LOCK.CHECK", key, owner).is_nil()
    }
}

/// Ends the connection of this client in some way.
type Ending = fn(&Server, Client);

const ENDINGS: [(&str, Ending); 7] = [
    ("closed", |_, client| client.close()),
    ("reset", |_, client| client.reset()),
    ("QUIT", |_, mut client| {
        client.send(&["QUIT"]);
        assert_eq!(client.answer(), "OK");
        client.wait_until_closed();
    }),
    ("killed", |server, mut client| {
        let id = client.id();
        assert_eq!(cmd!(server.client(), "CLIENT", "KILL", "ID", id), 1);
        client.wait_until_closed();
    }),
    ("killed by itself", |_, mut client| {
        let id = client.id();
        client.send(&args!["CLIENT", "KILL", "ID", id, "SKIPME", "no"]);
        client.answer();
        client.wait_until_closed();
    }),
    ("a breach of the protocol", |_, mut client| {
        client.write(b"*1\r\n!\r\n");
        assert!(client.answer().is_error("ERR Protocol error"));
        client.wait_until_closed();
    }),
    ("the output buffer's limit", |server, mut client| {
        let id = client.id();
        let mut admin = server.client();
        // Many small items: some servers send large ones from where they are stored.
        let big = vec!["x".repeat(1000).into_bytes(); 1000];
        admin.run(&[args!["RPUSH", "big"], big].concat()).int();
        let set = |admin: &mut Client, limit: &str| {
            let name = "client-output-buffer-limit";
            assert_eq!(cmd!(admin, "CONFIG", "SET", name, limit), "OK");
        };
        set(&mut admin, "normal 100000 0 0");
        client.send_pipeline(&vec![args!["LRANGE", "big", 0, -1]; 20]);
        eventually("the server has closed it", || {
            cmd!(server.client(), "CLIENT", "LIST", "ID", id).text().is_empty()
        });
        set(&mut admin, "normal 0 0 0");
        cmd!(admin, "DEL", "big");
    }),
];

#[test]
fn a_hold_ends_when_its_connection_does_whatever_the_end_and_the_mode() {
    let server = Server::start();
    let mut observer = server.client();
    for (way, end) in ENDINGS {
        for mode in modes() {
            let mut client = server.client();
            client.run(&tied("k", "a", &mode)).fence();
            client.id();
            for _ in 0..3 {
                assert!(observer.is_held_by("k", "a"));
            }
            end(&server, client);
            eventually(&format!("the hold is over: {way}, {mode:?}"), || {
                cmd!(observer, "EXISTS", "k") == 0
            });
            assert_eq!(observer.mode("k"), "free");
        }
    }
}

#[test]
fn a_client_that_idles_too_long_loses_its_hold_too() {
    let server = Server::start();
    let mut observer = server.client();
    let client = server.session("k", "a");
    assert_eq!(cmd!(observer, "CONFIG", "SET", "timeout", 1), "OK");
    eventually("the hold is over", || cmd!(observer, "EXISTS", "k") == 0);
    drop(client);
}

#[test]
fn all_the_holds_of_a_connection_end_with_it_in_every_database() {
    let server = Server::start();
    let mut client = server.client();
    let mut waiters = Vec::new();
    let heir = |db: u32, key: &str| format!("w-{db}-{key}");
    let dbs = [0, 3, 15];
    for db in dbs {
        client.select(db);
        for (number, mode) in modes().iter().enumerate() {
            for owner in ["a", "b"] {
                let key = format!("k{number}-{owner}");
                client.run(&tied(&key, owner, mode)).fence();
                let mut waiter = server.client();
                waiter.select(db);
                waiter.send_and_block(&args![
                    "LOCK.ACQUIRE",
                    key,
                    heir(db, &key),
                    LONG,
                    "BLOCK",
                    0
                ]);
                waiters.push((db, key, waiter));
            }
        }
    }
    // The connection has since selected another one.
    client.select(7);
    let kept = client.acquire("k0-a", "another");
    client.close();
    let mut observer = server.client();
    for (db, key, mut waiter) in waiters {
        waiter.answer().fence();
        observer.select(db);
        assert_eq!(observer.holder(&key), heir(db, &key));
    }
    observer.select(7);
    let again = cmd!(observer, "LOCK.ACQUIRE", "k0-a", "another", LONG);
    assert_eq!(again, kept);
    for db in dbs {
        observer.select(db);
        assert_eq!(cmd!(observer, "DBSIZE"), 6);
    }
}

#[test]
fn reset_is_no_end_of_a_connection() {
    let server = Server::start();
    let mut observer = server.client();
    let mut client = server.client();
    client.select(3);
    client.run(&tied("k", "a", &args![])).fence();
    assert_eq!(cmd!(client, "RESET"), "RESET");
    for _ in 0..5 {
        cmd!(observer, "PING");
    }
    observer.select(3);
    assert!(observer.is_held_by("k", "a"));
    client.close();
    eventually("the hold is over", || cmd!(observer, "EXISTS", "k") == 0);
}

#[test]
fn the_word_is_allowed_where_there_is_a_connection_and_nowhere_else() {
    let server = Server::start();
    let mut observer = server.client();
    let mut client = server.client();
    let script = "return redis.pcall('LOCK.ACQUIRE', KEYS[1], 'a', 60000, 'SESSION')";
    let library = "#!lua name=locks\n\
        redis.register_function('acquire', function(keys)\n\
            return redis.pcall('LOCK.ACQUIRE', keys[1], 'a', 60000, 'SHARED', 'SESSION')\n\
        end)";
    assert_eq!(cmd!(client, "FUNCTION", "LOAD", library), "locks");
    for command in [args!["EVAL", script, 1, "k"], args!["FCALL", "acquire", 1, "k"]] {
        for in_transaction in [true, false] {
            let answer = if in_transaction {
                client.transaction(std::slice::from_ref(&command)).remove(0)
            } else {
                client.run(&command)
            };
            assert!(answer.is_error("ERR syntax error"), "{answer:?}");
            assert_eq!(cmd!(client, "EXISTS", "k"), 0);
        }
    }
    client.acquire("g", "a");
    let guarded = cmd!(client, "LOCK.GUARD", "g", "a", "LOCK.ACQUIRE", "k", "a", LONG, "SESSION");
    assert!(guarded.is_error("ERR"), "{guarded:?}");
    let guarded = cmd!(client, "LOCK.GUARD", "g", "a", "EVAL", script, 1, "k");
    assert!(guarded.is_error("ERR"), "{guarded:?}");
    assert_eq!(cmd!(client, "EXISTS", "k"), 0);
    // A transaction is its connection's.
    for mode in modes() {
        let mut client = server.client();
        let answers = client.transaction(&[tied("k", "a", &mode), args!["PING"]]);
        answers[0].fence();
        client.close();
        eventually("the hold is over", || cmd!(observer, "EXISTS", "k") == 0);
    }
}

#[test]
fn what_is_given_back_is_written_and_announced_as_the_native_commands_are() {
    let server = Server::with().append_only().config("notify-keyspace-events KEA").start();
    let replica = server.replica_without_module();
    let mut observer = server.client();
    let mut cache = server.client3();
    assert_eq!(cmd!(cache, "CLIENT", "TRACKING", "ON", "BCAST"), "OK");
    let mut client = server.client();
    client.run(&tied("alone", "a", &args![])).fence();
    client.run(&tied("share", "a", &args!["SHARED"])).fence();
    observer.share("share", "b");
    client.run(&tied("last", "a", &args!["LIMIT", 1])).fence();
    let written = server.aof_commands().len();
    assert_eq!(cmd!(observer, "WATCH", "alone"), "OK");
    let mut subscriber = server.client();
    cmd!(subscriber, "PSUBSCRIBE", "__keyevent@0__:*");
    client.close();
    let mut events = Vec::new();
    while events.len() < 3 {
        let message = subscriber.answer();
        let name = message[2].text().split_once(':').unwrap().1.to_owned();
        if ["del", "zrem", "expire", "zadd", "set"].contains(&name.as_str()) {
            events.push(format!("{name} {}", message[3].text()));
        }
    }
    events.sort();
    assert_eq!(events, ["del alone", "del last", "zrem share"]);
    let answers = observer.pipeline(&[args!["MULTI"], args!["PING"], args!["EXEC"]]);
    assert_eq!(answers[2], Value::NilArray);
    let commands = server.aof_commands().split_off(written);
    let mut deeds: Vec<_> =
        commands.iter().filter(|line| !["MULTI", "EXEC"].contains(&line.as_str())).collect();
    deeds.sort();
    assert_eq!(deeds, ["DEL alone", "DEL last", "ZREM share a"]);
    replica.wait_until_in_sync_with(&server);
    assert_eq!(cmd!(replica.client(), "DBSIZE"), 1);
    assert_eq!(replica.client().shares("share"), observer.shares("share"));
}

#[test]
fn a_connection_that_closes_while_it_waits_for_something_else_gives_its_lock_back() {
    let server = Server::start();
    let mut observer = server.client();
    observer.acquire("other", "o");
    for waits in [
        args!["BLPOP", "list", 0],
        args!["LOCK.ACQUIRE", "other", "a", LONG, "BLOCK", 0],
        args!["WAIT", 9, 0],
    ] {
        for killed in [true, false] {
            let mut client = server.session("k", "a");
            let mut next = server.waiter_for("k", "w");
            client.send_and_block(&waits);
            if killed {
                let id = client.id();
                assert_eq!(cmd!(observer, "CLIENT", "KILL", "ID", id), 1);
            } else {
                client.close();
            }
            next.answer().fence();
            observer.release("k", "w");
            server.wait_for_blocked_clients(0);
        }
    }
    assert_eq!(observer.queue("other"), [""; 0]);
}

#[test]
fn a_connection_whose_user_is_deleted_gives_its_lock_back() {
    let server = Server::start();
    let mut observer = server.client();
    let rules = ["ACL", "SETUSER", "bob", "on", "nopass", "~*", "+@all"];
    assert_eq!(observer.run(&rules), "OK");
    let mut client = server.client();
    assert_eq!(cmd!(client, "AUTH", "bob", "any"), "OK");
    client.run(&tied("k", "a", &args![])).fence();
    assert_eq!(cmd!(observer, "ACL", "DELUSER", "bob"), 1);
    eventually("the hold is over", || cmd!(observer, "EXISTS", "k") == 0);
}

/// It is another node's by then.
#[test]
fn a_hold_whose_slot_has_left_is_not_touched() {
    let cluster = Cluster::start(2);
    for (number, mode) in modes().into_iter().enumerate() {
        let key = cluster.key_on(0, &format!("k{number}-"));
        let mut client = cluster.client(0);
        client.run(&tied(&key, "a", &mode)).fence();
        let id = client.id();
        cluster.move_slot_of(&key, 1);
        client.close();
        cluster.node(0).wait_for_the_end_of(id);
        let mut there = cluster.client(1);
        assert!(there.is_held_by(&key, "a"), "{mode:?}");
    }
}
