//! Bugs that locks elsewhere have or had, each by the name that it goes by there. (What went wrong is said in our own
//! words; the numbers are those of the projects' public trackers.)

use super::*;

/// The session of a waiter ended while it waited, and it was told later that it has the lock.
#[test]
fn etcd_11456_a_waiter_is_not_granted_after_its_own_end() {
    let ends: [Fate; 3] = [Server::kill, Server::unblock, |server, _| server.at(50)];
    for end in ends {
        let mut server = server();
        server.gets("ann", 100);
        let (client, patience) = (server.connect(), Patience::Until(START + 50));
        let tied = Request { client, session: true, patience, ..alone("ben") };
        let gone = server.queues(&[LOCK], tied);
        end(&mut server, gone);
        server.release(LOCK, "ann").unwrap();
        server.at(51);
        assert_eq!((server.was_granted(gone), server.holder()), (None, None));
    }
}

/// Waiters that gave up or died stayed in the fair lock's queue, each with a time far ahead, and those who came later
/// waited for all of them.
#[test]
fn redisson_1104_dead_waiters_do_not_poison_the_line() {
    let ends: [Fate; 3] = [Server::kill, Server::unblock, Server::unblock_by_error];
    let mut server = server();
    server.gets("ann", 100);
    for (number, end) in ends.into_iter().cycle().take(30).enumerate() {
        let dying = server.waits(number.to_string().leak(), 30_000);
        end(&mut server, dying);
    }
    let living = server.waits("ben", 10);
    server.release(LOCK, "ann").unwrap();
    server.turn();
    assert!(server.was_granted(living).is_some());
}

/// A reader with a short ttl set the end of the whole lock, so that a longer reader lost its share.
#[test]
fn redisson_2144_the_last_readers_ttl_does_not_shorten_the_others() {
    let mut server = server();
    server.takes(&[LOCK], Request { ttl: 500, ..sharing("ann") });
    server.takes(&[LOCK], sharing("ben"));
    server.renew(LOCK, "ben", 10).unwrap();
    server.at(11);
    assert_eq!(server.holders_of(LOCK), all([("ann", 500)]));
    server.takes(&[LOCK], sharing("ben"));
    server.release(LOCK, "ben").unwrap();
    assert_eq!(server.holders_of(LOCK), all([("ann", 500)]));
}

/// The answer of an acquire came late, the client asked again, and the lock was counted twice: one release left it held.
#[test]
fn redisson_7367_a_retried_acquire_is_one_hold() {
    for ask in [alone("ann"), sharing("ann"), limited("ann", 3)] {
        let mut server = server();
        let fence = server.takes(&[LOCK], ask);
        assert_eq!(server.takes(&[LOCK], ask), fence);
        assert_eq!(server.release(LOCK, "ann"), Ok(true));
        assert_eq!(server.keys.get(LOCK), None);
    }
}

/// An owner that released and asked again at once came before those who had waited for long.
#[test]
fn python_redis_lock_58_no_client_barges_in_before_those_who_wait() {
    let mut server = server();
    server.gets("ann", 100);
    let waiters = ["ben", "cid"].map(|owner| (owner, server.waits(owner, 100)));
    server.release(LOCK, "ann").unwrap();
    let last = server.waits("ann", 100);
    for (owner, ticket) in waiters {
        server.turn();
        assert!(server.was_granted(ticket).is_some());
        assert_eq!(server.was_granted(last), None);
        server.release(LOCK, owner).unwrap();
    }
    server.turn();
    assert!(server.was_granted(last).is_some());
}

/// A deadlock was reported where none of those in it waited for another.
#[test]
fn mysql_87620_a_wait_that_no_client_waits_back_for_is_no_deadlock() {
    let mut server = server();
    server.takes(&[LOCK], alone("ann"));
    server.takes(&[OTHER], alone("ben"));
    server.waits("eve", 100);
    let ann = server.queues(&[OTHER], alone("ann"));
    // Ben does not wait: he only tries.
    assert_eq!(server.asks(&[LOCK], alone("ben")), Ok(Acquired::Busy));
    for (lock, owner) in [(LOCK, "fay"), (OTHER, "gus"), (LOCK, "hal")] {
        server.queues(&[lock], alone(owner));
    }
    server.release(OTHER, "ben").unwrap();
    server.turn();
    assert!(server.was_granted(ann).is_some());
    assert!(!server.is_refused(&[LOCK], alone("ben")), "now that ann has both, he may wait");
}

/// A renewal wrote the lock anew when it was gone, beside the owner that had taken it meanwhile.
#[test]
fn redlock_net_48_a_renewal_revives_nothing() {
    for ask in [alone("ann"), sharing("ann")] {
        let mut server = server();
        server.takes(&[LOCK], ask);
        server.at(101);
        assert_eq!(server.renew_all(&[LOCK], "ann", 500), Ok(false));
        assert_eq!(server.keys.get(LOCK), None);
        server.gets("ben", 100);
        assert_eq!(server.renew(LOCK, "ann", 500), Ok(false));
        assert_eq!(server.holder(), held("ben", 201));
    }
}
