//! Grants that their owners hear of when replicas have acknowledged them.

use super::*;

use crate::lock::{Left, Limits};

/// For so long is a grant written beyond its ttl.
const SPARE: Ms = Limits::DEFAULT.replica_timeout;

fn replicated(owner: Owner, replicas: u8) -> Request {
    Request { replicas, ..alone(owner) }
}

/// One that has so many replicas.
fn server_with(replicas: usize) -> Server {
    let mut server = server();
    server.keys.acknowledged = vec![0; replicas];
    server
}

/// `ann` has been granted the lock, and waits for the only replica.
fn pending() -> (Server, Ticket) {
    let mut server = server_with(1);
    let ann = pends(&mut server, replicated("ann", 1));
    (server, ann)
}

fn pends(server: &mut Server, ask: Request) -> Ticket {
    match server.asks(&[LOCK], ask) {
        Ok(Acquired::Waiting(ticket)) => ticket,
        other => panic!("{other:?}"),
    }
}

/// What these requests were told, if anything.
fn told_to(server: &Server, ticket: Ticket) -> Option<Reply> {
    server.replies.get(&ticket).cloned()
}

#[test]
fn with_too_few_replicas_a_try_is_refused_and_nothing_is_written() {
    let mut server = server_with(1);
    let refused = server.asks(&[LOCK], replicated("ann", 2));
    assert_eq!(refused, Err(Refusal::NoReplicas { wanted: 2, connected: 1 }));
    assert_eq!(written(&mut server), []);
    // Also if it could not have the lock anyway.
    server.gets("ben", 100);
    let refused = server.asks(&[LOCK], replicated("ann", 2));
    assert_eq!(refused, Err(Refusal::NoReplicas { wanted: 2, connected: 1 }));
    assert_eq!(server.asks(&[LOCK], replicated("ann", 1)), Ok(Acquired::Busy));
}

#[test]
fn a_grant_that_is_not_acknowledged_in_time_is_taken_back_and_the_next_is_served() {
    let (mut server, ann) = pending();
    let ben = server.waits("ben", 50);
    server.at(SPARE - 1);
    assert_eq!((told_to(&server, ann), told_to(&server, ben)), (None, None));
    server.at(SPARE);
    assert_eq!(told_to(&server, ann), Some(Reply::NoReplicas));
    assert!(server.was_granted(ben).is_some());
    assert_eq!(server.holder(), held("ben", SPARE + 50));
    let (line, _) = server.losses(9).pop().unwrap();
    assert_eq!(line.reason, Reason::Unacknowledged);
    let counts = server.locks.counts();
    assert_eq!((counts.unacknowledged, counts.replicas_refused, counts.replicated), (1, 1, 0));
    // What comes now comes too late.
    server.acknowledges(0);
    server.at(SPARE + 1);
    assert_eq!(told_to(&server, ann), Some(Reply::NoReplicas));
}

#[test]
fn until_it_is_told_the_lock_is_its_owner_s_to_all_others_and_not_to_itself() {
    let (mut server, _) = pending();
    assert_eq!(server.locks.remembered().tasks, 1);
    assert!(!server.locks.waiting.pending.has_unsent(), "its offset is known");
    assert_eq!(server.check(LOCK, "ann"), Ok(None));
    assert_eq!(server.guard(LOCK, "ann"), Ok(false));
    assert_eq!(server.renew(LOCK, "ann", 100), Ok(false));
    assert_eq!(server.asks(&[LOCK], alone("ben")), Ok(Acquired::Busy));
    assert_eq!(server.asks(&[LOCK], alone("ann")), Ok(Acquired::Busy));
    let report = server.report(LOCK).unwrap().unwrap();
    assert_eq!(report.holders[0].pending, Some(1));
    let of_others = server.asks(&[LOCK, OTHER], replicated("ann", 1));
    assert!(matches!(of_others, Err(Refusal::Undelivered(_))), "{of_others:?}");
    let alone_now = server.asks(&[OTHER], alone("ann"));
    assert!(matches!(alone_now, Ok(Acquired::Held(_))));
}

