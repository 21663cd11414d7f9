//! What the counters count, and what others hear of.

use super::*;
use crate::lock::LockEvent;

/// The counters that are not 0, without those that say how it is now.
fn counted(server: &Server) -> Vec<(&'static str, u64)> {
    let counts = server.locks.counts();
    let all = [
        ("acquired", counts.acquired),
        ("after wait", counts.acquired_after_wait),
        ("busy", counts.busy),
        ("timeouts", counts.wait_timeouts),
        ("released", counts.released),
        ("release refused", counts.release_refused),
        ("renewed", counts.renewed),
        ("renew refused", counts.renew_refused),
        ("expired", counts.expired),
        ("evicted", counts.evicted),
        ("broken", counts.broken),
        ("deadlocks", counts.deadlocks),
        ("undelivered", counts.undelivered),
        ("guarded", counts.guarded),
        ("guard refused", counts.guard_refused),
    ];
    all.into_iter().filter(|&(_, number)| number > 0).collect()
}

/// What others have been told since the last time.
fn heard(server: &mut Server) -> Vec<(Lock, LockEvent)> {
    std::mem::take(&mut server.keys.mentioned)
}

/// What has been counted, and heard of, since `ann` got the lock for 100 ms.
fn since_the_grant(action: Action) -> (Vec<(&'static str, u64)>, Vec<LockEvent>) {
    let mut server = server();
    server.gets("ann", 100);
    heard(&mut server);
    action(&mut server);
    let mut counts = counted(&server);
    assert_eq!(counts[0].0, "acquired");
    counts[0].1 -= 1;
    counts.retain(|&(_, number)| number > 0);
    let events = heard(&mut server);
    (counts, events.into_iter().map(|(_, what)| what).collect())
}

use LockEvent::{Acquired as Got, Broken, Expired, Released, Renewed};

#[test]
fn a_grant_counts_once_for_each_lock() {
    let mut server = server();
    server.gets("ann", 100);
    assert_eq!(counted(&server), [("acquired", 1)]);
    server.takes(&[OTHER, THIRD], sharing("ben"));
    assert_eq!(counted(&server), [("acquired", 3)]);
    let events = heard(&mut server);
    assert_eq!(events, [(LOCK, Got), (OTHER, Got), (THIRD, Got)]);
}

#[test]
fn a_number_for_what_its_owner_has_already_is_no_acquisition() {
    let mut server = server();
    server.set(LOCK, token("ann", Some(START + 100)));
    server.gets("ann", 500);
    assert!(!heard(&mut server).contains(&(LOCK, Got)));
}

#[test]
fn an_upgrade_is_heard_of_as_a_grant_and_counts_as_the_hold_that_goes_on() {
    let mut server = server();
    server.takes(&[LOCK], sharing("ann"));
    server.takes(&[LOCK], alone("ann"));
    assert_eq!(counted(&server), [("acquired", 1)]);
    assert_eq!(heard(&mut server), [(LOCK, Got), (LOCK, Got)]);
    server.release(LOCK, "ann").unwrap();
    assert_eq!(counted(&server), [("acquired", 1), ("released", 1)]);
}

#[test]
fn a_wait_for_several_counts_each_of_them_and_is_one_wait() {
    let (counts, events) = since_the_grant(|server| {
        server.queues(&[LOCK, OTHER], alone("ben"));
        server.at(5);
        server.release(LOCK, "ann").unwrap();
        let waits = &server.locks.counts().waits;
        assert!((4_800..5_200).contains(&waits.quantile(0)));
        assert_eq!(waits.quantile(0), waits.quantile(1000));
    });
    let expected = [("acquired", 2), ("after wait", 2), ("released", 1)];
    assert_eq!(counts, expected);
    assert_eq!(events, [Released, Got, Got]);
}

#[test]
fn each_action_counts_and_is_heard_of_as_what_it_is() {
    type Counts = &'static [(&'static str, u64)];
    let actions: [(&str, Action, Counts, &[LockEvent]); 7] = [
        (
            "a retry counts nowhere",
            |server| {
                server.gets("ann", 200);
                server.takes(&[LOCK], sharing("ann"));
                server.check(LOCK, "ann").unwrap();
                server.report(LOCK).unwrap();
            },
            &[],
            &[],
        ),
        (
            "a handoff by a release is a release and a grant after a wait",
            |server| {
                server.waits("ben", 100);
                server.release(LOCK, "ann").unwrap();
                server.at(0);
            },
            &[("acquired", 1), ("after wait", 1), ("released", 1)],
            &[Released, Got],
        ),
        (
            "releases count by whether the owner held the lock",
            |server| {
                server.takes(&[OTHER], alone("ann"));
                heard(server);
                server.release(LOCK, "ben").unwrap();
                server.release_all(&[LOCK, OTHER, THIRD], "ann").unwrap();
            },
            &[("acquired", 1), ("released", 2)],
            &[Released, Released],
        ),
        (
            "renewals count each hold and a refusal once",
            |server| {
                server.takes(&[OTHER], alone("ann"));
                heard(server);
                server.renew_all(&[LOCK, OTHER], "ann", 200).unwrap();
                server.renew(LOCK, "ben", 200).unwrap();
                server.renew_all(&[LOCK, THIRD], "ann", 200).unwrap();
            },
            &[("acquired", 1), ("renewed", 2), ("renew refused", 2)],
            &[Renewed, Renewed],
        ),
        (
            "a hold that goes otherwise is no lapse",
            |server| {
                server.loses(LOCK, Reason::Deleted);
                server.at(500);
                server.gets("ben", 100);
            },
            &[("acquired", 1)],
            &[Got],
        ),
        (
            "a hold that is evicted counts as that",
            |server| {
                server.waits("ben", 100);
                server.loses(LOCK, Reason::Evicted);
                server.at(0);
            },
            &[("acquired", 1), ("after wait", 1), ("evicted", 1)],
            &[Got],
        ),
        (
            "a grant that no client heard of counts as undelivered and as no release",
            |server| {
                let ben = server.waits("ben", 100);
                server.release(LOCK, "ann").unwrap();
                server.kill(ben);
                server.at(0);
            },
            &[("acquired", 1), ("after wait", 1), ("released", 1), ("undelivered", 1)],
            &[Released, Got, Released],
        ),
    ];
    for (sentence, action, counts, events) in actions {
        let (counted, heard) = since_the_grant(action);
        assert_eq!((&*counted, &*heard), (counts, events), "{sentence}");
    }
}

