//! What an operator's BREAK does to a lock.

use super::*;
use crate::lock::{Break, Left, NotBroken, Reason, SHARED_MARKER};

const AT_ONCE: Break = Break { grace: 0, force: false };

fn within(grace: Ms) -> Break {
    Break { grace, ..AT_ONCE }
}

const FORCED: Break = Break { force: true, ..AT_ONCE };

/// `ann` holds the lock until 100, but an operator has let her no more than 50.
fn breaking() -> Server {
    let mut server = server();
    server.gets("ann", 100);
    assert_eq!(server.break_holds(LOCK, within(50)), Ok(1));
    server
}

/// The same, where she shares it with `ben`.
fn breaking_shares() -> Server {
    let mut server = server();
    server.takes(&[LOCK], sharing("ann"));
    server.takes(&[LOCK], sharing("ben"));
    assert_eq!(server.break_holds(LOCK, within(50)), Ok(2));
    server
}

#[test]
fn it_ends_the_hold_and_hands_the_lock_on_in_the_same_instant() {
    let mut server = server();
    server.gets("ann", 100);
    let ben = server.waits("ben", 50);
    written(&mut server);
    assert_eq!(server.break_holds(LOCK, AT_ONCE), Ok(1));
    server.at(0);
    assert!(server.was_granted(ben).is_some());
    let over = Write::Set(LOCK, token("ben", Some(START + 50)));
    assert_eq!(written(&mut server), [over]);
}

#[test]
fn it_ends_all_shares_together() {
    let mut server = server();
    for owner in ["ann", "ben"] {
        server.takes(&[LOCK], sharing(owner));
    }
    let cid = server.waits("cid", 50);
    assert_eq!(server.break_holds(LOCK, AT_ONCE), Ok(2));
    server.at(0);
    assert!(server.was_granted(cid).is_some());
    assert_eq!(server.holder(), held("cid", 50));
}

#[test]
fn a_lock_that_is_free_is_not_broken() {
    let mut server = server();
    assert_eq!(server.break_holds(LOCK, AT_ONCE), Ok(0));
    server.gets("ann", 100);
    server.lags_until(101);
    assert_eq!(server.break_holds(LOCK, FORCED), Ok(0));
}

#[test]
fn shares_that_are_over_do_not_count() {
    let mut server = server();
    server.takes(&[LOCK], sharing("ann"));
    server.takes(&[LOCK], Plea { ttl: 500, ..sharing("ben") });
    server.lags_until(101);
    assert_eq!(server.break_holds(LOCK, AT_ONCE), Ok(1));
    assert!(server.keys.get(LOCK).is_none());
}

#[test]
fn what_is_no_lock_is_refused_and_stays() {
    let mut server = server();
    server.set(LOCK, no_lock(None));
    for wanted in [AT_ONCE, within(5), FORCED] {
        assert_eq!(server.break_holds(LOCK, wanted), Err(NotBroken::NotALock));
    }
    assert_eq!(server.keys.get(LOCK), Some(&no_lock(None)));
}

#[test]
fn with_grace_the_hold_ends_then_and_the_next_in_queue_has_the_lock() {
    let mut server = breaking();
    let ben = server.waits("ben", 70);
    assert_eq!(server.holder(), held("ann", 50));
    server.at(50);
    assert_eq!(server.was_granted(ben), None);
    server.at(51);
    assert!(server.was_granted(ben).is_some());
}

#[test]
fn grace_prolongs_no_hold() {
    let mut server = server();
    server.gets("ann", 100);
    written(&mut server);
    assert_eq!(server.break_holds(LOCK, within(500)), Ok(1));
    assert_eq!(server.holder(), held("ann", 100));
    assert_eq!(written(&mut server), []);
    assert_eq!(server.renew(LOCK, "ann", 400), Ok(false), "but it is marked");
}

#[test]
fn a_second_break_can_only_shorten() {
    let mut server = breaking();
    assert_eq!(server.break_holds(LOCK, within(80)), Ok(1));
    assert_eq!(server.holder(), held("ann", 50));
    assert_eq!(server.break_holds(LOCK, within(20)), Ok(1));
    assert_eq!(server.holder(), held("ann", 20));
    assert_eq!(server.break_holds(LOCK, AT_ONCE), Ok(1));
    assert_eq!(server.holder(), None);
}

#[test]
fn shares_have_their_own_ends_before_the_grace_is_over() {
    let mut server = server();
    server.takes(&[LOCK], Plea { ttl: 20, ..sharing("ann") });
    server.takes(&[LOCK], sharing("ben"));
    assert_eq!(server.break_holds(LOCK, within(50)), Ok(2));
    assert_eq!(server.holders_of(LOCK), all([("ann", 20), ("ben", 50)]));
}

