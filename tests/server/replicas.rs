//! `REPLICAS n`: an owner hears of its grant when n replicas have it.

use crate::support::*;

/// A short time to wait for replicas that don't answer.
const SHORT: u64 = 200;

/// A master with so many replicas, all of them in sync, which have a long time to answer.
fn with_replicas(count: usize) -> (Server, Vec<Server>) {
    let master = Server::start();
    master.client().timeout(LONG);
    let replicas = (0..count).map(|_| master.replica()).collect();
    lists(&master, count);
    (master, replicas)
}

/// A replica knows that it is in sync before its master does: waits until this one lists so many.
#[track_caller]
fn lists(master: &Server, count: usize) {
    let mut client = master.client();
    eventually("so many connections of replicas are online", || {
        cmd!(client, "INFO", "replication").text().matches("state=online").count() == count
    });
}

impl Client {
    #[track_caller]
    fn timeout(&mut self, ms: u64) {
        assert_eq!(cmd!(self, "CONFIG", "SET", "lock.replica-timeout", ms), "OK");
    }

    #[track_caller]
    fn gets(&mut self, key: &str, owner: &str, replicas: usize) -> i64 {
        cmd!(self, "LOCK.ACQUIRE", key, owner, LONG, "REPLICAS", replicas).fence()
    }
}

#[test]
fn what_an_owner_hears_of_its_replica_has() {
    let (master, replicas) = with_replicas(1);
    let (mut client, mut there) = (master.client(), replicas[0].client());
    for round in 0..50 {
        let (key, owner) = (format!("k{round}"), format!("o{round}"));
        client.gets(&key, &owner, 1);
        // Not in a moment: now.
        assert_eq!(cmd!(there, "GET", &key), owner);
        client.assert_ttl(&key, LONG);
    }
    let waiter = args!["LOCK.ACQUIRE", "k1", "w", LONG, "BLOCK", 0, "REPLICAS", 1];
    let mut waiter = master.waiter(&waiter);
    client.release("k1", "o1");
    waiter.answer().fence();
    assert_eq!(cmd!(there, "GET", "k1"), "w");
    assert_eq!(client.info("lock")["lock_replicated_total"], "51");
}

#[test]
fn with_too_few_replicas_nothing_is_written_and_who_waits_waits_on() {
    let (master, _replicas) = with_replicas(1);
    let mut client = master.client();
    let asks = |options: &str| words(&format!("LOCK.ACQUIRE k a {LONG} {options}"));
    assert_eq!(
        client.run(&asks("REPLICAS 2")),
        Value::Error("NOREPLICAS lock needs 2 replicas; connected: 1".into())
    );
    cmd!(client, "CONFIG", "SET", "lock.replicas", 2);
    let warning = "lock.replicas is 2, connected replicas: 1";
    assert!(master.log().contains(warning), "{}", master.log());
    assert!(client.run(&asks("")).is_error("NOREPLICAS lock"));
    assert_eq!(cmd!(client, "EXISTS", "k"), 0);
    let mut waiter = master.waiter(&asks("BLOCK 0"));
    assert!(waiter.no_answer_yet());
    let _second = master.replica();
    waiter.answer().fence();
    client.run(&asks("REPLICAS 0")).fence();
}

#[test]
fn where_no_reply_can_wait_replicas_are_refused_before_anything_is_written() {
    let (master, _replicas) = with_replicas(1);
    let mut client = master.client();
    let ask = args!["LOCK.ACQUIRE", "k", "a", LONG, "REPLICAS", 1];
    let answers = client.transaction(std::slice::from_ref(&ask));
    assert!(answers[0].is_error("ERR REPLICAS is not allowed"), "{answers:?}");
    let script = "return redis.pcall('LOCK.ACQUIRE', KEYS[1], 'a', 1000, 'REPLICAS', 1)";
    assert!(cmd!(client, "EVAL", script, 1, "k").is_error("ERR REPLICAS is not allowed"));
    assert_eq!(cmd!(client, "EXISTS", "k"), 0);
    cmd!(client, "CONFIG", "SET", "lock.replicas", 1);
    let answers = client.transaction(&[args!["LOCK.ACQUIRE", "k", "a", LONG]]);
    assert!(answers[0].is_error("ERR REPLICAS is not allowed"), "{answers:?}");
    let answers = client.transaction(&[args!["LOCK.ACQUIRE", "k", "a", LONG, "REPLICAS", 0]]);
    answers[0].clone().fence();
}

