//! How a place ends, and a grant that was not claimed.

use super::*;

/// Each with what keeps clients from asking, and what lets them retry.
#[test]
fn no_place_is_given_up_and_no_grant_runs_out_while_no_client_can_ask() {
    let server = Server::start();
    let mut client = server.client();
    for (keep_back, let_in) in [
        (args!["CONFIG", "SET", "maxmemory", 1], args!["CONFIG", "SET", "maxmemory", 0]),
        (
            args!["CONFIG", "SET", "min-replicas-to-write", 1],
            args!["CONFIG", "SET", "min-replicas-to-write", 0],
        ),
        (args!["CLIENT", "PAUSE", LONG, "WRITE"], args!["CLIENT", "UNPAUSE"]),
    ] {
        let case = format!(
            "{:?}",
            keep_back[1..].iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>()
        );
        let ask = |key: &str, owner: &str| args!["LOCK.ACQUIRE", key, owner, LONG, "QUEUE", 400];
        client.acquire("k", "a");
        client.acquire("granted", "a");
        assert_eq!(client.run(&ask("k", "b")), -1, "{case}");
        assert_eq!(client.run(&ask("granted", "c")), -1, "{case}");
        client.release("granted", "a");
        client.run(&keep_back);
        std::thread::sleep(std::time::Duration::from_millis(1200));
        assert_eq!(client.queue("k"), ["b"], "{case}");
        client.run(&let_in);
        assert_eq!(client.run(&ask("k", "b")), -1, "{case}");
        client.run(&ask("granted", "c")).fence();
        assert_eq!(counter(&mut client, "places_lapsed_total"), 0, "{case}");
        client.release("granted", "c");
        cmd!(client, "LOCK.RELEASE", "k", "b");
        client.release("k", "a");
    }
}

/// A server that evicts has room for each that asks.
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
    assert_eq!(cmd!(client, "LOCK.ACQUIRE", "k", "b", LONG, "QUEUE", 200), -1);
    eventually("the place is given up", || client.queue("k").is_empty());
}

#[test]
fn nothing_is_left_to_do_when_many_places_are_given_up_and_their_locks_released_at_once() {
    let server = Server::start();
    let mut client = server.client();
    let many = |owner: String| {
        let mut words = args!["LOCK.MACQUIRE", 64];
        words.extend((0..64).map(|number| format!("k{number}").into_bytes()));
        words.extend(args![owner, LONG]);
        words
    };
    client.run(&many("a".to_owned())).fence();
    for number in 0..190 {
        let mut words = many(format!("o{number}"));
        words.extend(args!["QUEUE", LEASE]);
        client.run(&words);
    }
    let mut release = many("a".to_owned());
    release[0] = b"LOCK.MRELEASE".to_vec();
    release.pop();
    let [drain, serve] = ["yes", "no"].map(|said| args!["CONFIG", "SET", "lock.drain", said]);
    for words in [&drain, &serve, &release] {
        client.run(words);
    }
    eventually("nothing is left", || {
        client
            .info("lock_memory")
            .iter()
            .all(|(name, left)| !name.starts_with("lock_memory_tasks") || left == "0")
    });
    assert_eq!(client.info("lock")["lock_places"], "0");
}
