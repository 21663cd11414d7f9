//! A slot that moves as a whole, where the server can do that, with all kinds of holds and waits in it.

use crate::support::*;

#[test]
fn every_kind_of_hold_goes_with_its_slot_and_every_kind_of_waiter_is_sent_after_it() {
    let cluster = Cluster::start(2);
    skip_unless!(cluster.moves_atomically(), "this server moves slots key by key");
    let tag = cluster.key_on(0, "t");
    let slot = cluster.slot_of(&tag);
    let [alone, shared, x, y] =
        ["alone", "shared", "x", "y"].map(|name| format!("{{{tag}}}{name}"));
    let (mut here, mut there) = (cluster.client(0), cluster.client(1));
    here.acquire(&alone, "a");
    here.share(&shared, "r");
    here.permit(&shared, "s", 5);
    let last = here.acquire_all(&[&x, &y], "o");
    let deadlines = |client: &mut Client| {
        [&alone, &shared, &x, &y].map(|key| cmd!(client, "PEXPIRETIME", key).int())
    };
    let (ends, shares) = (deadlines(&mut here), here.shares(&shared));

    let node = cluster.node(0);
    let mut waiters = [
        node.waiter_for(&alone, "b"),
        node.waiter_for(&shared, "w"),
        node.reader_for(&shared, "v"),
        node.permit_waiter_for(&alone, "p", 3),
        node.waiter_for_all(&[&alone, &y], "m"),
    ];
    cluster.move_atomically(slot, 0, 1);
    let moved = format!("MOVED {slot} 127.0.0.1:{}", cluster.node(1).port());
    for waiter in &mut waiters {
        assert_eq!(waiter.answer().error(), moved);
    }
    cluster.wait_until_served_by(&alone, 1);
    assert_eq!(deadlines(&mut there), ends);
    assert_eq!(there.shares(&shared), shares);
    for (key, owner) in [(&alone, "a"), (&shared, "r"), (&shared, "s"), (&x, "o"), (&y, "o")] {
        let left = cmd!(there, "LOCK.CHECK", key, owner);
        assert!(left.int() > 0, "{key} {owner}: {left:?}");
    }

    // Where they have been sent they wait as before, and get higher numbers.
    let node = cluster.node(1);
    let mut next = node.waiter_for(&alone, "b");
    let mut many = node.waiter_for_all(&[&alone, &y], "m");
    there.release(&alone, "a");
    assert!(next.answer().fence() > last);
    there.release(&shared, "s");
    assert!(there.acquire(&shared, "r") > last);
    there.release(&alone, "b");
    assert!(many.no_answer_yet());
    there.release_all(&[&x, &y], "o");
    assert!(many.answer().fence() > last);
    // Nothing of them is left where they were.
    cluster.node(0).wait_until_unloaded();
}
