//! The locks' slot moves from node to node of a cluster, while all clients work on.

use super::aftermath::{assert_all_are_served, assert_nothing_is_left_at};
use super::clients::locks;
use super::history::Kind;
use super::run::{Plan, run};
use crate::support::*;

#[test]
fn no_two_hold_a_lock_while_its_slot_moves_back_and_forth() {
    let cluster = Cluster::start(3);
    work_while_the_slot_moves(&cluster, Cluster::move_whole_slot);
}

#[test]
fn no_two_hold_a_lock_while_its_slot_is_migrated_as_a_whole() {
    work_while_the_slot_moves_as_a_whole(&Cluster::start(3));
}

#[test]
fn no_two_hold_a_lock_while_its_slot_is_migrated_as_a_whole_between_servers_with_io_threads() {
    let cluster = Cluster::with(3, |setup| setup.append_only().io_threads(4));
    work_while_the_slot_moves_as_a_whole(&cluster);
}

#[track_caller]
fn work_while_the_slot_moves_as_a_whole(cluster: &Cluster) {
    skip_unless!(cluster.moves_atomically(), "this server moves slots key by key");
    let key = locks().next().unwrap();
    work_while_the_slot_moves(cluster, |cluster, slot, from, to| {
        cluster.move_atomically(slot, from, to);
        cluster.wait_until_served_by(key, to);
    });
}

#[track_caller]
fn work_while_the_slot_moves(cluster: &Cluster, move_it: impl Fn(&Cluster, u16, usize, usize)) {
    let key = locks().next().unwrap();
    let slot = cluster.slot_of(key);
    let plan = Plan {
        // A slot that is leaving takes no writes but its clients'.
        ends_are_prompt: false,
        ..Plan::default()
    };
    let mut moves = 0;
    run(cluster.node_of(key).address(), plan, |stage, chance| {
        while stage.goes_on_until(moves > 3) {
            stage.let_work(20 + chance.below(80));
            let from = cluster.index_of(key);
            let to = (from + 1 + usize::from(chance.one_in(2))) % 3;
            stage.tell(Kind::Moved, || move_it(cluster, slot, from, to));
            moves += 1;
        }
    });
    assert!(moves > 3, "{moves}");
    assert_all_are_served(cluster.node_of(key).address());
    for node in cluster.nodes() {
        assert_nothing_is_left_at(node);
    }
}
