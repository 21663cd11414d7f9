//! Places in the queue: who waits without a client, and asks again.

use super::*;
use crate::lock::Left;

const BOTH: [Lock; 2] = [LOCK, OTHER];

pub(super) trait Places {
    /// Asks for LOCK alone.
    fn asks_for_it(&mut self, owner: Owner) -> Result<Acquired, Refusal>;
    /// The same, and says which place that brings.
    fn place_of(&mut self, owner: Owner) -> usize;
    /// The same, and has it.
    fn claims(&mut self, owner: Owner) -> Fence;
    /// Nothing is left of anything.
    fn is_empty(&mut self) -> bool;
}

impl Places for Server {
    fn asks_for_it(&mut self, owner: Owner) -> Result<Acquired, Refusal> {
        self.asks(&[LOCK], in_queue(alone(owner)))
    }

    fn place_of(&mut self, owner: Owner) -> usize {
        match self.asks_for_it(owner) {
            Ok(Acquired::Place(before)) => before + 1,
            other => panic!("{owner}: {other:?}"),
        }
    }

    fn claims(&mut self, owner: Owner) -> Fence {
        match self.asks_for_it(owner) {
            Ok(Acquired::Held(fence)) => fence,
            other => panic!("{owner}: {other:?}"),
        }
    }

    fn is_empty(&mut self) -> bool {
        let remembered = self.locks.remembered();
        let rest = [
            remembered.queues,
            remembered.waiters,
            remembered.owners,
            remembered.alarms,
            remembered.tasks,
        ];
        rest.iter().sum::<usize>() == 0
    }
}

/// `ann` holds LOCK, and `ben` has a place for both locks.
fn place_for_both(flavour: Flavour) -> Server {
    let mut server = server_like(flavour);
    server.gets("ann", 50_000);
    server.asks(&BOTH, in_queue(alone("ben"))).unwrap();
    server
}

#[test]
fn a_client_that_asks_stands_in_the_order_of_arrival_with_those_who_block() {
    let mut server = server();
    server.gets("ann", 5000);
    assert_eq!(server.place_of("ben"), 1);
    server.waits("cid", 10);
    assert_eq!(server.place_of("dot"), 3);
    assert_eq!(server.place_of("ben"), 1);
    assert_eq!(server.place_of("dot"), 3);
}

#[test]
fn a_place_is_kept_while_its_owner_asks_in_time() {
    let mut server = server();
    server.gets("ann", 50_000);
    server.place_of("ben");
    server.place_of("cid");
    for round in 1..10 {
        server.at(round * (LEASE - 1));
        assert_eq!(server.place_of("ben"), 1);
        assert_eq!(server.place_of("cid"), 2);
    }
}

#[test]
fn a_place_that_is_not_asked_for_in_time_is_gone() {
    let mut server = server();
    server.gets("ann", 50_000);
    server.place_of("ben");
    server.at(500);
    server.place_of("cid");
    server.at(LEASE);
    assert_eq!(server.locks.waiting.waits.leased_places(), 1);
    assert_eq!(server.locks.counts().places_lapsed, 1);
    assert_eq!(server.place_of("cid"), 1);
    assert_eq!(server.place_of("ben"), 2);
}

#[test]
fn a_place_whose_turn_it_is_holds_the_lock_until_its_lease_is_over() {
    let mut server = server();
    server.gets("ann", 50_000);
    server.lags_until(300);
    server.place_of("ben");
    server.release(LOCK, "ann").unwrap();
    assert_eq!(server.holder(), held("ben", 300 + LEASE));
    assert!(server.published.is_empty());
}

#[test]
fn the_first_claim_sets_the_end_and_later_asks_only_prolong_it() {
    let mut server = server();
    server.gets("ann", 50_000);
    server.place_of("ben");
    server.release(LOCK, "ann").unwrap();
    server.at(200);
    let fence = server.claims("ben");
    assert_eq!(server.holder(), held("ben", 300));
    assert!(server.locks.waiting.waits.leased_places() == 0);
    let shorter = Plea { ttl: 10, ..in_queue(alone("ben")) };
    assert_eq!(server.takes(&[LOCK], shorter), fence);
    assert_eq!(server.holder(), held("ben", 300));
    server.at(1000);
    assert!(server.is_empty());
}

