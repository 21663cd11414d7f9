//! Waiters that others unblock or kill.

use super::*;

#[test]
fn client_unblock_ends_a_wait_with_nil_or_with_an_error() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let mut by_default = server.waiter_for("k", "by-default");
    let mut by_timeout = server.waiter_for("k", "by-timeout");
    let mut by_error = server.waiter_for("k", "by-error");
    let mut nameless = server.waiter_for("k", "*");
    let mut next = server.waiter_for("k", "next");
    assert_eq!(cmd!(client, "CLIENT", "UNBLOCK", by_default.id()), 1);
    assert_eq!(by_default.answer(), Value::Nil);
    assert_eq!(cmd!(client, "CLIENT", "UNBLOCK", by_timeout.id(), "TIMEOUT"), 1);
    assert_eq!(by_timeout.answer(), Value::Nil);
    assert_eq!(cmd!(client, "CLIENT", "UNBLOCK", by_error.id(), "ERROR"), 1);
    assert!(by_error.answer().is_error("UNBLOCKED"));
    assert_eq!(cmd!(client, "CLIENT", "UNBLOCK", nameless.id(), "TIMEOUT"), 1);
    assert_eq!(nameless.answer(), Value::NilArray);
    assert_eq!(client.queue("k"), ["next"]);
    client.release("k", "a");
    next.answer().fence();
    for mut gone in [by_default, by_timeout, by_error, nameless] {
        assert_eq!(cmd!(gone, "PING"), "PONG");
    }
    assert_eq!(client.holder("k"), "next");
}

#[test]
fn a_waiter_unblocked_in_the_moment_of_its_grant_either_hears_of_it_or_passes_the_lock_on() {
    let server = Server::start();
    let version = server.version();
    let mut client = server.client();
    for (together, how, has_next) in [
        (true, "TIMEOUT", true),
        (true, "TIMEOUT", false),
        (true, "ERROR", true),
        (true, "ERROR", false),
        (false, "TIMEOUT", true),
        (false, "TIMEOUT", false),
        (false, "ERROR", true),
        (false, "ERROR", false),
    ] {
        let case = format!("{how}, in a transaction: {together}, with a next: {has_next}");
        client.acquire("k", "a");
        let mut waiter = server.waiter_for("k", "w");
        let mut next = has_next.then(|| server.waiter_for("k", "next"));
        let answers = at_once(
            &mut client,
            together,
            &[args!["LOCK.RELEASE", "k", "a"], args!["CLIENT", "UNBLOCK", waiter.id(), how]],
        );
        assert_eq!(answers[0], 1, "{case}");
        let told = told(&mut waiter);
        // These have written the number already, and add the error to it.
        let adds_the_error = how == "ERROR" && !version.is_at_least((7, 4), (8, 0));
        let most = if adds_the_error { 2 } else { 1 };
        assert!((1..=most).contains(&told.len()), "{case}: {told:?}");
        let holder = match told.iter().find(|answer| matches!(answer, Value::Int(_))) {
            Some(number) => {
                number.fence();
                assert_eq!(client.holder("k"), "w", "{case}: {told:?}");
                assert_eq!(cmd!(client, "LOCK.INFO", "k")["holders"][0]["fence"], number.int());
                if let Some(next) = &mut next {
                    assert!(next.still_waits(), "{case}: {told:?}");
                }
                client.release("k", "w");
                has_next.then_some("next")
            }
            None => has_next.then_some("next"),
        };
        match (holder, next) {
            (Some(_), Some(mut next)) => {
                next.answer().fence();
                assert_eq!(client.holder("k"), "next", "{case}");
                client.release("k", "next");
            }
            _ => eventually(&format!("the lock is free ({case})"), || {
                cmd!(client, "EXISTS", "k") == 0
            }),
        }
        assert_eq!(cmd!(waiter, "PING"), "PONG", "{case}");
    }
}

#[test]
fn a_waiter_killed_in_the_moment_of_its_grant_passes_the_lock_on() {
    let server = Server::start();
    let mut client = server.client();
    for together in [true, false] {
        for has_next in [true, false] {
            let case = format!("in a transaction: {together}, with a next: {has_next}");
            let first = client.acquire("k", "a");
            let mut waiter = server.waiter_for("k", "w");
            let next = has_next.then(|| server.waiter_for("k", "next"));
            let answers = at_once(
                &mut client,
                together,
                &[args!["LOCK.RELEASE", "k", "a"], args!["CLIENT", "KILL", "ID", waiter.id()]],
            );
            assert_eq!(answers, [1, 1].map(Value::Int), "{case}");
            if let Some(mut next) = next {
                assert!(next.answer().fence() > first, "{case}");
                assert_eq!(client.holder("k"), "next", "{case}");
                client.release("k", "next");
            }
            eventually(&format!("the lock is free ({case})"), || cmd!(client, "EXISTS", "k") == 0);
        }
    }
}

/// On some servers a client that is woken twice in one turn of the loop is lost, or stops them.
#[test]
fn a_waiter_whose_time_is_up_may_be_unblocked_or_killed_in_the_same_moment() {
    let server = Server::start();
    let mut client = server.client();
    for way in ["TIMEOUT", "ERROR", "KILL"] {
        client.acquire("k", "a");
        let mut waiter = server.waiter(&args!["LOCK.ACQUIRE", "k", "w", LONG, "BLOCK", 400]);
        let mut next = server.waiter_for("k", "next");
        let end = match way {
            "KILL" => args!["CLIENT", "KILL", "ID", waiter.id()],
            how => args!["CLIENT", "UNBLOCK", waiter.id(), how],
        };
        server.pause();
        let paused = Instant::now();
        client.send_pipeline(&[
            args!["MULTI"],
            args!["LOCK.RELEASE", "k", "a"],
            end,
            args!["EXEC"],
        ]);
        eventually("the time is up", || paused.elapsed() > Duration::from_millis(450));
        server.resume();
        let answers: Vec<_> = (0..4).map(|_| client.answer()).collect();
        assert_eq!(answers[3][0], 1, "{way}: {answers:?}");
        if way == "KILL" {
            eventually("its connection is closed", || waiter.try_run(&["PING"]).is_err());
        } else {
            let told = told(&mut waiter);
            let nothing = |answer: &Value| answer.is_nil() || answer.is_error("UNBLOCKED");
            assert!(!told.is_empty() && told.iter().all(nothing), "{way}: {told:?}");
        }
        next.answer().fence();
        assert_eq!(client.holder("k"), "next", "{way}");
        client.release("k", "next");
    }
}
