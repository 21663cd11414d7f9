//! What is remembered, for how long, and what it is worth.

use super::*;
use crate::lock::Reason;
use crate::lock::tests::simulated::name;

/// An owner comes to share the lock, and the server knows of it.
type Comes = fn(&mut Server, Owner);

#[test]
fn a_server_that_has_still_to_tell_of_something_is_not_idle() {
    // Of a waiter that is sent away, and has come to its end before.
    let mut server = server();
    server.gets("ann", 100);
    let ben = server.waits("ben", 100);
    server.locks.stepped_down();
    server.kill(ben);
    assert!(!server.locks.is_idle());
    assert_eq!(server.locks.outbox.next_to_reply(), Some(ben));
    assert!(server.locks.is_idle());
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
