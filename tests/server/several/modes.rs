//! MODES: each lock in its own mode. A job in these tests shares the lock of all jobs with few others, and that of its
//! tenant with fewer; an edit shares a table and has a row of it alone.

mod places;
mod words;
mod written;

use super::{mrelease, mrenew};
use crate::support::*;

const JOB: [&str; 2] = ["all", "ann"];
const TABLE: [&str; 2] = ["table", "row"];

/// LOCK.MACQUIRE of these keys for a long time, with these words behind it.
fn with_words<K: Arg>(keys: &[K], owner: impl Arg, more: &str) -> Command {
    let mut command = macquire(keys, owner);
    command.extend(words(more));
    command
}

/// Two may run in all, and one of this tenant; more words may follow.
fn job(keys: &[&str], owner: &str, more: &str) -> Command {
    with_words(keys, owner, &format!("MODES 2 1 {more}"))
}

fn edit(owner: &str, more: &str) -> Command {
    with_words(&TABLE, owner, &format!("MODES SHARED EXCLUSIVE {more}"))
}

#[test]
fn each_lock_is_stored_in_its_own_mode_and_all_have_one_number() {
    let server = Server::start();
    let mut observer = server.client();
    for mut client in [server.client(), server.client3()] {
        let fence = client.run(&edit("o", "")).fence();
        assert_eq!(cmd!(client, "TYPE", "table"), "zset");
        assert_eq!(cmd!(client, "TYPE", "row"), "string");
        assert_eq!(client.holder("row"), "o");
        let deadline = cmd!(client, "PEXPIRETIME", "row").int();
        assert_eq!(cmd!(client, "PEXPIRETIME", "table"), deadline);
        assert_eq!(observer.shares("table"), [("o".to_owned(), deadline)].into());
        for (key, mode) in [("table", "shared"), ("row", "exclusive")] {
            assert_eq!(client.number_of(key), fence);
            assert_eq!(client.mode(key), mode);
        }
        client.release_all(&TABLE, "o");
        assert_eq!(cmd!(client, "DBSIZE"), 0);
    }
}

#[test]
fn an_owner_that_asks_for_no_more_than_it_holds_of_each_gets_the_number_that_it_has() {
    let server = Server::start();
    let mut client = server.client();
    let fence = client.run(&edit("o", "")).fence();
    client.share("table", "other");
    let backwards = ["row", "table"];
    for same in [
        edit("o", ""),
        edit("o", "BLOCK 0"),
        edit("o", "QUEUE 1000"),
        with_words(&backwards, "o", "MODES EXCLUSIVE SHARED"),
        with_words(&TABLE, "o", "MODES SHARED SHARED"),
        with_words(&TABLE, "o", "MODES 9 3"),
        with_words(&TABLE, "o", "SHARED"),
        with_words(&["table", "row", "table"], "o", "MODES 2 EXCLUSIVE 2"),
    ] {
        assert_eq!(client.run(&same), fence, "{same:?}");
        assert_eq!(client.mode("row"), "exclusive");
    }
    // The table alone is more, and it is shared.
    let more = with_words(&TABLE, "o", "MODES EXCLUSIVE EXCLUSIVE");
    assert_eq!(client.run(&more), Value::Nil);
    client.release("table", "other");
    assert!(client.run(&more).fence() > fence);
    assert_eq!(client.holders(&TABLE), ["o", "o"]);
}

#[test]
fn a_waiter_is_granted_all_of_them_when_each_has_room_and_none_before() {
    let server = Server::start();
    let mut client = server.client();
    client.run(&job(&JOB, "a", "")).fence();
    client.permit("all", "b", 2);
    let mut waiter = server.waiter(&job(&JOB, "w", "BLOCK 0"));
    assert_eq!(client.queue("all"), ["w"]);
    assert_eq!(client.queue("ann"), ["w"]);
    client.release("all", "b");
    assert!(waiter.still_waits());
    assert_eq!(client.sharers("all"), ["a"]);
    client.release("ann", "a");
    let fence = waiter.answer().fence();
    for (key, sharers) in [("all", &["a", "w"][..]), ("ann", &["w"])] {
        assert_eq!(client.sharers(key), sharers);
        let info = cmd!(client, "LOCK.INFO", key);
        let held = info["holders"].items().last();
        assert_eq!(held.unwrap()["fence"], fence, "{key}");
    }
}

