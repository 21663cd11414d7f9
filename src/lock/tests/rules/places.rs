//! Places in the queue: who waits without a client, and asks again.

use super::super::simulated::{place, told_on};
use super::*;
use crate::lock::{Break, Left};

const LEASE: Ms = 1000;

/// A request for a place.
fn in_queue(plea: Plea) -> Plea {
    Plea { patience: place(LEASE), ..plea }
}

/// The same, whose owner is told on a channel.
fn told(plea: Plea, channel: &'static str) -> Plea {
    Plea { patience: told_on(Some((channel, plea.owner)), LEASE), ..plea }
}

trait Places {
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

#[test]
fn a_free_lock_is_had_at_once_and_leaves_no_place() {
    let mut server = server();
    let fence = server.claims("ann");
    assert!(fence > 0);
    assert_eq!(server.holder(), held("ann", 100));
    assert!(server.is_empty());
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
    assert_eq!(server.locks.waiting.leased_places(), 1);
    assert_eq!(server.locks.counts().places_lapsed, 1);
    assert_eq!(server.place_of("cid"), 1);
    assert_eq!(server.place_of("ben"), 2);
}

#[test]
fn a_place_is_gone_at_the_end_of_its_lease_though_the_timer_has_not_rung() {
    let mut server = server();
    server.gets("ann", 50_000);
    server.place_of("ben");
    server.place_of("cid");
    server.lags_until(LEASE - 1);
    server.place_of("cid");
    server.lags_until(LEASE + 2);
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
    assert!(server.locks.waiting.leased_places() == 0);
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
        assert_eq!(server.locks.waiting.leased_places(), usize::from(claimed.is_none()));
        assert_eq!(server.release(LOCK, "ben"), Ok(claimed.is_some()));
        assert_eq!(server.holder(), None);
        server.at(1);
        assert!(server.is_empty());
    }
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
    assert_eq!(server.locks.waiting.leased_places(), 1);
    server.at(3 * LEASE);
    assert_eq!(server.holder(), None);
    assert!(server.is_empty());
}

#[test]
fn a_message_says_when_it_is_its_turn_and_leaves_so_much_time_to_claim() {
    let mut server = server();
    server.set_limits(|limits| limits.claim_time = 200);
    server.gets("ann", 50_000);
    server.asks(&[LOCK], told(alone("ben"), "news")).unwrap();
    server.release(LOCK, "ann").unwrap();
    assert_eq!(server.holder(), held("ben", 200));
    assert!(server.published.is_empty(), "not within a command");
    server.at(0);
    let news = ("news".to_owned(), "ben".to_owned());
    assert_eq!(server.published, [news]);
}

#[test]
fn a_grant_that_is_claimed_or_released_before_the_message_was_sent_sends_none() {
    let deeds: [Deed; 2] = [
        |server| _ = server.asks(&[LOCK], told(alone("ben"), "news")).unwrap(),
        |server| assert_eq!(server.release(LOCK, "ben"), Ok(false)),
    ];
    for deed in deeds {
        let mut server = server();
        server.gets("ann", 50_000);
        server.asks(&[LOCK], told(alone("ben"), "news")).unwrap();
        server.release(LOCK, "ann").unwrap();
        deed(&mut server);
        server.at(10);
        assert_eq!(server.published, []);
    }
}

#[test]
fn a_place_that_was_not_claimed_sleeps_and_is_put_back_where_it_stood() {
    let mut server = server();
    server.set_limits(|limits| limits.claim_time = 200);
    server.gets("ann", 50_000);
    server.asks(&[LOCK], told(alone("ben"), "one")).unwrap();
    server.asks(&[LOCK], told(alone("cid"), "two")).unwrap();
    server.asks(&[LOCK], told(alone("dot"), "two")).unwrap();
    server.release(LOCK, "ann").unwrap();
    server.at(201);
    assert_eq!(server.holder(), held("cid", 401));
    let asks = server.asks(&[LOCK], told(alone("cid"), "two"));
    assert!(matches!(asks, Ok(Acquired::Held(_))));
    // He comes back, before those who came after him.
    let asks = server.asks(&[LOCK], told(alone("ben"), "one"));
    assert_eq!(asks, Ok(Acquired::Place(0)));
    let asks = server.asks(&[LOCK], told(alone("dot"), "two"));
    assert_eq!(asks, Ok(Acquired::Place(1)));
    let waiting = server.locks.waiting.entries();
    assert_eq!(waiting, 2, "it counts for lock.max-waiters-total again");
    server.release(LOCK, "cid").unwrap();
    assert_eq!(server.holder(), held("ben", 401));
}

