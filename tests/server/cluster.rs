//! Clusters: locks whose slots move, nodes that fall silent, replicas that take over.

mod expiring;
mod tenure;
mod whole_slots;

use crate::support::*;
use std::thread;
use std::time::Duration;

#[test]
fn a_key_of_another_node_is_moved() {
    let cluster = Cluster::start(2);
    let key = cluster.key_on(1, "k");
    let slot = cluster.slot_of(&key);
    let moved = format!("MOVED {slot} 127.0.0.1:{}", cluster.node(1).port());
    let mut client = cluster.client(0);
    for command in [
        args!["LOCK.ACQUIRE", key, "a", LONG],
        args!["LOCK.ACQUIRE", key, "a", LONG, "BLOCK", 0],
        args!["LOCK.RELEASE", key, "a"],
        args!["LOCK.RENEW", key, "a", LONG],
        args!["LOCK.CHECK", key, "a"],
        args!["LOCK.INFO", key],
    ] {
        assert_eq!(client.run(&command).error(), moved, "{command:?}");
    }
    assert!(cluster.client(1).acquire(&key, "a") > 0);
}

/// A server that drops the keys of a slot says `del` of each on its walk, and would let us write after
/// each. So what is deleted here is not handed on within the command, but in the next turn of the loop.
#[test]
fn in_a_cluster_a_lock_that_is_deleted_is_handed_on_a_turn_later() {
    let cluster = Cluster::start(2);
    let key = cluster.key_on(0, "k");
    let mut client = cluster.client(0);
    for how in ["DEL", "UNLINK"] {
        client.acquire(&key, "a");
        let mut waiter = cluster.node(0).waiter_for(&key, "b");
        let answers = client.pipeline(&[args![how, key], args!["GET", key]]);
        assert_eq!(answers, [Value::Int(1), Value::Nil], "{how}");
        waiter.answer().fence();
        client.release(&key, "b");
    }
}

/// How a lock may go on the node that its slot is leaving, and whether its hold has moved before.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Goes {
    /// MIGRATE takes the key, and the hold with it.
    WithMigrate,
    /// The hold is over while its key is still here.
    Expires,
    /// Another client deletes it here.
    IsDeleted,
    /// The owner releases it here.
    IsReleased,
}

#[test]
fn a_slot_that_leaves_grants_nothing_and_its_waiters_are_moved() {
    for goes in [Goes::WithMigrate, Goes::Expires, Goes::IsDeleted, Goes::IsReleased] {
        let cluster = Cluster::with(2, Setup::append_only);
        let key = cluster.key_on(0, "k");
        let slot = cluster.slot_of(&key);
        let (mut here, mut there) = (cluster.client(0), cluster.client(1));
        let fence = here.acquire(&key, "a");
        let mut waiters = ["b", "c"].map(|owner| cluster.node(0).waiter_for(&key, owner));
        cluster.set_importing(slot, 0, 1);
        cluster.set_migrating(slot, 0, 1);
        let deadline = cmd!(here, "PEXPIRETIME", key).int();
        let mut to_be_moved = 0;
        match goes {
            Goes::WithMigrate => assert_eq!(cluster.migrate_key(&key, 0, 1), "OK"),
            Goes::Expires => {
                assert_eq!(cmd!(here, "LOCK.RENEW", key, "a", 500), 1);
                // Both clocks pass the end meanwhile: in a millisecond in which ours alone has, the
                // key is still there, and the lock would go on to the first in the queue.
                cluster.node(0).pause();
                thread::sleep(Duration::from_millis(600));
                cluster.node(0).resume();
                eventually("the hold is over", || {
                    cmd!(here, "LOCK.CHECK", key, "a").is_error("ASK")
                });
            }
            Goes::IsDeleted => assert_eq!(cmd!(here, "DEL", key), 1),
            Goes::IsReleased => {
                // The key is there, so that the server takes the write: the lock goes on to the
                // first in the queue, and with it to the other node.
                assert_eq!(cmd!(here, "LOCK.RELEASE", key, "a"), 1);
                assert!(waiters[0].answer().int() > fence);
                assert_eq!(cluster.migrate_key(&key, 0, 1), "OK");
                to_be_moved = 1;
            }
        }
        let ask = cmd!(here, "LOCK.ACQUIRE", key, "d", LONG);
        assert!(ask.is_error("ASK"), "{goes:?}: {ask:?}");
        cluster.node(0).let_pass(300);
        for waiter in &mut waiters[to_be_moved..] {
            assert!(waiter.no_answer_yet(), "{goes:?}");
        }
        assert_eq!(cmd!(here, "CLUSTER", "COUNTKEYSINSLOT", slot), 0, "{goes:?}");

        // The other node is asked meanwhile.
        let owner = match goes {
            Goes::WithMigrate => "a",
            Goes::IsReleased => "b",
            Goes::Expires | Goes::IsDeleted => {
                assert_eq!(cmd!(there, "ASKING"), "OK");
                assert!(there.acquire(&key, "x") > fence);
                "x"
            }
        };
        cluster.set_slot_owner(slot, 0, 1);
        let moved = format!("MOVED {slot} 127.0.0.1:{}", cluster.node(1).port());
        for waiter in &mut waiters[to_be_moved..] {
            assert_eq!(waiter.answer().error(), moved, "{goes:?}");
        }
        assert_eq!(cmd!(there, "GET", key), owner, "{goes:?}");
        if goes == Goes::WithMigrate {
            // MIGRATE itself tells the time that is left, not the deadline.
            let moved = cmd!(there, "PEXPIRETIME", key).int();
            assert!(moved.abs_diff(deadline) < 500, "{moved} is not {deadline}");
        }
        assert!(cmd!(there, "LOCK.CHECK", key, owner).int() > 0, "{goes:?}");
        assert!(there.acquire(&key, owner) > fence, "{goes:?}");
        let mut waiter = cluster.node(1).waiter_for(&key, "e");
        assert_eq!(cmd!(there, "LOCK.RELEASE", key, owner), 1, "{goes:?}");
        assert!(waiter.answer().int() > fence, "{goes:?}");
        let written = cluster.node(0).aof_commands();
        for owner in ["c", "d", "e"] {
            let line = format!("SET {key} {owner} ");
            assert!(!written.iter().any(|l| l.starts_with(&line)), "{goes:?}");
        }
        cluster.node(0).wait_until_unloaded();
    }
}

