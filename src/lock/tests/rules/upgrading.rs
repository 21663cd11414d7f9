//! From a share to the lock alone.

use super::*;

/// `ann` and `ben` share the lock for 100 ms.
fn shared() -> Server {
    shared_like(Flavour::default())
}

fn shared_like(flavour: Flavour) -> Server {
    let mut server = server_like(flavour);
    for owner in ["ann", "ben"] {
        server.takes(&[LOCK], sharing(owner));
    }
    server
}

#[test]
fn the_only_holder_has_the_lock_alone_at_once_by_a_new_number() {
    let mut server = server();
    let shared = server.takes(&[LOCK], sharing("ann"));
    let alone = server.gets("ann", 20);
    assert!(alone > shared);
    assert_eq!(server.holder(), held("ann", 100), "the later deadline");
    assert_eq!(server.gets("ann", 20), alone);
}

#[test]
fn an_upgrade_comes_when_the_last_of_the_others_has_gone() {
    let mut server = shared();
    server.takes(&[LOCK], sharing("cid"));
    let ann = server.waits("ann", 10);
    for owner in ["ben", "cid"] {
        assert_eq!(server.was_granted(ann), None);
        assert!(server.check(LOCK, "ann").unwrap().is_some(), "still shared");
        server.release(LOCK, owner).unwrap();
        server.turn();
    }
    assert!(server.was_granted(ann).is_some());
    assert_eq!(server.holder(), held("ann", 100));
}

#[test]
fn an_upgrade_comes_when_the_share_of_the_other_is_over() {
    let mut server = shared();
    server.renew(LOCK, "ann", 200).unwrap();
    let ann = server.waits("ann", 10);
    server.at(101);
    assert!(server.was_granted(ann).is_some());
    assert_eq!(server.holder(), held("ann", 200));
}

#[test]
fn a_waiting_upgrade_stands_before_a_writer_that_came_first() {
    let mut server = shared();
    let cid = server.waits("cid", 10);
    let ann = server.waits("ann", 10);
    assert_eq!(server.queue(LOCK), [ann, cid]);
    server.release(LOCK, "ben").unwrap();
    server.turn();
    assert!(server.was_granted(ann).is_some());
    server.release(LOCK, "ann").unwrap();
    server.turn();
    assert!(server.was_granted(cid).is_some());
}

#[test]
fn an_upgrade_that_need_not_wait_passes_the_queue() {
    let mut server = server();
    server.takes(&[LOCK], sharing("ann"));
    let cid = server.waits("cid", 10);
    server.gets("ann", 10);
    assert_eq!(server.queue(LOCK), [cid]);
}

#[test]
fn two_upgrades_are_a_deadlock() {
    let mut server = shared();
    server.waits("ann", 10);
    assert!(server.is_refused(&[LOCK], alone("ben")));
    assert_eq!(server.asks(&[LOCK], alone("ben")), Ok(Acquired::Busy));
    assert!(server.check(LOCK, "ben").unwrap().is_some(), "still shared");
}

#[test]
fn no_reader_comes_in_before_a_waiting_upgrade() {
    let mut server = shared();
    server.waits("ann", 10);
    for plea in [sharing("cid"), limited("cid", 9)] {
        assert_eq!(server.asks(&[LOCK], plea), Ok(Acquired::Busy));
    }
    let number = server.takes(&[LOCK], sharing("ben"));
    assert_eq!(server.takes(&[LOCK], sharing("ben")), number);
}

#[test]
fn an_upgrade_that_lost_its_share_goes_back_to_its_place() {
    let mut server = shared();
    let cid = server.waits("cid", 10);
    let ann = server.waits("ann", 10);
    server.foreign(Write::ZRem(LOCK, b"ann".to_vec()));
    server.tick();
    assert_eq!(server.queue(LOCK), [cid, ann]);
    server.release(LOCK, "ben").unwrap();
    server.turn();
    assert!(server.was_granted(cid).is_some());
    assert_eq!(server.was_granted(ann), None);
    server.release(LOCK, "cid").unwrap();
    server.turn();
    assert!(server.was_granted(ann).is_some());
}

