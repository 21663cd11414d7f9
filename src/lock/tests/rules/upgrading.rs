//! From a share to the lock alone: at once, or not at all.

use super::*;

/// `ann` and `ben` share the lock for 100 ms.
fn shared() -> Server {
    let mut server = server();
    for owner in ["ann", "ben"] {
        server.takes(&[LOCK], sharing(owner));
    }
    server
}

fn in_queue(plea: Plea) -> Plea {
    Plea { patience: place(100), ..plea }
}

/// Another client writes this owner's share of the lock.
fn by_hand(server: &mut Server, owner: Owner) {
    let share = (owner.as_bytes().to_vec(), Some(START + 100));
    server.foreign(Write::ZAdd(LOCK, vec![share]));
}

#[test]
fn beside_another_sharer_a_try_is_busy_and_one_that_would_wait_is_refused() {
    let mut server = shared();
    assert_eq!(server.asks(&[LOCK], alone("ann")), Ok(Acquired::Busy));
    let forever = |plea| Plea { patience: Patience::Forever, ..plea };
    for locks in [&[LOCK][..], &[LOCK, OTHER], &[OTHER, LOCK]] {
        for plea in [forever(alone("ann")), in_queue(alone("ann"))] {
            assert_eq!(server.asks(locks, plea), Err(Refusal::NoUpgrade), "{locks:?}");
        }
    }
    assert!(server.check(LOCK, "ann").unwrap().is_some(), "still shared");
    assert!(server.queue(LOCK).is_empty());
    assert_eq!(server.holders_of(OTHER), []);
}

#[test]
fn the_refusal_comes_before_those_of_limits_and_deadlocks_and_while_the_server_drains() {
    let mut server = shared();
    server.set_limits(|limits| limits.max_waiters_total = 1);
    server.takes(&[OTHER], alone("cid"));
    server.queues(&[OTHER], alone("ben"));
    let plea = Plea { patience: Patience::Forever, max_queue: Some(1), ..alone("ann") };
    assert_eq!(server.asks(&[LOCK, OTHER], plea), Err(Refusal::NoUpgrade));
    server.set_limits(|limits| limits.drain = true);
    assert_eq!(server.asks(&[LOCK], plea), Err(Refusal::NoUpgrade));
    assert_eq!(server.asks(&[LOCK], alone("ann")), Ok(Acquired::Busy));
}

#[test]
fn a_place_is_never_an_upgrade_not_even_for_the_only_holder() {
    let mut server = server();
    let number = server.takes(&[LOCK], sharing("ann"));
    assert_eq!(server.asks(&[LOCK], in_queue(alone("ann"))), Err(Refusal::NoUpgrade));
    assert_eq!(server.takes(&[LOCK], in_queue(sharing("ann"))), number);
}

#[test]
fn an_owner_that_waits_for_another_lock_is_not_upgraded() {
    for patience in [Patience::Forever, place(100)] {
        let mut server = server();
        server.takes(&[LOCK], sharing("ann"));
        server.takes(&[OTHER], alone("cid"));
        server.asks(&[OTHER], Plea { patience, ..alone("ann") }).unwrap();
        assert_eq!(server.asks(&[LOCK], alone("ann")), Ok(Acquired::Busy));
        let forever = Plea { patience: Patience::Forever, ..alone("ann") };
        assert_eq!(server.asks(&[LOCK], forever), Err(Refusal::NoUpgrade));
        // By one request for both it gets both, or neither.
        assert_eq!(server.asks(&[LOCK, OTHER], alone("ann")), Ok(Acquired::Busy));
        server.release(OTHER, "ann").unwrap();
        assert!(matches!(server.asks(&[LOCK], alone("ann")), Ok(Acquired::Held(_))));
    }
}

#[test]
fn an_owner_whose_place_for_another_lock_sleeps_is_not_upgraded() {
    let mut server = server();
    server.takes(&[LOCK], sharing("ann"));
    server.takes(&[OTHER], alone("cid"));
    let notified = told_on(Some(("channel", "text")), 50_000);
    server.asks(&[OTHER], Plea { patience: notified, ..alone("ann") }).unwrap();
    server.set_limits(|limits| limits.claim_time = 20);
    server.release(OTHER, "cid").unwrap();
    server.at(30);
    let sleeps = server.report(OTHER).unwrap().unwrap().waiters[0].place.unwrap().asleep;
    assert!(sleeps);
    assert_eq!(server.asks(&[LOCK], alone("ann")), Ok(Acquired::Busy));
}

#[test]
fn a_place_is_gone_when_its_owner_comes_to_share_what_it_wants_alone() {
    let mut server = server();
    server.takes(&[LOCK], sharing("ben"));
    server.asks(&[LOCK], in_queue(alone("ann"))).unwrap();
    by_hand(&mut server, "ann");
    server.at(1);
    assert!(server.queue(LOCK).is_empty());
    assert_eq!(server.asks(&[LOCK], in_queue(alone("ann"))), Err(Refusal::NoUpgrade));
    assert_eq!(server.published, []);
}

#[test]
fn a_wait_whose_time_is_up_is_told_so_though_its_owner_shares_the_lock_by_then() {
    let mut server = server();
    server.takes(&[LOCK], sharing("ben"));
    let until = Patience::Until(server.now().ms() + 5);
    let plea = Plea { patience: until, ..alone("ann") };
    let Ok(Acquired::Waiting(ann)) = server.asks(&[LOCK], plea) else { panic!("it waits") };
    by_hand(&mut server, "ann");
    server.lags_until(5);
    server.at(5);
    assert_eq!(server.told.get(&ann), Some(&Told::TimedOut));
}

#[test]
fn more_sharers_than_may_be_hide_no_upgrade() {
    let mut server = server_like(Flavour { max_sharers: Some(1), ..Flavour::default() });
    server.takes(&[LOCK], sharing("ann"));
    by_hand(&mut server, "dot");
    server.turn();
    let forever = Plea { patience: Patience::Forever, ..alone("ann") };
    assert_eq!(server.asks(&[LOCK], forever), Err(Refusal::NoUpgrade));
}
