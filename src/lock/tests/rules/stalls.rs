//! Whatever makes much go in one moment is done in portions: so much work at once, however much there
//! is. What is counted here is what is left to do, and what was done in one turn.

use super::super::simulated::told_on;
use super::*;
use crate::lock::Mode;
use crate::lock::budget::Budget;
use crate::lock::waiting::queue::Queue;

/// As many locks as a request may name.
const WIDE: usize = 64;

/// A server with so many locks, and their names.
fn with_locks(count: usize) -> (Server, Vec<Lock>) {
    let named = |number| -> Lock { (0, &*format!("lock {number}").leak()) };
    let locks: Vec<Lock> = (0..count).map(named).collect();
    (Server::new(Flavour::default(), &locks), locks)
}

fn owner(number: usize) -> Owner {
    &*format!("owner {number}").leak()
}

/// In how many queues a client stands.
fn standing(server: &Server) -> usize {
    server.locks.waiting.queues.iter().map(Queue::len).sum()
}

/// Does what is due until nothing is; says how many ticks it took, and how much of it at most one of
/// them did.
fn all_ticks(server: &mut Server, left: impl Fn(&Server) -> usize) -> (usize, usize) {
    let (mut ticks, mut most) = (0, 0);
    while server.due().is_some_and(|due| due <= server.now().ms()) {
        let before = left(server);
        server.tick();
        server.turn();
        ticks += 1;
        most = most.max(before.saturating_sub(left(server)));
        assert!(ticks < 100_000, "it spins");
    }
    (ticks, most)
}

/// One owner holds all of many locks, and so many others wait for all of them.
fn wide_crowd(waiters: usize) -> (Server, Vec<Lock>, Vec<Ticket>) {
    let (mut server, locks) = with_locks(WIDE);
    server.takes(&locks, Request { ttl: 1_000_000, ..alone("ann") });
    let queues = |number| server.queues(&locks, alone(owner(number)));
    let crowd = (0..waiters).map(queues).collect();
    (server, locks, crowd)
}

#[test]
fn those_who_wait_for_many_locks_are_sent_away_in_portions_in_the_order_in_which_they_came() {
    let (mut server, _, crowd) = wide_crowd(80);
    server.set_limits(|limits| limits.drain = true);
    let mut told = Vec::new();
    while server.due().is_some_and(|due| due <= server.now().ms()) {
        let before = standing(&server);
        server.tick();
        let happened = server.happened();
        assert!(happened.decided.len() <= 25, "{} at once", happened.decided.len());
        told.extend(happened.decided.iter().map(|&(ticket, _)| ticket));
        server.turn();
        assert!(before - standing(&server) <= 25 * WIDE);
    }
    assert_eq!(told, crowd);
    assert_eq!(standing(&server), 0);
}

#[test]
fn connections_that_close_in_one_moment_leave_all_of_their_queues_and_are_in_no_client_s_way() {
    let (mut server, locks, crowd) = wide_crowd(80);
    for &ticket in &crowd[..79] {
        server.kill(ticket);
    }
    assert_eq!(standing(&server), WIDE);
    server.release_all(&locks, "ann").unwrap();
    server.turn();
    assert!(server.was_granted(crowd[79]).is_some());
    assert_eq!(standing(&server), 0);
}

#[test]
fn a_lock_that_only_those_wait_for_who_have_gone_is_free() {
    for how in [Mode::Exclusive, Mode::Shared] {
        let (mut server, locks, crowd) = wide_crowd(3);
        crowd.iter().for_each(|&ticket| server.kill(ticket));
        server.release_all(&locks, "ann").unwrap();
        server.takes(&locks[..2], Request { mode: how, ..alone("ben") });
        server.takes(&locks[7..8], Request { mode: how, ..alone("cid") });
    }
}

#[test]
fn a_client_that_was_to_be_sent_away_is_granted_nothing_and_holds_up_no_client_when_the_server_is_a_master_again()
 {
    let (mut server, locks, crowd) = wide_crowd(80);
    server.demote(false);
    let told = server.happened().decided.len();
    assert!((1..80).contains(&told), "{told} at once");
    server.promote();
    server.release_all(&locks, "ann").unwrap();
    server.takes(&locks[..1], alone("zoe"));
    server.turn();
    all_ticks(&mut server, standing);
    assert!(crowd.iter().all(|ticket| matches!(server.replies.get(ticket), Some(Reply::SentAway))));
    assert_eq!(standing(&server), 0);
}

