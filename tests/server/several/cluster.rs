//! Several locks in a cluster: they are of one slot, and move with it.

use crate::support::*;

/// Keys of one slot of this node.
fn keys_on(cluster: &Cluster, index: usize) -> [String; 3] {
    let tag = cluster.key_on(index, "t");
    ["a", "b", "c"].map(|name| format!("{{{tag}}}{name}"))
}

/// All of the commands on these keys.
fn commands<K: Arg>(keys: &[K]) -> [Command; 4] {
    [
        macquire(keys, "o"),
        macquire_waiting(keys, "o"),
        [counted("LOCK.MRENEW", keys), args!["o", LONG]].concat(),
        [counted("LOCK.MRELEASE", keys), args!["o"]].concat(),
    ]
}

#[test]
fn keys_of_one_slot_work_and_others_are_the_servers_to_refuse() {
    let cluster = Cluster::start(2);
    let mut client = cluster.client(0);
    let keys = keys_on(&cluster, 0);
    let fence = client.acquire_all(&keys, "o");
    for key in &keys {
        assert_eq!(client.number_of(key), fence);
    }
    let mut waiter = cluster.node(0).waiter_for_all(&keys, "w");
    client.release_all(&keys, "o");
    assert!(waiter.answer().fence() > fence);
    client.release_all(&keys, "w");

    let other_slot = cluster.key_beside(0, &keys[0]);
    let elsewhere = cluster.key_on(1, "e");
    for mixed in [
        [&keys[0], &other_slot, &keys[1]],
        [&keys[0], &keys[1], &elsewhere],
        [&elsewhere, &keys[0], &keys[1]],
    ] {
        let home = cluster.index_of(mixed[0]);
        for node in [0, 1] {
            for command in commands(&mixed) {
                let answer = cluster.client(node).run(&command);
                // Most servers send it on by its first key, to where it is refused.
                let is_sent_on = node != home && answer.is_error("MOVED");
                assert!(is_sent_on || answer.is_error("CROSSSLOT"), "{mixed:?}: {answer:?}");
            }
        }
    }
    let slot = cluster.slot_of(&keys[0]);
    let moved = format!("MOVED {slot} 127.0.0.1:{}", cluster.node(0).port());
    for command in commands(&keys) {
        assert_eq!(cluster.client(1).run(&command).error(), moved);
    }
    // In a transaction the server knows the first key of each, and the others are refused when it runs.
    for command in commands(&[&keys[0], &other_slot]) {
        let answers = client.pipeline(&[args!["MULTI"], command, args!["EXEC"]]);
        let refused = answers[1..].iter().flat_map(|answer| match answer {
            Value::Array(items) => items.as_slice(),
            other => std::slice::from_ref(other),
        });
        assert!(refused.clone().any(|answer| answer.is_error("CROSSSLOT")), "{answers:?}");
    }
    for node in [0, 1] {
        assert_eq!(cmd!(cluster.client(node), "DBSIZE"), 0);
    }
    // In a script all keys are declared, and in one slot.
    let script = "return redis.call('LOCK.MACQUIRE', 2, KEYS[1], ARGV[1], 'o', 60000)";
    cmd!(client, "EVAL", script, 1, keys[0], keys[1]).fence();
    for undeclared in [&other_slot, &elsewhere] {
        let answer = cmd!(client, "EVAL", script, 1, keys[0], undeclared);
        assert!(answer.is_error(""), "{answer:?}");
        assert!(client.holders(&[&keys[1]]) == ["o"]);
    }
}

/// Some servers look at every blocked client about once a second.
#[test]
fn the_server_lives_on_while_a_client_waits_for_several() {
    let cluster = Cluster::start(2);
    let mut client = cluster.client(0);
    let keys = keys_on(&cluster, 0);
    client.acquire(&keys[1], "x");
    let mut waiters = [
        cluster.node(0).waiter_for_all(&keys, "w"),
        cluster.node(0).waiter_for_all(&[&keys[1], &keys[0]], "v"),
    ];
    cluster.node(0).let_pass(4_000);
    assert!(waiters.iter_mut().all(Client::still_waits));
    client.release(&keys[1], "x");
    waiters[0].answer().fence();
    client.release_all(&keys, "w");
    waiters[1].answer().fence();
}

