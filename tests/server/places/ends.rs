//! How a place ends, and a grant that was not claimed.

use super::*;

#[test]
fn a_release_gives_up_the_place() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    client.run(&queue("k", "b"));
    assert_eq!(client.run(&queue("k", "c")), -2);
    assert_eq!(cmd!(server.client(), "LOCK.RELEASE", "k", "b"), 0);
    assert_eq!(client.queue("k"), ["c"]);
    assert_eq!(client.run(&queue("k", "c")), -1);
    assert_eq!(counter(&mut client, "release_refused_total"), 0);
    assert_eq!(cmd!(client, "LOCK.MRELEASE", 1, "k", "c"), 0);
    assert_eq!(counter(&mut client, "release_refused_total"), 0);
    assert_eq!(client.queue("k"), [""; 0]);
    client.release("k", "a");
    assert_eq!(cmd!(client, "EXISTS", "k"), 0);
}

#[test]
fn a_release_withdraws_a_wait_by_another_connection() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let mut waiter = server.waiter_for("k", "b");
    assert_eq!(cmd!(client, "LOCK.RELEASE", "k", "b"), 0);
    assert!(waiter.answer().is_nil());
    assert_eq!(client.queue("k"), [""; 0]);
    client.acquire("j", "a");
    let mut waiter = server.waiter(&args!["LOCK.MACQUIRE", 2, "k", "j", "b", LONG, "BLOCK", 0]);
    assert_eq!(cmd!(client, "LOCK.RELEASE", "j", "b"), 0);
    assert!(waiter.answer().is_nil());
    assert_eq!(client.queue("k"), [""; 0]);
}

#[test]
fn a_place_is_kept_for_so_long_after_its_owner_has_asked_and_no_longer() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let short = args!["LOCK.ACQUIRE", "k", "b", LONG, "QUEUE", 100];
    assert_eq!(client.run(&short), -1);
    assert_eq!(client.run(&queue("k", "c")), -2);
    eventually("the place is given up", || client.queue("k") == ["c"]);
    assert_eq!(counter(&mut client, "places_lapsed_total"), 1);
    assert_eq!(client.run(&queue("k", "c")), -1);
    assert_eq!(client.run(&short), -2);
}

#[test]
fn a_grant_that_is_not_claimed_goes_to_the_next() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    assert_eq!(
        cmd!(client, "LOCK.ACQUIRE", "k", "b", LONG, "QUEUE", 300),
        -1
    );
    assert_eq!(client.run(&queue("k", "c")), -2);
    client.release("k", "a");
    assert_eq!(client.holder("k"), "b");
    let left = cmd!(client, "PTTL", "k").int();
    assert!((1..=300).contains(&left), "{left}");
    eventually("the next has its turn", || client.holder("k") == "c");
    client.run(&queue("k", "c")).fence();
    let left = cmd!(client, "PTTL", "k").int();
    assert!(left > 500_000, "{left}");
    // A claim is over in the millisecond after its last; the key may go, and the next come, before.
    eventually("it is counted", || {
        counter(&mut client, "unclaimed_total") == 1
    });
}

#[test]
fn a_release_of_a_grant_that_was_not_claimed_returns_0_and_hands_on() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    client.run(&queue("k", "b"));
    client.run(&queue("k", "c"));
    client.release("k", "a");
    assert_eq!(client.holder("k"), "b");
    assert_eq!(cmd!(client, "LOCK.RELEASE", "k", "b"), 0);
    assert_eq!(client.holder("k"), "c");
    client.run(&queue("k", "c")).fence();
    client.release("k", "c");
}

