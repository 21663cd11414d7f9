//! Rules for what is rare: two faults at once, or one in the moment of another.

use super::super::simulated::{place, told_on};
use super::*;
use crate::lock::tests::simulated::Content;
use crate::lock::{Break, LockEvent, Reason, SHARED_MARKER};

const LEASE: Ms = 1000;

fn in_queue(plea: Plea) -> Plea {
    Plea { patience: place(LEASE), ..plea }
}

fn told(plea: Plea, channel: &'static str) -> Plea {
    Plea { patience: told_on(Some((channel, plea.owner)), LEASE), ..plea }
}

fn within(grace: Ms) -> Break {
    Break { grace, force: false }
}

fn shares<const N: usize>(owners: [(&str, Ms); N]) -> Key {
    let mut members: std::collections::BTreeMap<Vec<u8>, Option<Ms>> =
        owners.iter().map(|(o, e)| (o.as_bytes().to_vec(), Some(START + e))).collect();
    members.insert(SHARED_MARKER.to_vec(), None);
    let last = owners.iter().map(|(_, e)| START + e).max();
    Key { content: Content::SortedSet(members), deadline: last }
}

fn reasons(server: &mut Server) -> Vec<(String, Reason)> {
    let lines = server.losses(usize::MAX).into_iter();
    lines
        .map(|(line, _)| {
            let owner = line.lost.as_ref().map(|(about, _)| about.owner.bytes().to_vec());
            (String::from_utf8(owner.unwrap_or_default()).unwrap(), line.reason)
        })
        .collect()
}

#[test]
fn what_its_owner_holds_without_an_end_is_no_orphan() {
    let mut server = server();
    server.set_limits(|limits| limits.orphan_ttl = 300);
    server.set(LOCK, token("ann", None));
    server.takes(&[OTHER], alone("ben"));
    assert_eq!(server.asks(&[LOCK, OTHER], alone("ann")), Ok(Acquired::Busy));
    assert_eq!(server.keys.get(LOCK), Some(&token("ann", None)));
}

#[test]
fn a_granted_place_of_before_a_demotion_whose_hold_is_lost_is_a_new_one() {
    let mut server = server();
    server.gets("ann", 50_000);
    server.asks(&[LOCK], in_queue(alone("ben"))).unwrap();
    server.release(LOCK, "ann").unwrap();
    server.demote(true);
    server.promote();
    server.del(LOCK);
    server.takes(&[LOCK], Plea { ttl: 50_000, ..sharing("cid") });
    assert_eq!(server.asks(&[LOCK], in_queue(alone("ben"))), Ok(Acquired::Place(0)));
    assert_eq!(server.locks.waiting.leased_places(), 1);
    server.at(10);
    assert_eq!(server.locks.waiting.leased_places(), 1);
}

#[test]
fn who_has_a_place_for_an_orphan_has_the_lock_when_it_ends() {
    let mut server = server();
    server.set_limits(|limits| limits.orphan_ttl = 300);
    server.set(LOCK, token("orphan", None));
    assert_eq!(server.asks(&[LOCK], in_queue(alone("ann"))), Ok(Acquired::Place(0)));
    server.at(301);
    assert_eq!(server.holder(), held("ann", LEASE));
}

#[test]
fn an_owner_whose_share_is_being_broken_gets_no_place_for_more() {
    let mut server = server();
    server.takes(&[LOCK], sharing("ann"));
    server.takes(&[LOCK], sharing("ben"));
    server.break_holds(LOCK, within(50)).unwrap();
    assert_eq!(server.asks(&[LOCK], in_queue(alone("ann"))), Err(Refusal::HoldsSome));
}

#[test]
fn a_share_that_a_client_has_taken_out_is_not_broken() {
    let mut server = server();
    for owner in ["ann", "ben", "cid"] {
        server.takes(&[LOCK], sharing(owner));
    }
    server.foreign(Write::ZRem(LOCK, b"ben".to_vec()));
    assert_eq!(server.break_holds(LOCK, within(0)), Ok(2));
    assert!(reasons(&mut server).contains(&("ben".to_owned(), Reason::Deleted)));
    assert_eq!(server.locks.counts().broken, 2);
}

#[test]
fn what_a_place_has_lost_takes_nothing_from_a_reply_that_is_under_way() {
    let mut server = late_server();
    let both = [LOCK, OTHER];
    server.gets("ann", 50_000);
    server.asks(&both, in_queue(alone("ben"))).unwrap();
    let blocked = server.queues(&[LOCK], Plea { ttl: 50_000, ..alone("ben") });
    server.release(LOCK, "ann").unwrap();
    server.del(OTHER);
    server.takes(&[OTHER], Plea { ttl: 50_000, ..alone("cid") });
    _ = server.asks(&both, in_queue(alone("ben")));
    server.at(10);
    assert!(server.was_granted(blocked).is_some());
    assert_eq!(server.holder(), held("ben", 50_000));
}

