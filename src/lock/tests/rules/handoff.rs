//! From one holder to the next.

use super::*;

#[test]
fn a_handoff_is_one_write_over_the_old_hold() {
    let mut server = server();
    server.gets("ann", 100);
    server.waits("ben", 30);
    written(&mut server);
    server.release(LOCK, "ann").unwrap();
    let over = Write::Set(LOCK, token("ben", Some(START + 30)));
    assert_eq!(written(&mut server), [over]);
    server.release(LOCK, "ben").unwrap();
    assert_eq!(written(&mut server), [Write::Del(LOCK)]);
}

#[test]
fn a_release_settles_the_lock_once_however_many_wait() {
    let mut looks = Vec::new();
    for waiters in [1, 2, 100] {
        let mut server = server();
        server.gets("ann", 100);
        for number in 0..waiters {
            server.waits(format!("{number}").leak(), 30);
        }
        server.keys.looks = 0;
        server.release(LOCK, "ann").unwrap();
        looks.push(server.keys.looks);
    }
    // For the release, and for the grant, where nothing stands any more.
    assert_eq!(looks, [2, 2, 2]);
}

#[test]
fn a_request_for_a_lock_that_one_owner_holds_alone_leaves_its_queue_as_it_is_until_something_happens()
 {
    let mut server = server();
    server.gets("ann", 100);
    server.waits("ben", 30);
    let looks = |server: &mut Server, owner| {
        server.keys.looks = 0;
        server.waits(owner, 30);
        server.keys.looks
    };
    assert_eq!(looks(&mut server, "cid"), 1, "its own");
    server.renew(LOCK, "ann", 200).unwrap();
    assert_eq!(looks(&mut server, "dan"), 1, "the queue is looked at before the hold ends");
    server.foreign(Write::PExpireAt(LOCK, START + 150));
    assert!(looks(&mut server, "eve") > 1, "another client has written the key");
    server.at(101);
    assert_eq!((server.holder(), server.due()), (held("ann", 150), Some(START + 151)));
}

#[test]
fn the_alarm_is_not_later_than_the_deadline_and_follows_it_once_it_has_rung() {
    let mut server = server();
    server.gets("ann", 100);
    server.waits("ben", 30);
    server.renew(LOCK, "ann", 50).unwrap();
    assert_eq!(server.due(), Some(START + 51));
    server.gets("ann", 70);
    assert_eq!(server.due(), Some(START + 51));
    server.at(51);
    assert_eq!((server.holder(), server.due()), (held("ann", 70), Some(START + 71)));
    server.foreign(Write::PExpireAt(LOCK, START + 60));
    server.at(51);
    assert_eq!(server.due(), Some(START + 61));
    server.foreign(Write::Persist(LOCK));
    server.at(61);
    assert_eq!(server.due(), None);
}

#[test]
fn a_waiter_that_is_decided_before_its_client_is_blocked_is_replied_to_in_the_next_turn() {
    let mut server = late_server();
    server.gets("ann", 100);
    let ben = server.waits("ben", 100);
    server.locks.outcomes().reply_again(ben);
    assert_eq!(server.locks.outbox.next_to_reply(), None, "it still waits");
    server.release(LOCK, "ann").unwrap();
    assert_eq!(server.locks.outbox.next_to_reply(), None, "it was woken");
    server.locks.outcomes().reply_again(ben);
    assert_eq!(server.locks.next_due(), Some(0));
    assert_eq!(server.locks.outbox.next_to_reply(), Some(ben));
}