#[test]
fn a_release_is_refused_to_an_owner_that_has_lost_the_lock_and_to_no_other() {
    for keeps_log in [true, false] {
        let mut server = server();
        if !keeps_log {
            server.set_limits(|limits| limits.log_max_len = 0);
        }
        let refused = |server: &Server| server.locks.counts().release_refused;
        server.gets("ann", 100);
        server.waits("ben", 100);
        server.release(LOCK, "ben").unwrap();
        server.release(LOCK, "cid").unwrap();
        server.release(LOCK, "ann").unwrap();
        server.release(LOCK, "ann").unwrap();
        assert_eq!(refused(&server), 0, "none of them was late");
        server.gets("ann", 100);
        server.lags_until(101);
        assert_eq!(server.release(LOCK, "ann"), Ok(false));
        assert_eq!(refused(&server), 1);
    }
}

#[test]
fn a_release_by_an_owner_that_never_knew_of_its_grant_did_not_come_too_late() {
    fn places(server: &mut Server) {
        _ = server.asks(&[LOCK], in_queue(alone("ben"))).unwrap();
        server.release(LOCK, "ann").unwrap();
    }
    let ways: [(&str, Action); 3] = [
        ("its grant has still to be claimed", places),
        ("its claim has run out", |server| {
            places(server);
            server.at(2 * LEASE);
        }),
        ("its connection has closed", |server| {
            let waiter = server.waits("ben", 100);
            server.release(LOCK, "ann").unwrap();
            server.kill(waiter);
            server.at(1);
        }),
    ];
    for (way, action) in ways {
        for log_max_len in [128, 0] {
            let mut server = late_server();
            server.set_limits(|limits| limits.log_max_len = log_max_len);
            server.gets("ann", 10 * LEASE);
            action(&mut server);
            for _ in 0..2 {
                assert_eq!(server.release(LOCK, "ben"), Ok(false), "{way}");
                assert_eq!(server.locks.counts().release_refused, 0, "{way}");
            }
        }
    }
}

