//! The wall clock is stepped.

use super::*;
use crate::lock::tests::simulated::{name, place};
use crate::lock::{Left, Limits, Reason};

const MINUTE: i64 = 60_000;

#[test]
fn nothing_is_brought_into_step_while_nothing_may_be_written() {
    for by in [-MINUTE, -50, 50] {
        let mut server = server();
        server.gets("ann", 1000);
        server.keys.paused = true;
        server.step(by);
        server.locks.waiting.queues.note(name(LOCK).keep());
        server.at(1);
        let offences = server.happened().offences;
        assert!(offences.is_empty(), "{offences:?}");
        server.keys.paused = false;
        assert_eq!(server.check(LOCK, "ann").unwrap(), Some(Left::Ms(999)));
    }
}

#[test]
fn the_key_of_a_lock_with_a_queue_is_corrected_after_a_step() {
    for by in [MINUTE, -MINUTE] {
        let mut server = server();
        server.gets("ann", 100_000);
        server.waits("ben", 100);
        server.step(by);
        server.at(1);
        let until = (START + 100_000).saturating_add_signed(by);
        assert_eq!(server.keys.get(LOCK).unwrap().deadline, Some(until));
    }
}

#[test]
fn who_is_granted_several_and_shares_one_of_them_keeps_what_is_left_of_that() {
    let mut server = server();
    server.takes(&[LOCK], Request { ttl: 100, ..sharing("ann") });
    server.takes(&[OTHER], alone("ben"));
    server.queues(&[LOCK, OTHER], Request { ttl: 60, ..sharing("ann") });
    server.step(50);
    server.release(OTHER, "ben").unwrap();
    server.at(1);
    assert_eq!(server.check(LOCK, "ann").unwrap(), Some(Left::Ms(99)));
    assert_eq!(server.check(OTHER, "ann").unwrap(), Some(Left::Ms(60 - 1)));
}

#[test]
fn a_hold_that_ends_while_nothing_may_be_written_is_over_although_its_key_stays() {
    for ask in [alone("ann"), sharing("ann")] {
        let mut server = server();
        server.takes(&[LOCK], Request { ttl: 100, ..ask });
        server.keys.paused = true;
        server.step(-MINUTE);
        server.at(101);
        server.locks.waiting.queues.note(name(LOCK).keep());
        server.at(102);
        assert_eq!(server.check(LOCK, "ann").unwrap(), None);
        server.keys.paused = false;
        server.gets("ben", 100);
    }
}

#[test]
fn numbers_rise_when_the_lead_is_set_before_the_first_grant_and_after_a_step_back() {
    let mut server = server();
    server.step(-MINUTE);
    server.set_limits(|limits| limits.fence_lead = 2 * Limits::DEFAULT.fence_lead);
    assert!(server.gets("ann", 100) > START * 1000);
}

#[test]
fn a_client_that_waits_for_a_hold_that_ends_while_its_key_may_not_be_written_is_served_soon_after()
{
    let mut server = server();
    server.gets("ann", 100);
    let ben = server.waits("ben", 30);
    server.keys.closed.insert(LOCK);
    server.step(-MINUTE);
    server.at(110);
    server.keys.closed.clear();
    server.at(220);
    assert!(server.was_granted(ben).is_some());
}

#[test]
fn a_grant_that_no_client_heard_of_is_taken_back_although_its_key_has_gone_and_may_not_be_written()
{
    let mut server = late_server();
    server.gets("ann", 100);
    let ben = server.waits("ben", 1000);
    server.release(LOCK, "ann").unwrap();
    server.keys.closed.insert(LOCK);
    server.step(MINUTE);
    server.kill(ben);
    server.at(10);
    server.keys.closed.clear();
    server.at(120);
    server.gets("cid", 100);
}

#[test]
fn a_share_lasts_although_the_clock_is_stepped_twice_and_another_is_over() {
    // Whose share is seen to first depends on their names.
    for other in ["ann", "ben", "dot", "eve", "fay", "gus"] {
        let mut server = server();
        let sharing = |owner, ttl| Request { ttl, ..sharing(owner) };
        server.takes(&[LOCK], sharing(other, 30));
        let number = server.takes(&[LOCK], sharing("cid", 60));
        server.step(-MINUTE);
        assert_eq!(server.guard(LOCK, "cid"), Ok(true));
        server.at(31);
        server.step(1000);
        assert_eq!(server.release(LOCK, "ida"), Ok(false));
        assert_eq!(server.check(LOCK, "cid").unwrap(), Some(Left::Ms(60 - 31)));
        assert_eq!(server.takes(&[LOCK], sharing("cid", 60)), number, "{other}");
    }
}