/// The end of a pending grant otherwise than by replicas: what the client gets as a reply, if it lives.
#[test]
fn a_grant_that_ends_before_it_is_told_is_passed_on() {
    let ways: [(&str, Fate, Option<Reply>); 8] = [
        ("released", |server, _| _ = server.release(LOCK, "ann"), Some(Reply::TimedOut)),
        ("its client dies", |server, ann| server.kill(ann), None),
        ("its client is unblocked", |server, ann| server.unblock(ann), Some(Reply::TimedOut)),
        ("unblocked by an error", |server, ann| server.unblock_by_error(ann), None),
        ("broken", |server, _| _ = server.break_holds(LOCK, false), Some(Reply::TimedOut)),
        ("deleted", |server, _| server.del(LOCK), Some(Reply::TimedOut)),
        ("flushed", |server, _| server.foreign(Write::Flush(None)), Some(Reply::TimedOut)),
        (
            "overwritten",
            |server, _| server.set(LOCK, token("eve", Some(START + 1))),
            Some(Reply::TimedOut),
        ),
    ];
    for (way, fate, says) in ways {
        let (mut server, ann) = pending();
        let ben = server.waits("ben", 50);
        server.at(1);
        fate(&mut server, ann);
        server.at(10);
        assert_eq!(told_to(&server, ann), says, "{way}");
        server.acknowledges(0);
        server.at(20);
        assert_eq!(told_to(&server, ann), says, "{way}");
        assert!(server.was_granted(ben).is_some(), "{way}");
        server.release(LOCK, "ben").unwrap();
        server.at(30);
        assert_eq!(server.locks.remembered().tasks, 0, "{way}");
        assert!(server.locks.is_idle(), "{way}");
    }
}

#[test]
fn a_holder_s_retry_that_replicas_don_t_acknowledge_costs_it_nothing() {
    let mut server = server_with(1);
    let fence = server.gets("ann", 3000);
    let ann = pends(&mut server, Request { ttl: 5000, ..replicated("ann", 1) });
    assert!(server.check(LOCK, "ann").unwrap().is_some());
    server.at(SPARE);
    assert_eq!(told_to(&server, ann), Some(Reply::NoReplicas));
    assert_eq!(server.holder(), held("ann", 3000));
    let ann = pends(&mut server, replicated("ann", 1));
    server.at(SPARE + 1);
    server.acknowledges(0);
    server.at(SPARE + 2);
    assert_eq!(server.was_granted(ann), Some(fence));
    assert_eq!(server.holder(), held("ann", 3000));
}

#[test]
fn an_upgrade_that_replicas_don_t_acknowledge_stays() {
    let mut server = server_with(1);
    server.takes(&[LOCK], Request { ttl: 3000, ..sharing("ann") });
    let ann = pends(&mut server, Request { ttl: 5000, ..replicated("ann", 1) });
    server.at(SPARE + 1);
    assert_eq!(told_to(&server, ann), Some(Reply::NoReplicas));
    assert_eq!(server.holder(), held("ann", 3000));
}

/// `ann` renews its hold, which ends at 500, for so long.
fn renews(server: &mut Server, ttl: Ms) -> Ticket {
    let client = server.connect();
    match server.renew_and_wait(&[LOCK], Request { ttl, client, ..replicated("ann", 1) }) {
        Ok(Acquired::Waiting(ticket)) => ticket,
        other => panic!("{other:?}"),
    }
}

fn left(ms: Ms) -> Result<Option<Left>, NotALock> {
    Ok(Some(Left::Ms(ms)))
}

#[test]
fn a_renewal_that_is_not_acknowledged_leaves_the_hold_as_it_was() {
    for (ttl, before) in [(5000, 1500), (200, 5000)] {
        let mut server = server_with(1);
        server.gets("ann", before);
        let ann = renews(&mut server, ttl + SPARE);
        server.at(SPARE);
        assert_eq!(told_to(&server, ann), Some(Reply::NoReplicas));
        assert_eq!(server.holder(), held("ann", before));
        assert_eq!(server.check(LOCK, "ann"), left(before - SPARE));
    }
    // Its old end has passed meanwhile: until now it was held.
    let mut server = server_with(1);
    server.gets("ann", 500);
    let ann = renews(&mut server, 5000);
    let ben = server.waits("ben", 50);
    server.at(SPARE - 1);
    assert_eq!((server.holder(), told_to(&server, ben)), (held("ann", 5000), None));
    server.at(SPARE);
    assert_eq!(told_to(&server, ann), Some(Reply::NoReplicas));
    assert!(server.was_granted(ben).is_some());
}