#[test]
fn a_renewal_of_what_is_being_broken_is_refused() {
    let mut server = breaking();
    for ttl in [1, 30, 500] {
        assert_eq!(server.renew(LOCK, "ann", ttl), Ok(false));
        assert_eq!(server.holder(), held("ann", 50));
    }
    let mut server = breaking_shares();
    assert_eq!(server.renew(LOCK, "ben", 500), Ok(false));
    assert_eq!(server.holders_of(LOCK), all([("ann", 50), ("ben", 50)]));
}

#[test]
fn a_renewal_of_several_is_refused_for_the_one_that_is_being_broken() {
    let mut server = breaking();
    server.takes(&[OTHER], alone("ann"));
    assert_eq!(server.renew_all(&[OTHER, LOCK], "ann", 500), Ok(false));
    assert_eq!(server.holders_of(OTHER), all([("ann", 100)]));
}

#[test]
fn asking_again_answers_the_same_number_and_moves_no_end() {
    let mut server = server();
    let fence = server.gets("ann", 100);
    server.break_holds(LOCK, within(50)).unwrap();
    assert_eq!(server.gets("ann", 900), fence);
    assert_eq!(server.takes(&[LOCK], sharing("ann")), fence);
    assert_eq!(server.holder(), held("ann", 50));
}

#[test]
fn asking_for_it_beside_another_gives_it_a_new_number_and_no_other_end() {
    let mut server = server();
    let fence = server.gets("ann", 100);
    server.break_holds(LOCK, within(50)).unwrap();
    let plea = Plea { ttl: 900, ..alone("ann") };
    let both = server.takes(&[LOCK, OTHER], plea);
    assert!(both > fence);
    assert_eq!(server.holder(), held("ann", 50));
    assert_eq!(server.renew(LOCK, "ann", 500), Ok(false));
    assert_eq!(server.holders_of(OTHER), all([("ann", 900)]));
}

#[test]
fn an_upgrade_of_what_is_being_broken_is_replied_to_nil_and_waits_for_nothing() {
    let mut server = server();
    server.takes(&[LOCK], sharing("ann"));
    server.break_holds(LOCK, within(50)).unwrap();
    for patience in [Patience::Try, Patience::Forever] {
        let plea = Plea { patience, ..alone("ann") };
        assert_eq!(server.asks(&[LOCK], plea), Ok(Acquired::Busy));
        assert_eq!(server.asks(&[OTHER, LOCK], plea), Ok(Acquired::Busy));
    }
    assert_eq!(server.holders_of(LOCK), all([("ann", 50)]));
    assert_eq!(server.holders_of(OTHER), all([]));
}

#[test]
fn an_owner_whose_share_is_being_broken_gets_no_place_for_more() {
    let mut server = breaking_shares();
    assert_eq!(server.asks(&[LOCK], in_queue(alone("ann"))), Err(Refusal::HoldsSome));
}

#[test]
fn an_upgrade_that_waits_already_is_not_granted_while_its_share_is_being_broken() {
    let mut server = server();
    server.takes(&[LOCK], sharing("ann"));
    server.takes(&[LOCK], sharing("ben"));
    let ann = server.queues(&[LOCK], alone("ann"));
    server.break_holds(LOCK, within(50)).unwrap();
    server.release(LOCK, "ben").unwrap();
    server.at(50);
    assert_eq!(server.was_granted(ann), None);
    assert_eq!(server.holders_of(LOCK), all([("ann", 50)]));
    server.at(51);
    assert!(server.was_granted(ann).is_some(), "in its turn, like any other");
    assert_eq!(server.renew(LOCK, "ann", 500), Ok(true));
}

#[test]
fn a_broken_upgrade_that_no_client_heard_of_leaves_a_share_that_is_being_broken_too() {
    let mut server = late_server();
    server.takes(&[LOCK], sharing("ann"));
    server.takes(&[LOCK], sharing("ben"));
    let ann = server.queues(&[LOCK], alone("ann"));
    server.release(LOCK, "ben").unwrap();
    assert_eq!(server.holder(), held("ann", 100));
    server.break_holds(LOCK, within(50)).unwrap();
    server.kill(ann);
    server.at(0);
    assert_eq!(server.holders_of(LOCK), all([("ann", 50)]));
    assert_eq!(server.renew(LOCK, "ann", 500), Ok(false));
}

