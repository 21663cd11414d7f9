//! What LOCK.LOG remembers of holds that did not end by their owner's release.

use super::*;
use crate::lock::{HolderNow, LateUse, LogEntry};

/// How many, why, whose and with which number.
type Said<'a> = (u64, Reason, Option<&'a str>, Option<Fence>);

fn log(server: &mut Server) -> Vec<(LogEntry, Option<HolderNow>)> {
    server.losses(usize::MAX)
}

fn lines(server: &mut Server) -> Vec<LogEntry> {
    log(server).into_iter().map(|(line, _)| line).collect()
}

/// The log is these lines, the newest first.
#[track_caller]
fn has_lost(server: &mut Server, expected: &[Said<'_>]) {
    let lines = lines(server);
    let said: Vec<Said<'_>> = (lines.iter())
        .map(|line| {
            let about = line.lost.as_ref().map(|(about, _)| about);
            let owner = about.map(|about| std::str::from_utf8(about.owner.bytes()).unwrap());
            let hold = line.lost.as_ref().map(|(_, hold)| hold);
            let fence = hold.and_then(|hold| hold.fence);
            (line.count, line.reason, owner, fence)
        })
        .collect();
    assert_eq!(said, expected);
}

fn come_back(server: &mut Server) -> Option<(LateUse, Option<Ms>)> {
    let lines = lines(server);
    let came_back = lines.first().unwrap().came_back;
    came_back.map(|came_back| (came_back.with, came_back.late))
}

/// When the hold in the newest line ended, by the wall clock.
fn ended(server: &mut Server) -> Option<Ms> {
    lines(server).remove(0).lost.unwrap().1.ended
}

#[test]
fn a_hold_that_its_owner_releases_is_not_in_the_log() {
    let mut server = server();
    server.gets("ann", 100);
    server.waits("ben", 100);
    server.release(LOCK, "ann").unwrap();
    server.release(LOCK, "ben").unwrap();
    server.release(LOCK, "ben").unwrap();
    server.takes(&[LOCK], sharing("ann"));
    server.takes(&[LOCK], sharing("ben"));
    server.release(LOCK, "ann").unwrap();
    server.release(LOCK, "ben").unwrap();
    server.renew(LOCK, "ben", 100).unwrap();
    server.at(500);
    has_lost(&mut server, &[]);
}

#[test]
fn a_hold_that_runs_out_while_others_wait_is_logged_with_all_that_is_known_of_it() {
    let mut server = server();
    let fence = server.gets("ann", 100);
    server.waits("ben", 500);
    server.waits("cid", 500);
    server.at(101);
    has_lost(&mut server, &[(1, Reason::Expired, Some("ann"), Some(fence))]);
    let (line, holder) = log(&mut server).remove(0);
    let (about, hold) = line.lost.unwrap();
    assert_eq!((line.db, about.key.whole()), (Some(0), Some(&b"lock"[..])));
    assert_eq!((hold.held(), hold.queue), (Some(100), 2));
    assert_eq!(line.came_back, None);
    let holder = holder.unwrap();
    assert_eq!(holder.owner, b"ben");
    assert!(holder.fence.unwrap() > fence);
    // It is who has it when it is asked.
    server.release(LOCK, "ben").unwrap();
    assert_eq!(log(&mut server).remove(0).1.unwrap().owner, b"cid");
    server.release(LOCK, "cid").unwrap();
    assert_eq!(log(&mut server).remove(0).1, None);
}

#[test]
fn a_hold_that_runs_out_is_logged_once_however_that_comes_to_light() {
    for (way, action) in LAPSES {
        for keeps_expired in [false, true] {
            let mut server = server_like(Flavour { keeps_expired, ..Flavour::default() });
            let fence = server.gets("ann", 100);
            action(&mut server);
            println!("{way}");
            has_lost(&mut server, &[(1, Reason::Expired, Some("ann"), Some(fence))]);
            assert_eq!(server.locks.counts().expired, 1, "{way}");
        }
    }
}

#[test]
fn an_owner_that_comes_back_too_late_is_noted_with_what_it_came() {
    let ways: [(LateUse, Action); 4] = [
        (LateUse::Release, |server| _ = server.release(LOCK, "ann")),
        (LateUse::Renew, |server| _ = server.renew_all(&[LOCK, OTHER], "ann", 100)),
        (LateUse::Check, |server| _ = server.check(LOCK, "ann")),
        (LateUse::Guard, |server| _ = server.guard(LOCK, "ann")),
    ];
    for (with, action) in ways {
        let mut server = server();
        let fence = server.gets("ann", 100);
        server.lags_until(101);
        server.loses(LOCK, Reason::Expired);
        server.at(150);
        server.release(LOCK, "ben").unwrap();
        has_lost(&mut server, &[(1, Reason::Expired, Some("ann"), Some(fence))]);
        assert_eq!(come_back(&mut server), None);
        action(&mut server);
        assert_eq!(come_back(&mut server), Some((with, Some(50))));
        // The first time is what is remembered.
        server.at(170);
        server.release(LOCK, "ann").unwrap();
        assert_eq!(come_back(&mut server), Some((with, Some(50))));
    }
}

#[test]
fn when_a_hold_by_the_wall_clock_ended_is_not_what_it_was_before() {
    let mut server = server();
    server.set(LOCK, token("ann", Some(START + 100)));
    server.gets("ann", 50);
    server.foreign(Write::PExpireAt(LOCK, START + 500));
    server.lags_until(700);
    server.gets("ben", 10);
    assert_eq!(ended(&mut server), None);
}

#[test]
fn when_a_share_by_the_wall_clock_ended_is_in_the_log() {
    let mut server = server();
    server.set(LOCK, shares([("ann", 100)]));
    server.takes(&[LOCK], Request { ttl: 50, ..sharing("ann") });
    server.lags_until(700);
    server.gets("ben", 10);
    assert_eq!(ended(&mut server), Some(START + 100));
}

#[test]
fn who_comes_back_before_the_loss_was_noticed_is_in_the_log_too() {
    let actions: [(Reason, Option<Ms>, Action); 2] = [
        (Reason::Expired, Some(1), |server| server.lags_until(101)),
        (Reason::Overwritten, None, |server| {
            server.lags_until(50);
            server.keys.write(Write::Set(LOCK, token("ben", None)));
        }),
    ];
    for (reason, late, action) in actions {
        let mut server = server();
        let fence = server.gets("ann", 100);
        action(&mut server);
        for _ in 0..2 {
            assert_eq!(server.check(LOCK, "ann"), Ok(None));
            has_lost(&mut server, &[(1, reason, Some("ann"), Some(fence))]);
        }
        // When it was overwritten no client has seen.
        assert_eq!(come_back(&mut server), Some((LateUse::Check, late)));
        assert_eq!(server.renew(LOCK, "ann", 100), Ok(false));
        server.at(200);
        has_lost(&mut server, &[(1, reason, Some("ann"), Some(fence))]);
    }
}

#[test]
fn a_hold_that_another_writes_over_is_overwritten() {
    for key in [token("ben", None), shares([("ben", 5000)])] {
        for waits in [false, true] {
            let mut server = server();
            let fence = server.gets("ann", 100);
            if waits {
                server.waits("cid", 100);
            }
            server.set(LOCK, key.clone());
            server.at(1);
            has_lost(&mut server, &[(1, Reason::Overwritten, Some("ann"), Some(fence))]);
            server.set(LOCK, no_lock(None));
            server.at(2);
            assert_eq!(lines(&mut server).len(), 1, "no hold of ours");
        }
    }
}

#[test]
fn a_hold_that_shares_were_written_over_is_overwritten() {
    let mut server = server();
    let fence = server.gets("ann", 100);
    server.set(LOCK, shares([("cid", 5000)]));
    assert_eq!(server.release(LOCK, "ann"), Ok(false));
    has_lost(&mut server, &[(1, Reason::Overwritten, Some("ann"), Some(fence))]);
}

#[test]
fn a_hold_that_another_has_written_over_is_seen_when_that_one_speaks() {
    let actions: [Action; 3] = [
        |server| _ = server.check(LOCK, "ben"),
        |server| _ = server.renew(LOCK, "ben", 100),
        |server| _ = server.gets("ben", 100),
    ];
    for action in actions {
        let mut server = server();
        let fence = server.gets("ann", 100);
        server.keys.write(Write::Set(LOCK, token("ben", None)));
        has_lost(&mut server, &[]);
        action(&mut server);
        has_lost(&mut server, &[(1, Reason::Overwritten, Some("ann"), Some(fence))]);
    }
}

#[test]
fn a_hold_that_this_server_did_not_grant_is_broken_too() {
    let mut server = server();
    let fence = server.gets("ann", 100);
    server.keys.write(Write::Set(LOCK, token("ben", None)));
    server.break_holds(LOCK, true).unwrap();
    let broken = (1, Reason::Broken, Some("ben"), None);
    let overwritten = (1, Reason::Overwritten, Some("ann"), Some(fence));
    has_lost(&mut server, &[broken, overwritten]);
}

#[test]
fn as_many_shares_are_lost_as_an_operator_ends() {
    const MANY: [Owner; 9] = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
    for count in [3, 8, 9] {
        for is_restarted in [false, true] {
            let mut server = server();
            for owner in &MANY[..count] {
                server.takes(&[LOCK], sharing(owner));
            }
            if is_restarted {
                server.reload();
            }
            assert_eq!(server.break_holds(LOCK, false), Ok(count));
            let lines = lines(&mut server);
            let said: Vec<_> = lines.iter().map(|line| (line.reason, line.count)).collect();
            assert_eq!(said, [(Reason::Broken, count as u64)]);
            // Those of before a restart were not counted as they were granted.
            let counted = if is_restarted { 0 } else { count as u64 };
            assert_eq!(server.locks.counts().broken, counted);
        }
    }
}

#[test]
fn a_hold_in_the_place_of_which_comes_no_lock_is_overwritten() {
    let mut server = server();
    let fence = server.gets("ann", 100);
    server.waits("ben", 100);
    server.set(LOCK, no_lock(None));
    server.at(1);
    let said = (1, Reason::Overwritten, Some("ann"), Some(fence));
    has_lost(&mut server, &[said]);
}

#[test]
fn the_log_says_how_a_key_has_gone() {
    for (how, reason) in [
        (Reason::Deleted, Reason::Deleted),
        (Reason::Renamed, Reason::Renamed),
        (Reason::Evicted, Reason::Evicted),
        (Reason::Expired, Reason::Expired),
    ] {
        let mut server = server();
        let fence = server.gets("ann", 100);
        server.waits("ben", 100);
        server.loses(LOCK, how);
        server.at(1);
        has_lost(&mut server, &[(1, reason, Some("ann"), Some(fence))]);
    }
}

#[test]
fn a_hold_that_an_operator_ends_is_broken() {
    for mode in [Mode::Exclusive, Mode::Shared] {
        for waits in [false, true] {
            let mut server = server();
            let fence = server.takes(&[LOCK], Request { mode, ..alone("ann") });
            if waits {
                server.waits("ben", 100);
            }
            server.break_holds(LOCK, false).unwrap();
            server.renew(LOCK, "ann", 100).unwrap();
            has_lost(&mut server, &[(1, Reason::Broken, Some("ann"), Some(fence))]);
            assert_eq!(come_back(&mut server).unwrap().0, LateUse::Renew);
        }
    }
}

#[test]
fn a_grant_that_no_client_heard_of_is_undelivered() {
    let mut server = late_server();
    server.gets("ann", 100);
    let ben = server.waits("ben", 100);
    server.release(LOCK, "ann").unwrap();
    server.kill(ben);
    server.at(10);
    assert_eq!(server.locks.counts().undelivered, 1);
    let lines = lines(&mut server);
    let fence = lines[0].lost.as_ref().unwrap().1.fence;
    has_lost(&mut server, &[(1, Reason::Undelivered, Some("ben"), fence)]);
}

#[test]
fn a_hold_that_ends_with_its_connection_is_disconnected() {
    for mode in [Mode::Exclusive, Mode::Shared] {
        let mut server = server();
        let client = server.connect();
        let ask = Request { client, session: true, mode, ..alone("ann") };
        let fence = server.takes(&[LOCK], ask);
        server.close(client);
        server.at(0);
        let said = (1, Reason::Disconnected, Some("ann"), Some(fence));
        has_lost(&mut server, &[said]);
        assert_eq!(server.locks.counts().released, 1);
    }
}

#[test]
fn a_grant_of_a_place_that_no_client_claims_is_unclaimed_however_it_goes() {
    let ways: [Action; 3] = [
        |server| server.at(LEASE + 1),
        |server| {
            server.waits("cid", 100);
            server.at(LEASE + 1);
        },
        |server| {
            server.lags_until(LEASE + 1);
            server.loses(LOCK, Reason::Expired);
            server.at(LEASE + 1);
        },
    ];
    for action in ways {
        let mut server = server();
        server.gets("ann", 50_000);
        server.asks(&[LOCK], Request { ttl: 50_000, ..in_queue(alone("ben")) }).unwrap();
        server.release(LOCK, "ann").unwrap();
        action(&mut server);
        assert_eq!(server.locks.counts().unclaimed, 1);
        let lines = lines(&mut server);
        let fence = lines[0].lost.as_ref().unwrap().1.fence;
        has_lost(&mut server, &[(1, Reason::Unclaimed, Some("ben"), fence)]);
    }
}

#[test]
fn a_database_that_is_emptied_is_one_line() {
    for (db, holds) in [(None, 4), (Some(0), 3), (Some(1), 1)] {
        let mut server = server();
        server.gets("ann", 100);
        server.takes(&[OTHER], sharing("ann"));
        server.takes(&[OTHER], sharing("ben"));
        server.takes(&[(1, "lock")], alone("ann"));
        server.foreign(Write::Flush(db));
        server.at(1);
        has_lost(&mut server, &[(holds, Reason::Flushed, None, None)]);
        assert_eq!(lines(&mut server)[0].db, db);
        server.foreign(Write::Flush(None));
        server.foreign(Write::Flush(None));
        assert!(lines(&mut server).len() <= 2);
    }
}

#[test]
fn shares_that_run_out_are_counted_one_by_one_in_one_line() {
    let mut server = server();
    for (owner, ttl) in [("ann", 50), ("ben", 60), ("cid", 100)] {
        server.takes(&[LOCK], Request { ttl, ..sharing(owner) });
    }
    server.waits("dot", 100);
    server.at(51);
    assert_eq!(lines(&mut server)[0].count, 1);
    server.at(101);
    let lines = lines(&mut server);
    assert_eq!((lines.len(), lines[0].count), (1, 3));
    assert_eq!(server.locks.counts().expired, 3);
}

#[test]
fn a_renewal_takes_shares_out_that_are_over() {
    let mut server = server();
    server.takes(&[LOCK], sharing("ann"));
    let fence = server.takes(&[LOCK], Request { ttl: 10, ..sharing("ben") });
    server.lags_until(50);
    server.renew(LOCK, "ann", 100).unwrap();
    has_lost(&mut server, &[(1, Reason::Expired, Some("ben"), Some(fence))]);
}

#[test]
fn a_share_that_a_client_takes_out_of_the_lock_is_overwritten() {
    let mut server = server();
    let fence = server.takes(&[LOCK], sharing("ann"));
    server.takes(&[LOCK], sharing("ben"));
    server.keys.write(Write::ZRem(LOCK, b"ann".to_vec()));
    server.at(1);
    server.takes(&[LOCK], sharing("cid"));
    has_lost(&mut server, &[(1, Reason::Overwritten, Some("ann"), Some(fence))]);
    assert_eq!(ended(&mut server), None, "no client has seen when");
}

#[test]
fn a_share_that_a_client_has_taken_out_is_not_broken() {
    let mut server = server();
    for owner in ["ann", "ben", "cid"] {
        server.takes(&[LOCK], sharing(owner));
    }
    server.foreign(Write::ZRem(LOCK, b"ben".to_vec()));
    assert_eq!(server.break_holds(LOCK, false), Ok(2));
    let said = |line: LogEntry| {
        (line.count, line.reason, line.lost.map(|(about, _)| about.owner.bytes().to_vec()))
    };
    let said: Vec<_> = lines(&mut server).into_iter().map(said).collect();
    assert!(said.contains(&(1, Reason::Overwritten, Some(b"ben".to_vec()))), "{said:?}");
    assert_eq!(server.locks.counts().broken, 2);
}

#[test]
fn a_share_that_was_seen_to_be_gone_is_not_counted_again_with_its_key() {
    for gone in ["ann", "ben"] {
        let mut server = server();
        server.takes(&[LOCK], sharing("ann"));
        server.takes(&[LOCK], sharing("ben"));
        server.keys.write(Write::ZRem(LOCK, gone.as_bytes().to_vec()));
        assert_eq!(server.renew(LOCK, gone, 100), Ok(false));
        server.loses(LOCK, Reason::Deleted);
        let lines = lines(&mut server).into_iter();
        let said: Vec<_> = lines.map(|line| (line.count, line.reason)).collect();
        assert_eq!(said, [(1, Reason::Deleted), (1, Reason::Overwritten)], "{gone}");
    }
}

#[test]
fn a_demotion_and_a_restart_lose_nothing() {
    let mut server = server();
    server.gets("ann", 100);
    server.demote(true);
    server.promote();
    server.reload();
    server.at(50);
    assert_eq!(server.release(LOCK, "ann"), Ok(true));
    has_lost(&mut server, &[]);
}

#[test]
fn as_many_lines_are_remembered_as_an_operator_has_set() {
    let mut server = server();
    for lock in LOCKS {
        server.takes(&[lock], alone("ann"));
        server.loses(lock, Reason::Evicted);
    }
    assert_eq!(lines(&mut server).len(), 4);
    server.set_limits(|limits| limits.log_max_len = 2);
    assert_eq!(lines(&mut server).len(), 2);
    server.set_limits(|limits| limits.log_max_len = 0);
    server.takes(&[LOCK], alone("ann"));
    server.loses(LOCK, Reason::Evicted);
    assert_eq!(server.renew(LOCK, "ann", 100), Ok(false));
    server.foreign(Write::Flush(None));
    assert_eq!(lines(&mut server).len(), 0);
    server.set_limits(|limits| limits.log_max_len = 2);
    server.takes(&[LOCK], alone("ann"));
    server.loses(LOCK, Reason::Evicted);
    assert_eq!(lines(&mut server).len(), 1);
}

#[test]
fn a_break_of_more_shares_than_may_be_counts_all_of_them_in_one_line() {
    let mut server = server_like(Flavour { max_sharers: Some(3), ..Flavour::default() });
    let shares = ["ann", "ben", "cid", "dot", "eve"].map(|owner| (owner.into(), Some(START + 100)));
    let marker = (SHARED_MARKER.to_vec(), None);
    server.foreign(Write::ZAdd(LOCK, [marker].into_iter().chain(shares).collect()));
    assert_eq!(server.break_holds(LOCK, false), Ok(5));
    let counts: Vec<u64> = lines(&mut server).iter().map(|line| line.count).collect();
    assert_eq!(counts, [5]);
}

#[test]
fn a_share_that_was_over_when_the_key_went_has_expired() {
    for how in [Reason::Deleted, Reason::Renamed] {
        let mut server = server();
        let ann = server.takes(&[LOCK], Request { ttl: 10, ..sharing("ann") });
        server.takes(&[LOCK], sharing("ben"));
        server.lags_until(11);
        server.loses(LOCK, how);
        assert_eq!(server.locks.counts().expired, 1);
        let expired = lines(&mut server).into_iter();
        let mut expired = expired.filter(|line| line.reason == Reason::Expired);
        let (_, hold) = expired.next().unwrap().lost.unwrap();
        assert_eq!((hold.fence, hold.held()), (Some(ann), Some(10)));
    }
}

#[test]
fn a_share_that_its_owner_misses_after_another_client_took_it_out_does_not_count_as_expired() {
    let mut server = server();
    let ann = server.takes(&[LOCK], sharing("ann"));
    let ben = server.takes(&[LOCK], sharing("ben"));
    server.foreign(Write::ZRem(LOCK, b"ann".to_vec()));
    server.check(LOCK, "ann").unwrap();
    server.lags_until(101);
    server.loses(LOCK, Reason::Expired);
    assert_eq!(server.locks.counts().expired, 1);
    assert_eq!(server.locks.held_and_lost(), (0, 1));
    has_lost(
        &mut server,
        &[
            (1, Reason::Expired, Some("ben"), Some(ben)),
            (1, Reason::Overwritten, Some("ann"), Some(ann)),
        ],
    );
}

#[test]
fn a_hold_that_its_owner_misses_after_another_client_wrote_over_it_does_not_count_as_expired() {
    for ask in [alone("ann"), sharing("ann")] {
        let mut server = server();
        let ann = server.takes(&[LOCK], ask);
        server.keys.write(Write::Set(LOCK, token("x", None)));
        server.check(LOCK, "ann").unwrap();
        server.at(200);
        server.del(LOCK);
        assert_eq!(server.locks.counts().expired, 0);
        assert_eq!(server.locks.held_and_lost(), (0, 1));
        has_lost(&mut server, &[(1, Reason::Overwritten, Some("ann"), Some(ann))]);
    }
}

#[test]
fn a_share_that_a_client_has_prolonged_and_takes_out_is_overwritten() {
    let mut server = server();
    let ann = server.takes(&[LOCK], Request { ttl: 10, ..sharing("ann") });
    server.takes(&[LOCK], sharing("ben"));
    let longer = vec![(b"ann".to_vec(), Some(START + 90))];
    server.foreign(Write::ZAdd(LOCK, longer));
    server.lags_until(50);
    assert!(server.check(LOCK, "ann").unwrap().is_some());
    server.foreign(Write::ZRem(LOCK, b"ann".to_vec()));
    server.renew(LOCK, "ann", 10).unwrap();
    has_lost(&mut server, &[(1, Reason::Overwritten, Some("ann"), Some(ann))]);
}

#[test]
fn a_share_that_another_client_has_taken_out_is_in_the_log_when_the_last_owner_releases_the_lock() {
    let mut server = server();
    let fence = server.takes(&[LOCK], sharing("ann"));
    server.takes(&[LOCK], sharing("ben"));
    server.foreign(Write::ZRem(LOCK, b"ann".to_vec()));
    server.release(LOCK, "ben").unwrap();
    has_lost(&mut server, &[(1, Reason::Overwritten, Some("ann"), Some(fence))]);
}