#[test]
fn a_renewal_whose_own_ttl_passes_before_it_is_acknowledged_finds_the_hold_over() {
    let mut server = server_with(1);
    server.gets("ann", 500);
    let ann = renews(&mut server, 10);
    let ben = server.waits("ben", 50);
    server.at(16);
    assert!(server.was_granted(ben).is_some());
    server.acknowledges(0);
    server.at(17);
    assert_eq!(told_to(&server, ann), Some(Reply::TimedOut));
}

#[test]
fn a_renewal_with_too_few_replicas_changes_nothing_and_one_that_is_too_late_says_so() {
    let mut server = server_with(0);
    server.gets("ann", 500);
    let ask = Request { ttl: 5000, ..replicated("ann", 1) };
    let refused = server.renew_and_wait(&[LOCK], ask);
    assert_eq!(refused, Err(Refusal::NoReplicas { wanted: 1, connected: 0 }));
    assert_eq!(server.holder(), held("ann", 500));
    let late = server.renew_and_wait(&[LOCK], Request { owner: "ben", ..ask });
    assert_eq!(late, Ok(Acquired::Busy));
}

#[test]
fn of_two_renewals_each_counts_when_it_is_acknowledged() {
    let mut server = server_with(1);
    server.gets("ann", 4000);
    let first = renews(&mut server, 5000);
    server.at(1);
    let sent = server.sent();
    let second = renews(&mut server, 6000);
    server.at(2);
    server.keys.acknowledged[0] = sent;
    server.tick();
    server.at(3);
    assert!(server.was_granted(first).is_some());
    assert_eq!(server.check(LOCK, "ann"), left(4997));
    server.at(1 + SPARE);
    assert_eq!(told_to(&server, second), Some(Reply::NoReplicas));
    assert_eq!(server.holder(), held("ann", 5000));
}

#[test]
fn a_request_without_replicas_counts_at_once_whatever_an_earlier_renewal_waits_for() {
    for renews_again in [true, false] {
        let mut server = server_with(1);
        server.gets("ann", 500);
        let first = renews(&mut server, 5000);
        if renews_again {
            assert_eq!(server.renew(LOCK, "ann", 5000), Ok(true));
        } else {
            let retry = server.asks(&[LOCK], Request { ttl: 5000, ..alone("ann") });
            assert!(matches!(retry, Ok(Acquired::Held(_))));
        }
        assert_eq!(server.check(LOCK, "ann"), left(5000));
        server.at(1);
        let second = renews(&mut server, 7000);
        server.at(SPARE);
        assert_eq!(told_to(&server, first), Some(Reply::NoReplicas));
        assert_eq!(server.holder(), held("ann", 7001));
        server.at(SPARE + 1);
        assert_eq!(told_to(&server, second), Some(Reply::NoReplicas));
        assert_eq!(server.holder(), held("ann", 5000));
    }
}

#[test]
fn what_becomes_of_a_renewal_s_client_takes_back_nothing_but_the_reply() {
    for (fate, says) in [
        (Server::kill as Fate, None),
        (Server::unblock, Some(Reply::NoReplicas)),
        (|server: &mut Server, _| _ = server.release(LOCK, "ann").unwrap(), Some(Reply::TimedOut)),
    ] {
        let mut server = server_with(1);
        server.gets("ann", 500);
        let ann = renews(&mut server, 5000);
        server.at(1);
        fate(&mut server, ann);
        server.at(2);
        assert_eq!(told_to(&server, ann), says);
        let lasts = says != Some(Reply::TimedOut);
        assert_eq!(server.holder(), held("ann", 5000).filter(|_| lasts));
        server.release(LOCK, "ann").unwrap();
        server.at(3);
        assert!(server.locks.is_idle());
    }
}

