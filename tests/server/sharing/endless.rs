//! Shares that others have written with a score that is no point in time: they have no end, here, on
//! replicas and in the append-only file.

use super::*;

/// Beyond what every client can hold in a double, and beyond what the server takes as an expiry.
const SCORES: [&str; 4] = ["9007199254740994", "9223372036854775807", "1e19", "1e300"];

/// A master and its replica, each of which dies of a command that it can't carry out.
fn strict_pair() -> (Server, Server) {
    let strict = |setup: Setup| setup.config("propagation-error-behavior panic");
    let master = strict(Server::with().append_only()).start();
    let replica = master.replica_with(strict(Setup::new().without_module()));
    (master, replica)
}

/// The type, the value and the expiry of a key.
fn state(server: &Server, key: &str) -> Vec<Value> {
    let mut client = server.client();
    vec![
        cmd!(client, "TYPE", key),
        cmd!(client, "DEBUG", "DIGEST-VALUE", key),
        cmd!(client, "PEXPIRETIME", key),
    ]
}

/// The replica has the key as the master has it, and so has the master when it has started again.
#[track_caller]
fn assert_same_everywhere(master: &Server, replica: &Server, key: &str, case: &str) {
    replica.wait_until_in_sync_with(master);
    let before = state(master, key);
    assert_eq!(state(replica, key), before, "{case}");
    assert!(replica.is_alive(), "{case}");
    assert!(!replica.log().contains("CRITICAL"), "{case}");
    master.restart();
    assert_eq!(state(master, key), before, "{case}, started again");
    replica.wait_until_in_sync_with(master);
}

#[test]
fn beside_a_share_without_an_end_the_key_has_none_on_the_master_its_replica_and_its_file() {
    let (master, replica) = strict_pair();
    for score in SCORES {
        // Written before ours, with the marker.
        let mut client = master.client();
        cmd!(client, "ZADD", "k", "inf", MARKER, score, "x");
        cmd!(client, "LOCK.ACQUIRE", "k", "a", LONG, "SHARED").fence();
        assert_eq!(cmd!(client, "PTTL", "k"), -1, "{score}");
        assert_eq!(cmd!(client, "LOCK.CHECK", "k", "x"), -1, "{score}");
        assert_same_everywhere(&master, &replica, "k", score);

        // Beside ours, which give the key an end.
        let mut client = master.client();
        cmd!(client, "LOCK.ACQUIRE", "l", "a", LONG, "SHARED").fence();
        cmd!(client, "ZADD", "l", score, "x");
        cmd!(client, "LOCK.ACQUIRE", "l", "b", 2 * LONG, "SHARED").fence();
        assert_eq!(cmd!(client, "PTTL", "l"), -1, "{score}");
        assert_same_everywhere(&master, &replica, "l", score);

        // The end comes back with the release of the share that had none.
        let mut client = master.client();
        client.release("l", "x");
        assert_left(&cmd!(client, "PTTL", "l"), 2 * LONG);
        assert_same_everywhere(&master, &replica, "l", score);
        cmd!(master.client(), "DEL", "k", "l");
    }
}

#[test]
fn a_share_without_an_end_gets_one_by_what_its_owner_asks() {
    let asked = [
        args!["LOCK.ACQUIRE", "k", "x", LONG],
        args!["LOCK.ACQUIRE", "k", "x", LONG, "SHARED"],
        args!["LOCK.ACQUIRE", "k", "x", LONG, "LIMIT", 3],
        args!["LOCK.MACQUIRE", 2, "k", "other", "x", LONG],
        args!["LOCK.RENEW", "k", "x", LONG],
    ];
    let (master, replica) = strict_pair();
    for score in SCORES {
        for command in &asked {
            let case = format!("{score}: {command:?}");
            let mut client = master.client();
            cmd!(client, "ZADD", "k", "inf", MARKER, score, "x");
            assert!(client.run(command).int() > 0, "{case}");
            assert_left(&cmd!(client, "PTTL", "k"), LONG);
            assert_left(&cmd!(client, "LOCK.CHECK", "k", "x"), LONG);
            replica.wait_until_in_sync_with(&master);
            assert_eq!(state(&replica, "k"), state(&master, "k"), "{case}");
            cmd!(client, "DEL", "k", "other");
        }
        cmd!(master.client(), "ZADD", "k", "inf", MARKER, score, "x");
        cmd!(master.client(), "LOCK.ACQUIRE", "k", "x", LONG).fence();
        assert_same_everywhere(&master, &replica, "k", score);
        cmd!(master.client(), "DEL", "k");
    }
    // One that is over before time began is weeded out, and nothing else.
    let mut client = master.client();
    cmd!(client, "ZADD", "k", "inf", MARKER, "-inf", "x", "-5", "y", "1e300", "z");
    cmd!(client, "LOCK.ACQUIRE", "k", "a", LONG, "SHARED").fence();
    assert_eq!(client.sharers("k"), ["a", "z"]);
    assert_eq!(cmd!(client, "ZCARD", "k"), 3);
    assert_same_everywhere(&master, &replica, "k", "-inf");
}

/// Such an expiry others can give to a string too.
#[test]
fn a_string_with_an_expiry_beyond_all_time_is_the_same_everywhere_whatever_is_asked() {
    let asked = [
        args!["LOCK.ACQUIRE", "k", "x", LONG],
        args!["LOCK.ACQUIRE", "k", "y", LONG],
        args!["LOCK.ACQUIRE", "k", "y", LONG, "BLOCK", 1],
        args!["LOCK.RENEW", "k", "x", LONG],
        args!["LOCK.CHECK", "k", "x"],
        args!["LOCK.BREAK", "k"],
        args!["LOCK.BREAK", "k", "FORCE"],
        args!["LOCK.RELEASE", "k", "x"],
    ];
    let (master, replica) = strict_pair();
    for at in ["9007199254740993", "9223372036854775807"] {
        for command in &asked {
            let case = format!("{at}: {command:?}");
            for key in [args!["SET", "k", "x"], args!["ZADD", "k", "inf", MARKER, "1e300", "x"]] {
                let mut client = master.client();
                client.run(&key);
                assert_eq!(cmd!(client, "PEXPIREAT", "k", at), 1, "{case}");
                let answer = client.run(command);
                assert!(!answer.is_error(""), "{case}: {answer:?}");
                replica.wait_until_in_sync_with(&master);
                assert_eq!(state(&replica, "k"), state(&master, "k"), "{case}");
                cmd!(client, "DEL", "k");
            }
        }
        cmd!(master.client(), "SET", "k", "x");
        cmd!(master.client(), "PEXPIREAT", "k", at);
        cmd!(master.client(), "LOCK.ACQUIRE", "k", "x", LONG).fence();
        assert_same_everywhere(&master, &replica, "k", at);
        cmd!(master.client(), "DEL", "k");
    }
}
