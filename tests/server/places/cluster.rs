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
fn in_a_cluster_a_place_whose_message_no_client_of_its_node_receives_has_its_time_to_claim() {
    let cluster = Cluster::start(2);
    let key = cluster.key_on(1, "k");
    let mut client = cluster.client(1);
    client.acquire(&key, "a");
    assert_eq!(client.run(&notified(&key, "b", format!("{{{key}}}:process"), "m")), -1);
    client.release(&key, "a");
    eventually("it is published", || counter(&mut client, "notified_total") == 1);
    client.run(&queue(&key, "b")).fence();
    assert_eq!(counter(&mut client, "unclaimed_total"), 0);
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
    eventually("nothing is left of it where it was", || counter(&mut client, "places") == 0);
    there.release(&key, "b");
}

/// By the message that a place has ended, or because the server drops the subscribers of a slot that is
/// not its own any more, which it may do first.
#[track_caller]
fn hears_of_its_end(ear: &mut Client) {
    let heard = ear.answer();
    let is_heard = heard[0] == "smessage" || heard[0] == "sunsubscribe";
    assert!(is_heard, "{heard:?}");
}

#[test]
fn a_place_is_given_up_when_its_slot_has_left_as_a_whole_and_its_owner_hears_of_that() {
    let cluster = Cluster::start(2);
    let version = cluster.node(0).version();
    skip_unless!(
        !version.is_valkey() && cluster.moves_atomically(),
        "this server does not say that a slot has left"
    );
    let key = cluster.key_on(0, "k");
    let channel = format!("{{{key}}}:process");
    let (mut here, mut there) = (cluster.client(0), cluster.client(1));
    let mut ear = cluster.client(0);
    assert_eq!(cmd!(ear, "SSUBSCRIBE", &channel)[0], "ssubscribe");
    let fence = here.acquire(&key, "a");
    let asks = notified(&key, "b", &channel, "m");
    assert_eq!(here.run(&asks), -1);
    cluster.move_atomically(cluster.slot_of(&key), 0, 1);
    cluster.wait_until_served_by(&key, 1);
    hears_of_its_end(&mut ear);
    eventually("the place is given up", || counter(&mut here, "places") == 0);
    assert!(here.run(&asks).is_error("MOVED"));
    assert_eq!(there.run(&asks), -1);
    there.release(&key, "a");
    assert!(there.run(&asks).fence() > fence);
    there.release(&key, "b");
}

#[test]
fn after_a_failover_in_a_cluster_places_are_gone_and_their_owners_hear_of_that() {
    let mut cluster = Cluster::start(3);
    let key = cluster.key_on(0, "k");
    let channel = format!("{{{key}}}:process");
    let heir = cluster.add_replica_of(0, Setup::new());
    let (mut old, mut new) = (cluster.client(0), cluster.client(heir));
    let mut ear = cluster.client(0);
    assert_eq!(cmd!(ear, "SSUBSCRIBE", &channel)[0], "ssubscribe");
    let fence = old.acquire(&key, "a");
    assert_eq!(old.run(&notified(&key, "b", &channel, "m")), -1);
    assert_eq!(old.run(&queue(&key, "c")), -2);
    cluster.node(heir).wait_until_in_sync_with(cluster.node(0));
    assert_eq!(cmd!(new, "CLUSTER", "FAILOVER"), "OK");
    cluster.node(heir).wait_for_role(Role::Master);
    cluster.node(0).wait_for_role(Role::Replica);
    hears_of_its_end(&mut ear);
    eventually("nothing is left of them where they were", || counter(&mut old, "places") == 0);
    // The client that asks first is the first now.
    assert_eq!(new.run(&queue(&key, "c")), -1);
    assert_eq!(new.run(&notified(&key, "b", &channel, "m")), -2);
    new.release(&key, "a");
    let second = new.run(&queue(&key, "c")).fence();
    assert!(second > fence, "{second} after {fence}");
    new.release(&key, "c");
    assert!(new.run(&queue(&key, "b")).fence() > second);
    new.release(&key, "b");
}