#[test]
fn an_upgrade_whose_share_is_over_goes_back_to_its_place() {
    let mut server = shared();
    server.renew(LOCK, "ann", 50).unwrap();
    let cid = server.waits("cid", 10);
    let ann = server.waits("ann", 10);
    server.at(51);
    assert_eq!(server.queue(LOCK), [cid, ann]);
}

#[test]
fn a_share_stays_what_it_is_when_its_upgrade_gives_up() {
    let fates: [Fate; 3] = [Server::unblock, Server::unblock_by_error, Server::kill];
    for fate in fates {
        let mut server = shared();
        let number = server.takes(&[LOCK], sharing("ann"));
        let ann = server.waits("ann", 10);
        let cid = server.queues(&[LOCK], sharing("cid"));
        fate(&mut server, ann);
        server.at(0);
        assert!(server.was_granted(cid).is_some(), "no client stands before it");
        assert_eq!(server.takes(&[LOCK], sharing("ann")), number);
    }
}

#[test]
fn an_upgrade_that_no_client_heard_of_is_a_share_again() {
    let mut server = shared_like(Flavour { answers: Answers::Late, ..Flavour::default() });
    let ann = server.waits("ann", 500);
    let cid = server.queues(&[LOCK], sharing("cid"));
    server.release(LOCK, "ben").unwrap();
    assert_eq!(server.holder(), held("ann", 500));
    server.kill(ann);
    server.at(0);
    assert_eq!(server.holders_of(LOCK), all([("ann", 100), ("cid", 100)]));
    assert!(server.was_granted(cid).is_some());
    assert_eq!(server.release(LOCK, "ann"), Ok(true));
}

#[test]
fn an_upgrade_that_no_client_heard_of_is_nothing_when_the_share_is_over() {
    let mut server = shared_like(Flavour { answers: Answers::Late, ..Flavour::default() });
    let ann = server.waits("ann", 500);
    server.release(LOCK, "ben").unwrap();
    server.lags_until(101);
    server.kill(ann);
    server.at(101);
    assert!(server.keys.keys.is_empty());
}

#[test]
fn an_upgrade_of_a_share_that_another_client_wrote_leaves_no_trace_when_it_is_undone() {
    let mut server = late_server();
    server.set(LOCK, shares([("ann", 5000), ("ben", 5000)]));
    let ann = server.waits("ann", 100);
    server.release(LOCK, "ben").unwrap();
    assert_eq!(server.holder(), held("ann", 5000));
    server.kill(ann);
    server.at(10);
    assert_eq!(server.holders_of(LOCK), all([("ann", 5000)]));
    assert_eq!(server.locks.remembered().holds, 0);
}

#[test]
fn an_upgrade_that_was_told_by_another_command_is_kept() {
    let mut server = shared_like(Flavour { answers: Answers::Late, ..Flavour::default() });
    let ann = server.waits("ann", 500);
    server.release(LOCK, "ben").unwrap();
    server.check(LOCK, "ann").unwrap();
    server.kill(ann);
    server.at(0);
    assert_eq!(server.holder(), held("ann", 500));
}

#[test]
fn a_share_is_left_of_two_upgrades_of_one_owner_that_no_client_heard_of() {
    let mut server = shared_like(Flavour { answers: Answers::Late, ..Flavour::default() });
    let waiters = [server.waits("ann", 500), server.waits("ann", 500)];
    server.release(LOCK, "ben").unwrap();
    for ann in waiters {
        server.kill(ann);
    }
    server.at(0);
    assert_eq!(server.holders_of(LOCK), all([("ann", 100)]));
}

#[test]
fn who_has_come_to_share_the_lock_and_wants_it_alone_stands_before_everybody_else() {
    let mut server = server();
    server.gets("ann", 100);
    let shared = server.queues(&[LOCK], sharing("ben"));
    let reader = server.queues(&[LOCK], sharing("cid"));
    let writer = server.waits("dot", 10);
    let alone = server.waits("ben", 10);
    server.release(LOCK, "ann").unwrap();
    server.turn();
    // Those at the head come in together, ben among them.
    assert!(server.was_granted(shared).is_some() && server.was_granted(reader).is_some());
    assert_eq!(server.queue(LOCK), [alone, writer]);
    server.release(LOCK, "cid").unwrap();
    server.turn();
    assert!(server.was_granted(alone) > server.was_granted(shared));
}