/// What the poll of a place returns, that waits for one replica.
fn polls(server: &mut Server, owner: Owner) -> Acquired {
    server.asks(&[LOCK], told(replicated(owner, 1), "ch")).unwrap()
}

#[test]
fn a_poll_that_finds_replicas_waited_for_names_the_channel_and_moves_no_end() {
    let mut server = server_with(1);
    let silent = Request { patience: told_on(None, LEASE), ..replicated("ann", 1) };
    assert_eq!(server.asks(&[LOCK], silent), Ok(Acquired::Place(0)));
    server.at(1);
    let longer = told(Request { ttl: 5000, ..replicated("ann", 1) }, "ch");
    assert_eq!(server.asks(&[LOCK], longer), Ok(Acquired::Place(0)));
    server.acknowledges(0);
    server.at(2);
    assert_eq!(server.published.len(), 1);
    assert_eq!(server.holder(), held("ann", 101));
    assert!(matches!(polls(&mut server, "ann"), Acquired::Held(_)));
}

#[test]
fn a_place_that_is_passed_by_after_replicas_have_acknowledged_its_claim_waits_for_them_again() {
    let mut server = server_with(1);
    assert_eq!(polls(&mut server, "ann"), Acquired::Place(0));
    let ben = server.waits("ben", 5000);
    server.at(1);
    server.acknowledges(0);
    server.at(103);
    assert!(server.was_granted(ben).is_some());
    assert_eq!(polls(&mut server, "ann"), Acquired::Place(0));
    server.release(LOCK, "ben").unwrap();
    // It has its turn once more, which no replica knows.
    assert_eq!(server.check(LOCK, "ann"), Ok(None));
    assert_eq!(polls(&mut server, "ann"), Acquired::Place(0));
    server.at(104);
    server.acknowledges(0);
    server.at(105);
    assert!(matches!(polls(&mut server, "ann"), Acquired::Held(_)));
}

#[test]
fn a_place_that_polls_for_more_replicas_waits_for_so_many() {
    for before in [false, true] {
        let mut server = server_with(2);
        assert_eq!(polls(&mut server, "ann"), Acquired::Place(0));
        let more = told(replicated("ann", 2), "ch");
        let poll = |server: &mut Server| server.asks(&[LOCK], more).unwrap();
        if before {
            assert_eq!(poll(&mut server), Acquired::Place(0));
        }
        server.at(1);
        server.acknowledges(0);
        server.at(2);
        assert_eq!(poll(&mut server), Acquired::Place(0), "{before}");
        server.acknowledges(0);
        server.at(3);
        assert_eq!(poll(&mut server), Acquired::Place(0), "{before}");
        server.acknowledges(1);
        server.at(4);
        assert!(matches!(poll(&mut server), Acquired::Held(_)), "{before}");
    }
}

#[test]
fn a_place_that_waits_for_replicas_can_t_be_polled_for_in_another_mode() {
    let mut server = server_with(1);
    let shared = Request { mode: Mode::Shared, ..told(replicated("ann", 1), "ch") };
    assert_eq!(server.asks(&[LOCK], shared), Ok(Acquired::Place(0)));
    let alone = server.asks(&[LOCK], told(replicated("ann", 1), "ch"));
    assert!(matches!(alone, Err(Refusal::Undelivered(_))), "{alone:?}");
}

/// The TTL would end later than replicas know of.
#[test]
fn a_grant_of_whose_acknowledgement_the_server_hears_too_late_is_taken_back() {
    let (mut server, ann) = pending();
    server.lags_until(SPARE + 1);
    server.acknowledges(0);
    server.at(SPARE + 1);
    assert_eq!(told_to(&server, ann), Some(Reply::NoReplicas));
    assert_eq!(server.holder(), None);
}

#[test]
fn no_end_is_told_that_replicas_don_t_know_when_the_timeout_was_changed_meanwhile() {
    let (mut server, _) = pending();
    server.at(500);
    server.set_limits(|limits| limits.replica_timeout = 10);
    let ann = pends(&mut server, Request { ttl: 5000, ..replicated("ann", 1) });
    server.at(900);
    server.acknowledges(0);
    server.at(901);
    assert!(server.was_granted(ann).is_some());
    assert_eq!(server.holder(), held("ann", 5510));
}

