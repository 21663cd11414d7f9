//! Whatever makes much go in one moment is done in portions: so much work at once, however much there
//! is. What is counted here is what is left to do, and what was done in one turn.

use super::*;
use crate::lock::Mode;
use crate::lock::budget::Budget;

const WIDE: usize = 200;

/// A server with so many locks, and their names.
fn with_locks(count: usize) -> (Server, Vec<Lock>) {
    let named = |number| -> Lock { (0, &*format!("lock {number}").leak()) };
    let locks: Vec<Lock> = (0..count).map(named).collect();
    (Server::new(Flavour::default(), &locks), locks)
}

fn owner(number: usize) -> Owner {
    &*format!("owner {number}").leak()
}

/// In how many queues somebody stands, or stood until a moment ago.
fn standing(server: &Server) -> usize {
    let databases = server.locks.databases.iter();
    let queues = databases.flat_map(|(_, database)| database.queues.iter());
    queues.map(|(_, queue)| queue.len()).sum()
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
    server.takes(
        &locks,
        Plea {
            ttl: 1_000_000,
            ..alone("ann")
        },
    );
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
        assert!(
            happened.decided.len() <= 60,
            "{} at once",
            happened.decided.len()
        );
        told.extend(happened.decided.iter().map(|&(ticket, _)| ticket));
        server.turn();
        assert!(before - standing(&server) <= 4_000);
    }
    assert_eq!(told, crowd);
    assert_eq!(standing(&server), 0);
}

#[test]
fn connections_that_close_in_one_moment_leave_their_queues_in_portions_and_are_in_nobodys_way() {
    let (mut server, locks, crowd) = wide_crowd(80);
    for &ticket in &crowd[..79] {
        server.kill(ticket);
    }
    assert_eq!(standing(&server), 80 * WIDE);
    assert_eq!(server.queue(locks[5]), crowd[79..]);
    server.release_all(&locks, "ann").unwrap();
    server.turn();
    assert!(server.was_granted(crowd[79]).is_some());
    let (ticks, most) = all_ticks(&mut server, standing);
    assert!(ticks >= 4 && most <= 4_000, "{ticks} ticks, {most} at once");
    assert_eq!(standing(&server), 0);
}

#[test]
fn a_lock_that_only_those_wait_for_who_have_gone_is_free() {
    for how in [Mode::Exclusive, Mode::Shared] {
        let (mut server, locks, crowd) = wide_crowd(3);
        crowd.iter().for_each(|&ticket| server.kill(ticket));
        server.release_all(&locks, "ann").unwrap();
        server.takes(
            &locks[..2],
            Plea {
                mode: how,
                ..alone("ben")
            },
        );
        server.takes(
            &locks[7..8],
            Plea {
                mode: how,
                ..alone("cid")
            },
        );
    }
}

#[test]
fn whoever_was_to_be_sent_away_is_granted_nothing_and_holds_up_nobody_when_the_server_is_a_master_again()
 {
    let (mut server, locks, crowd) = wide_crowd(80);
    server.demote(false);
    let told = server.happened().decided.len();
    assert!((1..80).contains(&told), "{told} at once");
    server.promote();
    server.release_all(&locks, "ann").unwrap();
    server.takes(&locks[..1], alone("zoe"));
    all_ticks(&mut server, standing);
    assert!(
        crowd
            .iter()
            .all(|ticket| matches!(server.told.get(ticket), Some(Told::SentAway)))
    );
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
    let told = |server: &Server| 3_000 - server.told.len();
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
        server.takes(
            &[lock],
            Plea {
                session: true,
                client: 7,
                ..alone("ann")
            },
        );
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
fn many_holds_that_end_with_one_connection_are_given_back_in_portions() {
    let (mut server, locks) = with_locks(3_000);
    let client = server.connect();
    for &lock in &locks {
        server.takes(
            &[lock],
            Plea {
                session: true,
                client,
                ..alone("ann")
            },
        );
    }
    server.close(client);
    assert_eq!(server.locks.returns.len(), 0);
    let held = |server: &Server| server.locks.remembered().holds;
    let (_, most) = all_ticks(&mut server, held);
    assert!(most <= 256, "{most} at once");
    assert_eq!(held(&server), 0);
}

#[test]
fn a_release_of_many_locks_grants_the_first_in_each_queue_and_the_crowd_behind_them_in_portions() {
    let (mut server, locks) = with_locks(50);
    let long = |plea: Plea| Plea {
        ttl: 1_000_000,
        ..plea
    };
    server.takes(&locks, long(alone("ann")));
    let readers: Vec<Ticket> = (0..1_000)
        .map(|number| server.queues(&locks[number % 50..][..1], long(sharing(owner(number)))))
        .collect();
    server.release_all(&locks, "ann").unwrap();
    server.turn();
    assert!((readers[..50].iter()).all(|&reader| server.was_granted(reader).is_some()));
    let portion = Budget::PORTION / 50 + 1;
    assert!(
        server.told.len() <= 50 + portion,
        "{} at once",
        server.told.len()
    );
    for ms in 1..100 {
        server.lags_until(ms);
        all_ticks(&mut server, |_| 0);
    }
    assert_eq!(server.told.len(), 1_000);
}
