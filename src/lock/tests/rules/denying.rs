//! A client that loses the right to a lock while it waits.

use super::*;
use crate::lock::WaitOutcome;

fn was_denied(server: &Server, ticket: Ticket) -> bool {
    server.replies.get(&ticket) == Some(&Reply::Denied)
}

#[test]
fn one_that_is_denied_while_another_asks_is_not_in_its_way() {
    let mut server = server();
    server.gets("ann", 100);
    let ben = server.queues(&[LOCK], sharing("ben"));
    let cid = server.queues(&[OTHER, LOCK], sharing("cid"));
    server.bar(cid);
    server.del(LOCK);
    // The request settles the queue of OTHER, where cid has to wait, and then that of LOCK, where cid is denied.
    server.takes(&[OTHER, LOCK], sharing("dot"));
    server.turn();
    assert!(server.was_granted(ben).is_some());
    assert!(was_denied(&server, cid));
}

#[test]
fn more_of_them_than_a_tick_can_see_to_are_told_in_the_next() {
    let mut server = server();
    server.gets("ann", 100);
    let many: Vec<Ticket> =
        (0..1000).map(|number| server.waits(&*format!("ben {number}").leak(), 100)).collect();
    let cid = server.waits("cid", 50);
    many.iter().for_each(|&ticket| server.bar(ticket));
    server.release(LOCK, "ann").unwrap();
    assert!(!server.queue(LOCK).is_empty(), "not all at once");
    server.at(20);
    assert!(many.iter().all(|&ticket| was_denied(&server, ticket)));
    assert!(server.was_granted(cid).is_some());
}

#[test]
fn the_client_of_one_that_is_denied_gets_the_server_s_error() {
    let mut server = late_server();
    server.gets("ann", 100);
    let ben = server.waits("ben", 100);
    server.bar(ben);
    server.release(LOCK, "ann").unwrap();
    assert_eq!(server.locks.outcomes().outcome(ben, true), Some(WaitOutcome::Denied("no")));
}