#[test]
fn a_share_that_its_owner_has_not_heard_of_waits_for_replicas_when_it_is_upgraded() {
    let mut server = server_with(1);
    server.gets("ben", 100);
    let place = in_queue(Request { mode: Mode::Shared, ..replicated("ann", 1) });
    assert_eq!(server.asks(&[LOCK], place), Ok(Acquired::Place(0)));
    server.release(LOCK, "ben").unwrap();
    server.at(1);
    let ann = pends(&mut server, replicated("ann", 1));
    assert_eq!(server.check(LOCK, "ann"), Ok(None));
    server.at(1 + SPARE);
    assert_eq!(told_to(&server, ann), Some(Reply::NoReplicas));
    assert_eq!(server.holder(), None);
}

#[test]
fn a_retry_that_waits_for_replicas_takes_nothing_from_a_client_whose_reply_is_under_way() {
    let (mut server, ann) = pending();
    server.acknowledges(0);
    let again = pends(&mut server, Request { ttl: 5000, ..replicated("ann", 1) });
    server.turn();
    assert!(server.was_granted(ann).is_some());
    assert_eq!(server.check(LOCK, "ann"), left(100));
    server.at(SPARE);
    assert_eq!(told_to(&server, again), Some(Reply::NoReplicas));
}

#[test]
fn a_grant_that_is_taken_back_is_not_told_by_another_command() {
    type Way = fn(&mut Server) -> bool;
    let ways: [Way; 4] = [
        |server| server.renew(LOCK, "ann", 100) == Ok(false),
        |server| server.check(LOCK, "ann") == Ok(None),
        |server| server.guard(LOCK, "ann") == Ok(false),
        |server| {
            let ask = Request { client: server.connect(), ..replicated("ann", 1) };
            server.renew_and_wait(&[LOCK], ask) == Ok(Acquired::Busy)
        },
    ];
    for is_silent in ways {
        let (mut server, ann) = pending();
        server.unblock(ann);
        assert!(is_silent(&mut server));
        server.at(1);
        assert_eq!(server.holder(), None);
    }
}

#[test]
fn a_renewal_is_not_told_of_a_hold_that_its_owner_was_granted_since_and_has_not_heard_of() {
    let mut server = server_with(1);
    server.gets("ann", 500);
    let renewal = renews(&mut server, 5000);
    server.at(1);
    let sent = server.sent();
    assert_eq!(server.break_holds(LOCK, false), Ok(1));
    let again = pends(&mut server, replicated("ann", 1));
    server.keys.acknowledged[0] = sent;
    server.tick();
    server.at(2);
    assert_eq!(told_to(&server, renewal), Some(Reply::TimedOut));
    assert_eq!(told_to(&server, again), None);
}

#[test]
fn a_retry_between_an_acknowledgement_and_the_next_tick_waits_for_one_of_its_own() {
    let (mut server, _) = pending();
    let sent = server.sent();
    server.keys.acknowledged[0] = sent;
    server.locks.waiting.pending.heard(sent, vec![sent]);
    let again = pends(&mut server, Request { ttl: 5000, ..replicated("ann", 1) });
    server.at(1);
    assert_eq!(told_to(&server, again), None);
    server.acknowledges(0);
    server.at(2);
    assert!(server.was_granted(again).is_some());
}

#[test]
fn at_a_demotion_the_client_of_a_grant_that_waits_for_replicas_is_sent_away() {
    let (mut server, ann) = pending();
    server.demote(false);
    server.turn();
    assert_eq!(told_to(&server, ann), Some(Reply::SentAway));
}

#[test]
fn an_end_that_was_acknowledged_counts_no_longer_than_its_hold() {
    let mut server = server_with(1);
    server.gets("ann", 3000);
    let renewal = renews(&mut server, 5000);
    server.at(1);
    server.acknowledges(0);
    server.at(2);
    assert!(server.was_granted(renewal).is_some());
    server.release(LOCK, "ann").unwrap();
    server.gets("ben", 100);
    server.waits("ann", 70);
    server.release(LOCK, "ben").unwrap();
    server.at(3);
    assert_eq!(server.check(LOCK, "ann"), left(69));
}