#[test]
fn the_mark_ends_with_the_hold() {
    let mut server = breaking();
    server.release(LOCK, "ann").unwrap();
    server.gets("ann", 100);
    assert_eq!(server.renew(LOCK, "ann", 500), Ok(true));
    let mut server = breaking();
    server.at(51);
    server.gets("ann", 100);
    assert_eq!(server.renew(LOCK, "ann", 500), Ok(true));
}

#[test]
fn a_newcomers_share_bears_no_mark() {
    let mut server = breaking_shares();
    server.takes(&[LOCK], sharing("cid"));
    assert_eq!(server.renew(LOCK, "cid", 500), Ok(true));
    assert_eq!(server.renew(LOCK, "ann", 500), Ok(false));
}

#[test]
fn the_owner_of_what_is_being_broken_still_releases_and_checks_it() {
    let mut server = breaking();
    assert!(server.check(LOCK, "ann").unwrap().is_some());
    assert_eq!(server.guard(LOCK, "ann"), Ok(true));
    assert_eq!(server.release(LOCK, "ann"), Ok(true));
    assert_eq!(server.holder(), None);
}

#[test]
fn a_string_without_an_end_that_is_not_ours_is_left_alone_unless_it_is_forced() {
    let mut server = server();
    server.set(LOCK, token("data", None));
    assert_eq!(server.break_holds(LOCK, AT_ONCE), Ok(0));
    assert_eq!(server.break_holds(LOCK, within(50)), Ok(0));
    // To have spoken to us makes it no grant of ours.
    assert!(server.check(LOCK, "data").unwrap().is_some());
    assert_eq!(server.break_holds(LOCK, AT_ONCE), Ok(0));
    assert_eq!(server.keys.get(LOCK), Some(&token("data", None)));
    assert_eq!(server.break_holds(LOCK, FORCED), Ok(1));
    assert!(server.keys.get(LOCK).is_none());
}

#[test]
fn a_hold_of_ours_without_an_end_is_broken() {
    for wanted in [AT_ONCE, within(50)] {
        let mut server = server();
        server.gets("ann", 100);
        server.foreign(Write::Persist(LOCK));
        server.at(0);
        assert_eq!(server.break_holds(LOCK, wanted), Ok(1));
        server.at(51);
        assert_eq!(server.holder(), None);
    }
}

#[test]
fn a_legacy_hold_that_ends_is_broken() {
    let mut server = server();
    server.set(LOCK, token("legacy", Some(START + 100)));
    assert_eq!(server.break_holds(LOCK, within(50)), Ok(1));
    assert_eq!(server.holder(), held("legacy", 50));
    assert_eq!(server.renew(LOCK, "legacy", 500), Ok(false));
}

#[test]
fn what_is_left_of_a_broken_hold_is_a_new_one_when_a_client_touches_its_key_after_a_step_back() {
    for plea in [alone("ann"), sharing("ann")] {
        let mut server = server();
        server.takes(&[LOCK], plea);
        assert_eq!(server.break_holds(LOCK, within(50)), Ok(1));
        server.lags_until(60);
        server.step(-1000);
        assert_eq!(server.check(LOCK, "ann"), Ok(None));
        let end = server.keys.wall() + 100;
        server.foreign(Write::PExpireAt(LOCK, end));
        server.at(61);
        assert_eq!(server.check(LOCK, "ann"), Ok(Some(Left::Ms(99))));
        assert_eq!(server.renew(LOCK, "ann", 500), Ok(true));
        let lost = server.losses(usize::MAX);
        let why: Vec<Reason> = lost.iter().map(|(line, _)| line.reason).collect();
        assert_eq!(why, [Reason::Broken]);
    }
}

#[test]
fn grace_prolongs_no_share_that_ends_with_its_key() {
    let mut server = server();
    server.takes(&[LOCK], sharing("ann"));
    server.foreign(Write::PExpireAt(LOCK, START + 30));
    assert_eq!(server.break_holds(LOCK, within(50)), Ok(1));
    server.at(31);
    assert!(server.holders_of(LOCK).is_empty());
}

#[test]
fn a_share_that_is_being_broken_stays_so_when_its_owner_is_given_a_number() {
    let mut server = server();
    let marker = (SHARED_MARKER.to_vec(), None);
    let shares = [(b"cid".to_vec(), Some(START + 13)), (b"ben".to_vec(), None)];
    server.foreign(Write::ZAdd(LOCK, [marker].into_iter().chain(shares).collect()));
    assert_eq!(server.break_holds(LOCK, within(7)), Ok(2));
    server.release(LOCK, "ben").unwrap();
    server.takes(&[LOCK], Plea { ttl: 43, ..sharing("cid") });
    server.at(5);
    assert_eq!(server.holders_of(LOCK), all([("cid", 7)]));
}