#[test]
fn a_flush_of_many_locks_that_are_waited_for_looks_at_them_in_portions_and_misses_none() {
    let (mut server, locks) = with_locks(3_000);
    let crowd: Vec<Ticket> = (locks.iter().enumerate())
        .map(|(number, &lock)| {
            server.takes(&[lock], alone("ann"));
            server.queues(&[lock], alone(owner(number)))
        })
        .collect();
    server.foreign(Write::Flush(None));
    // A command comes by one before its turn; others leave, and others come.
    server.is_refused(&locks[17..18], alone("zoe"));
    assert!(server.was_granted(crowd[17]).is_none());
    server.turn();
    assert!(server.was_granted(crowd[17]).is_some());
    (0..50).for_each(|number| server.kill(crowd[number * 7 + 1]));
    let told = |server: &Server| 3_000 - server.replies.len();
    let (ticks, most) = all_ticks(&mut server, told);
    assert!(ticks >= 20 && most <= 300, "{ticks} ticks, {most} at once");
    let missed = (0..3_000).filter(|&number| number % 7 != 1 || number > 344);
    let missed = missed.filter(|&number| server.was_granted(crowd[number]).is_none());
    assert_eq!(missed.count(), 0);
}

#[test]
fn many_holds_that_are_flushed_are_forgotten_at_once_and_freed_in_portions() {
    let (mut server, locks) = with_locks(3_000);
    for &lock in &locks {
        server.takes(&[lock], Request { session: true, client: 7, ..alone("ann") });
    }
    server.foreign(Write::Flush(None));
    let remembered = server.locks.remembered();
    assert_eq!((remembered.holds, remembered.sessions), (0, 0));
    assert!(remembered.tasks > 0);
    let (ticks, _) = all_ticks(&mut server, |_| 0);
    assert!(ticks > 20, "{ticks}");
    assert_eq!(server.locks.remembered().tasks, 0);
}

#[test]
fn many_dead_places_are_each_granted_once_and_delay_those_behind_them_by_their_lease() {
    const MANY: usize = 4_000;
    let (mut server, locks) = with_locks(MANY);
    server.set_limits(|limits| limits.max_waiters_total = 0);
    for (number, &lock) in locks.iter().enumerate() {
        server.takes(&[lock], Request { ttl: 1_000_000, ..alone("ann") });
        server.asks(&[lock], in_queue(alone(owner(number)))).unwrap();
    }
    let living: Vec<Ticket> = (locks[..MANY].iter().step_by(500))
        .map(|&lock| server.queues(&[lock], Request { ttl: 1_000_000, ..alone(lock.1) }))
        .collect();
    for &lock in &locks {
        server.release(lock, "ann").unwrap();
    }
    // Each tick is slow, so the last claims are seen to long after they have ended.
    let mut now = LEASE;
    while server.locks.waiting.waits.has_places() {
        assert!(
            now < LEASE + 2_000,
            "{} places are left",
            server.locks.waiting.waits.lists().places
        );
        now += 5;
        server.lags_until(now);
        server.tick();
        server.turn();
    }
    assert!(now > LEASE + 200, "it took {} ms", now - LEASE);
    let counts = server.locks.counts();
    assert_eq!((counts.unclaimed, counts.places_lapsed), (MANY as u64, MANY as u64));
    all_ticks(&mut server, |_| 0);
    assert!(living.iter().all(|&ticket| server.was_granted(ticket).is_some()));
}

