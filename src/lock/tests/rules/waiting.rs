//! Waiting in the queue.

use super::*;
use crate::lock::tests::simulated::name;

#[test]
fn another_client_s_key_is_waited_for_until_it_ends() {
    let mut server = server();
    server.gets("ann", 100);
    server.waits("ben", 10);
    server.set(LOCK, no_lock(Some(START + 50)));
    server.at(50);
    assert_eq!(server.due(), Some(START + 51));
    server.at(51);
    assert_eq!(server.holder(), held("ben", 61));
}

#[test]
fn a_key_that_is_no_lock_and_goes_without_a_word_is_missed_soon() {
    let mut server = server();
    server.gets("ann", 100);
    server.waits("ben", 10);
    server.set(LOCK, no_lock(None));
    server.at(60);
    server.keys.write(Write::Del(LOCK));
    server.at(99);
    assert_eq!(server.holder(), None);
    server.at(100);
    assert_eq!(server.holder(), held("ben", 110));
}

#[test]
fn the_more_keys_are_no_locks_the_later_each_is_looked_at_again() {
    let many: Vec<Lock> = (0..6000).map(|number| (0, &*format!("{number}").leak())).collect();
    let mut server = Server::new(Flavour::default(), &many);
    for &lock in &many {
        server.takes(&[lock], alone("ann"));
        server.queues(&[lock], alone(lock.1));
        server.set(lock, no_lock(None));
        server.tick();
    }
    let looks = passes(&mut server, 360);
    // Fifty in a millisecond, and each of them.
    assert!((12_000..=19_000).contains(&looks), "{looks} looks in a while");
    for &lock in &many {
        server.keys.write(Write::Del(lock));
    }
    passes(&mut server, 250);
    assert!(many.iter().all(|&lock| server.queue(lock).is_empty()));
}

/// So many milliseconds go by. How often a key was looked at because of an alarm.
fn passes(server: &mut Server, ms: Ms) -> usize {
    let mut looks = 0;
    for _ in 0..ms {
        let now = server.now().ms() + 1;
        server.set_clock(now);
        looks += server.locks.waiting.queues.alarms_up_to(now);
        while server.due().is_some_and(|due| due <= now) {
            server.tick();
            server.turn();
        }
    }
    looks
}

#[test]
fn more_waiters_than_a_tick_can_see_to_are_told_in_the_next() {
    let mut server = server();
    server.gets("ann", 1000);
    for number in 0..600 {
        server.waits_for(50, &*format!("ben {number}").leak(), 10);
    }
    server.lags_until(50);
    let mut ticks = 0;
    while ticks < 20 && server.due().is_some_and(|due| due <= START + 50) {
        server.tick();
        ticks += 1;
    }
    server.turn();
    assert_eq!((ticks, server.replies.len()), (10, 600));
}

#[test]
fn a_key_may_be_no_lock_from_when_it_is_touched_until_it_is_looked_at() {
    let mut server = server();
    server.gets("ann", 100);
    server.waits("ben", 100);
    let may_be = |server: &Server| server.locks.waiting.queues.may_be_no_lock(name(LOCK));
    assert!(!may_be(&server));
    server.keys.write(Write::PExpireAt(LOCK, START + 200));
    server.locks.touched(name(LOCK).keep(), server.now());
    assert!(may_be(&server));
    server.at(1);
    assert!(!may_be(&server));
    server.keys.write(Write::Set(LOCK, no_lock(None)));
    server.locks.touched(name(LOCK).keep(), server.now());
    server.at(2);
    assert!(may_be(&server), "it is none");
}

#[test]
fn the_key_of_a_wait_without_a_grant_is_known_until_its_client_has_the_reply() {
    let mut server = late_server();
    server.gets("ann", 100);
    let ben = server.waits_for(10, "ben", 30);
    let cid = server.waits("cid", 30);
    let key = |server: &Server, ticket| server.locks.waiting.empty_handed(ticket);
    assert_eq!(key(&server, ben), None, "it waits");
    server.lags_until(10);
    server.tick();
    assert_eq!(key(&server, ben).as_deref(), Some(&b"lock"[..]));
    server.release(LOCK, "ann").unwrap();
    assert_eq!(key(&server, cid), None, "it was granted");
    assert!(server.locks.outcomes().outcome(ben, true).is_some());
    assert_eq!(key(&server, ben), None, "it has its reply");
}

#[test]
fn one_that_waits_is_remembered_with_its_time_until_it_has_ended() {
    let mut server = server();
    server.gets("ann", 100);
    server.waits_for(10, "ben", 30);
    let now = server.locks.remembered();
    assert_eq!((now.waiters, now.alarms), (1, 2), "its time is up, or the hold ends");
    server.at(11);
    let left = server.locks.remembered();
    assert_eq!((left.waiters, left.alarms), (0, 0));
}