#[test]
fn half_of_them_here_and_half_of_them_there_is_tried_again() {
    let cluster = Cluster::start(2);
    let keys = keys_on(&cluster, 0);
    let slot = cluster.slot_of(&keys[0]);
    let mut here = cluster.client(0);
    here.acquire_all(&keys, "o");
    cluster.set_importing(slot, 0, 1);
    cluster.set_migrating(slot, 0, 1);
    assert_eq!(cluster.migrate_key(&keys[0], 0, 1), "OK");
    for node in [0, 1] {
        for command in commands(&keys) {
            let mut client = cluster.client(node);
            assert_eq!(cmd!(client, "ASKING"), "OK");
            let answer = client.run(&command);
            // Where the first key is not, most servers send it on, to where it is refused.
            let is_sent_on = node == 0 && answer.is_error("ASK");
            assert!(is_sent_on || answer.is_error("TRYAGAIN"), "{node}: {command:?}: {answer:?}");
        }
    }
    for key in &keys[1..] {
        assert_eq!(cluster.migrate_key(key, 0, 1), "OK");
    }
    cluster.set_slot_owner(slot, 0, 1);
    let mut there = cluster.client(1);
    assert_eq!(there.holders(&keys), ["o", "o", "o"]);
    let fence = there.acquire_all(&keys, "o");
    assert_eq!(there.acquire_all(&keys, "o"), fence);
}

#[test]
fn a_waiter_is_sent_on_when_its_slot_leaves() {
    let cluster = Cluster::start(2);
    let keys = keys_on(&cluster, 0);
    let slot = cluster.slot_of(&keys[0]);
    let mut here = cluster.client(0);
    let fence = here.acquire_all(&keys[1..], "x");
    let mut waiter = cluster.node(0).waiter_for_all(&keys, "w");
    let mut second = cluster.node(0).waiter_for_all(&keys[..2], "v");
    cluster.set_importing(slot, 0, 1);
    cluster.set_migrating(slot, 0, 1);
    for key in &keys[1..] {
        assert_eq!(cluster.migrate_key(key, 0, 1), "OK");
    }
    cluster.node(0).let_pass(300);
    assert!(waiter.no_answer_yet() && second.no_answer_yet());
    cluster.set_slot_owner(slot, 0, 1);
    let moved = format!("MOVED {slot} 127.0.0.1:{}", cluster.node(1).port());
    assert_eq!(waiter.answer().error(), moved);
    assert_eq!(second.answer().error(), moved);
    assert_eq!(cmd!(here, "CLUSTER", "COUNTKEYSINSLOT", slot), 0);
    // It asks there, and waits, and is granted by a higher number.
    let mut there = cluster.client(1);
    let mut waiter = cluster.node(1).waiter_for_all(&keys, "w");
    there.release_all(&keys[1..], "x");
    assert!(waiter.answer().fence() > fence);
    cluster.node(0).wait_until_unloaded();
}

/// A waiter for `a` and `b` must not be granted here what may be held there.
#[test]
fn a_waiter_is_not_granted_a_key_that_has_left_already() {
    for (goes, by_writer) in [(0, true), (1, true), (0, false), (1, false)] {
        let cluster = Cluster::with(2, Setup::append_only);
        let keys = keys_on(&cluster, 0);
        let (gone, left) = (&keys[goes], &keys[1 - goes]);
        let slot = cluster.slot_of(&keys[0]);
        let mut here = cluster.client(0);
        here.acquire(gone, "x");
        here.acquire(left, "y");
        let mut waiter = cluster.node(0).waiter_for_all(&keys[..2], "w");
        cluster.set_importing(slot, 0, 1);
        cluster.set_migrating(slot, 0, 1);
        assert_eq!(cluster.migrate_key(gone, 0, 1), "OK");
        if by_writer {
            here.release(left, "y");
        } else {
            assert_eq!(cmd!(here, "LOCK.RENEW", left, "y", 30), 1);
        }
        cluster.node(0).let_pass(300);
        assert!(waiter.no_answer_yet());
        assert_eq!(cmd!(here, "CLUSTER", "COUNTKEYSINSLOT", slot), 0);
        cluster.set_slot_owner(slot, 0, 1);
        assert!(waiter.answer().is_error("MOVED"));
        let mut there = cluster.client(1);
        assert_eq!(cmd!(there, "GET", gone), "x");
        let written = cluster.node(0).aof_commands();
        assert!(!written.iter().any(|line| line.contains(" w PXAT")), "{written:?}");
        cluster.node(0).wait_until_unloaded();
    }
}
