//! From one holder to the next.

use super::*;

#[test]
fn a_hand_over_is_one_write_over_the_old_hold() {
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
    // For the release, and twice for the grant, where nothing stands any more.
    assert_eq!(looks, [3, 3, 3]);
}

#[test]
fn settling_twice_changes_nothing() {
    let mut server = late_server();
    server.gets("ann", 100);
    server.waits("ben", 30);
    server.waits("cid", 30);
    server.release(LOCK, "ann").unwrap();
    written(&mut server);
    let (queue, due) = (server.queue(LOCK), server.due());
    for _ in 0..2 {
        server.locks.waiting.queues.note(crate::lock::tests::simulated::name(LOCK).keep());
        server.tick();
    }
    assert_eq!(written(&mut server), []);
    assert_eq!((server.queue(LOCK), server.due()), (queue, due));
}

#[test]
fn a_hold_that_expires_goes_to_the_first_waiter_in_the_next_millisecond() {
    for keeps_expired in [false, true] {
        let mut server = server_like(Flavour { keeps_expired, ..Flavour::default() });
        server.gets("ann", 100);
        server.waits("ben", 30);
        assert_eq!(server.due(), Some(START + 101));
        server.at(100);
        assert_eq!(server.holder(), held("ann", 100));
        server.at(101);
        assert_eq!(server.holder(), held("ben", 131));
    }
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
fn whatever_takes_the_key_away_serves_the_queue() {
    let away: [(&str, Write); 5] = [
        ("DEL", Write::Del(LOCK)),
        ("RENAME", Write::Rename(LOCK, LOCKS[1])),
        ("FLUSHDB", Write::Flush(Some(0))),
        ("FLUSHALL", Write::Flush(None)),
        ("SWAPDB", Write::Swap(0, 1)),
    ];
    for (name, write) in away {
        for notes_late in [false, true] {
            let mut server = server_like(Flavour { notes_late, ..Flavour::default() });
            server.gets("ann", 100);
            let ben = server.waits("ben", 30);
            server.foreign(write.clone());
            server.at(0);
            assert!(server.was_granted(ben).is_some(), "{name}");
            assert_eq!(server.holder(), held("ben", 30), "{name}");
        }
    }
}

#[test]
fn a_flush_empties_the_ledger_and_only_that_of_its_database() {
    let number = |server: &mut Server| server.report(LOCK).unwrap()?.holders.pop()?.grant;
    for (db, known) in [(Some(0), false), (Some(1), true), (None, false)] {
        let mut server = server();
        server.gets("ann", 100);
        server.foreign(Write::Flush(db));
        server.set(LOCK, token("ann", None));
        assert_eq!(number(&mut server).is_some(), known, "{db:?}");
    }
}

#[test]
fn a_waiter_that_is_decided_before_its_client_is_blocked_is_replied_to_in_the_next_turn() {
    let mut server = late_server();
    server.gets("ann", 100);
    let ben = server.waits("ben", 100);
    server.locks.outcomes().reply_again(ben);
    assert!(server.locks.outbox().take_to_reply().is_empty(), "it still waits");
    server.release(LOCK, "ann").unwrap();
    assert!(server.locks.outbox().take_to_reply().is_empty(), "it was woken");
    server.locks.outcomes().reply_again(ben);
    assert_eq!(server.locks.next_due(), Some(0));
    assert_eq!(server.locks.outbox().take_to_reply(), [ben]);
}
