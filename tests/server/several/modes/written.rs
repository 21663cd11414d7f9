//! What a request with modes leaves in the append-only file and on a replica.

use super::*;

/// What was written since the last look, without deadlines and SELECT.
fn new_lines(server: &Server, seen: &mut usize) -> Vec<String> {
    let all = server.aof_commands();
    let new = all[*seen..].iter().map(|line| {
        let words = line.split(' ').filter(|word| word.parse::<u64>().is_err());
        words.collect::<Vec<_>>().join(" ")
    });
    *seen = all.len();
    new.filter(|line| !line.starts_with("SELECT")).collect()
}

/// The share of a lock that nobody held: both ways in which servers write the score.
fn is_first_share(line: &str, key: &str, owner: &str) -> bool {
    ["inf", "+inf"].iter().any(|score| line == format!("ZADD {key} {score} {MARKER} {owner}"))
}

#[test]
fn all_that_happens_in_one_instant_is_one_transaction_of_native_commands() {
    let server = Server::with().append_only().start();
    let mut client = server.client();
    let mut seen = 0;
    client.run(&edit("o", "")).fence();
    let lines = new_lines(&server, &mut seen);
    let [begin, share, expiry, alone, end] = lines.as_slice() else {
        panic!("{lines:?}");
    };
    assert!(is_first_share(share, "table", "o"), "{lines:?}");
    assert_eq!([begin, expiry, alone, end], ["MULTI", "PEXPIREAT table", "SET row o PXAT", "EXEC"]);
    // Asking again for no longer, and what is refused, changes nothing.
    let again = words("LOCK.MACQUIRE 2 table row o 1 MODES SHARED EXCLUSIVE");
    client.run(&again).fence();
    assert_eq!(client.run(&edit("p", "")), Value::Nil);
    assert_eq!(new_lines(&server, &mut seen), [""; 0]);
    client.share("table", "other");
    let mut waiter = server.waiter(&edit("w", "BLOCK 0"));
    new_lines(&server, &mut seen);
    client.release("row", "o");
    waiter.answer().fence();
    let lines = new_lines(&server, &mut seen);
    let [begin, granted @ .., end] = lines.as_slice() else {
        panic!("{lines:?}");
    };
    assert_eq!([begin, end], ["MULTI", "EXEC"], "{lines:?}");
    let wanted = ["SET row w PXAT", "ZADD table w"];
    assert!(wanted.iter().all(|wanted| granted.iter().any(|line| line == wanted)), "{lines:?}");
}

#[test]
fn a_replica_and_a_server_that_starts_again_hold_each_lock_in_its_mode() {
    let server = Server::with().append_only().start();
    let (replica, plain) = (server.replica(), server.replica_without_module());
    let mut client = server.client();
    client.run(&edit("o", "")).fence();
    client.share("table", "other");
    let deadline = cmd!(client, "PEXPIRETIME", "row").int();
    for replica in [&replica, &plain] {
        replica.wait_until_in_sync_with(&server);
        let mut client = replica.client();
        let shares = client.shares("table");
        assert_eq!(shares.keys().collect::<Vec<_>>(), ["o", "other"]);
        assert_eq!(shares["o"], deadline);
        assert_eq!(client.holder("row"), "o");
        assert_eq!(cmd!(client, "PEXPIRETIME", "row"), deadline);
    }
    let mut there = replica.client();
    assert_eq!(there.mode("table"), "shared");
    assert_eq!(there.mode("row"), "exclusive");
    server.kill_9();
    server.restart();
    let mut client = server.client();
    assert_eq!(client.sharers("table"), ["o", "other"]);
    assert_eq!(client.holder("row"), "o");
    assert_eq!(client.run(&edit("p", "")), Value::Nil);
    assert_eq!(client.run(&mrelease(&TABLE, "o")), 2);
    client.run(&edit("p", "")).fence();
}