#[test]
fn thousands_of_places_that_no_client_hears_of_are_passed_by_in_portions() {
    const MANY: usize = 3_000;
    // Their locks come free one after another, or all at once, or there is one for all of them.
    let comes_free: [(usize, usize, Action); 3] = [
        (MANY, 40, |server| {
            let locks: Vec<Lock> = server.keys.keys.keys().copied().collect();
            locks.into_iter().for_each(|lock| _ = server.release(lock, "ann").unwrap());
        }),
        (MANY, 40, |server| server.foreign(Write::Flush(None))),
        (1, 1, |server| server.foreign(Write::Flush(None))),
    ];
    for (locks, at_once, comes_free) in comes_free {
        let (mut server, locks) = with_locks(locks);
        server.set_limits(|limits| limits.max_waiters_total = 0);
        server.deaf.insert("dead".to_owned());
        for &lock in &locks {
            server.takes(&[lock], Request { ttl: 1_000_000, ..alone("ann") });
        }
        for number in 0..MANY {
            let told = told_on(Some(("dead", "your turn")), 100_000);
            let ask = Request { patience: told, ..alone(owner(number)) };
            server.asks(&[locks[number % locks.len()]], ask).unwrap();
        }
        let living = server.queues(&[locks[0]], Request { ttl: 1_000_000, ..alone("zoe") });
        comes_free(&mut server);
        let left = |server: &Server| MANY - server.locks.counts().unclaimed as usize;
        let (ticks, most) = all_ticks(&mut server, left);
        assert_eq!(left(&server), 0);
        assert!(most <= at_once && ticks <= 3 * (MANY / at_once), "{ticks}, {most} at once");
        assert!(server.was_granted(living).is_some());
    }
}

#[test]
fn one_that_has_left_its_queues_in_the_same_turn_comes_before_no_place() {
    let (mut server, locks) = with_locks(40);
    server.takes(&locks, alone("ann"));
    let asked = |owner| Request { patience: told_on(None, 100_000), ..alone(owner) };
    let first = server.asks(&locks, asked("ben"));
    assert_eq!(first, Ok(Acquired::Place(0)));
    server.asks(&locks, asked("cid")).unwrap();
    server.release(locks[0], "ben").unwrap();
    assert_eq!(server.asks(&locks, asked("cid")), Ok(Acquired::Place(0)));
    let another_mode = Request { mode: Mode::Shared, ..asked("cid") };
    let asks = server.asks(&locks, another_mode);
    assert_eq!(asks, Ok(Acquired::Place(0)));
    let report = server.report(locks[0]).unwrap().unwrap();
    let places: Vec<usize> = (report.waiters.iter()).map(|one| one.place.unwrap().place).collect();
    assert_eq!((report.queue, places), (1, vec![1]));
}

#[test]
fn what_has_left_with_its_slot_is_forgotten_though_no_client_asks_for_it() {
    let mut server = server_like(Flavour { in_cluster: true, ..Flavour::default() });
    server.takes(&[LOCK], Request { session: true, client: 7, ..alone("ann") });
    let ben = server.waits("ben", 100);
    server.kill(ben);
    server.locks.slots_left(&[0..=16_383], server.now());
    all_ticks(&mut server, |_| 0);
    let left = server.locks.remembered();
    assert_eq!((left.holds, left.sessions), (0, 0));
    assert!(!server.locks.holds().may_be_in_the_way(LOCK.0, b"ann"));
}

#[test]
fn many_holds_that_end_with_one_connection_are_given_back_in_portions() {
    let (mut server, locks) = with_locks(3_000);
    let client = server.connect();
    for &lock in &locks {
        server.takes(&[lock], Request { session: true, client, ..alone("ann") });
    }
    server.close(client);
    assert_eq!(server.locks.offers.returns.len(), 0);
    let held = |server: &Server| server.locks.remembered().holds;
    let (_, most) = all_ticks(&mut server, held);
    assert!(most <= 256, "{most} at once");
    assert_eq!(held(&server), 0);
}

#[test]
fn a_release_of_many_locks_grants_the_first_in_each_queue_and_the_crowd_behind_them_in_portions() {
    let (mut server, locks) = with_locks(50);
    let long = |ask: Request| Request { ttl: 1_000_000, ..ask };
    server.takes(&locks, long(alone("ann")));
    let readers: Vec<Ticket> = (0..1_000)
        .map(|number| server.queues(&locks[number % 50..][..1], long(sharing(owner(number)))))
        .collect();
    server.release_all(&locks, "ann").unwrap();
    server.turn();
    assert!((readers[..50].iter()).all(|&reader| server.was_granted(reader).is_some()));
    let portion = Budget::PORTION / 50 + 1;
    assert!(server.replies.len() <= 50 + portion, "{} at once", server.replies.len());
    for ms in 1..100 {
        server.lags_until(ms);
        all_ticks(&mut server, |_| 0);
    }
    assert_eq!(server.replies.len(), 1_000);
}

