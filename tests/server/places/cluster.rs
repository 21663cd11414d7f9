//! Places in a cluster: messages to the shard, slots that move.

use super::*;

#[test]
fn in_a_cluster_a_message_is_published_to_the_shard() {
    let cluster = Cluster::start(2);
    let key = cluster.key_on(1, "k");
    let channel = format!("{{{key}}}:process");
    let node = cluster.node_of(&key);
    let mut client = node.client();
    let mut ear = node.client();
    assert_eq!(cmd!(ear, "SSUBSCRIBE", &channel)[0], "ssubscribe");
    client.acquire(&key, "a");
    assert_eq!(client.run(&notified(&key, "b", &channel, "m")), -1);
    client.release(&key, "a");
    assert_eq!(next_message(&mut ear), "m");
    client.run(&queue(&key, "b")).fence();
    client.release(&key, "b");
}

#[test]
fn a_place_is_not_served_where_its_slot_has_left() {
    let cluster = Cluster::start(2);
    let key = cluster.key_on(0, "k");
    let mut client = cluster.client(0);
    client.acquire(&key, "a");
    let asked = args!["LOCK.ACQUIRE", &key, "b", LONG, "QUEUE", 500];
    assert_eq!(client.run(&asked), -1);
    cluster.move_slot_of(&key, 1);
    let moved = client.run(&asked);
    assert!(moved.is_error("MOVED"), "{moved:?}");
    let mut there = cluster.client(1);
    assert_eq!(there.run(&asked), -1);
    there.release(&key, "a");
    there.run(&asked).fence();
    eventually("nothing is left of it where it was", || {
        counter(&mut client, "places") == 0
    });
    there.release(&key, "b");
}