#[test]
fn a_grant_that_no_replica_acknowledges_is_taken_back_and_goes_to_the_next() {
    let (master, replicas) = with_replicas(1);
    let mut client = master.client();
    replicas[0].pause();
    let ask = args!["LOCK.ACQUIRE", "k", "a", LONG, "REPLICAS", 1];
    let mut waits = master.waiter(&ask);
    assert_eq!(cmd!(client, "LOCK.CHECK", "k", "a"), Value::Nil);
    assert!(cmd!(client, "LOCK.GUARD", "k", "a", "PING").is_error("NOTOWNER"));
    assert_eq!(cmd!(client, "LOCK.RENEW", "k", "a", LONG), 0);
    assert_eq!(cmd!(client, "LOCK.ACQUIRE", "k", "b", LONG), Value::Nil);
    assert_eq!(cmd!(client, "LOCK.INFO", "k")["holders"][0]["pending"], 1);
    assert_eq!(cmd!(client, "LOCK.RELEASE", "k", "a"), 0);
    assert_eq!(waits.answer(), Value::Nil);
    client.timeout(SHORT);
    client.acquire("k", "c");
    let mut waits =
        master.waiter(&args!["LOCK.ACQUIRE", "k", "a", LONG, "BLOCK", 0, "REPLICAS", 1]);
    let mut next = master.waiter_for("k", "b");
    client.release("k", "c");
    let answer = waits.answer();
    assert!(answer.is_error("NOREPLICAS lock was not acknowledged by 1 replicas"), "{answer:?}");
    next.answer().fence();
    let loss = cmd!(client, "LOCK.LOG", 1)[0].clone();
    assert_eq!(
        (loss["reason"].text(), loss["owner"].text()),
        ("unacknowledged".into(), "a".into())
    );
    replicas[0].resume();
    client.timeout(LONG);
    client.release("k", "b");
    client.gets("k", "a", 1);
}

#[test]
fn a_client_that_dies_before_its_replica_answers_leaves_nothing() {
    let (master, replicas) = with_replicas(1);
    let mut client = master.client();
    replicas[0].pause();
    for way in ["closed", "killed", "unblocked", "released"] {
        let mut waits = master.waiter(&args!["LOCK.ACQUIRE", "k", "a", LONG, "REPLICAS", 1]);
        match way {
            "closed" => waits.close(),
            "killed" => _ = cmd!(client, "CLIENT", "KILL", "ID", waits.id()),
            "unblocked" => {
                cmd!(client, "CLIENT", "UNBLOCK", waits.id());
                assert_eq!(waits.answer(), Value::Nil);
            }
            _ => {
                assert_eq!(cmd!(client, "LOCK.RELEASE", "k", "a"), 0);
                assert_eq!(waits.answer(), Value::Nil);
            }
        }
        eventually(way, || cmd!(client, "EXISTS", "k") == 0);
    }
    replicas[0].resume();
}

#[test]
fn a_lock_that_goes_while_its_grant_waits_for_replicas_goes_to_the_next() {
    let (master, replicas) = with_replicas(1);
    let mut client = master.client();
    replicas[0].pause();
    for goes in
        ["LOCK.BREAK k", "DEL k", "SET k x PX 1", "PEXPIRE k 1", "RENAME k other", "FLUSHALL"]
    {
        let mut waits = master.waiter(&args!["LOCK.ACQUIRE", "k", "a", LONG, "REPLICAS", 1]);
        let mut next = master.waiter_for("k", "b");
        let answer = client.run(&words(goes));
        assert!(!answer.is_error(""), "{goes}: {answer:?}");
        assert_eq!(waits.answer(), Value::Nil, "{goes}");
        next.answer().fence();
        client.release("k", "b");
    }
    replicas[0].resume();
}

#[test]
fn a_replica_that_joins_or_returns_while_a_grant_waits_acknowledges_it_when_it_has_it() {
    let (master, replicas) = with_replicas(1);
    let old = &replicas[0];
    old.pause();
    let waits = |key| master.waiter(&args!["LOCK.ACQUIRE", key, "a", LONG, "REPLICAS", 1]);
    let mut first = waits("k");
    // It is not asked whether it is in sync.
    let joins = Setup::new().replica_of(&master).start();
    first.answer().fence();
    assert_eq!(cmd!(joins.client(), "GET", "k"), "a");
    joins.pause();
    let mut second = waits("l");
    old.kill_9();
    assert!(second.no_answer_yet());
    old.restart();
    second.answer().fence();
    assert_eq!(cmd!(old.client(), "GET", "l"), "a");
    joins.resume();
}

