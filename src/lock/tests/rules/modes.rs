//! Several locks, each in its own mode.

use super::*;

/// The lock that all jobs share, and the one of a tenant's jobs.
const JOB: [Lock; 2] = [LOCK, OTHER];

/// A request for the lock of all in this mode, and for the tenant's in that one.
fn modes(of_all: Mode, of_tenant: Mode, owner: Owner) -> Plea {
    Plea { mode: of_all, but: Some((OTHER, of_tenant)), ..alone(owner) }
}

/// A job where two of all may run, and one of this tenant's.
fn job(owner: Owner) -> Plea {
    modes(Mode::Limit(2), Mode::Limit(1), owner)
}

/// A row of a table: the table is shared, the row is had alone.
fn row(owner: Owner) -> Plea {
    modes(Mode::Shared, Mode::Exclusive, owner)
}

fn names(server: &Server, lock: Lock) -> Vec<String> {
    let holders = server.holders_of(lock);
    holders.into_iter().map(|(owner, _)| owner).collect()
}

fn position(server: &mut Server, locks: &[Lock], plea: Plea) -> usize {
    match server.asks(locks, in_queue(plea)) {
        Ok(Acquired::Place(before)) => before + 1,
        other => panic!("{}: {other:?}", plea.owner),
    }
}

#[test]
fn each_lock_is_held_in_its_own_mode_by_one_number() {
    let mut server = server();
    let number = server.takes(&JOB, row("ann"));
    assert_eq!(server.takes(&JOB, row("ann")), number);
    server.takes(&[LOCK], sharing("ben"));
    assert_eq!(server.asks(&[OTHER], sharing("ben")), Ok(Acquired::Busy));
    assert_eq!(names(&server, LOCK), ["ann", "ben"]);
    assert_eq!(server.holders_of(OTHER), all([("ann", 100)]));
}

#[test]
fn a_retry_asks_for_no_more_than_is_held_of_each() {
    let mut server = server();
    let number = server.takes(&JOB, row("ann"));
    // Of the row a share is less than it has.
    server.takes(&[LOCK], sharing("ben"));
    assert_eq!(server.takes(&JOB, sharing("ann")), number);
    let more = modes(Mode::Exclusive, Mode::Shared, "ann");
    assert_eq!(server.asks(&JOB, more), Ok(Acquired::Busy));
    server.release(LOCK, "ben").unwrap();
    assert!(server.takes(&JOB, more) > number);
    assert_eq!(server.holder(), held("ann", 100));
}

#[test]
fn a_job_waits_for_the_limit_of_its_tenant_and_for_that_of_all() {
    let mut server = server();
    server.takes(&JOB, job("ann"));
    let ben = server.queues(&JOB, job("ben"));
    server.release(OTHER, "ann").unwrap();
    server.turn();
    // Two share the lock of all now, as many as may: only that of the tenant was in ben's way.
    assert!(server.was_granted(ben).is_some());
    let dot = server.queues(&JOB, job("dot"));
    server.release(OTHER, "ben").unwrap();
    server.turn();
    assert_eq!(server.was_granted(dot), None);
    server.release(LOCK, "ann").unwrap();
    server.turn();
    assert!(server.was_granted(dot).is_some());
    assert_eq!(names(&server, LOCK), ["ben", "dot"]);
}

#[test]
fn those_behind_a_job_whose_tenant_is_full_wait_for_it() {
    let mut server = server();
    server.takes(&JOB, job("ann"));
    let full = server.queues(&JOB, job("ben"));
    let behind = server.queues(&[LOCK, THIRD], limited("cid", 2));
    assert_eq!(server.asks(&[LOCK], limited("dot", 2)), Ok(Acquired::Busy));
    server.release(OTHER, "ann").unwrap();
    server.release(LOCK, "ann").unwrap();
    server.turn();
    let number = server.was_granted(full).unwrap();
    assert!(server.was_granted(behind).unwrap() > number);
}

#[test]
fn one_that_shares_a_lock_and_wants_it_alone_comes_first_there_and_in_its_turn_elsewhere() {
    let mut server = server();
    server.takes(&[LOCK], sharing("ann"));
    server.takes(&[LOCK], sharing("ben"));
    server.takes(&[OTHER], sharing("ben"));
    let dot = server.queues(&[LOCK], alone("dot"));
    let eve = server.queues(&[OTHER], alone("eve"));
    let ann = server.queues(&JOB, modes(Mode::Exclusive, Mode::Shared, "ann"));
    assert_eq!(server.queue(LOCK), [ann, dot]);
    assert_eq!(server.queue(OTHER), [eve, ann]);
    server.release(LOCK, "ben").unwrap();
    server.turn();
    assert_eq!(server.was_granted(ann), None);
    server.release(OTHER, "ben").unwrap();
    server.release(OTHER, "eve").unwrap();
    server.turn();
    assert!(server.was_granted(ann).is_some());
    assert_eq!(server.holder(), held("ann", 100));
}

#[test]
fn all_are_renewed_and_released_whatever_their_modes() {
    let mut server = server();
    server.takes(&JOB, row("ann"));
    assert_eq!(server.renew_all(&JOB, "ann", 900), Ok(true));
    assert_eq!(server.holders_of(LOCK), all([("ann", 900)]));
    assert_eq!(server.holders_of(OTHER), all([("ann", 900)]));
    assert_eq!(server.release_all(&JOB, "ann"), Ok(2));
    assert_eq!(server.holders_of(LOCK), []);
}