#[test]
fn what_is_left_of_a_lost_grant_is_said_to_be_released() {
    let mut server = server();
    let both = [LOCK, OTHER];
    server.gets("ann", 50_000);
    server.asks(&both, in_queue(alone("ben"))).unwrap();
    server.release(LOCK, "ann").unwrap();
    server.del(OTHER);
    server.takes(&[OTHER], alone("cid"));
    server.keys.mentioned.clear();
    server.asks(&both, in_queue(alone("ben"))).unwrap();
    assert_eq!(server.holder(), None);
    assert_eq!(server.keys.mentioned, [(LOCK, LockEvent::Released)]);
}

#[test]
fn a_told_hold_survives_its_claim_after_two_swaps() {
    let mut server = server();
    server.gets("ann", 50_000);
    server.asks(&[LOCK], in_queue(alone("ben"))).unwrap();
    server.release(LOCK, "ann").unwrap();
    server.foreign(Write::Swap(0, 1));
    assert!(server.check((1, "lock"), "ben").unwrap().is_some());
    server.foreign(Write::Swap(0, 1));
    server.foreign(Write::PExpireAt(LOCK, START + 50_000));
    server.at(LEASE + 10);
    assert_eq!(server.holder(), held("ben", 50_000));
}

/// A lock that cid held until 250. It is 260, and the server has not said so yet. Ben alone waits for it, with a
/// place that has missed its turn.
fn with_a_sleeper_and_a_late_end() -> Server {
    let mut server = server();
    server.set_limits(|limits| limits.claim_time = 100);
    server.gets("ann", 50);
    server.asks(&[LOCK], told(alone("ben"), "news")).unwrap();
    server.release(LOCK, "ann").unwrap();
    server.at(150);
    server.acquire(LOCK, "cid", 100, Patience::Try).unwrap();
    server.happened();
    server.lags_until(260);
    server
}

#[test]
fn no_lapse_is_told_where_only_a_sleeper_is() {
    let mut server = with_a_sleeper_and_a_late_end();
    server.loses(LOCK, Reason::Expired);
    assert_eq!(server.happened().lapsed, []);
}

#[test]
fn a_grant_that_no_client_heard_of_is_given_back_although_swapdb_has_moved_it() {
    let mut server = server();
    server.gets("ann", 50_000);
    let blocked = server.waits("ben", 50_000);
    let client = server.client_of(blocked).unwrap();
    server.release(LOCK, "ann").unwrap();
    server.falls_asleep();
    server.foreign(Write::Swap(0, 1));
    server.says_closed(client);
    server.at(10);
    assert_eq!(server.holders_of((1, "lock")), []);
}

#[test]
fn the_end_of_broken_shares_is_told_if_others_wait() {
    let mut server = server();
    server.takes(&[LOCK], Plea { ttl: 5000, ..sharing("ann") });
    server.queues(&[LOCK], Plea { ttl: 5000, ..alone("cid") });
    server.break_holds(LOCK, within(50)).unwrap();
    server.keys.removes_expired = false;
    server.happened();
    server.at(51);
    assert_eq!(server.holder().unwrap().0, "cid");
    assert_eq!(server.happened().lapsed.len(), 1);
}

#[test]
fn when_a_hold_by_the_wall_clock_ended_is_not_what_it_was_before() {
    let mut server = server();
    server.set(LOCK, token("ann", Some(START + 100)));
    server.gets("ann", 50);
    server.foreign(Write::PExpireAt(LOCK, START + 500));
    server.lags_until(700);
    server.gets("ben", 10);
    let (line, _) = server.losses(1).remove(0);
    assert_eq!(line.lost.unwrap().1.ended, None);
}

#[test]
fn when_a_share_by_the_wall_clock_ended_is_in_the_log() {
    let mut server = server();
    server.set(LOCK, shares([("ann", 100)]));
    server.takes(&[LOCK], Plea { ttl: 50, ..sharing("ann") });
    server.lags_until(700);
    server.gets("ben", 10);
    let (line, _) = server.losses(1).remove(0);
    assert_eq!(line.lost.unwrap().1.ended, Some(START + 100));
}