#[test]
fn a_replica_that_has_connected_anew_counts_once_while_its_master_lists_both_connections() {
    let (master, others) = with_replicas(1);
    let link = Proxy::before(master.address());
    let to_link = format!("replicaof 127.0.0.1 {}", link.address().port());
    let replica = Server::with().config(&to_link).start();
    replica.wait_until_in_sync_with(&master);
    lists(&master, 2);
    others[0].pause();
    let mut waits = master.waiter(&args!["LOCK.ACQUIRE", "k", "a", LONG, "REPLICAS", 2]);
    let mut there = replica.client();
    eventually("one of two has it", || cmd!(there, "GET", "k") == "a");
    // The master does not see that this connection is gone.
    link.forget_all();
    cmd!(there, "CLIENT", "KILL", "TYPE", "master");
    lists(&master, 3);
    let mut client = master.client();
    // It acknowledges that, and so all before it.
    client.gets("m", "c", 1);
    assert!(waits.no_answer_yet());
    let three = client.run(&args!["LOCK.ACQUIRE", "l", "b", LONG, "REPLICAS", 3]);
    assert!(three.is_error("NOREPLICAS lock needs 3 replicas; connected: 2"));
    others[0].resume();
    waits.answer().fence();
}

#[test]
fn a_retry_by_another_connection_joins_the_grant() {
    let (master, replicas) = with_replicas(1);
    replicas[0].pause();
    let ask = args!["LOCK.ACQUIRE", "k", "a", LONG, "REPLICAS", 1];
    let mut first = master.waiter(&ask);
    let mut second = master.client();
    second.send(&ask);
    assert!(first.answer().is_error("REPLACED"));
    replicas[0].resume();
    second.answer().fence();
}

#[test]
fn a_master_that_becomes_a_replica_tells_no_one() {
    let (master, replicas) = with_replicas(1);
    replicas[0].pause();
    let mut waits = master.waiter(&args!["LOCK.ACQUIRE", "k", "a", LONG, "REPLICAS", 1]);
    master.follow(&replicas[0]);
    assert!(waits.answer().is_error("UNBLOCKED"));
    replicas[0].resume();
}

#[test]
fn while_no_grant_waits_nothing_is_heard_and_the_module_can_be_unloaded() {
    let (master, _replicas) = with_replicas(1);
    let mut client = master.client();
    client.gets("k", "a", 1);
    client.release("k", "a");
    master.wait_until_unloaded();
}

#[test]
fn a_renewal_that_returns_1_is_on_the_replica_and_one_that_does_not_changes_nothing() {
    let (master, replicas) = with_replicas(1);
    let (mut client, mut there) = (master.client(), replicas[0].client());
    client.gets("k", "a", 1);
    client.acquire("l", "a");
    for (ttl, ask) in [
        (2 * LONG, args!["LOCK.RENEW", "k", "a", 2 * LONG, "REPLICAS", 1]),
        (LONG, args!["LOCK.MRENEW", 2, "k", "l", "a", LONG, "REPLICAS", 1]),
    ] {
        assert_eq!(client.run(&ask), 1);
        there.assert_ttl("k", ttl);
    }
    let late = args!["LOCK.RENEW", "k", "b", LONG, "REPLICAS", 1];
    assert_eq!(client.run(&late), 0);
    replicas[0].pause();
    let ask = args!["LOCK.RENEW", "k", "a", 3 * LONG, "REPLICAS", 1];
    let mut waits = master.waiter(&ask);
    client.assert_ttl("k", 3 * LONG);
    let known = cmd!(client, "LOCK.CHECK", "k", "a").int();
    assert!(known <= LONG.try_into().unwrap(), "{known}");
    cmd!(client, "CLIENT", "UNBLOCK", waits.id());
    assert!(waits.answer().is_error("NOREPLICAS lock"));
    client.timeout(SHORT);
    assert_eq!(client.run(&args!["LOCK.MRENEW", 1, "k", "a", LONG]), 1);
    assert!(client.run(&ask).is_error("NOREPLICAS lock was not acknowledged"));
    client.assert_ttl("k", LONG);
    replicas[0].resume();
}

#[test]
fn a_poll_returns_a_token_that_the_replica_has() {
    let (master, replicas) = with_replicas(1);
    let (mut client, mut there) = (master.client(), replicas[0].client());
    let ask = args!["LOCK.ACQUIRE", "k", "a", LONG, "QUEUE", 60_000, "REPLICAS", 1];
    // In a transaction too: no reply waits.
    assert_eq!(client.transaction(std::slice::from_ref(&ask))[0], -1);
    let fence = eventually_some("the replica has it", || {
        let answer = client.run(&ask);
        (answer != -1).then(|| answer.fence())
    });
    assert!(fence > 0);
    assert_eq!(cmd!(there, "GET", "k"), "a");
    client.release("k", "a");
}
