//! The line before a lock that is, or will be, shared: who waits for whom, and who is let in when.

use super::{AT_ONCE, assert_left};
use crate::support::*;
use std::time::{Duration, Instant};

#[test]
fn a_writer_is_not_starved_by_readers() {
    let server = Server::start();
    let mut client = server.client();
    client.share("k", "first");
    let mut writer = server.waiter_for("k", "w");
    // Who comes after it waits behind it, and a try is told so at once.
    let mut late = server.reader_for("k", "late");
    for way in [args!["SHARED"], args!["LIMIT", 100], args![]] {
        let command = [args!["LOCK.ACQUIRE", "k", "try", LONG], way].concat();
        assert_eq!(client.run(&command), Value::Nil, "{command:?}");
    }
    assert_eq!(client.queue("k"), ["w", "late"]);
    // Who shares it already may go on.
    cmd!(client, "LOCK.ACQUIRE", "k", "first", 2 * LONG, "SHARED").fence();
    assert_eq!(cmd!(client, "LOCK.RENEW", "k", "first", LONG), 1);
    assert!(writer.still_waits() && late.still_waits());
    client.release("k", "first");
    let fence = writer.answer().fence();
    assert_eq!(client.holder("k"), "w");
    assert!(late.still_waits());
    client.release("k", "w");
    assert!(late.answer().fence() > fence);
    assert_eq!(client.sharers("k"), ["late"]);
    // Readers who overlap for ever, and a writer in the midst of them.
    let mut writer = server.waiter_for("k", "w");
    for number in 0..20 {
        let owner = format!("r{number}");
        let answer = cmd!(client, "LOCK.ACQUIRE", "k", owner, LONG, "SHARED");
        assert_eq!(answer, Value::Nil);
    }
    client.release("k", "late");
    writer.answer().fence();
}

#[test]
fn readers_at_the_head_are_granted_together() {
    let server = Server::start();
    let mut client = server.client();
    let mut last = client.acquire("k", "w");
    let mut together: Vec<_> = (0..4)
        .map(|number| server.reader_for("k", format!("r{number}")))
        .collect();
    let mut writer = server.waiter_for("k", "w2");
    let mut behind = server.reader_for("k", "r9");
    client.release("k", "w");
    for reader in &mut together {
        let fence = reader.answer().fence();
        assert!(fence > last, "{fence} after {last}");
        last = fence;
    }
    assert_eq!(client.sharers("k"), ["r0", "r1", "r2", "r3"]);
    assert_eq!(client.queue("k"), ["w2", "r9"]);
    assert!(writer.still_waits() && behind.still_waits());
    for number in 0..4 {
        assert!(writer.no_answer_yet());
        client.release("k", format!("r{number}"));
    }
    assert!(writer.answer().fence() > last);
    assert!(behind.still_waits());
    client.release("k", "w2");
    behind.answer().fence();
}

#[test]
fn a_request_that_has_to_wait_is_overtaken_by_nobody_however_modest() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "w");
    let mut waiters: Vec<_> = [("a", 2), ("b", 2), ("c", 2), ("d", 9)]
        .map(|(owner, limit)| server.permit_waiter_for("k", owner, limit))
        .into();
    waiters.push(server.reader_for("k", "e"));
    client.release("k", "w");
    waiters[0].answer().fence();
    waiters[1].answer().fence();
    // There would be room for the last two, but they came later.
    assert!(waiters[2..].iter_mut().all(Client::still_waits));
    assert_eq!(client.queue("k"), ["c", "d", "e"]);
    client.release("k", "b");
    for waiter in &mut waiters[2..] {
        waiter.answer().fence();
    }
    assert_eq!(client.sharers("k"), ["a", "c", "d", "e"]);
}

