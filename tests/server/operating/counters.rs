//! `INFO lock`: each counter under its name, and how long waits were. When which of them rises is a
//! matter of the core.

use super::*;

const FIELDS: [&str; 28] = [
    "lock_acquired_total",
    "lock_acquired_after_wait_total",
    "lock_busy_total",
    "lock_wait_timeouts_total",
    "lock_released_total",
    "lock_release_refused_total",
    "lock_renewed_total",
    "lock_renew_refused_total",
    "lock_expired_total",
    "lock_evicted_total",
    "lock_broken_total",
    "lock_lost_total",
    "lock_held",
    "lock_deadlocks_total",
    "lock_undelivered_total",
    "lock_guard_total",
    "lock_guard_refused_total",
    "lock_unclaimed_total",
    "lock_places_lapsed_total",
    "lock_notified_total",
    "lock_waiters",
    "lock_waiters_peak",
    "lock_places",
    "lock_queue_places",
    "lock_contended_keys",
    "lock_wait_usec_p50",
    "lock_wait_usec_p99",
    "lock_wait_usec_p999",
];

#[test]
fn a_new_server_has_all_the_counters_and_they_are_zero() {
    let server = Server::start();
    let mut client = server.client();
    for section in ["lock", "everything", "modules", "LOCK"] {
        let info = client.info(section);
        for name in FIELDS {
            assert_eq!(info.get(name).map(String::as_str), Some("0"), "{section}: {name}");
        }
        let about = ["lock_version", "lock_commit"];
        let counts =
            |name: &&String| !name.starts_with("lock_memory_") && !about.contains(&name.as_str());
        let ours = info.keys().filter(|name| name.starts_with("lock_"));
        let ours = ours.filter(counts);
        assert_eq!(ours.count(), FIELDS.len(), "{section}: {info:?}");
    }
    assert!(!client.info("clients").contains_key("lock_waiters"));
}

#[test]
fn each_counter_has_its_name() {
    let server = Server::start();
    let mut client = server.client();
    let mut counters = Counters::of(&server);
    for (line, name) in [
        ("LOCK.ACQUIRE k a 9000", "acquired"),
        ("LOCK.ACQUIRE k b 9000", "busy"),
        ("LOCK.ACQUIRE k b 9000 BLOCK 1", "wait_timeouts"),
        ("LOCK.RENEW k a 9000", "renewed"),
        ("LOCK.RENEW k b 9000", "renew_refused"),
        ("LOCK.GUARD k a PING", "guard"),
        ("LOCK.GUARD k b PING", "guard_refused"),
        ("LOCK.RELEASE k b", ""),
        ("LOCK.RELEASE k a", "released"),
        // A hold that was not granted here is not counted, nor is its end.
        ("SET k a", ""),
        ("LOCK.BREAK k FORCE", ""),
        ("LOCK.ACQUIRE k a 9000", "acquired"),
        ("LOCK.BREAK k", "broken"),
        ("LOCK.SCAN 0", ""),
        ("CONFIG RESETSTAT", ""),
        ("LOCK.ACQUIRE k a 1000", "acquired"),
        ("LOCK.LOG", "expired"),
        ("LOCK.MACQUIRE 3 x y z a 9000", "acquired acquired acquired"),
        ("LOCK.MRELEASE 4 x y z k a", "released released released release_refused"),
    ] {
        assert!(!client.run(&words(line)).is_error("ERR"), "{line}");
        let mut by: BTreeMap<_, i64> = BTreeMap::new();
        for name in each(name, ' ') {
            *by.entry(name).or_default() += 1;
        }
        counters.have_risen(line, &by.into_iter().collect::<Vec<_>>());
    }
    for (key, owner) in [("x", "a"), ("y", "b")] {
        client.acquire(key, owner);
    }
    counters.have_risen("granted", &[("acquired", 2)]);
    let _waiter = server.waiter_for("y", "a");
    assert!(cmd!(client, "LOCK.ACQUIRE", "x", "b", LONG, "BLOCK", 0).is_error("DEADLOCK"));
    counters.have_risen("a deadlock", &[("deadlocks", 1)]);
}