#[test]
fn a_share_that_is_released_counts_as_a_hold() {
    let mut server = server();
    server.takes(&[LOCK], sharing("ann"));
    server.takes(&[LOCK], sharing("ben"));
    heard(&mut server);
    server.release(LOCK, "ann").unwrap();
    server.release(LOCK, "ben").unwrap();
    assert_eq!(counted(&server), [("acquired", 2), ("released", 2)]);
    assert_eq!(heard(&mut server), [(LOCK, Released), (LOCK, Released)]);
}

#[test]
fn a_hold_that_ends_with_its_connection_counts_as_released() {
    let mut server = server();
    let client = server.connect();
    let tied = Request { client, session: true, ..alone("ann") };
    server.takes(&[LOCK], tied);
    heard(&mut server);
    server.close(client);
    server.at(0);
    assert_eq!(counted(&server), [("acquired", 1), ("released", 1)]);
    assert_eq!(heard(&mut server), [(LOCK, Released)]);
}

#[test]
fn a_hold_that_runs_out_counts_once_however_that_comes_to_light() {
    for (way, action) in LAPSES {
        let (counts, mut events) = since_the_grant(action);
        assert!(counts.contains(&("expired", 1)), "{way}: {counts:?}");
        events.retain(|event| *event != Got);
        assert_eq!(events, [Expired], "{way}");
    }
}

#[test]
fn shares_that_run_out_count_one_by_one() {
    let mut server = server();
    let ttl = 50;
    server.takes(&[LOCK], Request { ttl, ..sharing("ann") });
    server.takes(&[LOCK], sharing("ben"));
    let cid = server.queues(&[LOCK], alone("cid"));
    server.at(51);
    assert!(counted(&server).contains(&("expired", 1)));
    server.at(101);
    assert!(counted(&server).contains(&("expired", 2)));
    assert!(server.was_granted(cid).is_some());
    heard(&mut server);
    server.at(150);
    assert_eq!(heard(&mut server), []);
}

#[test]
fn holds_that_an_operator_ends_count_one_by_one_and_are_heard_of_once() {
    let mut server = server();
    server.takes(&[LOCK], sharing("ann"));
    server.takes(&[LOCK], sharing("ben"));
    heard(&mut server);
    server.break_holds(LOCK, false).unwrap();
    server.break_holds(OTHER, false).unwrap();
    assert_eq!(heard(&mut server), [(LOCK, Broken)]);
    server.at(1);
    server.expire_cycle(&[LOCK]);
    assert_eq!(counted(&server), [("acquired", 2), ("broken", 2)]);
}

#[test]
fn the_most_who_waited_at_once_stay_known() {
    let mut server = server();
    server.takes(&[LOCK, OTHER], alone("ann"));
    let ben = server.queues(&[LOCK, OTHER], alone("ben"));
    assert_eq!(waiting_now(&server), (1, 2));
    let cid = server.waits("cid", 100);
    assert_eq!(waiting_now(&server), (2, 2));
    assert_eq!(server.locks.waiting.waits.lists().entries, 3);
    server.unblock(ben);
    server.unblock(cid);
    assert_eq!(waiting_now(&server), (0, 0));
    assert_eq!(server.locks.waiting.waits.lists().entries, 0);
    server.waits("dot", 100);
    assert_eq!(server.locks.counts().waiters_peak, 2);
}

#[test]
fn only_waits_that_were_granted_have_a_length() {
    let mut server = server();
    server.gets("ann", 100);
    server.waits_for(30, "ben", 100);
    let cid = server.waits("cid", 100);
    server.at(101);
    assert!(server.was_granted(cid).is_some());
    let waits = &server.locks.counts().waits;
    assert!((98_000..104_000).contains(&waits.quantile(0)));
    assert_eq!(waits.quantile(0), waits.quantile(1000));
}

