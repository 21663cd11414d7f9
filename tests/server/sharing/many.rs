//! A lock that many share, as the server stores it.

use crate::support::*;

#[track_caller]
fn is_indexed(client: &mut Client) -> bool {
    cmd!(client, "OBJECT", "ENCODING", "k") == "skiplist"
}

#[test]
fn from_the_seventeenth_on_a_sharer_is_found_by_an_index_and_nothing_else_has_changed() {
    let server = Server::with().append_only().start();
    let replica = server.replica_without_module();
    let mut client = server.client();
    let mut owners: Vec<_> = (10..26).map(|n| format!("owner-{n}")).collect();
    for owner in &owners {
        client.share("k", owner);
    }
    assert!(!is_indexed(&mut client));
    // One that has its share already is not one more.
    assert_eq!(cmd!(client, "LOCK.RENEW", "k", "owner-10", 2 * LONG), 1);
    assert!(!is_indexed(&mut client));
    owners.push("owner-26".to_owned());
    client.share("k", "owner-26");
    assert!(is_indexed(&mut client));
    assert_eq!(client.sharers("k"), owners);
    assert!(client.shares("k").keys().eq(&owners));
    replica.wait_until_in_sync_with(&server);
    assert!(replica.client().shares("k").keys().eq(&owners));
    let written = server.aof_commands();
    assert_eq!(written.iter().filter(|line| line.starts_with("ZADD")).count(), 18, "{written:?}");
    assert!(!written.iter().any(|line| line.starts_with("ZREM")), "{written:?}");
    for owner in &owners {
        client.release("k", owner);
    }
    assert_eq!(cmd!(client, "EXISTS", "k"), 0);
}

#[test]
fn a_lock_that_came_from_elsewhere_is_indexed_when_the_sharers_grow_in_number() {
    let server = Server::start();
    let mut client = server.client();
    cmd!(client, "ZADD", "k", "inf", MARKER);
    for n in 0..30 {
        cmd!(client, "ZADD", "k", "99999999999999", format!("owner-{n}"));
    }
    client.share("k", "a");
    client.share("k", "b");
    assert!(!is_indexed(&mut client));
    client.share("k", "c");
    assert!(is_indexed(&mut client));
    assert_eq!(client.sharers("k").len(), 33);
}

#[test]
fn an_owner_keeps_its_share_whatever_its_name() {
    let server = Server::start();
    let mut client = server.client();
    let name = "@".repeat(65);
    client.share("k", &name);
    let end = client.shares("k")[&name];
    for n in 1..=16 {
        client.share("k", format!("owner-{n}"));
    }
    assert_eq!(client.shares("k")[&name], end);
}