#[test]
fn any_acquire_and_a_renewal_claim_and_check_and_guard_do_not() {
    let deeds: [(Deed, Option<Ms>); 5] = [
        (|server| _ = server.takes(&[LOCK], alone("ben")), Some(100)),
        (
            |server| {
                let patience = Patience::Forever;
                let plea = Plea { patience, ..alone("ben") };
                server.takes(&[LOCK], plea);
            },
            Some(100),
        ),
        (|server| _ = server.renew(LOCK, "ben", 40), Some(40)),
        (|server| assert_eq!(server.check(LOCK, "ben"), Ok(Some(Left::Ms(LEASE)))), None),
        (|server| assert_eq!(server.guard(LOCK, "ben"), Ok(true)), None),
    ];
    for (deed, claimed) in deeds {
        let mut server = server();
        server.gets("ann", 50_000);
        server.place_of("ben");
        server.release(LOCK, "ann").unwrap();
        deed(&mut server);
        assert_eq!(server.holder(), held("ben", claimed.unwrap_or(LEASE)));
        assert_eq!(server.locks.waiting.waits.leased_places(), usize::from(claimed.is_none()));
        assert_eq!(server.release(LOCK, "ben"), Ok(claimed.is_some()));
        assert_eq!(server.holder(), None);
        server.at(1);
        assert!(server.is_empty());
    }
}

#[test]
fn a_place_that_sleeps_ends_when_its_owner_renews_a_hold_that_another_client_has_written_for_it() {
    let mut server = server();
    server.gets("ann", 50_000);
    let patience = told_on(Some(("his", "turn")), LEASE);
    server.asks(&[LOCK], Plea { patience, ..sharing("ben") }).unwrap();
    server.set_limits(|limits| limits.claim_time = 20);
    server.release(LOCK, "ann").unwrap();
    server.at(30);
    assert_eq!(
        (server.holder(), server.locks.waiting.waits.leased_places()),
        (None, 1),
        "it sleeps"
    );
    server.foreign(Write::Set(LOCK, token("ben", Some(START + 40_000))));
    server.at(40);
    assert_eq!(server.renew(LOCK, "ben", 100), Ok(true));
    assert_eq!(server.locks.waiting.waits.leased_places(), 0);
}

#[test]
fn a_grant_that_is_not_claimed_runs_out_and_the_next_has_its_turn() {
    let mut server = server();
    server.gets("ann", 50_000);
    server.place_of("ben");
    server.lags_until(500);
    server.place_of("cid");
    server.release(LOCK, "ann").unwrap();
    server.at(LEASE);
    assert_eq!(server.holder(), held("ben", LEASE));
    server.at(LEASE + 1);
    assert_eq!(server.holder(), held("cid", 500 + LEASE));
    let counts = server.locks.counts();
    assert_eq!((counts.unclaimed, counts.places_lapsed), (1, 1));
    assert_eq!(server.locks.waiting.waits.leased_places(), 1);
    server.at(3 * LEASE);
    assert_eq!(server.holder(), None);
    assert!(server.is_empty());
}

#[test]
fn another_mode_is_another_place_at_the_end() {
    let mut server = server();
    server.gets("ann", 50_000);
    server.place_of("ben");
    server.place_of("cid");
    let asks = server.asks(&[LOCK], in_queue(sharing("ben")));
    assert_eq!(asks, Ok(Acquired::Place(1)));
    assert_eq!(server.locks.waiting.waits.leased_places(), 2);
    assert_eq!(server.place_of("cid"), 1);
    // Refused, so he keeps what he has.
    server.set_limits(|limits| limits.max_waiters = 1);
    let asks = server.asks(&[LOCK], in_queue(limited("ben", 3)));
    assert_eq!(asks, Err(Refusal::QueueFull));
    assert_eq!(server.asks(&[LOCK], in_queue(sharing("ben"))), Ok(Acquired::Place(1)));
}

#[test]
fn keeping_a_place_is_refused_by_no_limit() {
    let mut server = server();
    server.gets("ann", 50_000);
    server.place_of("ben");
    server.set_limits(|limits| {
        limits.max_waiters = 1;
        limits.max_waiters_total = 1;
    });
    assert_eq!(server.place_of("ben"), 1);
    assert_eq!(server.asks_for_it("cid"), Err(Refusal::QueueFull));
}