#[test]
fn a_waiter_behind_sharers_waits_after_a_step_for_as_long_as_their_shares_last() {
    let mut server = server();
    let owners = ["ann", "ben", "dot", "eve", "fay", "gus"];
    for owner in owners {
        server.takes(&[LOCK], Request { ttl: 1000, ..sharing(owner) });
    }
    server.step(500);
    let cid = server.waits("cid", 30);
    server.at(600);
    assert_eq!(server.was_granted(cid), None);
    for owner in owners {
        assert_eq!(server.check(LOCK, owner).unwrap(), Some(Left::Ms(400)));
    }
}

#[test]
fn one_sharer_lets_go_after_a_step_and_the_others_keep_their_shares() {
    // Whose share is seen to first depends on their names.
    for other in ["ann", "ben", "dot", "eve", "fay", "gus"] {
        let mut server = server();
        for (owner, ttl) in [(other, 100), ("cid", 1000)] {
            server.takes(&[LOCK], Request { ttl, ..sharing(owner) });
        }
        server.step(500);
        assert!(server.release(LOCK, "cid").unwrap());
        assert_eq!(server.check(LOCK, other).unwrap(), Some(Left::Ms(100)));
        assert_eq!(server.asks(&[LOCK], alone("eva")), Ok(Acquired::Busy));
    }
}

#[test]
fn shares_that_others_have_written_and_that_last_longer_after_a_step_back_count_in_a_deadlock() {
    let mut server = server();
    for owner in ["ann", "ben"] {
        server.takes(&[LOCK], Request { ttl: 25, ..sharing(owner) });
    }
    server.foreign(Write::Persist(LOCK));
    server.takes(&[OTHER], Request { ttl: 1000, ..alone("eve") });
    server.queues(&[LOCK], alone("eve"));
    server.at(12);
    server.step(-50);
    server.at(30);
    assert!(server.is_refused(&[OTHER], alone("ann")));
}

#[test]
fn the_last_share_goes_after_a_step_and_takes_the_key_with_it() {
    let mut server = server();
    server.acquire(OTHER, "eve", 500, Patience::Try).unwrap();
    server.step(1000);
    server.takes(&[LOCK], sharing("ann"));
    // Her share is over, and remembered still when it has left the key.
    server.lags_until(101);
    let client = server.connect();
    let session = true;
    let ben = Request { client, session, ..sharing("ben") };
    server.takes(&[LOCK], ben);
    server.close(client);
    server.at(101);
    assert_eq!(server.happened().offences, [""; 0]);
    assert_eq!(server.keys.get(LOCK), None);
}

#[test]
fn one_sharer_whose_key_has_gone_too_early_lets_go_and_the_others_keep_their_shares() {
    let owners = ["ann", "ben", "dot", "eve", "fay", "gus"];
    // Whose shares are written again first depends on their names.
    for who in owners {
        let mut server = server();
        for owner in owners {
            server.takes(&[LOCK], sharing(owner));
        }
        server.step(MINUTE);
        server.expire_cycle(&[LOCK]);
        assert_eq!(server.release(LOCK, who), Ok(true));
        for other in owners.into_iter().filter(|&other| other != who) {
            let left = server.check(LOCK, other).unwrap();
            assert_eq!(left, Some(Left::Ms(100)), "{other} when {who} lets go");
        }
        assert_eq!(server.asks(&[LOCK], alone("zed")), Ok(Acquired::Busy));
    }
}

#[test]
fn a_share_whose_key_went_just_before_its_end_does_not_come_back_with_that_of_the_next() {
    let mut server = server();
    server.takes(&[LOCK], sharing("ann"));
    server.at(100);
    server.step(MINUTE);
    server.takes(&[LOCK], sharing("ben"));
    server.step(MINUTE);
    assert_eq!(server.check(LOCK, "ben").unwrap(), Some(Left::Ms(100)));
    assert_eq!(server.check(LOCK, "ann").unwrap(), None);
    assert_eq!(server.release(LOCK, "ann"), Ok(false));
    assert_eq!(server.locks.counts().expired, 1);
}

#[test]
fn a_swap_ends_holds_whose_keys_have_gone_too_early() {
    let mut server = server();
    let elsewhere = (1, LOCK.1);
    server.gets("ann", 1000);
    server.takes(&[elsewhere], alone("cid"));
    let ben = server.waits("ben", 10);
    let dot = server.queues(&[elsewhere], alone("dot"));
    server.step(MINUTE);
    server.expire_cycle(&LOCKS);
    server.foreign(Write::Swap(0, 1));
    server.at(1);
    assert!(server.was_granted(ben).is_some() && server.was_granted(dot).is_some());
}