#[test]
fn a_place_is_kept_by_asking_in_the_same_modes_in_any_order_of_the_locks() {
    let mut server = server();
    server.takes(&JOB, alone("ann"));
    assert_eq!(position(&mut server, &JOB, job("ben")), 1);
    assert_eq!(position(&mut server, &JOB, job("cid")), 2);
    assert_eq!(position(&mut server, &[OTHER, LOCK], job("ben")), 1);
    assert_eq!(server.queue(LOCK).len(), 2);
}

#[test]
fn one_that_asks_for_other_modes_leaves_its_place_and_joins_at_the_end() {
    for other in [
        modes(Mode::Limit(2), Mode::Limit(2), "ben"),
        modes(Mode::Limit(1), Mode::Limit(1), "ben"),
        modes(Mode::Limit(1), Mode::Limit(2), "ben"),
        modes(Mode::Limit(2), Mode::Exclusive, "ben"),
        alone("ben"),
    ] {
        let mut server = server();
        server.takes(&JOB, alone("ann"));
        assert_eq!(position(&mut server, &JOB, job("ben")), 1);
        assert_eq!(position(&mut server, &JOB, job("cid")), 2);
        assert_eq!(position(&mut server, &JOB, other), 2, "{other:?}");
        assert_eq!(server.queue(LOCK).len(), 2);
    }
}

#[test]
fn a_place_is_claimed_in_its_modes() {
    let mut server = server();
    server.takes(&JOB, job("ann"));
    assert_eq!(position(&mut server, &JOB, job("ben")), 1);
    server.release_all(&JOB, "ann").unwrap();
    server.turn();
    let number = server.takes(&JOB, in_queue(job("ben")));
    assert_eq!(server.takes(&JOB, job("ben")), number);
    assert_eq!(server.holders_of(OTHER), all([("ben", 100)]));
    server.takes(&[LOCK], limited("cid", 2));
}

#[test]
fn a_place_ends_when_its_owner_has_all_that_it_asks_for_by_another_request() {
    let mut server = server();
    server.takes(&JOB, alone("ann"));
    assert_eq!(position(&mut server, &JOB, row("ben")), 1);
    let shares = server.queues(&JOB, sharing("ben"));
    assert_eq!(server.queue(LOCK).len(), 2);
    server.release_all(&JOB, "ann").unwrap();
    server.turn();
    // The place came first, and what the other wants is less.
    assert!(server.was_granted(shares).is_some());
    server.at(50);
    assert_eq!(server.holders_of(OTHER).len(), 1);
    assert_eq!(server.locks.waiting.leased_places(), 0);
}

#[test]
fn one_that_stands_behind_a_request_for_its_own_share_alone_is_a_deadlock_and_behind_one_that_fits_beside_it_none()
 {
    for (mode, is_deadlock) in [(Mode::Exclusive, true), (Mode::Shared, false)] {
        let mut server = server();
        server.takes(&[LOCK], sharing("ann"));
        server.takes(&[LOCK], sharing("cid"));
        server.takes(&[OTHER], sharing("ben"));
        let ann = server.queues(&JOB, modes(Mode::Exclusive, mode, "ann"));
        let refused = server.is_refused(&JOB, sharing("ben"));
        assert_eq!(refused, is_deadlock);
        if !refused {
            server.release(LOCK, "cid").unwrap();
            server.turn();
            assert!(server.was_granted(ann).is_some());
        }
    }
}

#[test]
fn a_circle_through_a_limit_is_one_if_it_needs_all_holders_to_let_go() {
    for (limit, is_circle) in [(1, true), (2, false)] {
        let mut server = server();
        server.takes(&[LOCK], limited("ann", 2));
        server.takes(&[LOCK], limited("cid", 2));
        server.takes(&[OTHER], alone("ben"));
        server.queues(&[OTHER], alone("ann"));
        let ben = modes(Mode::Limit(limit), Mode::Exclusive, "ben");
        assert_eq!(server.is_refused(&JOB, ben), is_circle, "{limit}");
    }
}

#[test]
fn no_more_wait_before_it_than_it_says_in_each_queue_where_it_has_to_wait() {
    let mut server = server();
    server.takes(&[OTHER], alone("ann"));
    server.takes(&[LOCK], sharing("ben"));
    server.queues(&[OTHER], alone("cid"));
    let request = |most| Plea { patience: Patience::Forever, max_queue: Some(most), ..row("dot") };
    assert_eq!(server.asks(&JOB, request(1)), Err(Refusal::Behind(1)));
    server.queues(&JOB, request(2));
}

#[test]
fn a_report_shows_how_each_lock_is_waited_for() {
    let mut server = server();
    server.takes(&JOB, alone("ann"));
    server.queues(&JOB, modes(Mode::Limit(100), Mode::Limit(3), "ben"));
    for (lock, mode) in [(LOCK, Mode::Limit(100)), (OTHER, Mode::Limit(3))] {
        let report = server.report(lock).unwrap().unwrap();
        assert_eq!(report.waiters[0].mode, mode, "{lock:?}");
    }
}