/// How many requests wait, and for how many locks.
fn waiting_now(server: &Server) -> (usize, usize) {
    let waiting = &server.locks.waiting;
    (waiting.waits.lists().waiting(), waiting.queues.len())
}

/// So many shares are over, more than leave their lock at once; `ann`'s lasts, for as long as her connection.
fn crowd_is_over() -> (Server, u64) {
    let mut server = server();
    let crowd = 20;
    for number in 0..crowd {
        let owner = &*format!("owner {number}").leak();
        server.takes(&[LOCK], Request { ttl: 10, ..sharing(owner) });
    }
    let ann = Request { client: 1_000, session: true, ..sharing("ann") };
    server.takes(&[LOCK], ann);
    server.lags_until(11);
    (server, crowd)
}

#[test]
fn however_the_last_share_goes_those_that_were_over_count_as_expired() {
    let ways: [(&str, u64, Action); 4] = [
        ("released", 1, |server| _ = server.release(LOCK, "ann").unwrap()),
        ("released", 1, |server| {
            server.close(1_000);
            server.at(12);
        }),
        ("broken", 1, |server| assert_eq!(server.break_holds(LOCK, false), Ok(1))),
        ("released", 0, |server| _ = server.takes(&[LOCK], alone("ann"))),
    ];
    for (way, ended, action) in ways {
        let (mut server, crowd) = crowd_is_over();
        action(&mut server);
        let mut expected = vec![("acquired", crowd + 1), (way, ended), ("expired", crowd)];
        expected.retain(|&(_, number)| number > 0);
        let mut counts = counted(&server);
        counts.sort_by_key(|&(name, _)| expected.iter().position(|&(other, _)| other == name));
        assert_eq!(counts, expected);
        assert_eq!(server.locks.held_and_lost(), (1 - ended, 0), "{way}");
    }
}

#[test]
fn a_share_that_is_over_counts_as_expired_when_its_owner_asks_for_it_anew() {
    let (mut server, crowd) = crowd_is_over();
    // Among the last of them, and not among those that leave the lock at once.
    server.takes(&[LOCK], sharing("owner 9"));
    server.release(LOCK, "owner 9").unwrap();
    server.release(LOCK, "ann").unwrap();
    let expected = vec![("acquired", crowd + 2), ("released", 2), ("expired", crowd)];
    assert_eq!(counted(&server), expected);
    assert_eq!(server.locks.held_and_lost(), (0, 0));
}

#[test]
fn a_release_counts_no_hold_that_another_client_has_ended() {
    let actions: [Action; 3] = [
        |server| {
            server.takes(&[LOCK], sharing("ann"));
            server.takes(&[LOCK], sharing("ben"));
            server.foreign(Write::ZRem(LOCK, b"ann".to_vec()));
        },
        |server| {
            server.gets("ann", 100);
            server.set(LOCK, token("ben", None));
        },
        |server| {
            server.takes(&[LOCK], sharing("ann"));
            server.set(LOCK, token("ben", None));
        },
    ];
    for (action, released) in actions.into_iter().zip([1, 0, 0]) {
        let mut server = server();
        action(&mut server);
        assert_eq!(server.release(LOCK, "ben"), Ok(true));
        assert_eq!(server.locks.counts().released, released);
        assert_eq!(server.locks.held_and_lost(), (0, 1));
    }
}

#[test]
fn a_late_release_counts_although_another_owner_has_come_back_too_late_since() {
    let mut server = server();
    for owner in ["ann", "ben"] {
        server.takes(&[LOCK], Request { ttl: 10, ..sharing(owner) });
    }
    server.takes(&[LOCK], sharing("cid"));
    server.lags_until(11);
    server.check(LOCK, "ann").unwrap();
    server.check(LOCK, "ben").unwrap();
    server.release(LOCK, "ann").unwrap();
    assert_eq!(server.locks.counts().release_refused, 1);
}