/// The server's cron sends each waiter after its slot. In the turn of its loop in which the slot leaves
/// the waiters' time is up as well, and some servers would say both.
#[test]
fn a_waiter_whose_time_is_up_as_its_slot_leaves_gets_one_reply() {
    let cluster = Cluster::start(2);
    let (key, id) = (cluster.key_on(0, "k"), cluster.id_of(1));
    let (slot, node) = (cluster.slot_of(&key), cluster.node(0));
    let mut admin = node.client();
    admin.acquire(&key, "a");
    let patience = Duration::from_millis(400);
    let mut waiters = ["b", "c"].map(|owner| {
        let block = patience.as_millis().to_string();
        node.waiter(&args!["LOCK.ACQUIRE", key, owner, LONG, "BLOCK", block])
    });
    cluster.set_importing(slot, 0, 1);
    cluster.set_migrating(slot, 0, 1);
    assert_eq!(cluster.migrate_key(&key, 0, 1), "OK");
    // It finds all of it in one turn: the slot leaves, the time is up, the cron comes by.
    node.pause();
    admin.send(&args!["CLUSTER", "SETSLOT", slot, "NODE", id]);
    thread::sleep(patience + Duration::from_millis(200));
    node.resume();
    assert_eq!(admin.answer(), "OK");
    for waiter in &mut waiters {
        let answer = waiter.answer();
        assert!(answer.is_nil() || answer.is_error("MOVED"), "{answer:?}");
        assert_eq!(cmd!(waiter, "PING"), "PONG", "after {answer:?}");
    }
    node.wait_until_unloaded();
}

#[test]
fn a_waiter_that_dies_after_its_grant_in_a_slot_that_leaves_is_no_reason_to_grant_there() {
    let cluster = Cluster::start(2);
    let key = cluster.key_on(0, "k");
    let slot = cluster.slot_of(&key);
    let mut here = cluster.client(0);
    cmd!(here, "LOCK.ACQUIRE", key, "a", LONG);
    let mut first = cluster.node(0).waiter_for(&key, "b");
    let mut second = cluster.node(0).waiter_for(&key, "c");
    cluster.set_importing(slot, 0, 1);
    cluster.set_migrating(slot, 0, 1);
    // The grant is written, its client dies, and the key has left before it can be taken back.
    here.send_pipeline(&[
        args!["MULTI"],
        args!["LOCK.RELEASE", key, "a"],
        args!["CLIENT", "KILL", "ID", first.id()],
        args!["EXEC"],
        args!["MIGRATE", "127.0.0.1", cluster.node(1).port(), key, 0, 5000],
    ]);
    let answers: Vec<Value> = (0..5).map(|_| here.answer()).collect();
    assert_eq!(answers[3][1], 1, "{answers:?}");
    assert_eq!(answers[4], "OK");
    cluster.set_slot_owner(slot, 0, 1);
    let answer = second.answer();
    assert!(answer.is_error("MOVED"), "{answer:?}");
    assert_eq!(cmd!(cluster.client(1), "GET", key), "b");
}