#[test]
fn those_behind_a_job_whose_tenant_is_full_wait_though_there_is_room_for_all() {
    let server = Server::start();
    let mut client = server.client();
    let bens = ["all", "ben"];
    client.run(&job(&JOB, "a1", "")).fence();
    let mut full = server.waiter(&job(&JOB, "a2", "BLOCK 0"));
    let mut behind = server.waiter(&job(&bens, "b1", "BLOCK 0"));
    assert_eq!(client.run(&job(&bens, "b2", "")), Value::Nil);
    assert_eq!(client.queue("all"), ["a2", "b1"]);
    assert_eq!(client.queue("ben"), ["b1"]);
    assert_eq!(client.sharers("all"), ["a1"]);
    client.release_all(&JOB, "a1");
    let first = full.answer().fence();
    assert!(behind.answer().fence() > first);
    assert_eq!(client.sharers("all"), ["a2", "b1"]);
}

#[test]
fn those_behind_an_edit_that_waits_for_its_row_wait_too_unless_it_asks_for_the_row_first() {
    let server = Server::start();
    let mut client = server.client();
    let other = ["table", "other row"];
    let of_other = |owner| with_words(&other, owner, "MODES SHARED EXCLUSIVE");
    client.run(&edit("o", "")).fence();
    let mut waiter = server.waiter(&edit("w", "BLOCK 0"));
    assert_eq!(client.run(&of_other("p")), Value::Nil);
    let reader = args!["LOCK.ACQUIRE", "table", "r", LONG, "SHARED"];
    assert_eq!(client.run(&reader), Value::Nil);
    client.release_all(&TABLE, "o");
    waiter.answer().fence();
    let mut waiter = server.waiter_for("row", "x");
    client.run(&of_other("p")).fence();
    client.run(&reader).fence();
    client.release_all(&TABLE, "w");
    waiter.answer().fence();
    client.share("table", "x");
}

#[test]
fn info_shows_of_each_lock_how_it_is_waited_for() {
    let server = Server::start();
    let mut client = server.client();
    let keys = ["all", "ann", "row", "table"];
    client.acquire_all(&keys, "x");
    let _waiter = server.waiter(&with_words(&keys, "w", "MODES 100 3 EXCLUSIVE SHARED BLOCK 0"));
    for (mut client, key, mode, limit) in [
        (server.client(), "all", "limit", Some(100)),
        (server.client3(), "ann", "limit", Some(3)),
        (server.client(), "row", "exclusive", None),
        (server.client3(), "table", "shared", None),
    ] {
        let waiter = cmd!(client, "LOCK.INFO", key)["waiters"][0].clone();
        assert_eq!(waiter["mode"], mode, "{key}");
        let shown = waiter.field("limit").map(Value::int);
        assert_eq!(shown, limit, "{key}");
    }
}

#[test]
fn the_log_says_of_each_lock_in_which_mode_it_was_held() {
    let server = Server::start();
    let mut client = server.client();
    let fence = client.run(&edit("o", "")).fence();
    for (key, mode) in [("table", "shared"), ("row", "exclusive")] {
        cmd!(client, "LOCK.BREAK", key);
        let loss = cmd!(client, "LOCK.LOG", 1)[0].clone();
        assert_eq!(loss["key"], key);
        assert_eq!(loss["mode"], mode);
        assert_eq!(loss["fence"], fence);
    }
}

#[test]
fn a_deadlock_through_a_lock_that_is_shared_is_told_in_words() {
    let server = Server::start();
    let mut client = server.client();
    client.run(&edit("o", "")).fence();
    client.acquire("other", "p");
    let mut waiter = server.waiter_for("other", "o");
    // It may share the table, and the row is in its way.
    let words = r#"DEADLOCK "p" waits for "row", held by "o"; "o" waits for "other", held by "p""#;
    for request in [edit("p", "BLOCK 0"), edit("p", "QUEUE 1000")] {
        assert_eq!(client.run(&request).error(), words, "{request:?}");
    }
    // If it wants both alone, the table is named, which comes first.
    let alone = macquire_waiting(&TABLE, "p");
    let words =
        r#"DEADLOCK "p" waits for "table", held by "o"; "o" waits for "other", held by "p""#;
    assert_eq!(client.run(&alone).error(), words);
    let shares = with_words(&TABLE, "p", "MODES SHARED SHARED BLOCK 0");
    assert!(client.run(&shares).is_error("DEADLOCK"));
    client.release("other", "p");
    waiter.answer().fence();
}