#[test]
fn who_has_a_share_and_wants_more_comes_first_however_many_were_granted_one_in_that_turn() {
    let owners: Vec<Owner> = (0..32).map(|number| &*format!("reader {number}").leak()).collect();
    let long = |owner| Plea { ttl: 50_000, ..sharing(owner) };
    for readers in 28..=32 {
        let mut server = server();
        server.gets("eve", 50_000);
        for &owner in &owners[..readers] {
            server.queues(&[LOCK], long(owner));
        }
        server.queues(&[LOCK], long("ann"));
        server.waits("zoe", 10);
        let ann = server.waits("ann", 10);
        server.release(LOCK, "eve").unwrap();
        server.at(10);
        for owner in &owners[..readers] {
            assert_eq!(server.release(LOCK, owner), Ok(true));
        }
        server.at(20);
        assert!(server.was_granted(ann).is_some(), "{readers}");
    }
}

#[test]
fn it_stands_there_although_another_of_its_locks_may_not_be_written() {
    let mut server = server();
    server.gets("ann", 100);
    server.queues(&[LOCK], sharing("ben"));
    let writer = server.waits("dot", 10);
    let both = server.queues(&[LOCK, OTHER], alone("ben"));
    server.keys.closed.insert(OTHER);
    server.release(LOCK, "ann").unwrap();
    server.turn();
    assert_eq!(server.queue(LOCK), [both, writer]);
    server.keys.closed.clear();
    server.at(20);
    assert!(server.was_granted(both).is_some());
}

#[test]
fn an_upgrade_whose_share_is_over_overtakes_no_client_before_the_timer_has_rung() {
    let mut server = server();
    server.takes(&[OTHER], alone("cid"));
    server.takes(&[LOCK], sharing("ann"));
    let short = |owner| Plea { ttl: 50, ..sharing(owner) };
    server.takes(&[LOCK], short("ben"));
    server.renew(LOCK, "ann", 50).unwrap();
    let dot = server.waits("dot", 10);
    let both = server.queues(&[LOCK, OTHER], alone("ben"));
    assert_eq!(server.queue(LOCK), [both, dot]);
    server.lags_until(51);
    server.release(OTHER, "cid").unwrap();
    server.turn();
    assert_eq!(server.was_granted(both), None);
    server.at(51);
    assert!(server.was_granted(dot).is_some());
}

#[test]
fn an_upgrade_that_waits_for_another_lock_too_holds_up_no_other_of_its_owner() {
    let mut server = server();
    server.takes(&[OTHER], alone("cid"));
    for owner in ["ann", "ben"] {
        server.takes(&[LOCK], sharing(owner));
    }
    let both = server.queues(&[LOCK, OTHER], alone("ben"));
    let one = server.queues(&[LOCK], alone("ben"));
    server.release(LOCK, "ann").unwrap();
    server.turn();
    assert!(server.was_granted(one).is_some());
    assert_eq!(server.was_granted(both), None);
}

#[test]
fn a_queue_in_which_no_client_has_a_share_any_more_is_in_the_order_of_arrival() {
    let keys = [no_lock(None), token("eve", None)];
    for key in keys {
        let mut server = shared();
        let cid = server.waits("cid", 10);
        let ann = server.waits("ann", 10);
        assert_eq!(server.queue(LOCK), [ann, cid]);
        server.set(LOCK, key);
        server.tick();
        assert_eq!(server.queue(LOCK), [cid, ann]);
    }
}

#[test]
fn no_client_goes_back_to_a_share_that_no_client_heard_of() {
    let orders = [[0, 1], [1, 0]];
    for order in orders {
        let mut server = late_server();
        server.gets("ann", 100);
        let waiters = [server.queues(&[LOCK], sharing("ben")), server.waits("ben", 500)];
        server.release(LOCK, "ann").unwrap();
        assert_eq!(server.holder(), held("ben", 500), "both are under way");
        for which in order {
            server.kill(waiters[which]);
        }
        server.at(0);
        assert!(server.keys.keys.is_empty(), "{order:?}");
    }
}