#[test]
fn a_sleeper_is_in_no_client_s_way_and_is_gone_when_its_lease_ends() {
    let mut server = server();
    server.set_limits(|limits| limits.claim_time = 200);
    server.gets("ann", 50_000);
    server.asks(&[LOCK], told(alone("ben"), "one")).unwrap();
    server.release(LOCK, "ann").unwrap();
    server.at(300);
    assert_eq!(server.holder(), None);
    assert_eq!(server.locks.waiting.leased_places(), 1);
    // A try is not behind it.
    server.gets("cid", 10);
    assert_eq!(server.release(LOCK, "cid"), Ok(true));
    server.at(LEASE);
    assert_eq!(server.published.len(), 2, "its turn, and its loss");
    assert!(server.is_empty());
}

#[test]
fn a_dead_process_costs_one_claim_however_many_tasks_it_had() {
    let mut server = server();
    server.set_limits(|limits| limits.claim_time = 200);
    server.gets("ann", 50_000);
    for owner in ["ben", "cid", "dot", "eve"] {
        server.asks(&[LOCK], told(alone(owner), "dead")).unwrap();
    }
    server.asks(&[LOCK], told(alone("fay"), "alive")).unwrap();
    server.release(LOCK, "ann").unwrap();
    server.at(201);
    assert_eq!(server.holder(), held("fay", 401));
    server.asks(&[LOCK], told(alone("fay"), "alive")).unwrap();
    // One of them asks: those that have not had their turn are awake again.
    server.asks(&[LOCK], told(alone("dot"), "dead")).unwrap();
    server.at(210);
    for (before, owner) in ["cid", "dot", "eve"].into_iter().enumerate() {
        let asks = server.asks(&[LOCK], told(alone(owner), "dead"));
        assert_eq!(asks, Ok(Acquired::Place(before)), "{owner}");
    }
    // And so is the one that has had it, when its owner asks.
    let asks = server.asks(&[LOCK], told(alone("ben"), "dead"));
    assert_eq!(asks, Ok(Acquired::Place(0)));
}

#[test]
fn where_no_client_listens_all_places_of_the_channel_sleep() {
    let mut server = server();
    server.set_limits(|limits| limits.claim_time = 200);
    server.deaf.insert("dead".to_owned());
    server.gets("ann", 50_000);
    for owner in ["ben", "cid", "dot"] {
        server.asks(&[LOCK], told(alone(owner), "dead")).unwrap();
    }
    server.waits("eve", 10);
    server.release(LOCK, "ann").unwrap();
    server.at(201);
    assert_eq!(server.holder(), held("eve", 211));
    assert_eq!(server.published.len(), 1);
}