#[test]
fn a_lock_that_the_first_in_its_queue_gives_up_in_a_turn_that_is_spent_is_granted_in_the_next() {
    let (mut server, locks) = with_locks(2);
    let long = |ask: Request| Request { ttl: 1_000_000, ..ask };
    server.takes(&locks[..1], long(alone("ann")));
    let patience = Patience::Until(server.now().ms() + 10);
    server.queues(&locks, Request { patience, ..alone("ben") });
    for number in 0..100 {
        server.queues(&locks[..1], long(sharing(owner(number))));
    }
    let next = server.queues(&locks[1..], long(alone("cid")));
    // Before the timer has rung, the first of the readers use the turn up.
    server.lags_until(20);
    server.release(locks[0], "ann").unwrap();
    for ms in 21..30 {
        server.lags_until(ms);
        all_ticks(&mut server, |_| 0);
    }
    assert!(server.was_granted(next).is_some());
}

#[test]
fn a_release_of_many_locks_grants_each_at_once_and_the_replies_go_out_in_order() {
    let (mut server, locks) = with_locks(WIDE);
    server.takes(&locks, alone("ann"));
    let crowd: Vec<Ticket> = (locks.iter().enumerate())
        .map(|(number, &lock)| server.queues(&[lock], alone(owner(number))))
        .collect();
    server.release_all(&locks, "ann").unwrap();
    let held = |&lock: &Lock| !server.holders_of(lock).is_empty();
    assert!(locks.iter().all(held));
    let told: Vec<Ticket> =
        server.happened().decided.into_iter().map(|(ticket, _)| ticket).collect();
    assert_eq!(told, crowd);
    server.turn();
    assert!((crowd.iter()).all(|&ticket| server.was_granted(ticket).is_some()));
}

#[test]
fn a_client_that_goes_before_the_reply_to_its_grant_passes_the_lock_on() {
    let (mut server, locks) = with_locks(500);
    server.takes(&locks, alone("ann"));
    let crowd: Vec<Ticket> = (locks.iter().enumerate())
        .map(|(number, &lock)| server.queues(&[lock], alone(owner(number))))
        .collect();
    let next = server.queues(&locks[499..], alone("ben"));
    server.release_all(&locks, "ann").unwrap();
    server.kill(crowd[499]);
    all_ticks(&mut server, |_| 0);
    assert_eq!(server.happened().offences, [""; 0]);
    assert!(server.was_granted(next).is_some());
    assert!((crowd[..499].iter()).all(|&ticket| server.was_granted(ticket).is_some()));
}

#[test]
fn no_more_than_two_requests_for_as_many_locks_as_one_may_name_are_granted_in_one_turn() {
    let (mut server, locks) = with_locks(20 * WIDE);
    server.takes(&locks, alone("ann"));
    let crowd: Vec<Ticket> = (locks.chunks(WIDE).enumerate())
        .map(|(number, some)| server.queues(some, alone(owner(number))))
        .collect();
    server.foreign(Write::Flush(None));
    while server.due().is_some_and(|due| due <= server.now().ms()) {
        server.tick();
        let granted = server.happened().decided.len();
        assert!(granted <= 2, "{granted}");
        server.turn();
    }
    assert!(crowd.iter().all(|&ticket| server.was_granted(ticket).is_some()));
}

/// A lock that very many owners share.
mod sharers {
    use super::*;
    use crate::lock::{Claim, Left, SHARED_MARKER};

    const MANY: usize = 800;

    /// More than may share a lock.
    const TOO_MANY: usize = 1200;

    /// What looks at so many shares walks through none of them.
    const FEW: usize = 40;

    fn owners(many: usize) -> impl Iterator<Item = Owner> {
        (0..many).map(|at| &*at.to_string().leak())
    }

    fn sharing_until(owner: Owner, ttl: Ms) -> Request {
        Request { ttl, ..sharing(owner) }
    }