#[test]
fn a_release_gives_up_a_place_whatever_has_become_of_it() {
    let fates: [Deed; 3] = [
        |_| {},
        |server| _ = server.release(LOCK, "ann"),
        |server| {
            server.release(LOCK, "ann").unwrap();
            server.at(LEASE / 2);
        },
    ];
    for fate in fates {
        let mut server = server();
        server.gets("ann", 50_000);
        server.place_of("ben");
        fate(&mut server);
        assert_eq!(server.release(LOCK, "ben"), Ok(false));
        assert!(server.release(LOCK, "ann").is_ok());
        server.at(LEASE / 2 + 10);
        assert_eq!(server.holder(), None);
        assert!(server.is_empty());
        assert_eq!(server.published, []);
    }
}

#[test]
fn an_owner_that_holds_some_of_it_gets_no_place() {
    let mut server = server();
    server.takes(&[LOCK], sharing("ann"));
    server.takes(&[LOCK], sharing("ben"));
    assert_eq!(server.asks_for_it("ann"), Err(Refusal::NoUpgrade));
    server.takes(&[OTHER], alone("ann"));
    let asks = server.asks(&[OTHER, THIRD], in_queue(alone("ann")));
    assert_eq!(asks, Err(Refusal::HoldsSome));
    // What it holds it may ask for.
    assert!(matches!(server.asks(&[OTHER], in_queue(alone("ann"))), Ok(Acquired::Held(_))));
    assert!(matches!(server.asks(&[LOCK], in_queue(sharing("ann"))), Ok(Acquired::Held(_))));
}

#[test]
fn a_place_for_several_locks_has_the_worst_of_its_places_and_all_or_nothing() {
    let mut server = server();
    server.gets("ann", 50_000);
    server.takes(&[OTHER], Plea { ttl: 50_000, ..alone("ann") });
    server.place_of("ben");
    server.asks(&[LOCK, OTHER], in_queue(alone("cid"))).unwrap();
    let asks = server.asks(&[OTHER, LOCK], in_queue(alone("cid")));
    assert_eq!(asks, Ok(Acquired::Place(1)));
    server.release(LOCK, "ben").unwrap();
    server.release(LOCK, "ann").unwrap();
    assert_eq!(server.holder(), None);
    server.release(OTHER, "ann").unwrap();
    assert_eq!(server.holder(), held("cid", LEASE));
    assert_eq!(server.holders_of(OTHER), all([("cid", LEASE)]));
    assert_eq!(server.release(OTHER, "cid"), Ok(false));
    server.at(10);
    assert_eq!(server.holder(), None);
    assert!(server.is_empty());
}

#[test]
fn a_place_that_is_tied_to_a_connection_ends_with_it() {
    let mut server = server();
    server.gets("ann", 50_000);
    let client = server.connect();
    let tied = |owner| Plea { client, session: true, ..in_queue(alone(owner)) };
    server.asks(&[LOCK], tied("ben")).unwrap();
    server.asks(&[LOCK], tied("cid")).unwrap();
    // The connection that asked last decides.
    server.place_of("cid");
    server.close(client);
    server.at(10);
    assert_eq!(server.locks.waiting.waits.leased_places(), 1);
    // And so does the hold.
    let asks = server.asks(&[LOCK], Plea { client: 99, ..tied("cid") });
    assert_eq!(asks, Ok(Acquired::Place(0)));
    server.release(LOCK, "ann").unwrap();
    server.close(99);
    server.at(20);
    assert_eq!(server.holder(), None);
    assert!(server.is_empty());
}

#[test]
fn a_replica_and_a_server_that_is_drained_keep_no_places_and_say_so() {
    let ends: [Deed; 2] =
        [|server| server.demote(true), |server| server.set_limits(|limits| limits.drain = true)];
    for end in ends {
        let mut server = server();
        server.gets("ann", 50_000);
        server.asks(&[LOCK], told(alone("ben"), "news")).unwrap();
        end(&mut server);
        server.at(10);
        assert_eq!(server.published.len(), 1);
        assert_eq!(server.locks.waiting.waits.leased_places(), 0);
    }
}