#[test]
fn a_renewal_claims_and_a_check_does_not() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let short = |owner| args!["LOCK.ACQUIRE", "k", owner, LONG, "QUEUE", 300];
    client.run(&short("b"));
    client.release("k", "a");
    assert!((1..=300).contains(&cmd!(client, "LOCK.CHECK", "k", "b").int()));
    assert_eq!(cmd!(client, "LOCK.GUARD", "k", "b", "PING"), "PONG");
    eventually("it has run out", || {
        counter(&mut client, "unclaimed_total") == 1
    });
    assert!(client.holder("k").is_nil());
    client.acquire("k", "a");
    client.run(&queue("k", "b"));
    client.release("k", "a");
    assert_eq!(cmd!(client, "LOCK.RENEW", "k", "b", 10_000), 1);
    assert!(cmd!(client, "LOCK.CHECK", "k", "b").int() > 5_000);
    client.release("k", "b");
    assert_eq!(counter(&mut client, "unclaimed_total"), 1);
}

#[test]
fn with_session_the_place_and_the_hold_after_it_end_with_the_connection_that_asked_last() {
    let server = Server::start();
    let mut client = server.client();
    let mut session = queue("k", "b");
    session.push(b"SESSION".to_vec());
    for is_turn in [false, true] {
        client.acquire("k", "a");
        let (mut first, mut last) = (server.client(), server.client());
        assert_eq!(first.run(&session), -1);
        assert_eq!(last.run(&session), -1);
        client.run(&queue("k", "c"));
        if is_turn {
            client.release("k", "a");
        }
        first.close();
        let claimed = last.run(&session);
        assert_eq!(claimed.int() > 0, is_turn);
        last.close();
        if !is_turn {
            eventually("the place has ended", || client.queue("k") == ["c"]);
            client.release("k", "a");
        }
        eventually("the next has it", || client.holder("k") == "c");
        client.run(&queue("k", "c")).fence();
        client.release("k", "c");
    }
}

#[test]
fn another_mode_gives_up_the_place_and_joins_at_the_end() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    client.run(&queue("k", "b"));
    client.run(&queue("k", "c"));
    let shared = args!["LOCK.ACQUIRE", "k", "b", LONG, "QUEUE", LEASE, "SHARED"];
    assert_eq!(client.run(&shared), -2);
    assert_eq!(client.queue("k"), ["c", "b"]);
    assert_eq!(counter(&mut client, "places"), 2);
}

#[test]
fn drain_gives_up_all_places_and_keeps_none() {
    let server = Server::start();
    let mut client = server.client();
    let mut ear = listener(&server, "ch");
    client.acquire("k", "a");
    for number in 0..1000 {
        let owner = format!("o{number}");
        client.run(&notified("k", &owner, "ch", number));
    }
    cmd!(client, "CONFIG", "SET", "lock.drain", "yes");
    let mut told: Vec<i64> = (0..1000)
        .map(|_| next_message(&mut ear).parse().unwrap())
        .collect();
    told.sort_unstable();
    assert!((0..1000).eq(told));
    assert!(client.run(&queue("k", "o5")).is_nil());
    assert_eq!(counter(&mut client, "places"), 0);
    assert_eq!(client.queue("k"), [""; 0]);
    assert_eq!(counter(&mut client, "notified_total"), 1000);
    cmd!(client, "CONFIG", "SET", "lock.drain", "no");
    no_more_messages(&server, &mut ear, "ch");
}

#[test]
fn a_server_that_becomes_a_replica_gives_up_all_places_and_says_so() {
    let (server, other) = (Server::start(), Server::start());
    let mut client = server.client();
    let mut ear = listener(&server, "ch");
    client.acquire("k", "a");
    client.run(&notified("k", "b", "ch", "m"));
    assert_eq!(cmd!(client, "REPLICAOF", "127.0.0.1", other.port()), "OK");
    assert_eq!(next_message(&mut ear), "m");
    assert!(client.run(&queue("k", "b")).is_error("READONLY"));
    assert_eq!(counter(&mut client, "places"), 0);
    assert_eq!(cmd!(client, "REPLICAOF", "NO", "ONE"), "OK");
}