#[test]
fn a_grant_that_no_client_can_hear_of_counts_as_undelivered_and_is_passed_on() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let mut counters = Counters::of(&server);
    let mut waiter = server.waiter_for("k", "gone");
    let mut next = server.waiter_for("k", "next");
    let answers = client.transaction(&[
        args!["LOCK.RELEASE", "k", "a"],
        args!["CLIENT", "KILL", "ID", waiter.id()],
    ]);
    assert_eq!(answers, [Value::Int(1), Value::Int(1)]);
    next.answer().fence();
    waiter.wait_until_closed();
    counters.have_risen(
        "passed on",
        &[("acquired", 2), ("acquired_after_wait", 2), ("released", 1), ("undelivered", 1)],
    );
}

#[test]
fn a_release_that_gives_up_a_wait_or_a_place_is_none_that_came_too_late() {
    let server = Server::start();
    let mut client = server.client();
    cmd!(client, "CONFIG", "SET", "lock.claim-time", 20);
    let mut listener = server.client();
    cmd!(listener, "SUBSCRIBE", "ch");
    let place = |lease: u64| args!["LOCK.ACQUIRE", "k", "b", LONG, "QUEUE", lease];
    let announced = [place(60_000), args!["NOTIFY", "ch", "m"]].concat();
    let unclaimed = |client: &mut Client| client.info("lock")["lock_unclaimed_total"].clone();
    let refused = |client: &mut Client| client.info("lock")["lock_release_refused_total"].clone();
    // The log remembers lost holds too.
    for (log, give_up) in
        [(128, args!["LOCK.RELEASE", "k", "b"]), (0, args!["LOCK.MRELEASE", 1, "k", "b"])]
    {
        cmd!(client, "CONFIG", "SET", "lock.log-max-len", log);
        let is_not_counted = |client: &mut Client, what: &str| {
            for _ in 0..2 {
                assert_eq!(client.run(&give_up), 0, "{what}");
                assert_eq!(refused(client), "0", "{what}");
            }
            client.run(&args!["LOCK.RELEASE", "k", "a"]);
        };
        client.acquire("k", "a");
        let mut waiter = server.waiter_for("k", "b");
        is_not_counted(&mut client, "a blocked wait");
        assert!(waiter.answer().is_nil());

        client.acquire("k", "a");
        assert_eq!(client.run(&place(60_000)), -1);
        is_not_counted(&mut client, "a place");

        client.acquire("k", "a");
        assert_eq!(client.run(&place(60_000)), -1);
        client.release("k", "a");
        is_not_counted(&mut client, "a place that was granted the lock");

        for (ask, what) in [
            (&announced, "a place that sleeps since its grant was not claimed"),
            (&place(20), "a place that has lapsed with its grant"),
        ] {
            let before = unclaimed(&mut client);
            client.acquire("k", "a");
            assert_eq!(client.run(ask), -1);
            client.release("k", "a");
            eventually(what, || unclaimed(&mut client) != before);
            is_not_counted(&mut client, what);
        }

        client.acquire("k", "a");
        let mut waiter = server.waiter_for("k", "b");
        let killed = args!["CLIENT", "KILL", "ID", waiter.id()];
        client.transaction(&[args!["LOCK.RELEASE", "k", "a"], killed]);
        waiter.wait_until_closed();
        eventually("the grant is given back", || client.holder("k").is_nil());
        is_not_counted(&mut client, "a wait that ended with its connection");
    }
    // One that did come too late.
    cmd!(client, "CONFIG", "SET", "lock.log-max-len", 128);
    cmd!(client, "LOCK.ACQUIRE", "k", "late", 1).fence();
    eventually("the hold is over", || cmd!(client, "EXISTS", "k") == 0);
    assert_eq!(cmd!(client, "LOCK.RELEASE", "k", "late"), 0);
    assert_eq!(refused(&mut client), "1");
}

#[test]
fn the_server_says_how_many_wait_now_and_waited_at_most_and_for_how_many_locks() {
    let server = Server::start();
    let mut client = server.client();
    for key in ["x", "y"] {
        client.acquire(key, "a");
    }
    let mut shows = |waiters, peak, contended| {
        eventually(&format!("{waiters}, {peak}, {contended}"), || {
            let info = client.info("lock");
            let field = |name: &str| info[name].parse::<u64>().unwrap();
            assert!(field("lock_waiters_peak") <= peak, "{info:?}");
            (field("lock_waiters"), field("lock_waiters_peak")) == (waiters, peak)
                && field("lock_contended_keys") == contended
        });
    };
    shows(0, 0, 0);
    let first = server.waiter_for("x", "w1");
    shows(1, 1, 1);
    let second = server.waiter_for("x", "w2");
    shows(2, 2, 1);
    let third = server.waiter_for_all(&["x", "y", "z"], "w3");
    shows(3, 3, 3);
    drop(second);
    shows(2, 3, 3);
    drop(third);
    shows(1, 3, 1);
    drop(first);
    shows(0, 3, 0);
}

