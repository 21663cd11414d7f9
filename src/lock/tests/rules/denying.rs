//! A client that loses the right to a lock while it waits.

use super::*;

fn was_denied(server: &Server, ticket: Ticket) -> bool {
    server.told.get(&ticket) == Some(&Told::Denied)
}

#[test]
fn a_client_that_has_lost_the_right_to_the_lock_is_told_so_in_its_turn_and_the_next_has_it() {
    let ends: [Deed; 3] = [
        |server| _ = server.release(LOCK, "ann"),
        |server| server.at(101),
        |server| {
            server.del(LOCK);
            server.tick();
        },
    ];
    for end in ends {
        let mut server = server();
        server.gets("ann", 100);
        let ben = server.waits("ben", 100);
        let cid = server.waits("cid", 50);
        server.bar(ben);
        server.at(1);
        assert_eq!(server.queue(LOCK), [ben, cid], "it waits for its turn");
        end(&mut server);
        server.turn();
        assert!(was_denied(&server, ben));
        assert!(server.was_granted(cid).is_some());
    }
}

#[test]
fn a_lock_that_no_other_client_waits_for_is_free_then() {
    let mut server = server();
    server.gets("ann", 100);
    let ben = server.waits("ben", 100);
    server.bar(ben);
    server.release(LOCK, "ann").unwrap();
    assert_eq!(server.holder(), None);
    server.turn();
    assert!(was_denied(&server, ben));
    assert!(server.locks.is_idle());
    assert_eq!(server.locks.counts().acquired, 1);
}

#[test]
fn a_client_that_waits_for_several_locks_leaves_all_their_queues_when_it_is_denied_them() {
    let mut server = server();
    server.takes(&[LOCK, OTHER], alone("ann"));
    let ben = server.queues(&[LOCK, OTHER], alone("ben"));
    let cid = server.queues(&[OTHER], alone("cid"));
    server.bar(ben);
    server.release_all(&[LOCK, OTHER], "ann").unwrap();
    server.turn();
    assert!(was_denied(&server, ben));
    assert!(server.was_granted(cid).is_some());
    assert!(server.queue(LOCK).is_empty());
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
