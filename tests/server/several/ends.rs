//! How a wait for several locks ends before its grant, or in the very moment of it; and how holds of
//! several locks end with their connection.

use super::mrelease;
use crate::support::*;

#[test]
fn client_unblock_ends_it_with_nil_or_with_an_error() {
    let server = Server::start();
    let mut client = server.client();
    for (how, owner, expected) in [
        ("TIMEOUT", "w", Some(Value::Nil)),
        ("TIMEOUT", "*", Some(Value::NilArray)),
        ("ERROR", "w", None),
    ] {
        client.acquire("b", "x");
        let mut waiter = server.waiter_for_all(&["a", "b"], owner);
        let mut behind = server.waiter_for("a", "behind");
        assert_eq!(cmd!(client, "CLIENT", "UNBLOCK", waiter.id(), how), 1);
        let answer = waiter.answer();
        match expected {
            Some(expected) => assert_eq!(answer, expected),
            None => assert!(answer.is_error("UNBLOCKED"), "{answer:?}"),
        }
        behind.answer().fence();
        assert_eq!(client.queue("b"), [""; 0]);
        assert_eq!(cmd!(waiter, "PING"), "PONG");
        client.release("a", "behind");
        client.release("b", "x");
    }
}

#[test]
fn one_that_goes_makes_room_at_each_of_its_locks() {
    let server = Server::start();
    let mut client = server.client();
    for way in ["close", "reset", "kill"] {
        client.acquire("b", "x");
        let mut waiter = server.waiter_for_all(&["a", "b", "c"], "w");
        let mut behind = server.waiter_for_all(&["a", "c"], "behind");
        let mut far_behind = server.waiter_for("b", "far behind");
        match way {
            "close" => waiter.close(),
            "reset" => waiter.reset(),
            _ => assert_eq!(cmd!(client, "CLIENT", "KILL", "ID", waiter.id()), 1),
        }
        behind.answer().fence();
        assert_eq!(client.queue("b"), ["far behind"], "{way}");
        client.release("b", "x");
        far_behind.answer().fence();
        client.release("b", "far behind");
        client.release_all(&["a", "c"], "behind");
    }
    server.wait_until_unloaded();
}

#[test]
fn one_that_is_killed_in_the_moment_of_its_grant_gives_all_of_them_back() {
    let server = Server::start();
    let mut client = server.client();
    let keys = ["a", "b", "c"];
    for together in [true, false] {
        for has_next in [true, false] {
            let case = format!("in a transaction: {together}, with others behind: {has_next}");
            let first = client.acquire_all(&keys, "x");
            let mut waiter = server.waiter_for_all(&keys, "w");
            let next = has_next.then(|| {
                [
                    server.waiter_for("a", "next a"),
                    server.waiter_for_all(&["b", "c"], "next b c"),
                ]
            });
            let commands = [
                mrelease(&keys, "x"),
                args!["CLIENT", "KILL", "ID", waiter.id()],
            ];
            let answers = if together {
                client.transaction(&commands)
            } else {
                client.pipeline(&commands)
            };
            assert_eq!(answers, [3, 1].map(Value::Int), "{case}");
            if let Some(next) = next {
                for mut waiter in next {
                    assert!(waiter.answer().fence() > first, "{case}");
                }
                let holders = client.holders(&keys);
                assert_eq!(holders, ["next a", "next b c", "next b c"], "{case}");
                client.release("a", "next a");
                client.release_all(&["b", "c"], "next b c");
            }
            eventually(&format!("all are free ({case})"), || {
                cmd!(client, "DBSIZE") == 0
            });
        }
    }
}
