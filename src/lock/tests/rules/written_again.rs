//! A key that a step of the wall clock has taken is written again by the next tick.

use super::*;
use crate::lock::Left;

const MINUTE: i64 = 60_000;

/// By the wall clock, after the step: when a hold of so long ends that was granted at 0.
fn ends(ttl: Ms) -> Option<Ms> {
    Some(START + ttl + MINUTE.unsigned_abs())
}

/// `ann` holds the lock for 100 ms, alone or together with others, and its key has gone by a step at 0.
fn gone_too_early(how: &str, flavour: Flavour) -> Server {
    let mut server = server_like(Flavour { says_how: true, ..flavour });
    match how {
        "alone" => _ = server.gets("ann", 100),
        "of several" => _ = server.takes(&[OTHER, LOCK], alone("ann")),
        "tied" => {
            let client = server.connect();
            server.takes(&[LOCK], Request { session: true, client, ..alone("ann") });
        }
        "a place" => {
            server.gets("zoe", 100);
            server.asks(&[LOCK], in_queue(alone("ann"))).unwrap();
            server.release(LOCK, "zoe").unwrap();
            server.asks(&[LOCK], in_queue(alone("ann"))).unwrap();
        }
        "after a wait" => {
            server.gets("zoe", 100);
            let ann = server.waits("ann", 100);
            server.release(LOCK, "zoe").unwrap();
            server.turn();
            assert!(server.was_granted(ann).is_some());
        }
        "limited" => _ = server.takes(&[LOCK], limited("ann", 2)),
        _ => {
            server.takes(&[LOCK], sharing("ann"));
            server.takes(&[LOCK], Request { ttl: 50, ..sharing("ben") });
        }
    }
    server.step(MINUTE);
    server.expire_cycle(&LOCKS);
    assert_eq!(server.keys.get(LOCK), None);
    server
}

const WAYS: [&str; 7] =
    ["alone", "of several", "tied", "a place", "after a wait", "limited", "shared"];

fn left(server: &mut Server) -> Option<Ms> {
    match server.check(LOCK, "ann").unwrap()? {
        Left::Ms(left) => Some(left),
        Left::Unlimited => None,
    }
}

#[test]
fn the_next_tick_writes_a_key_that_went_too_early_again_with_what_is_left() {
    for way in WAYS {
        for is_waited_for in [false, true] {
            let mut server = gone_too_early(way, Flavour::default());
            let zed = is_waited_for.then(|| server.queues(&[LOCK], alone("zed")));
            server.happened();
            assert_eq!(server.due(), Some(0), "{way}");
            server.tick();
            let key = server.keys.get(LOCK).unwrap();
            assert_eq!(key.deadline, ends(100), "{way}");
            if let Some(shares) = key.content.shares() {
                let others = [("ben", 50)].into_iter().filter(|_| way == "shared");
                let all = others.chain([("ann", 100)]);
                let all = all.map(|(owner, ttl)| (owner.as_bytes().to_vec(), ends(ttl)));
                assert_eq!(shares, all.collect(), "{way}");
            }
            assert_eq!(left(&mut server), Some(100), "{way}");
            server.happened();
            assert_eq!(server.replica, server.keys.keys, "{way}");
            server.at(100);
            assert!(zed.is_none_or(|zed| server.was_granted(zed).is_none()), "{way}");
            assert_eq!(server.release(LOCK, "ann"), Ok(true), "{way}");
            server.turn();
            assert!(zed.is_none_or(|zed| server.was_granted(zed).is_some()), "{way}");
        }
    }
}

#[test]
fn a_job_writes_no_key_again_and_the_tick_after_it_does() {
    for is_waited_for in [false, true] {
        let mut server = server_like(Flavour { says_how: true, ..Flavour::default() });
        server.gets("ann", 100);
        if is_waited_for {
            server.queues(&[LOCK], alone("zed"));
        }
        server.step(MINUTE);
        server.expire_cycle(&[LOCK]);
        server.takes(&[OTHER], Request { ttl: 1000, ..alone("cid") });
        server.queues(&[OTHER], alone("eve"));
        server.foreign(Write::Persist(OTHER));
        assert!(server.has_job());
        server.job();
        assert_eq!(server.keys.get(LOCK), None);
        assert_eq!(server.due(), Some(0));
        server.tick();
        assert_eq!(server.keys.get(LOCK).unwrap().deadline, ends(100));
    }
}

#[test]
fn what_others_have_put_in_its_place_before_the_tick_stays_and_the_hold_is_lost() {
    for way in WAYS {
        for there in [token("old", Some(START + 900_000)), no_lock(None)] {
            let mut server = gone_too_early(way, Flavour::default());
            // No event tells of it: no client waits.
            server.keys.write(Write::Set(LOCK, there.clone()));
            server.at(1);
            assert_eq!(server.keys.get(LOCK), Some(&there), "{way}");
            let lost = server.losses(1);
            assert_eq!(lost[0].0.reason, Reason::Overwritten, "{way}");
            assert!(!matches!(server.check(LOCK, "ann"), Ok(Some(_))), "{way}");
        }
    }
}

#[test]
fn one_that_ends_before_it_may_be_written_is_over_and_forgotten() {
    for way in WAYS {
        let mut server = gone_too_early(way, Flavour::default());
        server.keys.paused = true;
        server.at(90);
        server.lags_until(150);
        server.keys.paused = false;
        server.at(200);
        assert_eq!(server.keys.get(LOCK), None, "{way}");
        assert_eq!(server.check(LOCK, "ann"), Ok(None), "{way}");
        assert_eq!(server.due(), None, "{way}");
    }
}

#[test]
fn with_less_than_two_milliseconds_left_nothing_is_written() {
    for (at, is_back) in [(98, true), (99, false)] {
        let mut server = server_like(Flavour { says_how: true, ..Flavour::default() });
        server.gets("ann", 100);
        server.lags_until(at);
        server.step(MINUTE);
        server.expire_cycle(&[LOCK]);
        server.tick();
        assert_eq!(server.keys.get(LOCK).is_some(), is_back, "{at}");
    }
}

#[test]
fn when_a_key_that_went_too_early_was_to_be_written_again_nothing_is_granted_in_a_pause() {
    let mut server = server();
    let all = [OTHER, THIRD, LOCK];
    server.takes(&all, Request { ttl: 19, ..alone("ann") });
    let ben = server.queues(&[LOCK, OTHER, THIRD], alone("ben"));
    server.keys.closed.insert(LOCK);
    server.at(3);
    server.queues(&[OTHER, THIRD], alone("cid"));
    server.step(50);
    server.at(20);
    server.keys.paused = true;
    server.keys.closed.clear();
    server.at(60);
    assert_eq!(server.happened().offences, [""; 0]);
    server.keys.paused = false;
    server.at(300);
    assert!(server.was_granted(ben).is_some());
}

#[test]
fn a_key_that_may_not_be_written_again_yet_is_written_as_soon_as_it_may() {
    let mut server = gone_too_early("alone", Flavour::default());
    server.keys.closed.insert(LOCK);
    server.at(30);
    assert_eq!(server.keys.get(LOCK), None);
    server.keys.closed.clear();
    server.at(50);
    assert_eq!(server.keys.get(LOCK).map(|key| key.deadline), Some(ends(100)));
}
