//! Places in the queue: who waits without a client, and polls.

use super::*;

impl Server {
    /// Asks for a place for LOCK alone.
    pub(super) fn asks_for_it(&mut self, owner: Owner) -> Result<Acquired, Refusal> {
        self.asks(&[LOCK], in_queue(alone(owner)))
    }

    /// The same, and returns its position.
    pub(super) fn place_of(&mut self, owner: Owner) -> usize {
        match self.asks_for_it(owner) {
            Ok(Acquired::Place(before)) => before + 1,
            other => panic!("{owner}: {other:?}"),
        }
    }

    /// Nothing is left of anything.
    pub(super) fn is_empty(&mut self) -> bool {
        let remembered = self.locks.remembered();
        let tasks = remembered.alarms + remembered.tasks;
        remembered.queues + remembered.waiters + remembered.owners + tasks == 0
    }
}

#[test]
fn a_place_that_sleeps_ends_when_its_owner_renews_a_hold_that_another_client_has_written_for_it() {
    let mut server = server();
    server.gets("ann", 50_000);
    let patience = told_on(Some(("his", "turn")), LEASE);
    server.asks(&[LOCK], Request { patience, ..sharing("ben") }).unwrap();
    server.set_limits(|limits| limits.claim_time = 20);
    server.release(LOCK, "ann").unwrap();
    server.at(30);
    assert_eq!(
        (server.holder(), server.locks.waiting.waits.lists().places),
        (None, 1),
        "it sleeps"
    );
    server.foreign(Write::Set(LOCK, token("ben", Some(START + 40_000))));
    server.at(40);
    assert_eq!(server.renew(LOCK, "ben", 100), Ok(true));
    assert_eq!(server.locks.waiting.waits.lists().places, 0);
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
    assert_eq!(server.locks.waiting.waits.lists().places, 1);
    server.at(3 * LEASE);
    assert_eq!(server.holder(), None);
    assert!(server.is_empty());
}

#[test]
fn a_place_whose_lease_has_gone_on_and_whose_grant_is_lost_makes_no_other_last_longer() {
    let mut server = server();
    server.gets("ann", 100);
    server.place_of("ben");
    // The server was stalled: the lease goes on from here.
    server.lags_until(LEASE + 200);
    server.place_of("eve");
    server.del(LOCK);
    server.at(2 * LEASE + 190);
    assert_eq!(server.holder(), held("eve", 2 * LEASE + 200));
    server.place_of("ben");
    server.at(2 * LEASE + 201);
    assert_eq!(server.holder().map(|(owner, _)| owner).as_deref(), Some("ben"));
    assert_eq!(server.locks.waiting.waits.lists().places, 1);
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
fn a_replica_and_a_server_that_is_drained_keep_no_places_and_say_so() {
    let ends: [Action; 2] =
        [|server| server.demote(true), |server| server.set_limits(|limits| limits.drain = true)];
    for end in ends {
        let mut server = server();
        server.gets("ann", 50_000);
        server.asks(&[LOCK], told(alone("ben"), "news")).unwrap();
        end(&mut server);
        server.at(10);
        assert_eq!(server.published.len(), 1);
        assert_eq!(server.locks.waiting.waits.lists().places, 0);
    }
}

#[test]
fn owners_have_their_time_from_when_they_can_poll_again() {
    let mut server = server();
    server.gets("ann", 50_000);
    server.place_of("ben");
    server.at(490);
    server.keys.keeps_back = true;
    server.at(740);
    server.keys.keeps_back = false;
    server.at(1700);
    assert_eq!(server.locks.waiting.waits.lists().places, 1);
    server.at(1760);
    assert_eq!(server.locks.waiting.waits.lists().places, 0);
}

#[test]
fn an_owner_has_another_turn_after_a_short_pause_in_which_its_claim_ended() {
    let mut server = server();
    server.gets("ann", 100);
    server.asks(&[LOCK], Request { patience: place(470), ..alone("ben") }).unwrap();
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
    assert_eq!(server.locks.waiting.waits.lists().places, 1);
    assert_eq!(server.place_of("ben"), 1);
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
fn a_place_that_is_asked_for_between_a_demotion_and_the_next_tick_is_a_new_one_and_is_kept() {
    let mut server = server();
    server.gets("ann", 50_000);
    server.place_of("ben");
    server.demote(true);
    server.promote();
    server.place_of("ben");
    server.place_of("cid");
    server.at(10);
    assert_eq!(server.locks.waiting.waits.lists().places, 2);
    assert_eq!(server.place_of("ben"), 1);
}