#[test]
fn limit_2_asked_while_3_hold_waits_for_two_to_go() {
    let server = Server::start();
    let mut client = server.client();
    for owner in ["a", "b", "c"] {
        client.share("k", owner);
    }
    let mut waiter = server.permit_waiter_for("k", "d", 2);
    client.release("k", "b");
    assert!(waiter.still_waits());
    assert_eq!(client.sharers("k"), ["a", "c"]);
    client.release("k", "a");
    waiter.answer().fence();
    assert_eq!(client.sharers("k"), ["c", "d"]);
}

/// Nothing but the end of its place in the line lets those behind it in.
#[test]
fn when_the_writer_at_the_head_goes_those_behind_it_come_in_at_once() {
    type Deed = fn(&Server, Client);
    let ways: [(&str, Deed); 6] = [
        ("its time is up", |_, mut writer| {
            assert_eq!(writer.answer(), Value::Nil);
        }),
        ("closed", |_, writer| writer.close()),
        ("reset", |_, writer| writer.reset()),
        ("killed", |server, mut writer| {
            assert_eq!(
                cmd!(server.client(), "CLIENT", "KILL", "ID", writer.id()),
                1
            );
            writer.wait_until_closed();
        }),
        ("unblocked", |server, mut writer| {
            assert_eq!(cmd!(server.client(), "CLIENT", "UNBLOCK", writer.id()), 1);
            assert_eq!(writer.answer(), Value::Nil);
        }),
        ("unblocked by an error", |server, mut writer| {
            let id = writer.id();
            assert_eq!(cmd!(server.client(), "CLIENT", "UNBLOCK", id, "ERROR"), 1);
            assert!(writer.answer().is_error("UNBLOCKED"));
        }),
    ];
    let server = Server::start();
    let mut client = server.client();
    for (way, deed) in ways {
        client.share("k", "a");
        let patience = if way == "its time is up" { 500 } else { 0 };
        let writer = server.waiter(&args!["LOCK.ACQUIRE", "k", "w", LONG, "BLOCK", patience]);
        let mut readers = ["b", "c"].map(|owner| server.reader_for("k", owner));
        let mut limited = server.permit_waiter_for("k", "d", 4);
        let mut last = server.waiter_for("k", "w2");
        deed(&server, writer);
        let gone = Instant::now();
        for reader in readers.iter_mut().chain([&mut limited]) {
            let (answer, at) = reader.timed_answer();
            answer.fence();
            assert!(at - gone < AT_ONCE, "{way}: {:?}", at - gone);
        }
        assert_eq!(client.sharers("k"), ["a", "b", "c", "d"], "{way}");
        assert_eq!(client.queue("k"), ["w2"], "{way}");
        assert!(last.still_waits(), "{way}");
        drop(last);
        server.wait_for_blocked_clients(0);
        cmd!(client, "DEL", "k");
    }
}

/// No key expires then, so that the server itself would never notice.
#[test]
fn an_expired_permit_is_free_at_once() {
    let server = Server::start();
    let mut client = server.client();
    client.permit("k", "stays", 2);
    let mut late = Vec::new();
    for round in 0..9 {
        let (owner, next) = (format!("o{round}"), format!("n{round}"));
        let asked = Instant::now();
        cmd!(client, "LOCK.ACQUIRE", "k", owner, 150, "LIMIT", 2).fence();
        let mut waiter = server.client();
        waiter.send(&args![
            "LOCK.ACQUIRE",
            "k",
            next,
            LONG,
            "LIMIT",
            2,
            "BLOCK",
            0
        ]);
        let (answer, served) = waiter.timed_answer();
        answer.fence();
        let took = served - asked;
        assert!(took >= Duration::from_millis(150), "{took:?}");
        late.push(took - Duration::from_millis(150));
        assert_eq!(client.sharers("k"), [next.as_str(), "stays"]);
        client.release("k", next);
    }
    late.sort();
    assert!(
        late[late.len() / 2] <= Duration::from_millis(20),
        "{late:?}"
    );
    assert!(late[late.len() - 1] <= AT_ONCE, "{late:?}");
}