#[test]
fn all_are_renewed_and_released_together_whatever_their_modes() {
    let server = Server::start();
    let mut client = server.client();
    client.run(&edit("o", "")).fence();
    client.share("table", "other");
    assert_eq!(client.run(&mrenew(&TABLE, "o", 2 * LONG)), 1);
    let deadline = cmd!(client, "PEXPIRETIME", "row").int();
    assert_eq!(client.shares("table")["o"], deadline);
    for key in TABLE {
        let left = cmd!(client, "LOCK.CHECK", key, "o").int();
        assert!(left > i64::try_from(LONG).unwrap(), "{key}: {left}");
    }
    let mut waiter = server.waiter(&edit("w", "BLOCK 0"));
    assert_eq!(client.run(&mrelease(&TABLE, "o")), 2);
    waiter.answer().fence();
    assert_eq!(client.sharers("table"), ["other", "w"]);
    client.release("row", "w");
    assert_eq!(client.run(&mrelease(&TABLE, "w")), 1);
    assert_eq!(client.run(&mrenew(&TABLE, "o", LONG)), 0);
}

#[test]
fn a_hold_that_ends_with_its_connection_ends_in_each_mode() {
    let server = Server::start();
    let mut client = server.client();
    let mut holder = server.client();
    holder.run(&edit("o", "SESSION")).fence();
    client.share("table", "other");
    let mut waiter = server.waiter(&edit("w", "BLOCK 0"));
    holder.close();
    waiter.answer().fence();
    assert_eq!(client.sharers("table"), ["other", "w"]);
    assert_eq!(client.holder("row"), "w");
}

#[test]
fn no_more_wait_before_it_than_maxqueue_says_in_a_queue_where_it_has_to_wait() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("row", "x");
    let _one = server.waiter_for("row", "w1");
    let full = "QUEUEFULL 1 waiting in the queue, and MAXQUEUE is 1";
    let refused = client.run(&edit("p", "QUEUE 1000 MAXQUEUE 1"));
    assert_eq!(refused, Value::Error(full.to_owned()));
    assert_eq!(client.queue("table"), [""; 0]);
    // Two wait for the table alone: it is shared, so it has to wait there too, behind both.
    client.share("table", "x");
    let _two = server.waiter_for("table", "w2");
    let _three = server.waiter_for("table", "w3");
    let refused = client.run(&edit("p", "QUEUE 1000 MAXQUEUE 2"));
    assert!(refused.is_error("QUEUEFULL 2 waiting"), "{refused:?}");
    assert_eq!(client.run(&edit("p", "QUEUE 1000 MAXQUEUE 3")), -3);
}

#[test]
fn in_a_transaction_and_in_a_script_it_works_and_never_waits() {
    let server = Server::start();
    let mut client = server.client();
    let script = "return redis.call(unpack(ARGV))";
    let scripted = |command: Command| [args!["EVAL", script, 0], command].concat();
    let answers = client.transaction(&[
        edit("o", "BLOCK 0"),
        edit("p", "BLOCK 0"),
        scripted(edit("o", "")),
        scripted(edit("p", "BLOCK 0")),
        edit("p", "QUEUE 60000"),
        mrelease(&TABLE, "o"),
    ]);
    let fence = answers[0].fence();
    assert_eq!(
        answers[1..],
        [Value::Nil, Value::Int(fence), Value::Nil, Value::Int(-1), Value::Int(2)]
    );
    assert!(client.run(&scripted(edit("p", "QUEUE 60000"))).fence() > fence);
    assert_eq!(client.mode("table"), "shared");
    assert_eq!(client.holder("row"), "p");
}

#[test]
fn in_a_cluster_the_locks_of_one_slot_have_modes() {
    let cluster = Cluster::start(2);
    let tag = cluster.key_on(0, "t");
    let [table, row] = ["table", "row"].map(|name| format!("{{{tag}}}{name}"));
    let edit = |owner: &str, more: &str| {
        with_words(&[&table, &row], owner, &format!("MODES SHARED EXCLUSIVE {more}"))
    };
    let mut client = cluster.client(0);
    let fence = client.run(&edit("o", "")).fence();
    assert_eq!(client.mode(&table), "shared");
    assert_eq!(client.holder(&row), "o");
    let mut waiter = cluster.node(0).waiter(&edit("w", "BLOCK 0"));
    client.release_all(&[&table, &row], "o");
    assert!(waiter.answer().fence() > fence);
    let elsewhere = cluster.key_on(1, "e");
    let mixed = with_words(&[&table, &elsewhere], "o", "MODES SHARED EXCLUSIVE");
    assert!(client.run(&mixed).is_error("CROSSSLOT"));
    // A slot that has moved takes them along, each as it was held.
    cluster.move_whole_slot(cluster.slot_of(&table), 0, 1);
    let mut there = cluster.client(1);
    assert_eq!(there.mode(&table), "shared");
    assert_eq!(there.holder(&row), "w");
    let again = there.run(&edit("w", "")).fence();
    assert_eq!(there.run(&edit("w", "")), again);
}