#[test]
fn in_a_slot_that_leaves_a_hold_that_ends_with_its_connection_is_passed_on_while_its_key_is_there()
{
    let cluster = Cluster::start(2);
    let key = cluster.key_on(0, "k");
    let slot = cluster.slot_of(&key);
    let mut here = cluster.client(0);
    cmd!(here, "LOCK.ACQUIRE", key, "a", LONG, "SESSION").fence();
    let mut waiter = cluster.node(0).waiter_for(&key, "b");
    cluster.set_importing(slot, 0, 1);
    cluster.set_migrating(slot, 0, 1);
    drop(here);
    waiter.answer().fence();
    assert_eq!(cmd!(cluster.client(0), "GET", key), "b");
}

#[test]
fn a_waiter_on_the_node_that_a_slot_comes_to_is_granted_once_it_has_come() {
    let cluster = Cluster::start(2);
    let key = cluster.key_on(0, "k");
    let slot = cluster.slot_of(&key);
    let mut there = cluster.client(1);
    cluster.set_importing(slot, 0, 1);
    cluster.set_migrating(slot, 0, 1);
    let mut asked = |command: &Command| {
        assert_eq!(cmd!(there, "ASKING"), "OK");
        there.run(command)
    };
    let fence = asked(&args!["LOCK.ACQUIRE", key, "a", LONG]).int();
    let mut waiters = ["b", "c"].map(|owner| {
        let mut waiter = cluster.client(1);
        assert_eq!(cmd!(waiter, "ASKING"), "OK");
        waiter.send(&args!["LOCK.ACQUIRE", key, owner, LONG, "BLOCK", 0]);
        waiter
    });
    cluster.node(1).wait_for_blocked_clients(2);
    let first = cluster.owner_first_in_line(1, &key);
    // A release is a client's own write, which the node takes for a client that was sent to it.
    assert_eq!(asked(&args!["LOCK.RELEASE", key, "a"]), 1);
    let index = usize::from(first == "c");
    let granted = waiters[index].answer().int();
    assert!(granted > fence);
    // A deletion is followed by a write of ours, and no client sent that.
    assert_eq!(asked(&args!["DEL", key]), 1);
    cluster.node(1).let_pass(200);
    assert!(waiters[1 - index].no_answer_yet());
    cluster.set_slot_owner(slot, 0, 1);
    assert!(waiters[1 - index].answer().int() > granted);
    let owner = ["b", "c"][1 - index];
    assert_eq!(cmd!(cluster.client(1), "GET", key), owner);
}

#[test]
fn a_slot_that_stays_after_all_grants_again() {
    let cluster = Cluster::start(2);
    let key = cluster.key_on(0, "k");
    let slot = cluster.slot_of(&key);
    let mut here = cluster.client(0);
    let fence = here.acquire(&key, "a");
    let mut waiter = cluster.node(0).waiter_for(&key, "b");
    cluster.set_importing(slot, 0, 1);
    cluster.set_migrating(slot, 0, 1);
    assert_eq!(cmd!(here, "DEL", key), 1);
    cluster.node(0).let_pass(200);
    assert!(waiter.no_answer_yet());
    // Meanwhile the other node has granted it, and lost it again.
    let mut there = cluster.client(1);
    cmd!(there, "ASKING");
    let fence_there = there.acquire(&key, "x");
    cmd!(there, "ASKING");
    assert_eq!(cmd!(there, "LOCK.RELEASE", key, "x"), 1);
    assert_eq!(cmd!(here, "CLUSTER", "SETSLOT", slot, "STABLE"), "OK");
    let granted = waiter.answer().int();
    assert!(
        granted > fence_there && fence_there > fence,
        "{granted} after {fence_there} after {fence}"
    );
    assert_eq!(cmd!(here, "GET", key), "b");
}