#[test]
fn a_number_for_what_its_owner_has_already_is_no_acquisition() {
    let mut server = server();
    server.set(LOCK, token("ann", Some(START + 100)));
    server.gets("ann", 500);
    assert!(!server.keys.mentioned.contains(&(LOCK, LockEvent::Acquired)));
}

/// A place for both was granted, `LOCK` was lost, and a blocked request of its owner has it by another number.
fn two_numbers() -> (Server, Ticket) {
    let mut server = late_server();
    let both = [LOCK, OTHER];
    server.gets("ann", 50_000);
    server.asks(&both, in_queue(alone("ben"))).unwrap();
    server.release(LOCK, "ann").unwrap();
    server.del(LOCK);
    server.takes(&[LOCK], Plea { ttl: 50_000, ..alone("cid") });
    let blocked = server.queues(&[LOCK], Plea { ttl: 50_000, ..alone("ben") });
    server.release(LOCK, "cid").unwrap();
    assert_eq!(server.holder(), held("ben", 50_000));
    (server, blocked)
}

#[test]
fn a_claim_that_is_over_ends_no_hold_by_another_number() {
    let (mut server, blocked) = two_numbers();
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
fn a_reserved_lock_that_another_takes_is_not_its_former_owner_s_in_a_search() {
    let there = (1, "lock");
    let mut server = server();
    server.takes(&[there], alone("ann"));
    server.takes(&[LOCK], alone("ben"));
    server.queues(&[there], alone("ben"));
    server.step(60_000);
    server.expire_cycle(&[there]);
    server.set(there, token("cid", Some(START + 200_000)));
    assert!(!server.is_refused(&[LOCK], alone("ann")));
}

#[test]
fn a_hold_that_shares_were_written_over_is_overwritten() {
    let mut server = server();
    server.gets("ann", 100);
    server.set(LOCK, shares([("cid", 5000)]));
    assert_eq!(server.release(LOCK, "ann"), Ok(false));
    assert_eq!(reasons(&mut server), [("ann".to_owned(), Reason::Overwritten)]);
}

#[test]
fn after_a_refused_release_of_several_the_owner_s_name_is_no_grant_that_no_client_heard_of() {
    let mut server = late_server();
    server.takes(&[LOCK], sharing("ann"));
    server.takes(&[LOCK], sharing("ben"));
    let upgrade = server.waits("ann", 100);
    server.release(LOCK, "ben").unwrap();
    server.set(LOCK, no_lock(None));
    assert_eq!(server.release_all(&[LOCK], "ann"), Err(NotALock));
    server.set(LOCK, token("ann", Some(START + 50)));
    server.kill(upgrade);
    server.at(0);
    assert_eq!(server.holder(), held("ann", 50));
}

#[test]
fn a_renewal_takes_shares_out_that_are_over() {
    let mut server = server();
    server.takes(&[LOCK], sharing("ann"));
    server.takes(&[LOCK], Plea { ttl: 10, ..sharing("ben") });
    server.lags_until(50);
    server.renew(LOCK, "ann", 100).unwrap();
    assert_eq!(reasons(&mut server), [("ben".to_owned(), Reason::Expired)]);
}

#[test]
fn who_is_known_to_have_heard_has_heard_although_the_connection_closes_as_the_wait_ends() {
    let mut server = server();
    server.gets("ann", 50_000);
    let blocked = server.waits("ben", 50_000);
    let client = server.client_of(blocked).unwrap();
    server.release(LOCK, "ann").unwrap();
    server.turn_too_early_for_the_ends();
    server.falls_asleep();
    server.says_closed(client);
    server.at(10);
    assert_eq!(server.holder(), held("ben", 50_000));
}

#[test]
fn who_has_a_share_and_wants_more_comes_first_however_many_were_granted_one_in_that_turn() {
    const READERS: [Owner; 32] = [
        "r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "s0", "s1", "s2", "s3", "s4",
        "s5", "s6", "s7", "s8", "s9", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9",
        "u0", "u1",
    ];
    for readers in 28..=32 {
        let mut server = server();
        server.gets("eve", 50_000);
        for owner in &READERS[..readers] {
            server.queues(&[LOCK], Plea { ttl: 50_000, ..sharing(owner) });
        }
        server.queues(&[LOCK], Plea { ttl: 50_000, ..sharing("ann") });
        server.waits("zoe", 10);
        let ann = server.waits("ann", 10);
        server.release(LOCK, "eve").unwrap();
        server.at(10);
        for owner in &READERS[..readers] {
            assert_eq!(server.release(LOCK, owner), Ok(true));
        }
        server.at(20);
        assert!(server.was_granted(ann).is_some(), "{readers}");
    }
}

fn share_of(server: &mut Server, owner: Owner, until: Ms) {
    server.foreign(Write::ZAdd(LOCK, vec![(owner.as_bytes().to_vec(), Some(START + until))]));
    server.foreign(Write::PExpireAt(LOCK, START + until));
}

#[test]
fn another_request_of_one_that_has_come_to_share_is_served_if_the_first_is_denied() {
    let mut server = server();
    server.takes(&[LOCK], Plea { ttl: 50_000, ..sharing("cid") });
    server.queues(&[LOCK], alone("dot"));
    let first = server.queues(&[LOCK, OTHER], sharing("ann"));
    let second = server.queues(&[LOCK, THIRD], sharing("ann"));
    server.bar(first);
    share_of(&mut server, "ann", 50_000);
    server.at(10);
    assert!(server.was_granted(second).is_some());
}

#[test]
fn one_that_has_come_to_share_is_served_when_the_server_accepts_writes_again() {
    let mut server = server();
    server.takes(&[LOCK], Plea { ttl: 50_000, ..sharing("cid") });
    server.queues(&[LOCK], alone("dot"));
    let ann = server.queues(&[LOCK, OTHER], sharing("ann"));
    server.keys.closed.insert(OTHER);
    share_of(&mut server, "ann", 50_000);
    server.at(10);
    assert!(server.was_granted(ann).is_none());
    server.keys.closed.clear();
    server.at(1000);
    assert!(server.was_granted(ann).is_some());
}

#[test]
fn a_refused_grant_says_that_the_slot_may_be_leaving() {
    let mut server = server_like(Flavour { in_cluster: true, ..Flavour::default() });
    server.gets("ann", 100);
    server.waits("ben", 100);
    server.keys.closed.insert(LOCK);
    assert!(format!("{:?}", server.locks.clock.known_slots()).contains("Ours"));
    server.keys.closed.insert(LOCK);
    server.lags_until(101);
    server.tick();
    assert!(format!("{:?}", server.locks.clock.known_slots()).contains("Refused"));
}

#[test]
fn the_key_of_a_lock_with_a_queue_is_corrected_after_a_step() {
    let mut server = server();
    server.gets("ann", 100_000);
    server.waits("ben", 100);
    server.step(60_000);
    server.at(1);
    assert_eq!(server.keys.get(LOCK).unwrap().deadline, Some(START + 160_000));
}

#[test]
fn a_hold_that_shares_were_written_over_is_in_the_log_at_once_where_others_wait() {
    let mut server = server();
    server.gets("ann", 100);
    server.queues(&[LOCK], alone("dot"));
    server.set(LOCK, shares([("cid", 5000)]));
    server.at(1);
    assert_eq!(reasons(&mut server), [("ann".to_owned(), Reason::Overwritten)]);
}

#[test]
fn no_lapse_is_told_where_only_a_sleeper_is_that_is_woken() {
    let mut server = with_a_sleeper_and_a_late_end();
    server.gets("dot", 10);
    assert_eq!(server.happened().lapsed, []);
}

#[test]
fn a_place_for_a_lock_alone_ends_when_its_owner_comes_to_share_it() {
    let mut server = server();
    server.gets("eve", 50_000);
    server.queues(&[LOCK], Plea { ttl: 50_000, ..sharing("ann") });
    server.queues(&[LOCK], Plea { ttl: 50_000, ..sharing("ben") });
    server.asks(&[LOCK], in_queue(alone("ann"))).unwrap();
    server.release(LOCK, "eve").unwrap();
    server.at(10);
    assert_eq!(server.locks.waiting.leased_places(), 0);
}

#[test]
fn nothing_is_kept_of_the_denial_of_a_place() {
    let mut server = server();
    server.gets("ann", 50_000);
    server.asks(&[LOCK], in_queue(alone("ben"))).unwrap();
    let place = server.locks.waiting.places_of(b"ben").next().unwrap();
    server.keys.denied.insert(b"ben".to_vec());
    server.release(LOCK, "ann").unwrap();
    assert_eq!(server.locks.waiting.denial(place), None);
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
fn where_no_client_waits_nothing_is_put_off_that_writes_no_key() {
    let mut server = server();
    server.gets("ann", 100);
    server.keys.paused = true;
    server.set(LOCK, token("cid", Some(START + 1000)));
    server.tick();
    assert_eq!(server.due(), None);
}

#[test]
fn one_that_a_search_has_found_to_share_is_served_in_the_next_tick() {
    let mut server = server();
    server.takes(&[LOCK], Plea { ttl: 50_000, ..sharing("cid") });
    server.takes(&[OTHER], Plea { ttl: 50_000, ..alone("dot") });
    server.queues(&[LOCK], alone("dot"));
    let ann = server.queues(&[LOCK], sharing("ann"));
    // The server does not tell of everything at once.
    let share = vec![(b"ann".to_vec(), Some(START + 50_000))];
    server.keys.write(Write::ZAdd(LOCK, share));
    assert!(server.is_refused(&[OTHER], alone("cid")));
    server.at(10);
    assert!(server.was_granted(ann).is_some());
}

#[test]
fn a_place_that_is_given_up_leaves_room_for_the_next() {
    let mut server = server();
    server.set_limits(|limits| limits.max_waiters = 1);
    server.gets("ann", 50_000);
    server.asks(&[LOCK], in_queue(alone("ben"))).unwrap();
    assert_eq!(server.asks(&[LOCK], in_queue(sharing("ben"))), Ok(Acquired::Place(0)));
}

#[test]
fn a_grant_that_was_lost_before_its_message_was_sent_sends_none() {
    let mut server = server();
    server.gets("ann", 50_000);
    server.asks(&[LOCK], told(alone("ben"), "news")).unwrap();
    server.release(LOCK, "ann").unwrap();
    server.del(LOCK);
    server.gets("cid", 50_000);
    assert_eq!(server.asks(&[LOCK], told(alone("ben"), "news")), Ok(Acquired::Place(0)));
    server.at(10);
    assert_eq!(server.published, []);
}

#[test]
fn owners_have_their_time_from_when_they_can_ask_again() {
    let mut server = server();
    server.gets("ann", 50_000);
    server.asks(&[LOCK], in_queue(alone("ben"))).unwrap();
    server.at(490);
    server.keys.keeps_back = true;
    server.at(740);
    server.keys.keeps_back = false;
    server.at(1700);
    assert_eq!(server.locks.waiting.leased_places(), 1);
    server.at(1760);
    assert_eq!(server.locks.waiting.leased_places(), 0);
}

#[test]
fn a_hold_that_was_deleted_has_not_lapsed() {
    let mut server = server();
    server.gets("ann", 100);
    let ben = server.waits("ben", 100);
    server.del(LOCK);
    server.at(1);
    assert!(server.was_granted(ben).is_some());
    assert_eq!(server.happened().lapsed, []);
}

#[test]
fn what_another_client_writes_in_the_owner_s_name_over_a_reservation_ends_by_its_key() {
    let mut server = server();
    server.gets("ann", 100);
    server.step(60_000);
    server.expire_cycle(&[LOCK]);
    server.keys.write(Write::Set(LOCK, token("ann", Some(START + 60_500))));
    assert_eq!(server.check(LOCK, "ann"), Ok(Some(crate::lock::Left::Ms(500))));
}

#[test]
fn a_lock_whose_key_another_client_has_deleted_is_not_reserved_because_another_is() {
    let mut server = server();
    server.gets("ann", 60_000_000);
    server.takes(&[OTHER], alone("ann"));
    server.step(60_000);
    server.expire_cycle(&[OTHER]);
    server.keys.write(Write::Del(LOCK));
    assert_eq!(server.check(LOCK, "ann"), Ok(None));
}

#[test]
fn a_share_by_the_wall_clock_is_over_when_its_key_has_gone() {
    let mut server = server();
    server.set(LOCK, shares([("ben", 100)]));
    server.takes(&[LOCK], sharing("ann"));
    server.check(LOCK, "ben").unwrap();
    server.step(60_000);
    server.expire_cycle(&[LOCK]);
    assert_eq!(server.check(LOCK, "ben"), Ok(None));
    assert_eq!(server.check(LOCK, "ann"), Ok(Some(crate::lock::Left::Ms(100))));
}

#[test]
fn one_that_has_come_to_share_by_its_own_request_is_served_when_writes_are_accepted_again() {
    let mut server = server();
    server.takes(&[LOCK], Plea { ttl: 50_000, ..alone("eve") });
    server.queues(&[LOCK], Plea { ttl: 50_000, ..sharing("ann") });
    server.queues(&[LOCK], alone("dot"));
    let ann = server.queues(&[LOCK, OTHER], sharing("ann"));
    server.keys.closed.insert(OTHER);
    server.release(LOCK, "eve").unwrap();
    server.at(10);
    assert!(server.was_granted(ann).is_none());
    server.keys.closed.clear();
    server.at(1000);
    assert!(server.was_granted(ann).is_some());
}
