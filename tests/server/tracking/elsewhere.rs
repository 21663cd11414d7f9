//! Copies of what another server grants: those of a replica's clients, and those of a slot that moves.

use super::copies::Copies;
use crate::support::*;

#[test]
fn a_copy_from_a_replica_follows_what_its_master_grants() {
    let master = Server::start();
    let mut client = master.client();
    for replica in [master.replica(), master.replica_without_module()] {
        let mut copies = Copies::of(&replica, "k");
        copies.follow("a grant", || {
            client.acquire("k", "a");
            replica.wait_until_in_sync_with(&master);
        });
        let mut waiter = master.waiter_for("k", "b");
        copies.follow("a handoff", || {
            client.release("k", "a");
            waiter.answer().fence();
            replica.wait_until_in_sync_with(&master);
        });
        let mut sharer = master.reader_for("k", "c");
        copies.follow("another mode", || {
            client.release("k", "b");
            sharer.answer().fence();
            replica.wait_until_in_sync_with(&master);
        });
        copies.follow("a release", || {
            client.release("k", "c");
            replica.wait_until_in_sync_with(&master);
        });
        copies.follow("a short grant", || {
            client.run(&args!["LOCK.ACQUIRE", "k", "d", 2000]).fence();
            replica.wait_until_in_sync_with(&master);
        });
        copies.see_it_go("an expiry");
        eventually("it is over for the master too", || {
            client.run(&args!["LOCK.CHECK", "k", "d"]).is_nil()
        });
    }
}

#[test]
fn a_copy_from_a_replica_follows_its_promotion() {
    let master = Server::start();
    let replica = master.replica();
    let mut copies = Copies::of(&replica, "k");
    copies.follow("a grant by the old master", || {
        master.client().acquire("k", "a");
        replica.wait_until_in_sync_with(&master);
    });
    master.kill_9();
    replica.promote();
    let mut waiter = replica.waiter_for("k", "b");
    copies.follow("a handoff by the new one", || {
        replica.client().release("k", "a");
        waiter.answer().fence();
    });
}

#[test]
fn a_copy_from_a_node_is_given_up_when_the_slot_has_left_it() {
    let cluster = Cluster::start(2);
    let key = cluster.key_on(0, "k");
    cluster.client(0).acquire(&key, "a");
    for (from, to) in [(0, 1), (1, 0)] {
        let mut copies = Copies::of(cluster.node(from), &key);
        cluster.move_slot_of(&key, to);
        copies.see_it_sent_on();
    }
}

#[test]
fn a_copy_from_a_node_is_given_up_when_the_slot_has_left_it_as_a_whole() {
    let cluster = Cluster::start(2);
    skip_unless!(cluster.moves_atomically(), "this server moves no slot as a whole");
    let key = cluster.key_on(0, "k");
    cluster.client(0).acquire(&key, "a");
    for (from, to) in [(0, 1), (1, 0)] {
        let mut copies = Copies::of(cluster.node(from), &key);
        cluster.move_atomically(cluster.slot_of(&key), from, to);
        cluster.wait_until_served_by(&key, to);
        copies.see_it_sent_on();
    }
}
