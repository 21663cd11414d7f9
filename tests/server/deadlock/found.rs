//! Deadlocks of any length, through slots and several locks, in words.

use super::{assert_refused, refused, waiting};
use crate::support::*;

#[test]
fn a_deadlock_of_any_length_is_found_and_eight_of_it_are_named() {
    let server = Server::start();
    let mut client = server.client();
    for length in [2, 3, 8, 9, 12, 40] {
        cmd!(client, "FLUSHALL");
        for number in 0..length {
            client.acquire(format!("k{number}"), format!("o{number}"));
        }
        // Each waits for the lock of the next one; the last one would close the deadlock.
        let mut waiters: Vec<_> = (0..length - 1)
            .map(|number| server.waiter_for(format!("k{}", number + 1), format!("o{number}")))
            .collect();
        let last = length - 1;
        let words = refused(&mut client, &waiting("k0", format!("o{last}"), ""));
        let link = |number: usize| {
            let next = (number + 1) % length;
            format!(r#""o{number}" waits for "k{next}", held by "o{next}""#)
        };
        let mut links: Vec<String> = (0..length).map(|step| link((last + step) % length)).collect();
        if length > 8 {
            // The seventh names the eighth owner.
            links.truncate(7);
            links.push(format!("and {} more", length - 8));
        }
        assert_eq!(words, links.join("; "), "{length}");
        assert!(waiters.iter_mut().all(Client::still_waits), "{length}");
        // Without the last one it is a line, and lines end.
        client.release(format!("k{last}"), format!("o{last}"));
        for number in (0..last).rev() {
            waiters[number].answer().fence();
            let owner = format!("o{number}");
            client.release_all(&[format!("k{number}"), format!("k{}", number + 1)], owner);
        }
        assert_eq!(cmd!(client, "DBSIZE"), 0);
    }
}

#[test]
fn in_a_cluster_a_deadlock_over_two_slots_of_one_node_is_found() {
    let cluster = Cluster::start(2);
    let mut client = cluster.client(0);
    let x = cluster.key_on(0, "x");
    let y = cluster.key_beside(0, &x);
    client.acquire(&x, "ann");
    client.acquire(&y, "ben");
    let mut ann = cluster.node(0).waiter_for(&y, "ann");
    assert_refused(
        &mut client,
        &waiting(&x, "ben", ""),
        &format!(r#""ben" waits for "{x}", held by "ann"; "ann" waits for "{y}", held by "ben""#),
    );
    // The server lives on, and knows both keys as before.
    cluster.node(0).let_pass(1_500);
    assert_eq!(client.holders(&[&x]), ["ann"]);
    assert_eq!(client.holders(&[&y]), ["ben"]);
    client.release(&y, "ben");
    ann.answer().fence();
}
