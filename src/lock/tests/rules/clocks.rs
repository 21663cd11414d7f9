//! The wall clock, by which keys expire, is stepped. Holds go by the steady one.

use super::*;
use crate::lock::tests::simulated::Flavour;
use crate::lock::{Hold, Left, LockEvent};

const MINUTE: i64 = 60_000;

/// One that says how a key has gone, as servers do.
fn server() -> Server {
    server_like(Flavour { says_how: true, ..Flavour::default() })
}

/// The ways in which `ann` may come to hold the lock, for 100 ms.
fn ways() -> [(&'static str, Deed); 3] {
    [
        ("alone", |server| _ = server.gets("ann", 100)),
        ("shared", |server| _ = server.takes(&[LOCK], sharing("ann"))),
        ("limited", |server| {
            _ = server.takes(&[LOCK], limited("ann", 1));
        }),
    ]
}

/// `ann` holds the lock in this way until 100, and the key has gone by a step at 0.
fn gone_too_early(hold: Deed) -> Server {
    let mut server = server();
    hold(&mut server);
    server.step(MINUTE);
    server.expire_cycle(&[LOCK]);
    assert_eq!(server.keys.get(LOCK), None);
    server
}

fn left_of(server: &mut Server, owner: Owner) -> Option<Ms> {
    match server.check(LOCK, owner).unwrap()? {
        Left::Ms(left) => Some(left),
        Left::Unlimited => None,
    }
}

#[test]
fn its_owner_has_the_key_back_with_its_number_and_what_is_left() {
    let returns: [(&str, Deed); 3] = [
        ("ACQUIRE", |server| _ = server.gets("ann", 1)),
        ("RENEW", |server| {
            assert_eq!(server.renew(LOCK, "ann", 70), Ok(true));
        }),
        ("GUARD", |server| {
            assert_eq!(server.guard(LOCK, "ann"), Ok(true));
        }),
    ];
    for (how, come_back) in returns {
        let mut server = server();
        let fence = server.gets("ann", 100);
        server.step(MINUTE);
        server.expire_cycle(&[LOCK]);
        server.lags_until(30);
        come_back(&mut server);
        let key = server.keys.get(LOCK).unwrap();
        assert_eq!(key.deadline, Some(START + 100 + MINUTE.unsigned_abs()), "{how}");
        assert_eq!(server.gets("ann", 1), fence, "{how}");
        assert_eq!(server.release(LOCK, "ann"), Ok(true), "{how}");
        server.at(40);
        assert_eq!(server.due(), None, "{how}: nothing is left");
    }
}

#[test]
fn readers_join_those_who_share_a_lock_without_its_key_and_all_are_written_again() {
    let mut server = gone_too_early(|server| {
        server.takes(&[LOCK], sharing("ann"));
        server.takes(&[LOCK], sharing("ben"));
    });
    server.takes(&[LOCK], sharing("cid"));
    let key = server.keys.get(LOCK).unwrap();
    let shares = key.content.shares().unwrap();
    let until = Some(START + 100 + MINUTE.unsigned_abs());
    let owners = ["ann", "ben", "cid"].map(|owner| (owner.as_bytes().to_vec(), until));
    assert_eq!(shares, owners.into());
}

#[test]
fn a_lock_without_its_key_that_another_takes_is_not_its_former_owner_s_in_a_search() {
    // The search can't look into another database, and goes by what is known.
    let there = (1, "lock");
    let mut server = server();
    server.takes(&[there], alone("ann"));
    server.gets("ben", 100);
    server.queues(&[there], alone("ben"));
    server.step(MINUTE);
    server.expire_cycle(&[there]);
    server.set(there, token("cid", Some(START + 200 + MINUTE.unsigned_abs())));
    assert!(!server.is_refused(&[LOCK], alone("ann")));
}

#[test]
fn a_share_is_granted_where_another_owner_s_hold_has_ended_by_a_step_and_its_key_is_still_there() {
    let mut server = server_like(Flavour { keeps_expired: true, ..Flavour::default() });
    server.takes(&[LOCK], sharing("ann"));
    server.takes(&[OTHER], alone("ben"));
    let cid = server.queues(&[LOCK], limited("cid", 1));
    server.foreign(Write::Rename(OTHER, LOCK));
    server.step(MINUTE);
    server.at(1);
    assert!(server.was_granted(cid).is_some());
    let key = server.keys.get(LOCK).map(|key| key.content.shares());
    assert!(key.flatten().is_some_and(|shares| shares.contains_key(&b"cid"[..])));
}

#[test]
fn what_is_held_without_its_key_is_told_of_with_its_owner_and_number() {
    let mut server = server();
    let fence = server.gets("ann", 100);
    server.step(MINUTE);
    server.expire_cycle(&[LOCK]);
    let report = server.report(LOCK).unwrap().unwrap();
    assert_eq!((report.hold, report.count), (Some(Hold::Exclusive), 1));
    let [holder] = &report.holders[..] else {
        panic!("{report:?}");
    };
    assert_eq!(holder.owner, b"ann");
    assert_eq!(holder.left, Left::Ms(100));
    assert_eq!(holder.grant.map(|grant| grant.fence), Some(fence));
}

#[test]
fn a_hold_whose_key_was_written_again_leaves_nothing() {
    for (way, hold) in ways() {
        let mut server = gone_too_early(hold);
        server.at(1200);
        server.expire_cycle(&[LOCK]);
        server.at(1200);
        assert_eq!(server.due(), None, "{way}");
        assert_eq!(server.locks.remembered().holds, 0, "{way}");
        assert!(server.keys.mentioned.contains(&(LOCK, LockEvent::Expired)), "{way}");
    }
}

/// No tick comes in between.
#[test]
fn a_hold_lasts_although_its_key_goes_too_early_and_an_earlier_hold_was_written_after_an_earlier_step()
 {
    for plea in [alone("ann"), sharing("ann")] {
        let mut server = server();
        server.takes(&[OTHER], alone("ann"));
        server.step(-50);
        server.takes(&[LOCK], Plea { ttl: 10, ..plea });
        server.lags_until(2000);
        server.step(-50);
        server.takes(&[LOCK], Plea { ttl: 40, ..plea });
        server.step(50);
        server.expire_cycle(&[LOCK]);
        assert_eq!(left_of(&mut server, "ann"), Some(40));
    }
}