#[test]
fn numbers_rise_when_a_slot_without_keys_goes_to_and_fro() {
    let cluster = Cluster::start(2);
    let key = cluster.key_on(0, "k");
    let mut last = 0;
    for (round, to) in [1, 0, 1, 0].into_iter().enumerate() {
        cluster.move_slot_of(&key, to);
        cluster.wait_until_known();
        let mut client = cluster.client(to);
        let fence = client.acquire(&key, "a");
        assert!(fence > last, "round {round}, on node {to}: {fence} after {last}");
        last = fence;
        assert_eq!(cmd!(client, "LOCK.RELEASE", key, "a"), 1);
    }
}

#[test]
fn locks_with_hash_tags_and_braces_are_waited_for_and_their_waiters_are_moved() {
    let cluster = Cluster::start(2);
    let keys = [
        "{", "}", "{}", "{}x", "a}b", "{a}b", "a{b}c", "{{a}}", "{a}{b}", "{}{a}", "a{", "a{}b",
        "}{", "x{}}",
    ];
    let mut waiters = Vec::new();
    for key in keys {
        let home = cluster.index_of(key);
        let mut client = cluster.client(home);
        client.acquire(key, "a");
        let mut first = cluster.node(home).waiter_for(key, format!("b-{key}"));
        let second = cluster.node(home).waiter_for(key, format!("c-{key}"));
        assert_eq!(cmd!(client, "LOCK.RELEASE", key, "a"), 1, "{key}");
        assert!(first.answer().int() > 0, "{key}");
        waiters.push((key, home, second));
    }
    for (key, home, mut waiter) in waiters {
        let slot = cluster.slot_of(key);
        let to = 1 - home;
        // Two keys may share a slot, so that it has left already.
        if cluster.index_of(key) == home {
            cluster.set_importing(slot, home, to);
            cluster.set_migrating(slot, home, to);
            for key in keys {
                if cluster.slot_of(key) == slot {
                    assert_eq!(cluster.migrate_key(key, home, to), "OK", "{key}");
                }
            }
            cluster.set_slot_owner(slot, home, to);
        }
        let moved = format!("MOVED {slot} 127.0.0.1:{}", cluster.node(to).port());
        assert_eq!(waiter.answer().error(), moved, "{key}");
        assert_eq!(cmd!(cluster.client(to), "GET", key), format!("b-{key}"), "{key}");
    }
}

#[test]
fn nothing_is_granted_while_the_cluster_is_down() {
    let cluster = Cluster::start(3);
    let mut client = cluster.client(0);
    let (key, other) = (cluster.key_on(0, "k"), cluster.key_on(0, "other"));
    cmd!(client, "LOCK.ACQUIRE", key, "a", LONG);
    let mut waiter = cluster.node(0).waiter_for(&key, "b");
    // Of three masters two are still a majority, which says that the third has failed.
    cluster.node(2).pause();
    eventually("the cluster is down", || {
        cmd!(client, "LOCK.ACQUIRE", other, "a", LONG).is_error("CLUSTERDOWN")
    });
    let answer = waiter.answer();
    assert!(answer.is_error("CLUSTERDOWN"), "{answer:?}");
    assert!(cmd!(client, "LOCK.RELEASE", key, "a").is_error("CLUSTERDOWN"));
    cluster.node(2).resume();
    eventually("the cluster is well again", || {
        cmd!(client, "LOCK.CHECK", key, "a") != Value::Nil
            && cmd!(client, "LOCK.RELEASE", key, "a") == 1
    });
    client.acquire(&key, "b");
}

