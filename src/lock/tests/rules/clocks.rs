//! The wall clock, by which keys expire, is stepped. Holds go by the steady one.

use super::*;
use crate::lock::Left;
use crate::lock::tests::simulated::Flavour;

const MINUTE: i64 = 60_000;

/// One that says how a key has gone, as servers do.
fn server() -> Server {
    server_like(Flavour { says_how: true, ..Flavour::default() })
}

/// `ann` holds the lock in this way until 100, and the key has gone by a step at 0.
fn gone_too_early(hold: Action) -> Server {
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

/// No tick comes in between.
#[test]
fn a_hold_lasts_although_its_key_goes_too_early_and_an_earlier_hold_was_written_after_an_earlier_step()
 {
    for ask in [alone("ann"), sharing("ann")] {
        let mut server = server();
        server.takes(&[OTHER], alone("ann"));
        server.step(-50);
        server.takes(&[LOCK], Request { ttl: 10, ..ask });
        server.lags_until(2000);
        server.step(-50);
        server.takes(&[LOCK], Request { ttl: 40, ..ask });
        server.step(50);
        server.expire_cycle(&[LOCK]);
        assert_eq!(left_of(&mut server, "ann"), Some(40));
    }
}