#[test]
fn the_last_readers_end_lets_the_writer_in_at_once() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(cmd!(client, "DEBUG", "SET-ACTIVE-EXPIRE", 0), "OK");
    for (first, second) in [(100, 300), (300, 100)] {
        let asked = Instant::now();
        cmd!(client, "LOCK.ACQUIRE", "k", "a", first, "SHARED").fence();
        cmd!(client, "LOCK.ACQUIRE", "k", "b", second, "SHARED").fence();
        let mut writer = server.client();
        writer.send(&args!["LOCK.ACQUIRE", "k", "w", LONG, "BLOCK", 0]);
        let (answer, served) = writer.timed_answer();
        answer.fence();
        let took = served - asked;
        assert!(took >= Duration::from_millis(300), "{took:?}");
        assert!(took < Duration::from_millis(300) + AT_ONCE, "{took:?}");
        assert_eq!(client.holder("k"), "w");
        client.release("k", "w");
    }
    // Sooner by RENEW, and by what is left when the longer one goes.
    client.share("k", "a");
    client.share("k", "b");
    let mut writer = server.waiter_for("k", "w");
    let renewed = Instant::now();
    assert_eq!(cmd!(client, "LOCK.RENEW", "k", "a", 200), 1);
    client.release("k", "b");
    let (answer, served) = writer.timed_answer();
    answer.fence();
    let took = served - renewed;
    assert!(took >= Duration::from_millis(200), "{took:?}");
    assert!(took < Duration::from_millis(200) + AT_ONCE, "{took:?}");
}

#[test]
fn the_lock_is_never_free_between_readers_and_writers() {
    let server = Server::start();
    let mut client = server.client();
    let barge = [
        args!["SET", "k", "barger", "NX", "PX", LONG],
        args!["LOCK.ACQUIRE", "k", "barger", LONG],
        args!["EXISTS", "k"],
    ];
    let release = |client: &mut Client, owner: &str| {
        let commands = [&[args!["LOCK.RELEASE", "k", owner]][..], &barge].concat();
        let answers = client.transaction(&commands);
        assert_eq!(answers[0], 1, "{answers:?}");
        assert_eq!(answers[1..3], [Value::Nil, Value::Nil]);
        assert_eq!(answers[3], 1);
    };
    client.share("k", "r");
    let mut writer = server.waiter_for("k", "w");
    let mut readers = ["r1", "r2"].map(|owner| server.reader_for("k", owner));
    release(&mut client, "r");
    writer.answer().fence();
    release(&mut client, "w");
    for reader in &mut readers {
        reader.answer().fence();
    }
    assert_eq!(client.sharers("k"), ["r1", "r2"]);
}

#[test]
fn permits_of_clients_that_died_come_back() {
    let server = Server::start();
    let mut client = server.client();
    // Without SESSION they come back when their time is up, also if nobody waits for them.
    for owner in ["a", "b", "c"] {
        let mut dies = server.client();
        cmd!(dies, "LOCK.ACQUIRE", "k", owner, 300, "LIMIT", 3).fence();
        dies.reset();
    }
    let full = cmd!(client, "LOCK.ACQUIRE", "k", "d", LONG, "LIMIT", 3);
    assert_eq!(full, Value::Nil);
    eventually("a permit has come back", || {
        !cmd!(client, "LOCK.ACQUIRE", "k", "d", LONG, "LIMIT", 3).is_nil()
    });
    eventually("all of them have", || client.sharers("k") == ["d"]);
    client.release("k", "d");
    // With SESSION at once, one waiter for each.
    let dying = ["a", "b", "c"].map(|owner| {
        let mut client = server.client();
        let command = args!["LOCK.ACQUIRE", "k", owner, LONG, "LIMIT", 3, "SESSION"];
        client.run(&command).fence();
        client
    });
    let mut waiters = ["d", "e", "f", "g"].map(|owner| server.permit_waiter_for("k", owner, 3));
    for (number, dies) in dying.into_iter().enumerate() {
        dies.reset();
        waiters[number].answer().fence();
        assert!(waiters[number + 1].still_waits());
    }
    assert_eq!(client.sharers("k"), ["d", "e", "f"]);
}