#[test]
fn another_mode_is_another_place_at_the_end() {
    let mut server = server();
    server.gets("ann", 50_000);
    server.place_of("ben");
    server.place_of("cid");
    let asks = server.asks(&[LOCK], in_queue(sharing("ben")));
    assert_eq!(asks, Ok(Acquired::Place(1)));
    assert_eq!(server.locks.waiting.leased_places(), 2);
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
fn as_many_places_may_sleep_as_may_wait_and_then_no_place_is_given_until_one_wakes_or_ends() {
    let ends: [Deed; 3] = [
        |server| _ = server.release(LOCK, "ben"),
        |server| _ = server.asks(&[LOCK], told(alone("ben"), "one")),
        |server| server.at(LEASE),
    ];
    for end in ends {
        let mut server = server();
        server.set_limits(|limits| {
            limits.claim_time = 100;
            limits.max_waiters_total = 2;
        });
        server.gets("ann", 50_000);
        server.asks(&[LOCK], told(alone("ben"), "one")).unwrap();
        server.asks(&[LOCK], told(alone("cid"), "two")).unwrap();
        server.release(LOCK, "ann").unwrap();
        // Neither claims its turn, so both sleep.
        server.at(300);
        server.gets("ann", 50_000);
        assert_eq!(server.asks_for_it("dot"), Err(Refusal::QueueFull));
        // A client that blocks does not fall asleep.
        server.waits_for(10, "eve", 10);
        server.at(320);
        end(&mut server);
        server.place_of("dot");
    }
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
    assert_eq!(server.asks_for_it("ann"), Err(Refusal::HoldsSome));
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
fn readers_and_limits_have_places_too() {
    let mut server = server();
    server.gets("ann", 50_000);
    for owner in ["ben", "cid", "dot"] {
        server.asks(&[LOCK], in_queue(limited(owner, 2))).unwrap();
    }
    server.release(LOCK, "ann").unwrap();
    assert_eq!(server.holders_of(LOCK), all([("ben", LEASE), ("cid", LEASE)]));
    let asks = server.asks(&[LOCK], in_queue(limited("cid", 2)));
    assert!(matches!(asks, Ok(Acquired::Held(_))));
    assert_eq!(server.holders_of(LOCK), all([("ben", LEASE), ("cid", 100)]));
    server.at(101);
    assert_eq!(server.holders_of(LOCK), all([("ben", LEASE), ("dot", LEASE)]));
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
    assert_eq!(server.locks.waiting.leased_places(), 1);
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
        assert_eq!(server.locks.waiting.leased_places(), 0);
    }
}

#[test]
fn where_there_is_no_waiting_there_is_no_place() {
    let mut server = server();
    server.gets("ann", 50_000);
    server.set_limits(|limits| limits.drain = true);
    assert_eq!(server.asks_for_it("ben"), Ok(Acquired::Busy));
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
        assert_eq!(server.locks.waiting.leased_places(), 0);
    }
}

