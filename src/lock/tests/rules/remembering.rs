//! What is remembered, for how long, and what it is worth.

use super::*;
use crate::lock::Reason;
use crate::lock::tests::simulated::name;

/// An owner comes to share the lock, and the server knows of it.
type Comes = fn(&mut Server, Owner);

fn remembers(server: &Server, lock: Lock) -> bool {
    server.locks.concerns(name(lock))
}

#[test]
fn a_server_that_has_still_to_tell_of_something_is_not_idle() {
    // Of a waiter that is sent away, and has come to its end before.
    let mut server = server();
    server.gets("ann", 100);
    let ben = server.waits("ben", 100);
    server.locks.stepped_down();
    server.kill(ben);
    assert!(!server.locks.is_idle());
    assert_eq!(server.locks.outbox.take_to_reply(), [ben]);
    assert!(server.locks.is_idle());
}

#[test]
fn a_lock_whose_key_goes_by_itself_is_forgotten() {
    let ends: [(&str, Deed); 4] = [
        ("DEL", |server| server.del(LOCK)),
        ("RENAME", |server| server.foreign(Write::Rename(LOCK, LOCKS[1]))),
        ("RPUSH", |server| server.set(LOCK, no_lock(None))),
        ("expiry", |server| {
            server.lags_until(101);
            server.expire_cycle(&LOCKS);
        }),
    ];
    for (how, end) in ends {
        let mut server = server();
        server.gets("ann", 100);
        assert!(remembers(&server, LOCK));
        end(&mut server);
        server.tick();
        assert!(!remembers(&server, LOCK), "{how}");
    }
}

#[test]
fn shares_that_another_client_takes_out_are_forgotten_beside_one_that_stays() {
    let ways: [(&str, Comes); 4] = [
        ("SHARED", |server, owner| _ = server.takes(&[LOCK], sharing(owner))),
        ("LIMIT", |server, owner| _ = server.takes(&[LOCK], limited(owner, 5))),
        ("CHECK", |server, owner| {
            server.foreign(Write::ZAdd(LOCK, vec![(owner.into(), None)]));
            assert!(server.check(LOCK, owner).unwrap().is_some());
        }),
        ("RENEW", |server, owner| {
            server.foreign(Write::ZAdd(LOCK, vec![(owner.into(), None)]));
            assert_eq!(server.renew(LOCK, owner, 100), Ok(true));
        }),
    ];
    for (how, comes) in ways {
        let mut server = server();
        server.takes(&[LOCK], sharing("stays"));
        for number in 0..1000 {
            let owner: Owner = format!("{number}").leak();
            comes(&mut server, owner);
            server.foreign(Write::ZRem(LOCK, owner.into()));
            let holds = server.locks.remembered().holds;
            assert!(holds <= 3, "{how}: {holds} after {number}");
        }
        assert!(server.takes(&[LOCK], sharing("stays")) > 0);
        assert_eq!(server.locks.remembered().holds, 1, "{how}");
    }
}

#[test]
fn shares_that_another_client_takes_out_are_forgotten_when_the_lock_is_asked_for() {
    let mut server = server();
    let owners: Vec<Owner> = (0..100).map(|number| &*format!("{number}").leak()).collect();
    for &owner in &owners {
        server.takes(&[LOCK], sharing(owner));
    }
    for &owner in &owners[1..] {
        server.foreign(Write::ZRem(LOCK, owner.into()));
    }
    assert_eq!(server.locks.remembered().holds, 100);
    server.takes(&[LOCK], sharing("0"));
    assert_eq!(server.locks.remembered().holds, 1);
    // A client that is still there has its number still.
    let number = server.takes(&[LOCK], sharing("0"));
    assert!(server.takes(&[LOCK], sharing("1")) > number);
}

#[test]
fn an_entry_about_another_owner_counts_for_nothing() {
    let mut server = server();
    let number = server.gets("ann", 100);
    // No client has seen to the change when it is asked about.
    server.foreign(Write::Set(LOCK, token("ben", None)));
    assert!(server.report(LOCK).unwrap().unwrap().holders.pop().unwrap().grant.is_none());
    assert!(server.gets("ben", 100) > number);
}

#[test]
fn a_server_that_takes_over_knows_no_numbers_and_gives_higher_ones() {
    let mut server = server();
    let number = server.gets("ann", 100);
    server.reload();
    let second = server.gets("ann", 100);
    assert!(second > number);
    assert_eq!(server.gets("ann", 100), second);
    server.lags_until(1);
    server.restart(0);
    assert!(server.gets("ann", 100) > second);
    assert_eq!(server.holder(), held("ann", 101));
}

#[test]
fn after_a_swap_the_keys_alone_say_who_holds_a_lock_and_their_owners_get_new_numbers() {
    for (one, other) in [(0, 1), (1, 0), (0, 0)] {
        let mut server = server_like(Flavour { notes_late: true, ..Flavour::default() });
        let number = server.takes(&[LOCK], alone("ann"));
        let there = if one == other { LOCK } else { (1, LOCK.1) };
        server.foreign(Write::Swap(one, other));
        server.at(0);
        assert_eq!(server.locks.remembered().holds, 0);
        assert!(server.check(there, "ann").unwrap().is_some());
        assert_eq!(server.asks(&[there], alone("ben")), Ok(Acquired::Busy));
        let again = server.takes(&[there], alone("ann"));
        assert!(again > number);
        assert_eq!(server.takes(&[there], alone("ann")), again);
        assert_eq!(server.release(there, "ann"), Ok(true));
        if there != LOCK {
            assert!(server.takes(&[LOCK], alone("ben")) > again);
        }
    }
}

#[test]
fn after_a_swap_a_hold_ends_with_its_key_and_with_no_connection() {
    let mut server = server();
    let client = server.connect();
    server.takes(&[LOCK], Plea { client, session: true, ..alone("ann") });
    server.foreign(Write::Swap(0, 1));
    server.close(client);
    server.at(0);
    let there = (1, LOCK.1);
    assert_eq!(server.holders_of(there), all([("ann", 100)]));
    server.at(101);
    assert_eq!(server.holders_of(there), []);
}

#[test]
fn reading_changes_nothing() {
    let mut server = late_server();
    server.gets("ann", 100);
    let ben = server.waits("ben", 10);
    written(&mut server);
    server.lags_until(101);
    server.keys.removes_expired = false;
    for _ in 0..2 {
        let report = server.report(LOCK).unwrap().expect("a client waits");
        assert_eq!((report.hold, report.count, report.queue), (None, 0, 1));
        assert_eq!(server.check(LOCK, "ben"), Ok(None));
    }
    assert_eq!(server.queue(LOCK), [ben]);
    assert_eq!(written(&mut server), []);
}

#[test]
fn a_key_that_goes_takes_its_number_with_it_whatever_comes_in_its_place() {
    let mut server = server();
    let before = server.gets("ann", 100);
    // Both in one unit: when it is over, ann's token is in the key as if nothing had been.
    server.locks.gone(name(LOCK).keep(), Reason::Deleted, server.now());
    assert!(server.gets("ann", 100) > before);
}