#[test]
fn a_reader_killed_in_the_moment_of_its_grant_has_no_share() {
    let server = Server::start();
    let mut client = server.client();
    // Others were granted with it, and keep theirs.
    client.acquire("k", "w");
    let mut readers = ["a", "b", "c"].map(|owner| server.reader_for("k", owner));
    let mut writer = server.waiter_for("k", "w2");
    let answers = client.transaction(&[
        args!["LOCK.RELEASE", "k", "w"],
        args!["CLIENT", "KILL", "ID", readers[1].id()],
    ]);
    assert_eq!(answers, [1, 1].map(Value::Int));
    readers[0].answer().fence();
    readers[2].answer().fence();
    eventually("its share is taken back", || {
        client.sharers("k") == ["a", "c"]
    });
    assert_eq!(client.shares("k").len(), 2);
    assert!(writer.still_waits());
    client.release("k", "a");
    client.release("k", "c");
    writer.answer().fence();
    client.release("k", "w2");

    // It was alone, and somebody comes next, or nobody.
    for has_next in [true, false] {
        client.acquire("k", "w");
        let mut reader = server.reader_for("k", "a");
        let next = has_next.then(|| server.waiter_for("k", "w2"));
        client.transaction(&[
            args!["LOCK.RELEASE", "k", "w"],
            args!["CLIENT", "KILL", "ID", reader.id()],
        ]);
        match next {
            Some(mut next) => {
                next.answer().fence();
                client.release("k", "w2");
            }
            None => eventually("the lock is free", || cmd!(client, "EXISTS", "k") == 0),
        }
    }

    // A permit goes to the next in line.
    client.permit("k", "a", 1);
    let mut dies = server.permit_waiter_for("k", "b", 1);
    let mut next = server.permit_waiter_for("k", "c", 1);
    client.transaction(&[
        args!["LOCK.RELEASE", "k", "a"],
        args!["CLIENT", "KILL", "ID", dies.id()],
    ]);
    next.answer().fence();
    assert_eq!(client.sharers("k"), ["c"]);
}

#[test]
fn a_reader_that_heard_of_its_share_elsewhere_keeps_it() {
    let server = Server::start();
    let mut client = server.client();
    for way in [
        args!["LOCK.ACQUIRE", "k", "r", LONG, "SHARED"],
        args!["LOCK.ACQUIRE", "k", "r", LONG, "LIMIT", 1],
        args!["LOCK.RENEW", "k", "r", LONG],
        args!["LOCK.CHECK", "k", "r"],
        args!["LOCK.GUARD", "k", "r", "INCR", "counter"],
    ] {
        client.acquire("k", "w");
        let mut reader = server.reader_for("k", "r");
        let mut writer = server.waiter_for("k", "w2");
        let answers = client.transaction(&[
            args!["LOCK.RELEASE", "k", "w"],
            args!["CLIENT", "KILL", "ID", reader.id()],
            way.clone(),
        ]);
        assert!(answers[2].int() > 0, "{way:?}: {answers:?}");
        reader.wait_until_closed();
        for _ in 0..5 {
            assert!(writer.still_waits(), "{way:?}");
        }
        assert_eq!(client.sharers("k"), ["r"], "{way:?}");
        client.release("k", "r");
        writer.answer().fence();
        client.release("k", "w2");
    }
}

#[test]
fn all_waiters_of_an_owner_that_comes_to_share_are_answered_with_that() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "w");
    let mut first = server.waiter(&args!["LOCK.ACQUIRE", "k", "r", 5000, "BLOCK", 0, "SHARED"]);
    let mut writer = server.waiter_for("k", "w2");
    let mut second = server.reader_for("k", "r");
    let mut third = server.permit_waiter_for("k", "r", 1);
    client.release("k", "w");
    let fence = first.answer().fence();
    assert_eq!(second.answer(), fence);
    assert_eq!(third.answer(), fence);
    assert_left(&cmd!(client, "LOCK.CHECK", "k", "r"), LONG);
    assert!(writer.still_waits());
    assert_eq!(client.queue("k"), ["w2"]);
}