#[test]
fn a_replica_that_takes_over_keeps_the_holds_and_the_waiters_are_sent_away() {
    let mut cluster = Cluster::start(2);
    let key = cluster.key_on(0, "k");
    let heir = cluster.add_replica_of(0, Setup::new());
    let mut last = 0;
    // No more than there and back: a third failover at once puzzles the servers themselves.
    for (from, to) in [(0, heir), (heir, 0)] {
        let mut client = cluster.client(from);
        for _ in 0..3 {
            cmd!(client, "LOCK.RELEASE", key, "a");
            let fence = client.acquire(&key, "a");
            assert!(fence > last, "{from} to {to}: {fence} after {last}");
            last = fence;
        }
        let deadline = cmd!(client, "PEXPIRETIME", key).int();
        let mut waiter = cluster.node(from).waiter_for(&key, "b");
        cluster.node(to).wait_until_in_sync_with(cluster.node(from));
        cluster.wait_until_replica_is_known(to, from);
        cluster.fail_over_to(to);
        let answer = waiter.answer();
        assert!(answer.is_error("UNBLOCKED") || answer.is_error("MOVED"), "{answer:?}");
        cluster.node(to).wait_for_role(Role::Master);
        cluster.node(from).wait_for_role(Role::Replica);
        cluster.wait_until_ok();
        eventually("the failover is known", || cluster.index_of(&key) == to);

        let mut old = cluster.client(from);
        let answer = cmd!(old, "LOCK.ACQUIRE", key, "a", LONG);
        assert!(answer.is_error("MOVED"), "{answer:?}");
        let mut client = cluster.client(to);
        assert_eq!(cmd!(client, "GET", key), "a");
        assert_eq!(cmd!(client, "PEXPIRETIME", key), deadline);
        assert_eq!(cmd!(client, "LOCK.ACQUIRE", key, "b", LONG), Value::Nil);
        let fence = client.acquire(&key, "a");
        assert!(fence > last, "{fence} after {last}");
        last = fence;
        assert_eq!(cmd!(client, "LOCK.ACQUIRE", key, "a", LONG), last);
        // Nothing is left of the wait on the node that is a replica now.
        cluster.node(from).wait_until_unloaded();
        let path = cluster.node(to).module_path();
        assert_eq!(cmd!(cluster.client(from), "MODULE", "LOAD", path), "OK");
    }
}

impl Cluster {
    #[track_caller]
    pub fn moves_atomically(&self) -> bool {
        self.node(0).version().is_at_least((8, 4), (9, 0))
    }

    /// Has a slot moved with all that is in it; does not wait for that.
    #[track_caller]
    pub fn move_atomically(&self, slot: u16, from: usize, to: usize) {
        let answer = if self.node(from).version().is_valkey() {
            let (mut client, id) = (self.client(from), self.id_of(to));
            let range = args!["SLOTSRANGE", slot, slot, "NODE", id];
            client.run(&[args!["CLUSTER", "MIGRATESLOTS"], range].concat())
        } else {
            let range = args![slot, slot];
            let mut client = self.client(to);
            client.run(&[args!["CLUSTER", "MIGRATION", "IMPORT"], range].concat())
        };
        assert!(!answer.is_error(""), "{answer:?}");
    }

    /// Returns once both nodes know that a slot has moved to this one of them.
    #[track_caller]
    pub fn wait_until_served_by(&self, key: &str, to: usize) {
        for (index, node) in self.nodes().iter().enumerate() {
            let mut client = node.client();
            eventually("both nodes know that the slot has moved", || {
                cmd!(client, "EXISTS", key).is_error("MOVED") == (index != to)
            });
        }
    }

    /// Returns once the last move is known to all: a node that takes a slot begins a new epoch.
    #[track_caller]
    fn wait_until_known(&self) {
        let epoch = |node: &Server| {
            let info = cmd!(node.client(), "CLUSTER", "INFO").text();
            let line = info.lines().find_map(|line| line.strip_prefix("cluster_current_epoch:"));
            line.expect("an epoch").to_owned()
        };
        eventually("all nodes are in the same epoch", || {
            let epochs: Vec<String> = self.nodes().iter().map(epoch).collect();
            epochs.windows(2).all(|pair| pair[0] == pair[1])
        });
    }

    /// Asks a replica to take over from its master.
    #[track_caller]
    fn fail_over_to(&self, replica: usize) {
        let answer = cmd!(self.client(replica), "CLUSTER", "FAILOVER");
        assert_eq!(answer, "OK");
    }

    /// Masters that do not know it as a replica yet would deny it their votes.
    #[track_caller]
    fn wait_until_replica_is_known(&self, replica: usize, master: usize) {
        let (replica, follows) = (self.id_of(replica), format!("slave {} ", self.id_of(master)));
        for node in self.nodes() {
            let mut client = node.client();
            eventually("every node knows the replica", || {
                cmd!(client, "CLUSTER", "NODES")
                    .text()
                    .lines()
                    .any(|line| line.starts_with(&replica) && line.contains(&follows))
            });
        }
    }

    /// Who is next, as a client hears that was sent to the node.
    #[track_caller]
    fn owner_first_in_line(&self, index: usize, key: &str) -> String {
        let mut client = self.client(index);
        assert_eq!(cmd!(client, "ASKING"), "OK");
        cmd!(client, "LOCK.INFO", key)["waiters"][0]["owner"].text()
    }
}