#[test]
fn the_quantiles_say_how_long_those_have_waited_who_were_granted_it() {
    let server = Server::start();
    let mut client = server.client();
    let p50 = |client: &mut Client| gauge(client, "lock_wait_usec_p50");
    // Neither a grant at once nor a wait that came to nothing is a wait for a grant.
    client.acquire("k", "a");
    assert!(cmd!(client, "LOCK.ACQUIRE", "k", "b", LONG, "BLOCK", 30).is_nil());
    assert_eq!(p50(&mut client), 0);
    let before = Instant::now();
    let mut waiter = server.waiter_for("k", "w");
    let blocked = Instant::now();
    server.let_pass(50);
    let least = blocked.elapsed().as_micros();
    client.release("k", "a");
    waiter.answer().fence();
    let most = before.elapsed().as_micros();
    for name in ["p50", "p99", "p999"] {
        let shown = u128::from(gauge(&mut client, &format!("lock_wait_usec_{name}")));
        assert!(
            shown * 105 / 100 >= least && shown * 95 / 100 <= most,
            "{name}: {least} <= {shown} <= {most}"
        );
    }
    // Two waits that were much shorter: the median is one of them now, the others not.
    let long = gauge(&mut client, "lock_wait_usec_p99");
    for (holder, next) in [("w", "x"), ("x", "y"), ("y", "z")] {
        let mut waiter = server.waiter_for("k", next);
        client.release("k", holder);
        waiter.answer().fence();
    }
    assert!(p50(&mut client) <= long);
    assert!(p50(&mut client) > 0);
}

/// What the page promises: every hold is counted as it is granted and as it ends, by what has ended it.
#[test]
fn those_that_were_acquired_are_those_that_have_ended_and_those_that_are_held() {
    let server = Server::start();
    let mut client = server.client();
    let mut other = server.client();
    let check = |client: &mut Client, case: &str| {
        let info = client.info("lock");
        let field = |name: &str| info[&format!("lock_{name}")].parse::<i64>().unwrap();
        let ended =
            ["released", "expired", "evicted", "broken", "unclaimed", "undelivered", "lost"];
        let ended: i64 = ended.iter().map(|name| field(&format!("{name}_total"))).sum();
        assert_eq!(field("acquired_total"), ended + field("held"), "{case}: {info:?}");
    };
    for line in [
        "LOCK.ACQUIRE k a 90000",
        "LOCK.RELEASE k a",
        "LOCK.ACQUIRE k a 90000 SHARED",
        "LOCK.ACQUIRE k a 90000",
        "LOCK.BREAK k",
        "LOCK.ACQUIRE k a 90000 SHARED",
        "LOCK.ACQUIRE k b 90000 LIMIT 3",
        "DEL k",
        "LOCK.ACQUIRE k a 90000",
        "LOCK.ACQUIRE k p 90000 QUEUE 60000",
        "LOCK.RELEASE k a",
        "LOCK.RELEASE k p",
        "LOCK.MACQUIRE 3 x y z a 90000",
        "SET y other",
        "LOCK.MRELEASE 3 x y z a",
        "DEL y",
        "LOCK.ACQUIRE k a 20",
        "DEBUG SLEEP 0.1",
        "LOCK.ACQUIRE k b 90000",
        "RENAME k m",
        "SET l c PX 90000",
        "LOCK.ACQUIRE l c 90000",
        "LOCK.RELEASE l c",
        "LOCK.ACQUIRE k b 90000",
        "FLUSHALL",
    ] {
        assert!(!client.run(&words(line)).is_error(""), "{line}");
        check(&mut client, line);
    }
    assert!(cmd!(other, "LOCK.ACQUIRE", "k", "s", LONG, "SESSION").fence() > 0);
    drop(other);
    eventually("its session is over", || cmd!(client, "EXISTS", "k") == 0);
    check(&mut client, "a session");
}
