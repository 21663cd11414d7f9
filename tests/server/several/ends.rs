//! How a wait for several locks ends before its grant, or in the very moment of it; and how holds of
//! several locks end with their connection.

use super::{asked, mrelease, mrenew};
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

/// Of several that are granted one after the other in one transaction, some die.
#[test]
fn several_that_are_killed_in_the_moment_of_the_grant_pass_all_on_to_the_one_that_lives() {
    let server = Server::start();
    let mut client = server.client();
    let keys = ["a", "b"];
    client.acquire_all(&keys, "x");
    let mut doomed: Vec<_> = (0..5)
        .map(|number| server.waiter_for_all(&keys, format!("d{number}")))
        .collect();
    let mut alive = server.waiter_for_all(&keys, "alive");
    let mut commands = vec![mrelease(&keys, "x")];
    commands.extend(
        doomed
            .iter_mut()
            .map(|one| args!["CLIENT", "KILL", "ID", one.id()]),
    );
    client.transaction(&commands);
    alive.answer().fence();
    assert_eq!(client.holders(&keys), ["alive", "alive"]);
    assert_eq!(client.queue("a"), [""; 0]);
}

#[test]
fn a_grant_that_its_owner_hears_of_through_another_connection_is_not_given_back() {
    let server = Server::start();
    let mut client = server.client();
    let keys = ["a", "b"];
    for way in [macquire(&keys, "w"), mrenew(&keys, "w", LONG)] {
        for kill_first in [true, false] {
            client.acquire_all(&keys, "x");
            let mut waiter = server.waiter_for_all(&keys, "w");
            let mut next = server.waiter_for_all(&keys, "next");
            let mut commands = vec![
                mrelease(&keys, "x"),
                args!["CLIENT", "KILL", "ID", waiter.id()],
            ];
            commands.insert(if kill_first { 2 } else { 1 }, way.clone());
            let answers = client.transaction(&commands);
            assert!(
                answers[if kill_first { 2 } else { 1 }].int() > 0,
                "{answers:?}"
            );
            waiter.wait_until_closed();
            // A take-back, if there were one, would be over after a turn of the loop or two.
            for _ in 0..5 {
                assert_eq!(client.holders(&keys), ["w", "w"], "{way:?} {kill_first}");
                assert!(next.still_waits());
            }
            client.release_all(&keys, "w");
            next.answer().fence();
            client.release_all(&keys, "next");
        }
    }
}

/// Two connections wait for the same work: one answer is enough.
#[test]
fn a_grant_to_two_waiters_of_one_owner_of_whom_one_is_killed_is_not_given_back() {
    let server = Server::start();
    let mut client = server.client();
    let keys = ["a", "b"];
    for survivor in [0, 1] {
        client.acquire_all(&keys, "x");
        let mut pair = [0, 1].map(|_| server.waiter_for_all(&keys, "w"));
        let mut next = server.waiter_for_all(&keys, "next");
        let doomed = pair[1 - survivor].id();
        client.transaction(&[mrelease(&keys, "x"), args!["CLIENT", "KILL", "ID", doomed]]);
        let fence = pair[survivor].answer().fence();
        for _ in 0..5 {
            assert!(next.still_waits(), "{survivor}");
        }
        assert_eq!(client.acquire_all(&keys, "w"), fence);
        client.release_all(&keys, "w");
        next.answer().fence();
        client.release_all(&keys, "next");
    }
}

#[test]
fn what_the_owner_had_before_stays_when_the_rest_is_given_back() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("a", "w");
    client.acquire("b", "x");
    let mut waiter = server.waiter_for_all(&["a", "b", "c"], "w");
    let mut next = server.waiter_for("b", "next");
    client.transaction(&[
        args!["LOCK.RELEASE", "b", "x"],
        args!["CLIENT", "KILL", "ID", waiter.id()],
    ]);
    next.answer().fence();
    eventually("what it had not is free again", || {
        client.holders(&["a", "b", "c"]) == ["w", "next", ""]
    });
    for _ in 0..5 {
        assert!(cmd!(client, "LOCK.CHECK", "a", "w").int() > 0);
    }
    // A share that would have become more is a share again.
    client.release("a", "w");
    client.release("b", "next");
    cmd!(client, "LOCK.ACQUIRE", "a", "w", LONG, "SHARED").fence();
    client.acquire("b", "x");
    let mut waiter = server.waiter_for_all(&["a", "b"], "w");
    client.transaction(&[
        args!["LOCK.RELEASE", "b", "x"],
        args!["CLIENT", "KILL", "ID", waiter.id()],
    ]);
    eventually("what it had not is free again", || {
        cmd!(client, "EXISTS", "b") == 0 && cmd!(client, "TYPE", "a") == "zset"
    });
    assert!(cmd!(client, "LOCK.CHECK", "a", "w").int() > 0);
    assert_eq!(cmd!(client, "LOCK.ACQUIRE", "a", "y", LONG), Value::Nil);
    cmd!(client, "LOCK.ACQUIRE", "a", "y", LONG, "SHARED").fence();
}

