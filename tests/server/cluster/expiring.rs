//! Locks that expire while their slot moves.

use super::*;

#[test]
fn locks_that_expire_while_their_slot_moves_key_by_key_have_one_holder_at_most() {
    let cluster = Cluster::with(2, Setup::append_only);
    locks_expire_during(&cluster, |keys, slot, from, to| {
        cluster.set_importing(slot, from, to);
        cluster.set_migrating(slot, from, to);
        for key in keys {
            cluster.migrate_key(key, from, to);
        }
        cluster.set_slot_owner(slot, from, to);
    });
}

#[test]
fn locks_that_expire_while_their_slot_moves_as_a_whole_have_one_holder_at_most() {
    let cluster = Cluster::with(2, Setup::append_only);
    skip_unless!(cluster.moves_atomically(), "this server moves slots key by key");
    locks_expire_during(&cluster, |_, slot, from, to| {
        cluster.move_atomically(slot, from, to);
    });
}

/// Holds that end in the middle of a move are passed on by one node or by the other, or not at all,
/// and never to a client that is sent elsewhere.
#[track_caller]
fn locks_expire_during(cluster: &Cluster, moves: impl Fn(&[String], u16, usize, usize)) {
    let tag = cluster.key_on(0, "t");
    let slot = cluster.slot_of(&tag);
    let keys: Vec<String> = (0..60).map(|number| format!("{{{tag}}}{number}")).collect();
    let heir = |key: &str| format!("b-{key}");
    for (from, to) in [(0, 1), (1, 0)] {
        let mut client = cluster.client(from);
        let mut wait = |key: &String| {
            cmd!(client, "DEL", key);
            client.acquire(key, "a");
            let mut waiter = cluster.client(from);
            waiter.send(&args!["LOCK.ACQUIRE", key, heir(key), LONG, "BLOCK", 0]);
            waiter
        };
        let mut waiters: Vec<Client> = keys.iter().map(&mut wait).collect();
        cluster.node(from).wait_for_blocked_clients(keys.len());
        // One after the other they end, from before the move until after it.
        let renewals: Vec<Command> = (keys.iter().zip(1_u64..))
            .map(|(key, number)| args!["LOCK.RENEW", key, "a", number * 4])
            .collect();
        client.pipeline(&renewals);
        moves(&keys, slot, from, to);
        eventually("the slot has moved", || cluster.index_of(&tag) == to);
        let mut client = cluster.client(to);
        for (key, waiter) in keys.iter().zip(&mut waiters) {
            let answer = waiter.answer();
            let holder = client.holder(key);
            if answer.is_error("MOVED") {
                assert_ne!(holder, heir(key), "{key}");
            } else {
                assert!(answer.fence() > 0, "{key}");
                assert_eq!(holder, heir(key), "{key}");
            }
        }
    }
}