/// The core does not hear of what others put there, because it is no lock.
#[test]
fn what_is_put_in_the_place_of_a_key_that_went_too_early_is_left_alone() {
    for ask in [alone("ann"), sharing("ann")] {
        for with in ["release", "renew", "guard", "acquire", "place", "macquire", "session"] {
            let mut server = server();
            let client = server.connect();
            let session = with == "session";
            let ask = Request { ttl: 1000, client, session, ..ask };
            server.takes(&[LOCK], ask);
            server.step(MINUTE);
            server.expire_cycle(&[LOCK]);
            let data = Key { content: Content::NoLock, deadline: None };
            server.set(LOCK, data.clone());
            let again = |server: &mut Server, ask: Request, locks: &[Lock]| {
                server.acquire_all(locks, ask).map(|_| ())
            };
            let refused = match with {
                "release" => server.release(LOCK, "ann").is_err(),
                "renew" => server.renew(LOCK, "ann", 100).is_err(),
                "guard" => server.guard(LOCK, "ann").is_err(),
                "acquire" => again(&mut server, ask, &[LOCK]).is_err(),
                "place" => {
                    let patience = place(100);
                    again(&mut server, Request { patience, ..ask }, &[LOCK]).is_err()
                }
                "macquire" => again(&mut server, ask, &[OTHER, LOCK]).is_err(),
                _ => {
                    server.close(client);
                    server.at(1);
                    true
                }
            };
            assert!(refused, "{ask:?}, {with}");
            server.at(2000);
            assert_eq!(server.keys.get(LOCK), Some(&data), "{ask:?}, {with}");
            let happened = server.happened();
            assert!(happened.offences.is_empty(), "{ask:?}, {with}: {happened:?}");
            let reasons: Vec<_> = (server.losses(9).iter()).map(|(line, _)| line.reason).collect();
            assert_eq!(reasons, [Reason::Overwritten], "{ask:?}, {with}");
        }
    }
}

/// It is over for every LOCK command, as soon as it ends by the steady clock.
#[test]
fn a_hold_that_is_over_after_a_step_back_can_t_be_released() {
    for ask in [alone("ann"), sharing("ann")] {
        for all in [false, true] {
            let mut server = server();
            server.takes(&[LOCK], Request { ttl: 100, ..ask });
            server.step(-MINUTE);
            server.at(101);
            let released = if all {
                server.release_all(&[LOCK], "ann").map(|count| count > 0)
            } else {
                server.release(LOCK, "ann")
            };
            assert_eq!(released, Ok(false), "{ask:?}");
            assert_eq!(server.locks.counts().released, 0);
            server.gets("ben", 100);
        }
    }
}

#[test]
fn a_step_that_is_long_over_keeps_no_hold_whose_key_is_removed_after_a_small_one() {
    for ask in [alone("ann"), sharing("ann")] {
        let mut server = server();
        server.takes(&[LOCK], Request { ttl: 100, ..ask });
        server.step(10_000);
        server.at(1000);
        server.takes(&[LOCK], Request { ttl: 8000, ..ask });
        server.step(100);
        server.loses(LOCK, Reason::Expired);
        assert_eq!(server.check(LOCK, "ann"), Ok(None), "{ask:?}");
    }
}

/// Some servers say of both that the key has expired.
#[test]
fn a_key_that_is_made_to_expire_on_purpose_after_a_step_forward_ends_its_hold() {
    let cases = [(500, false, false), (500, true, false), (5000, false, true), (5000, true, false)];
    for (step, again, lasts) in cases {
        for ask in [alone("ann"), sharing("ann")] {
            let mut server = server();
            server.takes(&[LOCK], Request { ttl: 1000, ..ask });
            server.step(step);
            if again {
                server.renew(LOCK, "ann", 1000).unwrap();
            }
            server.loses(LOCK, Reason::Expired);
            let held = server.check(LOCK, "ann").unwrap().is_some();
            assert_eq!(held, lasts, "{ask:?}, by {step}, {again}");
        }
    }
}

#[test]
fn numbers_jump_at_once_when_the_lead_is_raised() {
    let mut server = server();
    let before = server.gets("ann", 100);
    let lead = Limits::DEFAULT.fence_lead;
    server.set_limits(|limits| limits.fence_lead = 2 * lead);
    let after = server.takes(&[OTHER], alone("ben"));
    assert!(after - before >= lead * 999, "{before}, {after}");
}

/// Of a plain `SET` no event is heard while no client waits.
#[test]
fn an_owner_whose_key_was_set_anew_without_an_expiry_after_a_step_hears_so() {
    let mut server = server();
    server.gets("ann", 100_000);
    server.step(50);
    server.keys.write(Write::Set(LOCK, token("ann", None)));
    assert_eq!(server.check(LOCK, "ann"), Ok(Some(Left::Unlimited)));
}
