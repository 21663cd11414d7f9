//! `lock.drain`: the module goes from a busy server, and comes again.

use super::{set, setting};
use crate::support::*;

#[test]
fn all_who_wait_are_sent_away_and_stay_connected() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    client.acquire("l", "a");
    client.share("shared", "a");
    client.share("shared", "b");
    let made_up = args!["LOCK.ACQUIRE", "k", "*", LONG, "BLOCK", 0];
    let limited = args!["LOCK.ACQUIRE", "l", "w", 50, "BLOCK", 90_000, "LIMIT", 2, "SESSION"];
    client.select(1);
    client.acquire("k", "a");
    client.select(0);
    let mut waiters = vec![
        server.waiter_for("k", "w1"),
        server.reader_for("k", "w2"),
        server.waiter(&made_up),
        server.waiter(&limited),
        server.waiter_for_all(&["k", "l"], "w3"),
        server.waiter_for("shared", "w5"),
        server.waiter_in(1, &args!["LOCK.ACQUIRE", "k", "w4", LONG, "BLOCK", 0]),
    ];
    let mut list = server.waiter(&args!["BLPOP", "list", 0]);
    set(&mut client, "drain", "yes");
    for waiter in &mut waiters {
        let answer = waiter.answer();
        assert!(answer.is_error("UNBLOCKED "), "{answer:?}");
        assert_eq!(cmd!(waiter, "PING"), "PONG");
    }
    assert!(list.still_waits(), "others' waiters are not ours");
    assert!(client.queue("k").is_empty());
    assert_eq!(client.holder("k"), "a");
    assert_eq!(client.sharers("shared"), ["a", "b"]);
    assert_eq!(server.info("lock_waiters"), "0");
}

#[test]
fn a_busy_server_gets_the_module_anew_with_the_same_holders_and_higher_numbers() {
    let server = Server::start();
    let mut client = server.client();
    let path = server.module_path();
    let mut fence = client.acquire("k", "a");
    client.share("shared", "s");
    let deadline = cmd!(client, "PEXPIRETIME", "k");
    let mut waiters: Vec<_> =
        (0..20).map(|number| server.waiter_for("k", format!("w{number}"))).collect();
    assert!(cmd!(client, "MODULE", "UNLOAD", "lock").is_error("ERR"));
    for _ in 0..2 {
        set(&mut client, "drain", "yes");
        for waiter in &mut waiters {
            assert!(waiter.answer().is_error("UNBLOCKED"));
        }
        server.wait_until_unloaded();
        assert_eq!(client.holder("k"), "a");
        // There a connection that repeats a command of a module that was unloaded crashes the server:
        // they all come anew.
        if server.version().is_at_least((8, 0), (u32::MAX, 0)) {
            waiters.iter_mut().for_each(|waiter| *waiter = server.client());
        }
        assert_eq!(cmd!(client, "MODULE", "LOAD", &path), "OK");
        assert_eq!(setting(&mut client, "drain"), "no");
        assert_eq!(cmd!(client, "PEXPIRETIME", "k"), deadline);
        assert_eq!(client.sharers("shared"), ["s"]);
        for (number, waiter) in waiters.iter_mut().enumerate() {
            let owner = format!("w{number}");
            waiter.send_and_block(&args!["LOCK.ACQUIRE", "k", owner, LONG, "BLOCK", 0]);
        }
        let again = cmd!(client, "LOCK.ACQUIRE", "k", "a", 1).fence();
        assert!(again > fence);
        fence = again;
    }
    client.release("k", "a");
    assert!(waiters[0].answer().fence() > fence);
}

/// Redis 8 crashes when a connection sends the same command again after its module was unloaded. So
/// the way that the README names for that closes all connections in the same transaction.
#[test]
fn connections_that_repeat_their_last_command_are_closed_by_a_transaction_that_unloads() {
    let server = Server::start();
    let path = server.module_path();
    let mut repeats = server.client();
    cmd!(repeats, "LOCK.ACQUIRE", "k", "a", LONG, "SESSION").fence();
    let mut admin = server.client();
    eventually("unloaded, once the session has ended", || {
        cmd!(admin, "MULTI");
        cmd!(admin, "CLIENT", "KILL", "TYPE", "normal");
        cmd!(admin, "MODULE", "UNLOAD", "lock");
        cmd!(admin, "EXEC")[1] == "OK"
    });
    let mut again = server.client();
    assert!(cmd!(again, "LOCK.CHECK", "k", "a").is_error("ERR unknown command"));
    assert_eq!(cmd!(admin, "MODULE", "LOAD", &path), "OK");
    assert!(cmd!(again, "LOCK.CHECK", "k", "a").is_nil());
}