    /// Many share the lock for so long, by grants of ours.
    fn shared(ttl: Ms) -> Server {
        let mut server = server();
        for owner in owners(MANY) {
            server.takes(&[LOCK], sharing_until(owner, ttl));
        }
        server
    }

    /// So many share it, by another client's hand.
    fn written(many: usize, ttl: Ms) -> Server {
        let mut server = server();
        let until = Some(START + ttl);
        let marker = (SHARED_MARKER.to_vec(), None);
        let shares = owners(many).map(|owner| (owner.as_bytes().to_vec(), until));
        server.foreign(Write::ZAdd(LOCK, [marker].into_iter().chain(shares).collect()));
        server.foreign(Write::PExpireAt(LOCK, START + ttl));
        server
    }

    /// How many shares there are, over or not.
    fn members(server: &Server) -> usize {
        let key = server.keys.get(LOCK).unwrap();
        key.content.shares().unwrap().len()
    }

    /// How many shares are looked at or taken out in the meantime.
    fn visits<T>(server: &mut Server, action: impl FnOnce(&mut Server) -> T) -> (T, usize) {
        let before = server.keys.visited;
        let done = action(server);
        (done, server.keys.visited - before)
    }

    fn is_cheap<T>(
        server: &mut Server,
        what: &str,
        most: usize,
        action: impl FnOnce(&mut Server) -> T,
    ) -> T {
        let (done, visits) = visits(server, action);
        assert!(visits <= most, "{what} looks at {visits} shares");
        done
    }

    #[test]
    fn one_that_waits_for_many_sharers_reads_those_alone_that_others_have_written_and_once() {
        let mut server = shared(50_000);
        is_cheap(&mut server, "a waiter", FEW, |server| server.waits("xia", 50));
        let mut server = written(MANY, 50_000);
        let (_, first) = visits(&mut server, |server| server.waits("xia", 50));
        assert!((MANY..=MANY + FEW).contains(&first), "{first}");
        is_cheap(&mut server, "another waiter", FEW, |server| server.waits("yan", 50));
        for owner in ["xia", "yan"] {
            is_cheap(&mut server, "RELEASE", FEW, |server| server.release(LOCK, owner)).unwrap();
        }
        is_cheap(&mut server, "a later waiter", FEW, |server| server.waits("zoe", 50));
    }

    /// Ticks until nothing is due. A tick looks at the shares for the lock's state, finds those that are over, and
    /// takes them out.
    fn settle_down(server: &mut Server, until: Ms) {
        for _ in 0..10_000 {
            let Some(due) = server.due().filter(|&due| due <= START + until) else {
                return;
            };
            server.set_clock(due.max(server.now().ms()));
            is_cheap(server, "a tick", 4 * MANY, Server::tick);
            server.turn();
        }
        panic!("it does not come to rest");
    }

    #[test]
    fn once_it_is_known_who_shares_a_lock_nothing_walks_through_them() {
        for by in [0, 50] {
            let mut server = shared(100_000);
            server.waits("zoe", 50);
            server.step(by);
            settle_down(&mut server, 5000);
            is_cheap(&mut server, "another waiter", FEW, |server| server.waits("yan", 50));
            is_cheap(&mut server, "CHECK", FEW, |server| server.check(LOCK, "7")).unwrap();
            is_cheap(&mut server, "RENEW", FEW, |server| server.renew(LOCK, "7", 80_000)).unwrap();
            is_cheap(&mut server, "RELEASE", FEW, |server| server.release(LOCK, "8")).unwrap();
            let report = is_cheap(&mut server, "INFO", 200, |server| server.report(LOCK));
            assert_eq!(report.unwrap().unwrap().count, MANY - 1);
        }
    }

    #[test]
    fn shares_that_are_over_leave_at_once_and_each_is_counted() {
        let mut server = shared(100);
        server.takes(&[LOCK], sharing_until("zoe", 100_000));
        server.lags_until(101);
        is_cheap(&mut server, "CHECK", FEW, |server| server.check(LOCK, "zoe")).unwrap();
        assert_eq!(server.report(LOCK).unwrap().unwrap().count, 1);
        assert_eq!(server.acquire(LOCK, "yan", 50, Patience::Try), Ok(Acquired::Busy));
        // Neither writes.
        assert_eq!(members(&server), MANY + 1);
        server.takes(&[LOCK], limited("yan", 2));
        assert_eq!(members(&server), 2);
        assert_eq!(server.locks.counts().expired, MANY as u64);
        server.happened();
        assert_eq!(server.replica, server.keys.keys);
    }