#[test]
fn a_client_that_could_not_ask_keeps_the_place() {
    // The server kept all askers back, or did nothing at all for a while.
    let troubles: [Deed; 2] = [
        |server| {
            server.at(100);
            server.keys.keeps_back = true;
            server.at(3 * LEASE);
            server.keys.keeps_back = false;
        },
        |server| {
            server.lags_until(3 * LEASE);
        },
    ];
    for trouble in troubles {
        let mut server = server();
        server.gets("ann", 50_000);
        server.place_of("ben");
        server.place_of("cid");
        trouble(&mut server);
        server.at(3 * LEASE + LEASE / 2);
        assert_eq!(server.place_of("cid"), 2);
        server.at(6 * LEASE);
        assert_eq!(server.locks.waiting.waits.leased_places(), 0);
    }
}

#[test]
fn owners_have_their_time_from_when_they_can_ask_again() {
    let mut server = server();
    server.gets("ann", 50_000);
    server.place_of("ben");
    server.at(490);
    server.keys.keeps_back = true;
    server.at(740);
    server.keys.keeps_back = false;
    server.at(1700);
    assert_eq!(server.locks.waiting.waits.leased_places(), 1);
    server.at(1760);
    assert_eq!(server.locks.waiting.waits.leased_places(), 0);
}

#[test]
fn an_owner_has_another_turn_after_a_short_pause_in_which_its_claim_ended() {
    let mut server = server();
    server.gets("ann", 100);
    server.asks(&[LOCK], Plea { patience: place(470), ..alone("ben") }).unwrap();
    let cid = server.waits("cid", 100);
    server.at(469);
    (server.keys.paused, server.keys.keeps_back) = (true, true);
    server.at(471);
    (server.keys.paused, server.keys.keeps_back) = (false, false);
    server.at(500);
    assert_eq!(server.holder().unwrap().0, "ben");
    assert_eq!(server.was_granted(cid), None);
}

#[test]
fn a_client_that_could_not_ask_has_one_turn_of_all_the_time_that_it_is_owed() {
    let mut server = server();
    server.gets("ann", 50_000);
    server.place_of("ben");
    // The lease is over by then, and no client has looked at it.
    let late = LEASE + 500;
    server.lags_until(late);
    server.release(LOCK, "ann").unwrap();
    assert_eq!(server.holder(), Some(("ben".to_owned(), Some(late + LEASE))));
}

#[test]
fn foreign_writes_end_the_hold_and_not_the_place() {
    let deeds: [Deed; 3] = [
        |server| server.del(LOCK),
        |server| server.foreign(Write::Flush(None)),
        |server| assert_eq!(server.break_holds(LOCK, false), Ok(1)),
    ];
    for deed in deeds {
        let mut server = server();
        server.gets("ann", 50_000);
        server.place_of("ben");
        server.waits("cid", 500);
        server.release(LOCK, "ann").unwrap();
        deed(&mut server);
        server.at(10);
        // The next has it; he comes before everybody else.
        assert_eq!(server.holder().unwrap().0, "cid");
        server.place_of("dot");
        assert_eq!(server.place_of("ben"), 1);
    }
}

#[test]
fn a_reply_ends_no_place_that_is_asked_for_after_the_hold_was_lost() {
    let mut server = server();
    server.gets("ann", 50_000);
    let blocked = server.waits("ben", 50_000);
    server.release(LOCK, "ann").unwrap();
    // Another client deletes the key, and `cid` has the lock before the wait of `ben` has ended.
    server.del(LOCK);
    server.gets("cid", 50_000);
    server.place_of("ben");
    server.at(10);
    assert!(server.was_granted(blocked).is_some());
    assert_eq!(server.locks.waiting.waits.leased_places(), 1);
    assert_eq!(server.place_of("ben"), 1);
}

#[test]
fn a_told_hold_survives_its_claim_after_two_swaps() {
    let mut server = server();
    server.gets("ann", 50_000);
    server.place_of("ben");
    server.release(LOCK, "ann").unwrap();
    server.foreign(Write::Swap(0, 1));
    assert!(server.check((1, "lock"), "ben").unwrap().is_some());
    server.foreign(Write::Swap(0, 1));
    server.foreign(Write::PExpireAt(LOCK, START + 50_000));
    server.at(LEASE + 10);
    assert_eq!(server.holder(), held("ben", 50_000));
}