/// Each with what keeps clients from asking, and what lets them ask again.
#[test]
fn no_place_is_given_up_and_no_grant_runs_out_while_nobody_can_ask() {
    let server = Server::start();
    let mut client = server.client();
    for (keep_back, let_in) in [
        (
            args!["CONFIG", "SET", "maxmemory", 1],
            args!["CONFIG", "SET", "maxmemory", 0],
        ),
        (
            args!["CONFIG", "SET", "min-replicas-to-write", 1],
            args!["CONFIG", "SET", "min-replicas-to-write", 0],
        ),
        (
            args!["CLIENT", "PAUSE", LONG, "WRITE"],
            args!["CLIENT", "UNPAUSE"],
        ),
    ] {
        let case = format!(
            "{:?}",
            keep_back[1..]
                .iter()
                .map(|word| String::from_utf8_lossy(word))
                .collect::<Vec<_>>()
        );
        let ask = |key: &str, owner: &str| args!["LOCK.ACQUIRE", key, owner, LONG, "QUEUE", 400];
        client.acquire("k", "a");
        client.acquire("granted", "a");
        assert_eq!(client.run(&ask("k", "b")), -1, "{case}");
        assert_eq!(client.run(&ask("granted", "b")), -1, "{case}");
        client.release("granted", "a");
        client.run(&keep_back);
        std::thread::sleep(std::time::Duration::from_millis(1200));
        assert_eq!(client.queue("k"), ["b"], "{case}");
        client.run(&let_in);
        assert_eq!(client.run(&ask("k", "b")), -1, "{case}");
        client.run(&ask("granted", "b")).fence();
        assert_eq!(counter(&mut client, "places_lapsed_total"), 0, "{case}");
        cmd!(client, "LOCK.MRELEASE", 2, "k", "granted", "b");
        client.release("k", "a");
    }
}

/// A server that evicts has room for whoever asks.
#[test]
fn a_place_is_given_up_in_time_on_a_server_that_evicts() {
    let server = Server::start();
    let mut client = server.client();
    cmd!(client, "CONFIG", "SET", "maxmemory-policy", "volatile-ttl");
    let used: u64 = client.info("memory")["used_memory"].parse().unwrap();
    cmd!(client, "CONFIG", "SET", "maxmemory", used + (1 << 20));
    let filler = "x".repeat(1000);
    // They go before the lock, which lasts longer.
    for number in 0..3000 {
        let filler = args!["SET", format!("filler{number}"), &filler, "PX", LONG / 2];
        assert_eq!(client.run(&filler), "OK");
    }
    assert!(client.info("stats")["evicted_keys"].parse::<u64>().unwrap() > 0);
    client.acquire("k", "a");
    assert_eq!(
        cmd!(client, "LOCK.ACQUIRE", "k", "b", LONG, "QUEUE", 200),
        -1
    );
    eventually("the place is given up", || client.queue("k").is_empty());
}

#[test]
fn a_failover_ends_all_places_and_whoever_asks_again_joins_at_the_end() {
    let master = Server::start();
    let replica = master.replica();
    let mut client = master.client();
    let fence = client.acquire("k", "a");
    assert_eq!(client.run(&queue("k", "b")), -1);
    assert_eq!(client.run(&queue("k", "c")), -2);
    replica.wait_until_in_sync_with(&master);
    master.kill_9();
    replica.promote();
    let mut client = replica.client();
    assert_eq!(client.holder("k"), "a");
    assert_eq!(client.queue("k"), [""; 0]);
    assert_eq!(client.run(&queue("k", "c")), -1);
    assert_eq!(client.run(&queue("k", "b")), -2);
    client.release("k", "a");
    let second = client.run(&queue("k", "c")).fence();
    assert!(second > fence, "{second} after {fence}");
    client.release("k", "c");
    assert!(client.run(&queue("k", "b")).fence() > second);
    client.release("k", "b");
}