#[test]
fn a_stale_reader_of_an_owner_that_came_to_hold_it_alone_weakens_nothing() {
    let server = Server::start();
    let mut client = server.client();
    type Deed = fn(&mut Client);
    let deeds: [(&str, Deed); 3] = [
        ("by a wait of its own", |client| client.release("k", "w")),
        ("by SET", |client| {
            assert_eq!(cmd!(client, "SET", "k", "x", "PX", LONG), "OK");
        }),
        ("by a transaction", |client| {
            client.transaction(&[args!["DEL", "k"], args!["SET", "k", "x", "NX", "PX", LONG]]);
        }),
    ];
    for (how, deed) in deeds {
        client.acquire("k", "w");
        let mut alone = server.waiter_for("k", "x");
        let mut other = server.reader_for("k", "other");
        let mut stale = [
            server.reader_for("k", "x"),
            server.permit_waiter_for("k", "x", 7),
        ];
        deed(&mut client);
        let fence = alone.answer().fence();
        for waiter in &mut stale {
            assert_eq!(waiter.answer(), fence, "{how}");
        }
        assert_eq!(client.mode("k"), "exclusive", "{how}");
        assert_eq!(client.holder("k"), "x", "{how}");
        assert!(other.still_waits(), "{how}");
        client.release("k", "x");
        other.answer().fence();
        assert_eq!(client.sharers("k"), ["other"], "{how}");
        client.release("k", "other");
    }
}

/// All that this client has been told, once it is no longer blocked.
fn told(client: &mut Client) -> Vec<Value> {
    client.send(&["ECHO", "that was all"]);
    let mut told = Vec::new();
    loop {
        match client.answer() {
            end if end == "that was all" => return told,
            answer => told.push(answer),
        }
    }
}

#[test]
fn a_reader_unblocked_in_the_moment_of_its_grant_either_hears_of_it_or_has_no_share() {
    let server = Server::start();
    let mut client = server.client();
    for how in ["TIMEOUT", "ERROR"] {
        client.acquire("k", "w");
        let mut readers = ["a", "b"].map(|owner| server.reader_for("k", owner));
        let mut writer = server.waiter_for("k", "w2");
        client.transaction(&[
            args!["LOCK.RELEASE", "k", "w"],
            args!["CLIENT", "UNBLOCK", readers[0].id(), how],
        ]);
        readers[1].answer().fence();
        let told = told(&mut readers[0]);
        let heard = told.iter().any(|answer| matches!(answer, Value::Int(_)));
        let holders: &[&str] = if heard { &["a", "b"] } else { &["b"] };
        eventually(&format!("{how}, told {told:?}"), || {
            client.sharers("k") == holders
        });
        assert!(writer.still_waits());
        for holder in holders {
            client.release("k", holder);
        }
        writer.answer().fence();
        client.release("k", "w2");
    }
}

#[test]
fn a_guarded_command_that_ends_a_share_lets_the_next_in() {
    let server = Server::start();
    let mut client = server.client();
    for ends in [
        args!["ZREM", "k", "a"],
        args!["DEL", "k"],
        args!["PEXPIRE", "k", 1],
        args!["RENAME", "k", "elsewhere"],
    ] {
        client.share("k", "a");
        let mut writer = server.waiter_for("k", "w");
        let guarded = [args!["LOCK.GUARD", "k", "a"], ends.clone()].concat();
        assert!(!client.run(&guarded).is_error(""), "{ends:?}");
        writer.answer().fence();
        assert_eq!(client.holder("k"), "w", "{ends:?}");
        client.release("k", "w");
    }
}