#[test]
fn no_client_goes_back_to_a_share_that_was_to_be_given_back_before() {
    let mut server = late_server();
    server.gets("ann", 100);
    server.takes(&[OTHER], alone("cid"));
    let share = server.queues(&[LOCK], sharing("ben"));
    let both = server.queues(&[LOCK, OTHER], alone("ben"));
    server.release(LOCK, "ann").unwrap();
    server.kill(share);
    server.release(OTHER, "cid").unwrap();
    assert_eq!(server.holder(), held("ben", 100), "it holds both alone");
    server.kill(both);
    server.at(0);
    assert!(server.keys.keys.is_empty());
}

#[test]
fn a_share_whose_owner_has_been_told_in_the_meantime_is_left_of_an_upgrade() {
    let mut server = late_server();
    server.gets("ann", 100);
    server.takes(&[OTHER], alone("cid"));
    let share = server.queues(&[LOCK], sharing("ben"));
    let both = server.queues(&[LOCK, OTHER], alone("ben"));
    server.release(LOCK, "ann").unwrap();
    server.kill(share);
    // It was to be given back in the next tick.
    assert!(server.check(LOCK, "ben").unwrap().is_some());
    server.release(OTHER, "cid").unwrap();
    assert_eq!(server.holder(), held("ben", 100), "it holds both alone");
    server.kill(both);
    server.at(0);
    assert_eq!(server.holders_of(LOCK), all([("ben", 100)]));
    assert!(server.holders_of(OTHER).is_empty());
}

#[test]
fn a_share_that_a_client_heard_of_is_left_of_an_upgrade_whichever_comes_first() {
    let mut server = late_server();
    server.gets("ann", 100);
    let share = server.queues(&[LOCK], sharing("ben"));
    let upgrade = server.waits("ben", 500);
    server.release(LOCK, "ann").unwrap();
    server.kill(upgrade);
    server.turn();
    assert!(server.was_granted(share).is_some());
    server.at(0);
    assert_eq!(server.holders_of(LOCK), all([("ben", 100)]));
}

#[test]
fn another_upgrade_of_its_owner_still_stands_before_everybody_else_when_one_was_not_heard_of() {
    let mut server = shared_like(Flavour { answers: Answers::Late, ..Flavour::default() });
    server.takes(&[OTHER], alone("dot"));
    let unheard = server.waits("ann", 500);
    let reader = server.queues(&[LOCK], sharing("cid"));
    let both = server.queues(&[LOCK, OTHER], alone("ann"));
    server.release(LOCK, "ben").unwrap();
    server.kill(unheard);
    server.at(0);
    assert_eq!(server.holders_of(LOCK), all([("ann", 100)]));
    assert_eq!(server.queue(LOCK), [both, reader]);
}

#[test]
fn an_upgrade_behind_another_goes_back_to_its_place_with_its_share() {
    let mut server = shared();
    server.takes(&[OTHER], alone("dot"));
    let mut by_hand = |owner: Owner| {
        let share = (owner.as_bytes().to_vec(), Some(START + 100));
        server.foreign(Write::ZAdd(LOCK, vec![share]));
        server.tick();
    };
    // A client that shares a lock by its own command is refused as the second.
    by_hand("ann");
    let first = server.queues(&[LOCK, OTHER], alone("ann"));
    let between = server.queues(&[LOCK], limited("eve", 1));
    let second = server.waits("cid", 10);
    let share = (b"cid".to_vec(), Some(START + 100));
    server.foreign(Write::ZAdd(LOCK, vec![share]));
    server.tick();
    assert_eq!(server.queue(LOCK), [first, second, between]);
    server.foreign(Write::ZRem(LOCK, b"cid".to_vec()));
    server.tick();
    assert_eq!(server.queue(LOCK), [first, between, second]);
}
