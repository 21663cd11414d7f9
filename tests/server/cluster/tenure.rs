//! Fencing numbers of a slot that is on its way: who gets it begins ahead of who had it with every
//! number, and who has it still does not.

use crate::support::*;

/// How far ahead of its clock a node jumps in these tests, in microseconds: not much farther than it gets in
/// the time between two grants, so that it is seen whether it has jumped.
const LEAD: i64 = 300_000;

/// A cluster of two whose nodes jump so far ahead.
fn cluster() -> Cluster {
    let cluster = Cluster::start(2);
    for node in 0..2 {
        let set =
            cmd!(cluster.node(node).client(), "CONFIG", "SET", "lock.fence-lead", LEAD / 1000);
        assert_eq!(set, "OK");
    }
    cluster
}

/// By how much the number of a new grant is ahead of the node's clock, a while after the last one. A
/// hold that the node did not make gets a number too, so the key need not be free; but its owner must
/// be a new one each time.
fn ahead(node: &Server, key: &str, owner: &str) -> i64 {
    node.let_pass(320);
    let asking = args!["ASKING"];
    let answers = node.client().pipeline(&[
        args!["TIME"],
        asking.clone(),
        args!["SET", key, owner, "PX", LONG],
        asking,
        args!["LOCK.ACQUIRE", key, owner, LONG],
    ]);
    assert_eq!(answers[2], "OK");
    answers[4].fence() - micros(&answers[0])
}

/// What TIME returned, in microseconds.
fn micros(time: &Value) -> i64 {
    let [seconds, micros] = [0, 1].map(|at| time[at].text().parse::<i64>().unwrap());
    seconds * 1_000_000 + micros
}

/// The slot of this key is leaving node 0, which knows it: its server has refused to pass the lock on to this waiter.
fn refused_waiter(cluster: &Cluster, key: &str) -> Client {
    let (here, slot) = (cluster.node(0), cluster.slot_of(key));
    here.client().acquire(key, "x");
    let waiter = here.waiter_for(key, "w");
    cluster.set_importing(slot, 0, 1);
    cluster.set_migrating(slot, 0, 1);
    assert_eq!(cmd!(here.client(), "DEL", key), 1);
    waiter
}

#[test]
fn every_number_of_a_slot_that_comes_is_ahead_until_it_is_here() {
    let cluster = cluster();
    let key = cluster.key_on(0, "k");
    let slot = cluster.slot_of(&key);
    let there = cluster.node(1);
    cluster.set_importing(slot, 0, 1);
    cluster.set_migrating(slot, 0, 1);
    for owner in ["a", "b", "c"] {
        let ahead = ahead(there, &key, owner);
        assert!(ahead >= LEAD, "{ahead}");
    }
    cluster.set_slot_owner(slot, 0, 1);
    let first = ahead(there, &key, "d");
    assert!(first >= LEAD, "the first of its own: {first}");
    let second = ahead(there, &key, "e");
    assert!(second < LEAD, "it has been here since: {second}");
}

#[test]
fn a_slot_that_leaves_is_not_ahead_of_who_gets_it() {
    let cluster = cluster();
    let key = cluster.key_on(0, "k");
    let stays = format!("{{{key}}}");
    let slot = cluster.slot_of(&key);
    let here = cluster.node(0);
    let first = ahead(here, &stays, "z");
    assert!(first >= LEAD, "the first in its slot: {first}");
    let mut waiter = refused_waiter(&cluster, &key);
    here.let_pass(50);
    assert!(waiter.no_answer_yet());
    for owner in ["a", "b", "c"] {
        let ahead = ahead(here, &stays, owner);
        assert!(ahead < LEAD, "{ahead}");
    }
    assert_eq!(cluster.migrate_key(&stays, 0, 1), "OK");
    cluster.set_slot_owner(slot, 0, 1);
    assert!(waiter.answer().is_error("MOVED"));
}

#[test]
fn a_handoff_in_a_slot_that_leaves_is_not_ahead_either() {
    let cluster = cluster();
    let key = cluster.key_on(0, "k");
    let stays = format!("{{{key}}}");
    let here = cluster.node(0);
    let first = ahead(here, &stays, "z");
    assert!(first >= LEAD, "the first in its slot: {first}");
    let mut waiter = here.waiter_for(&stays, "y");
    let _refused = refused_waiter(&cluster, &key);
    here.let_pass(320);
    let answers =
        here.client().pipeline(&[args!["TIME"], args!["LOCK.RELEASE", stays.as_str(), "z"]]);
    assert_eq!(answers[1], 1);
    let ahead = waiter.answer().fence() - micros(&answers[0]);
    assert!(ahead < LEAD, "{ahead}");
}