#[test]
fn one_that_is_unblocked_in_the_moment_of_its_grant_hears_of_it_or_gives_all_back() {
    let server = Server::start();
    let mut client = server.client();
    let keys = ["a", "b"];
    for how in ["TIMEOUT", "ERROR"] {
        client.acquire_all(&keys, "x");
        let mut waiter = server.waiter_for_all(&keys, "w");
        client.transaction(&[
            mrelease(&keys, "x"),
            args!["CLIENT", "UNBLOCK", waiter.id(), how],
        ]);
        waiter.send(&["ECHO", "that was all"]);
        let mut told = Vec::new();
        loop {
            match waiter.answer() {
                end if end == "that was all" => break,
                answer => told.push(answer),
            }
        }
        if told.iter().any(|answer| matches!(answer, Value::Int(_))) {
            assert_eq!(client.holders(&keys), ["w", "w"], "{how}: {told:?}");
            client.release_all(&keys, "w");
        }
        eventually(&format!("all are free ({how}: {told:?})"), || {
            cmd!(client, "DBSIZE") == 0
        });
    }
}

#[test]
fn a_connection_that_closes_takes_all_holds_of_its_session_with_it() {
    let server = Server::start();
    let mut client = server.client();
    for words in [args!["SESSION"], args!["SESSION", "SHARED"]] {
        for way in ["close", "reset", "kill"] {
            let mut holder = server.client();
            let ask = [args!["o", LONG], words.clone()].concat();
            holder.run(&asked(&["a", "b", "c"], ask)).fence();
            holder.acquire("untied", "o");
            let mut both = server.waiter_for_all(&["a", "b"], "both");
            let mut one = server.waiter_for("c", "one");
            match way {
                "close" => holder.close(),
                "reset" => holder.reset(),
                _ => assert_eq!(cmd!(client, "CLIENT", "KILL", "ID", holder.id()), 1),
            }
            both.answer().fence();
            one.answer().fence();
            assert_eq!(client.holders(&["a", "b", "c"]), ["both", "both", "one"]);
            assert_eq!(client.holder("untied"), "o");
            client.release("untied", "o");
            client.release_all(&["a", "b"], "both");
            client.release("c", "one");
        }
    }
    assert_eq!(cmd!(client, "DBSIZE"), 0);
}

#[test]
fn a_session_that_waited_for_several_is_tied_to_all_of_them() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("b", "x");
    // What it held before without a tie is tied by the later request; what is released is not.
    client.acquire("a", "w");
    let mut holder = server.waiter(&asked(
        &["a", "b", "c"],
        args!["w", LONG, "BLOCK", 0, "SESSION"],
    ));
    client.release("b", "x");
    holder.answer().fence();
    client.release("c", "w");
    assert_eq!(cmd!(client, "SET", "c", "w", "NX", "PX", LONG), "OK");
    holder.close();
    eventually("the holds of the session are over", || {
        client.holders(&["a", "b", "c"]) == ["", "", "w"]
    });
    // A later request from elsewhere unties.
    let mut tied = server.client();
    let fence = tied
        .run(&asked(&["a", "b"], args!["o", LONG, "SESSION"]))
        .fence();
    assert_eq!(client.acquire("a", "o"), fence);
    tied.close();
    eventually("the other hold is over", || {
        client.holders(&["a", "b"]) == ["o", ""]
    });
    assert!(cmd!(client, "LOCK.CHECK", "a", "o").int() > 0);
}

#[test]
fn a_demotion_sends_it_away_and_leaves_nothing_behind() {
    let master = Server::start();
    let server = Server::start();
    let mut client = server.client();
    client.acquire("b", "x");
    let mut waiter = server.waiter_for_all(&["a", "b"], "w");
    server.follow(&master);
    assert!(waiter.answer().is_error("UNBLOCKED"));
    server.wait_until_in_sync_with(&master);
    for command in [
        macquire(&["a", "b"], "w"),
        mrelease(&["a", "b"], "x"),
        mrenew(&["a", "b"], "x", LONG),
    ] {
        assert!(client.run(&command).is_error("READONLY"), "{command:?}");
    }
    server.promote();
    server.wait_for_role(Role::Master);
    assert_eq!(client.queue("a"), [""; 0]);
    client.acquire_all(&["a", "b"], "y");
    server.wait_until_unloaded();
}

#[test]
fn locks_that_come_free_while_writes_are_paused_are_granted_together_afterwards() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire_all(&["a", "b"], "x");
    let mut waiter = server.waiter_for_all(&["a", "b"], "w");
    let answers = client.transaction(&[
        mrenew(&["a", "b"], "x", 30),
        args!["CLIENT", "PAUSE", 600_000, "WRITE"],
    ]);
    assert_eq!(answers[0], 1);
    server.let_pass(150);
    assert!(waiter.no_answer_yet());
    assert_eq!(cmd!(client, "CLIENT", "UNPAUSE"), "OK");
    waiter.answer().fence();
    assert_eq!(client.holders(&["a", "b"]), ["w", "w"]);
}