#[test]
fn a_client_that_could_not_claim_has_another_turn() {
    let mut server = server();
    server.set_limits(|limits| limits.claim_time = 200);
    server.gets("ann", 50_000);
    server.asks(&[LOCK], told(alone("ben"), "news")).unwrap();
    server.waits("cid", 10);
    server.release(LOCK, "ann").unwrap();
    server.lags_until(900);
    server.at(911);
    // The lock was free, and the next had it.
    server.at(930);
    let (owner, _) = server.holder().unwrap();
    assert_eq!(owner, "ben");
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
        |server| {
            let wanted = Break { grace: 0, force: false };
            assert_eq!(server.break_holds(LOCK, wanted), Ok(1));
        },
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
fn a_blocked_request_of_its_owner_claims_if_its_client_hears_of_it() {
    for dies in [false, true] {
        let mut server = late_server();
        server.gets("ann", 50_000);
        server.place_of("ben");
        let blocked = server.waits("ben", 50_000);
        server.release(LOCK, "ann").unwrap();
        if dies {
            server.kill(blocked);
        }
        server.at(100);
        if dies {
            assert_eq!(server.locks.waiting.leased_places(), 1);
            assert_eq!(server.holder().unwrap().0, "ben");
            server.at(LEASE + 1);
            assert_eq!(server.holder(), None);
        } else {
            assert_eq!(server.locks.waiting.leased_places(), 0);
            assert_eq!(server.holder(), held("ben", 50_000));
            server.release(LOCK, "ben").unwrap();
        }
        server.at(3 * LEASE);
        assert!(server.is_empty());
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
    assert_eq!(server.locks.waiting.leased_places(), 1);
    assert_eq!(server.place_of("ben"), 1);
}

#[test]
fn a_reply_claims_a_place_although_swapdb_has_moved_the_hold_in_the_meantime() {
    let mut server = late_server();
    server.set_limits(|limits| limits.claim_time = 200);
    server.gets("ann", 50_000);
    let there = (1, "lock");
    let long = Plea { ttl: 50_000, ..alone("ann") };
    server.takes(&[there], long);
    server.asks(&[LOCK], told(alone("ben"), "news")).unwrap();
    server.asks(&[there], told(alone("cid"), "news")).unwrap();
    let blocked = server.waits("ben", 50_000);
    server.release(LOCK, "ann").unwrap();
    server.foreign(Write::Swap(0, 1));
    server.at(300);
    assert!(server.was_granted(blocked).is_some());
    assert_eq!(server.locks.waiting.leased_places(), 1);
    // The process behind the channel lives, and its other place does not sleep.
    let cid = server.locks.waiting.places_of(b"cid").next().unwrap();
    assert!(!server.locks.waiting.sleeps(cid));
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
    assert_eq!(server.locks.waiting.leased_places(), 1);
}

#[test]
fn a_place_can_be_part_of_a_deadlock_and_a_sleeper_can_not() {
    let mut server = server();
    server.set_limits(|limits| limits.claim_time = 200);
    server.takes(&[LOCK], Plea { ttl: 50_000, ..alone("ann") });
    server.takes(&[OTHER], Plea { ttl: 50_000, ..alone("ben") });
    server.asks(&[LOCK], told(alone("ben"), "one")).unwrap();
    let asks = server.asks(&[OTHER], in_queue(alone("ann")));
    assert!(matches!(asks, Err(Refusal::Deadlock(_))), "{asks:?}");
    assert_eq!(server.locks.waiting.leased_places(), 1);
    // His turn comes, he does not claim it, and sleeps.
    server.release(LOCK, "ann").unwrap();
    server.at(201);
    server.takes(&[LOCK], Plea { ttl: 50_000, ..alone("ann") });
    let asks = server.asks(&[OTHER], in_queue(alone("ann")));
    assert_eq!(asks, Ok(Acquired::Place(0)));
}

#[test]
fn a_place_for_several_locks_whose_grant_is_lost_in_part_is_not_lost() {
    let mut server = server();
    server.gets("ann", 50_000);
    let both = [LOCK, OTHER];
    server.asks(&both, in_queue(alone("ben"))).unwrap();
    server.release(LOCK, "ann").unwrap();
    assert_eq!(server.holder(), held("ben", LEASE));
    server.del(OTHER);
    let asks = server.asks(&both, in_queue(alone("ben")));
    assert!(matches!(asks, Ok(Acquired::Held(_))), "{asks:?}");
    assert_eq!(server.holders_of(OTHER), all([("ben", 100)]));
}

#[test]
fn what_one_of_two_places_of_an_owner_is_granted_is_claimed_by_its_own_number() {
    let mut server = server();
    let both = [LOCK, OTHER];
    server.gets("ann", 50_000);
    server.asks(&both, in_queue(alone("ben"))).unwrap();
    server.asks_for_it("ben").unwrap();
    server.release(LOCK, "ann").unwrap();
    // What the first was granted is lost, and the second has its turn.
    server.del(LOCK);
    server.at(0);
    let holders = server.report(LOCK).unwrap().unwrap().holders;
    assert_eq!(holders[0].claim, Some(LEASE));
    server.claims("ben");
    assert_eq!(server.holder(), held("ben", 100));
}

#[test]
fn a_claim_that_is_over_ends_what_a_blocked_request_of_its_owner_prolonged_although_the_key_has_gone()
 {
    let mut server = late_server();
    server.gets("ann", 50_000);
    let patience = place(50);
    let asks = server.asks(&[LOCK], Plea { patience, ..alone("ben") });
    assert_eq!(asks, Ok(Acquired::Place(0)));
    server.waits("ben", 10_000);
    server.release(LOCK, "ann").unwrap();
    assert_eq!(server.holder(), held("ben", 10_000));
    server.step(60_000);
    server.expire_cycle(&[LOCK]);
    server.lags_until(51);
    server.tick();
    assert_eq!(server.happened().offences, [""; 0]);
    server.gets("cid", 10);
}

#[test]
fn a_place_that_is_refused_for_a_deadlock_counts_no_more() {
    let mut server = server();
    server.gets("ann", 50_000);
    server.takes(&[OTHER], alone("ben"));
    server.waits("ben", 10);
    let asks = server.asks(&[OTHER], in_queue(alone("ann")));
    assert!(matches!(asks, Err(Refusal::Deadlock(_))), "{asks:?}");
    assert_eq!(server.locks.waiting.entries(), 1);
}

#[test]
fn a_place_that_is_lost_leaves_its_channel() {
    let mut server = server();
    server.gets("ann", 50_000);
    server.asks(&[LOCK], told(alone("ben"), "news")).unwrap();
    server.at(500);
    server.asks(&[LOCK], told(alone("cid"), "news")).unwrap();
    server.at(LEASE + 1);
    assert_eq!(server.published.len(), 1);
    assert_eq!(server.locks.waiting.places().channels.places(b"news"), 1);
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
    assert_eq!(server.locks.waiting.leased_places(), 1);
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
    assert_eq!(server.locks.waiting.leased_places(), 2);
    assert_eq!(server.place_of("ben"), 1);
}

const MANY: [Owner; 10] = ["p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9"];

/// Ten places of one channel, on which no client listens, so that all have been laid aside; `dot` holds the lock.
fn ten_asleep() -> Server {
    let mut server = server();
    server.gets("ann", 50_000);
    server.set_limits(|limits| limits.claim_time = 100);
    server.deaf.insert("news".to_owned());
    for owner in MANY {
        server.asks(&[LOCK], told(alone(owner), "news")).unwrap();
    }
    server.release(LOCK, "ann").unwrap();
    server.at(200);
    server.gets("dot", 50_000);
    server
}

#[test]
fn one_that_wakes_its_channel_is_told_its_true_place_and_overtakes_no_client() {
    for release_first in [false, true] {
        let mut server = ten_asleep();
        let asks = server.asks(&[LOCK], told(alone("p9"), "news"));
        // The first did not claim its turn, and sleeps on.
        assert_eq!(asks, Ok(Acquired::Place(8)));
        if !release_first {
            server.at(201);
        }
        assert_eq!(server.asks(&[LOCK], alone("eve")), Ok(Acquired::Busy));
        server.release(LOCK, "dot").unwrap();
        assert_eq!(server.holder().map(|(owner, _)| owner).as_deref(), Some("p1"));
        let asks = server.asks(&[LOCK], told(alone("p9"), "news"));
        assert_eq!(asks, Ok(Acquired::Place(7)));
        let happened = server.happened();
        assert!(happened.offences.is_empty(), "{happened:?}");
    }
}

#[test]
fn the_most_who_have_waited_are_no_fewer_than_wait_when_places_are_put_back() {
    let mut server = ten_asleep();
    server.waits("eve", 10);
    server.waits("fay", 10);
    server.asks(&[LOCK], told(alone("p9"), "news")).unwrap();
    server.at(201);
    assert_eq!(server.locks.waiting.count_waiting(), 11);
    assert_eq!(server.locks.counts().waiters_peak, 11);
}

#[test]
fn those_who_are_put_back_are_shown_where_they_stand_and_awake() {
    let mut server = ten_asleep();
    server.asks(&[LOCK], told(alone("p9"), "news")).unwrap();
    let report = server.report(LOCK).unwrap().unwrap();
    let asleep: Vec<_> = (report.waiters.iter())
        .filter(|waiter| waiter.place.is_some_and(|place| place.asleep))
        .map(|waiter| waiter.owner.to_vec())
        .collect();
    assert_eq!(asleep, [b"p0".to_vec()]);
    assert_eq!(report.queue, 10);
}

#[test]
fn a_channel_that_falls_asleep_while_its_places_are_put_back_sleeps() {
    let mut server = ten_asleep();
    server.asks(&[LOCK], told(alone("p9"), "news")).unwrap();
    server.release(LOCK, "dot").unwrap();
    // No client has heard that it is the turn of the next.
    server.at(400);
    assert!(server.locks.waiting.sleeps(server.locks.waiting.places_of(b"p5").next().unwrap()));
}

#[test]
fn a_user_s_channel_that_sleeps_lets_another_user_s_of_the_same_name_alone() {
    let mut server = server();
    server.takes(&[LOCK], Plea { ttl: 50_000, ..alone("ann") });
    server.takes(&[OTHER], Plea { ttl: 50_000, ..alone("ann") });
    server.keys.other_users.insert("mallory");
    server.asks(&[LOCK], told(alone("ben"), "news")).unwrap();
    server.asks(&[OTHER], told(alone("mallory"), "news")).unwrap();
    server.set_limits(|limits| limits.claim_time = 100);
    server.release(OTHER, "ann").unwrap();
    server.at(200);
    let ben = server.locks.waiting.places_of(b"ben").next().unwrap();
    assert!(!server.locks.waiting.sleeps(ben), "it is not ben's to claim");
    server.release(LOCK, "ann").unwrap();
    assert_eq!(server.holder().map(|(owner, _)| owner).as_deref(), Some("ben"));
}