#[test]
fn a_place_whose_user_has_lost_the_right_is_passed_over_for_good() {
    let mut server = server();
    server.gets("ann", 50_000);
    server.place_of("ben");
    server.place_of("cid");
    server.keys.denied.insert(b"ben".to_vec());
    server.release(LOCK, "ann").unwrap();
    assert_eq!(server.holder().unwrap().0, "cid");
    assert_eq!(server.locks.waiting.waits.leased_places(), 1);
}

#[test]
fn nothing_is_kept_of_the_denial_of_a_place() {
    let mut server = server();
    server.gets("ann", 50_000);
    server.place_of("ben");
    let place = server.locks.waiting.waits.wait_of(b"ben", 0).unwrap();
    server.keys.denied.insert(b"ben".to_vec());
    server.release(LOCK, "ann").unwrap();
    assert!(server.locks.waiting.waits.get(place).is_none());
}

#[test]
fn a_place_for_several_locks_whose_grant_is_lost_in_part_is_not_lost() {
    let mut server = place_for_both(Flavour::default());
    server.release(LOCK, "ann").unwrap();
    assert_eq!(server.holder(), held("ben", LEASE));
    server.del(OTHER);
    let asks = server.asks(&BOTH, in_queue(alone("ben")));
    assert!(matches!(asks, Ok(Acquired::Held(_))), "{asks:?}");
    assert_eq!(server.holders_of(OTHER), all([("ben", 100)]));
}

#[test]
fn a_claim_that_is_over_ends_no_hold_by_another_number() {
    let mut server = place_for_both(Flavour { answers: Answers::Late, ..Flavour::default() });
    server.release(LOCK, "ann").unwrap();
    // What his place was granted of LOCK is lost, and his blocked request is granted it by another number.
    server.del(LOCK);
    server.gets("cid", 50_000);
    let blocked = server.waits("ben", 50_000);
    server.release(LOCK, "cid").unwrap();
    assert_eq!(server.holder(), held("ben", 50_000));
    let unclaimed = server.locks.counts().unclaimed;
    server.lags_until(LEASE + 1);
    server.tick();
    assert_eq!(server.holder(), held("ben", 50_000));
    assert_eq!(server.holders_of(OTHER), []);
    server.at(LEASE + 10);
    assert!(server.was_granted(blocked).is_some());
    assert_eq!(server.holder(), held("ben", 50_000));
    assert_eq!(server.locks.counts().unclaimed, unclaimed + 1, "OTHER alone");
}

#[test]
fn a_demotion_ends_no_place_of_after_the_next_promotion() {
    let mut server = server();
    server.gets("ann", 50_000);
    server.place_of("ben");
    server.demote(true);
    server.promote();
    server.place_of("cid");
    server.at(10);
    assert_eq!(server.locks.waiting.waits.leased_places(), 1);
    assert_eq!(server.place_of("cid"), 1);
}

#[test]
fn a_place_that_is_asked_for_between_a_demotion_and_the_next_tick_is_a_new_one_and_is_kept() {
    let mut server = server();
    server.gets("ann", 50_000);
    server.place_of("ben");
    server.demote(true);
    server.promote();
    server.place_of("ben");
    server.place_of("cid");
    server.at(10);
    assert_eq!(server.locks.waiting.waits.leased_places(), 2);
    assert_eq!(server.place_of("ben"), 1);
}

#[test]
fn a_granted_place_of_before_a_demotion_whose_hold_is_lost_is_a_new_one() {
    let mut server = server();
    server.gets("ann", 50_000);
    server.place_of("ben");
    server.release(LOCK, "ann").unwrap();
    server.demote(true);
    server.promote();
    server.del(LOCK);
    server.takes(&[LOCK], Plea { ttl: 50_000, ..sharing("cid") });
    assert_eq!(server.place_of("ben"), 1);
    assert_eq!(server.locks.waiting.waits.leased_places(), 1);
    server.at(10);
    assert_eq!(server.locks.waiting.waits.leased_places(), 1);
}