    #[test]
    fn it_is_broken_at_once_with_the_sessions_of_those_who_shared_it() {
        let mut server = server();
        for owner in owners(MANY) {
            let ask = Request { session: true, ..sharing_until(owner, 100_000) };
            server.takes(&[LOCK], ask);
        }
        let zoe = server.waits("zoe", 50);
        assert_eq!(server.break_holds(LOCK, false), Ok(MANY));
        assert!(server.was_granted(zoe).is_some() || server.holder() == held("zoe", 50));
        assert_eq!(server.locks.counts().broken, MANY as u64);
        assert_eq!(server.locks.remembered().holds, 1);
        assert_eq!(server.locks.remembered().sessions, 0);
    }

    #[test]
    fn a_deadlock_through_one_sharer_of_many_is_found() {
        for mut server in [shared(100_000), written(MANY, 100_000)] {
            server.takes(&[OTHER], Request { ttl: 100_000, ..alone("ann") });
            server.queues(&[LOCK], alone("ann"));
            let refused =
                server.asks(&[OTHER], Request { patience: Patience::Forever, ..alone("7") });
            let Err(Refusal::Deadlock(deadlock)) = refused else {
                panic!("{refused:?}");
            };
            assert_eq!(deadlock.links.len(), 2);
            assert_eq!(deadlock.links[1].next, Claim::Holds);
            // She who shares nothing may wait.
            server.queues(&[OTHER], alone("zoe"));
            // The other way round, and as soon as his share is over.
            server.release(LOCK, "8").unwrap();
            server.queues(&[OTHER], alone("8"));
        }
    }

    #[test]
    fn a_lock_that_more_share_than_may_lets_no_client_in_and_nothing_walks_through_them() {
        let mut server = written(TOO_MANY, 100_000);
        let tries = server.asks(&[LOCK], sharing("zoe"));
        assert_eq!(tries, Ok(Acquired::Busy));
        let forever = Request { patience: Patience::Forever, ..sharing("zoe") };
        let zoe = is_cheap(&mut server, "a waiter", FEW, |server| server.queues(&[LOCK], forever));
        is_cheap(&mut server, "PEXPIRE", 2 * FEW, |server| {
            server.foreign(Write::PExpireAt(LOCK, START + 90_000));
            server.tick();
        });
        let left = server.check(LOCK, "7").unwrap();
        assert_eq!(left, Some(Left::Ms(90_000)));
        assert_eq!(server.renew(LOCK, "7", 95_000), Ok(true));
        assert_eq!(server.asks(&[LOCK], sharing("7")).map(is_held), Ok(true));
        // There is room again when enough have gone.
        for owner in owners(TOO_MANY - 1000) {
            assert_eq!(server.release(LOCK, owner), Ok(true), "{owner}");
        }
        assert_eq!(server.was_granted(zoe), None);
        assert_eq!(server.release(LOCK, "1000"), Ok(true));
        server.at(0);
        assert!(server.was_granted(zoe).is_some());
        assert_eq!(server.break_holds(LOCK, false), Ok(1000));
    }

    #[test]
    fn no_more_than_may_share_a_lock_and_the_next_waits_as_behind_a_limit() {
        let mut server = server_like(Flavour { max_sharers: Some(3), ..Flavour::default() });
        for owner in ["ann", "ben", "cid"] {
            server.takes(&[LOCK], sharing(owner));
        }
        for ask in [sharing("dot"), limited("dot", 9)] {
            assert_eq!(server.asks(&[LOCK], ask), Ok(Acquired::Busy));
        }
        // A retry is never refused.
        server.takes(&[LOCK], sharing("ben"));
        let dot = server.queues(&[LOCK], Request { patience: Patience::Forever, ..sharing("dot") });
        server.release(LOCK, "ann").unwrap();
        server.at(0);
        assert!(server.was_granted(dot).is_some());
    }

    fn is_held(acquired: Acquired) -> bool {
        matches!(acquired, Acquired::Held(_))
    }
}
