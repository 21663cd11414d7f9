//! Beside others: SHARED and LIMIT.

use super::*;
use crate::lock::{Hold, LAST_MS, Left, SHARED_MARKER, Share};

const BOTH: [(&str, Ms); 2] = [("ann", 100), ("ben", 30)];

/// `ann` shares the lock for 100 ms, `ben` for 30.
fn shared() -> Server {
    let mut server = server();
    server.takes(&[LOCK], sharing("ann"));
    let short = Plea { ttl: 30, ..sharing("ben") };
    server.takes(&[LOCK], short);
    server
}

fn share(owner: &str, deadline: Ms) -> (Vec<u8>, Option<Ms>) {
    (owner.as_bytes().to_vec(), Some(START + deadline))
}

#[test]
fn a_shared_lock_is_a_sorted_set_with_a_marker() {
    let mut server = server();
    server.takes(&[LOCK], sharing("ann"));
    let marker = (SHARED_MARKER.to_vec(), None);
    let begins = Write::ZAdd(LOCK, vec![marker, share("ann", 100)]);
    let ends = Write::PExpireAt(LOCK, START + 100);
    assert_eq!(written(&mut server), [begins, ends]);
    server.release(LOCK, "ann").unwrap();
    assert_eq!(written(&mut server), [Write::Del(LOCK)]);
}

#[test]
fn a_short_reader_never_shortens_the_others() {
    let server = shared();
    assert_eq!(server.holders_of(LOCK), all(BOTH));
    let key = server.keys.get(LOCK).unwrap();
    assert_eq!(key.deadline, Some(START + 100));
}

#[test]
fn the_key_ends_with_its_last_holder() {
    let mut server = shared();
    written(&mut server);
    server.release(LOCK, "ann").unwrap();
    let gone = Write::ZRem(LOCK, b"ann".to_vec());
    let ends = Write::PExpireAt(LOCK, START + 30);
    assert_eq!(written(&mut server), [gone, ends]);
    server.renew(LOCK, "ben", 10).unwrap();
    let key = server.keys.get(LOCK).unwrap();
    assert_eq!(key.deadline, Some(START + 10));
}

#[test]
fn each_share_ends_by_its_own_time() {
    let mut server = shared();
    server.lags_until(31);
    assert_eq!(server.check(LOCK, "ben"), Ok(None));
    assert_eq!(server.renew(LOCK, "ben", 100), Ok(false));
    assert_eq!(server.release(LOCK, "ben"), Ok(false));
    assert!(server.check(LOCK, "ann").unwrap().is_some());
    let report = server.report(LOCK).unwrap().unwrap();
    assert_eq!((report.hold, report.count), (Some(Hold::Shared), 1));
}

#[test]
fn no_share_outlasts_a_key_that_a_client_has_shortened() {
    let mut server = shared();
    server.foreign(Write::PExpireAt(LOCK, START + 20));
    server.lags_until(21);
    server.takes(&[LOCK], alone("cid"));
    assert_eq!(server.holder(), held("cid", 121));
}

#[test]
fn a_release_does_not_prolong_the_shares_of_others_that_a_client_has_shortened() {
    let mut server = shared();
    server.foreign(Write::PExpireAt(LOCK, START + 20));
    server.release(LOCK, "ben").unwrap();
    assert_eq!(server.check(LOCK, "ann"), Ok(Some(Left::Ms(20))));
    server.at(21);
    assert_eq!(server.check(LOCK, "ann"), Ok(None));
}

#[test]
fn a_share_of_a_lock_that_is_over_brings_no_other_share_back() {
    // The server has not come to remove it, and a waiter is granted it by the timer.
    let mut server = server_like(Flavour { keeps_expired: true, ..Flavour::default() });
    for owner in ["ann", "ben"] {
        server.takes(&[LOCK], sharing(owner));
    }
    let cid = server.queues(&[LOCK], limited("cid", 1));
    server.foreign(Write::PExpireAt(LOCK, START + 10));
    server.at(11);
    assert!(server.was_granted(cid).is_some());
    assert_eq!(server.holders_of(LOCK), all([("cid", 111)]));
}

#[test]
fn a_share_is_not_written_over_an_expired_string() {
    let mut server = server_like(Flavour { keeps_expired: true, ..Flavour::default() });
    server.gets("ann", 10);
    server.queues(&[LOCK], sharing("ben"));
    server.at(11);
    assert_eq!(server.holders_of(LOCK), all([("ben", 111)]));
    assert_eq!(server.happened().offences, [""; 0]);
}

#[test]
fn a_writer_is_excluded_by_any_share() {
    let mut server = shared();
    assert_eq!(server.asks(&[LOCK], alone("cid")), Ok(Acquired::Busy));
    let cid = server.waits("cid", 10);
    server.at(31);
    assert_eq!(server.was_granted(cid), None);
    server.at(101);
    assert!(server.was_granted(cid).is_some());
}

#[test]
fn a_retry_of_a_share_gets_the_same_number_and_the_later_deadline() {
    let mut server = shared();
    let number = server.takes(&[LOCK], sharing("ben"));
    assert_eq!(server.holders_of(LOCK), all([("ann", 100), ("ben", 100)]));
    let short = Plea { ttl: 10, ..sharing("ben") };
    assert_eq!(server.takes(&[LOCK], short), number);
    assert_eq!(server.holders_of(LOCK), all([("ann", 100), ("ben", 100)]));
    server.waits("cid", 10);
    assert_eq!(server.takes(&[LOCK], sharing("ben")), number, "past a queue");
}

#[test]
fn a_share_that_was_lost_in_between_gets_a_higher_number() {
    let mut server = shared();
    let number = server.takes(&[LOCK], limited("ben", 2));
    server.lags_until(101);
    assert!(server.takes(&[LOCK], sharing("ben")) > number);
}

#[test]
fn an_expired_permit_is_free_at_once() {
    let mut server = shared();
    let cid = server.queues(&[LOCK], limited("cid", 2));
    server.at(30);
    assert_eq!(server.was_granted(cid), None);
    server.at(31);
    assert!(server.was_granted(cid).is_some());
    assert_eq!(server.holders_of(LOCK), all([("ann", 100), ("cid", 131)]));
}

#[test]
fn an_expired_permit_is_free_for_who_asks_before_the_timer_rings() {
    let mut server = shared();
    server.lags_until(31);
    server.takes(&[LOCK], limited("cid", 2));
    assert_eq!(server.holders_of(LOCK), all([("ann", 100), ("cid", 131)]));
}

#[test]
fn limit_two_is_refused_while_three_hold() {
    let mut server = shared();
    server.takes(&[LOCK], sharing("cid"));
    for (most, free) in [(1, false), (2, false), (3, false), (4, true)] {
        let got = server.asks(&[LOCK], limited("dot", most));
        assert_eq!(got != Ok(Acquired::Busy), free, "{most}");
    }
}

#[test]
fn a_limit_belongs_to_the_request() {
    let mut server = server();
    server.takes(&[LOCK], limited("ann", 1));
    assert_eq!(server.asks(&[LOCK], limited("ben", 1)), Ok(Acquired::Busy));
    server.takes(&[LOCK], limited("ben", 2));
    server.takes(&[LOCK], sharing("cid"));
}

#[test]
fn who_has_a_permit_is_not_counted_against_itself() {
    let mut server = server();
    let number = server.takes(&[LOCK], limited("ann", 1));
    assert_eq!(server.takes(&[LOCK], limited("ann", 1)), number);
}

#[test]
fn a_reader_that_comes_after_a_waiting_writer_waits_behind_it() {
    let mut server = shared();
    let cid = server.waits("cid", 10);
    let dot = server.queues(&[LOCK], sharing("dot"));
    server.release(LOCK, "ann").unwrap();
    server.release(LOCK, "ben").unwrap();
    server.turn();
    assert!(server.was_granted(cid).is_some());
    assert_eq!(server.was_granted(dot), None);
}

#[test]
fn a_try_does_not_overtake_a_waiting_writer() {
    let mut server = shared();
    server.waits("cid", 10);
    for plea in [sharing("dot"), limited("dot", 9), alone("dot")] {
        assert_eq!(server.asks(&[LOCK], plea), Ok(Acquired::Busy));
    }
}

#[test]
fn readers_at_the_head_are_granted_together() {
    let mut server = server();
    server.gets("ann", 100);
    let readers = ["ben", "cid", "dot"].map(|owner| server.queues(&[LOCK], sharing(owner)));
    let writer = server.waits("eve", 10);
    let behind = server.queues(&[LOCK], sharing("fay"));
    server.release(LOCK, "ann").unwrap();
    server.turn();
    assert!(readers.iter().all(|&one| server.was_granted(one).is_some()));
    let mut numbers = readers.map(|one| server.was_granted(one));
    assert!(numbers.is_sorted(), "in their order: {numbers:?}");
    numbers.sort_unstable();
    assert!(numbers.windows(2).all(|two| two[0] != two[1]));
    assert_eq!(server.queue(LOCK), [writer, behind]);
}

#[test]
fn a_crowd_of_readers_is_told_in_portions() {
    let mut server = server();
    server.gets("ann", 100);
    let owners: Vec<Owner> = (0..1000).map(|number| &*format!("reader {number}").leak()).collect();
    for owner in owners {
        let long = Plea { ttl: 1000, ..sharing(owner) };
        server.queues(&[LOCK], long);
    }
    server.release(LOCK, "ann").unwrap();
    server.turn();
    let at_once = server.told.len();
    assert!((1..=50).contains(&at_once), "{at_once}");
    server.at(50);
    assert_eq!(server.told.len(), 1000);
}

#[test]
fn permits_are_granted_as_far_as_they_go() {
    let mut server = server();
    server.gets("ann", 100);
    let all = ["ben", "cid", "dot"].map(|owner| server.queues(&[LOCK], limited(owner, 2)));
    server.release(LOCK, "ann").unwrap();
    server.turn();
    assert_eq!(server.queue(LOCK), all[2..]);
    server.release(LOCK, "ben").unwrap();
    assert_eq!(server.queue(LOCK), [0; 0]);
}

#[test]
fn one_that_waits_for_a_permit_is_not_overtaken_by_one_that_asks_for_less() {
    let mut server = shared();
    let cid = server.queues(&[LOCK], limited("cid", 2));
    let dot = server.queues(&[LOCK], sharing("dot"));
    server.at(0);
    assert_eq!(server.queue(LOCK), [cid, dot]);
    server.release(LOCK, "ben").unwrap();
    server.turn();
    assert!(server.was_granted(cid).is_some() && server.was_granted(dot).is_some());
}

#[test]
fn readers_come_in_at_once_when_the_writer_before_them_goes() {
    let goes: [(&str, Fate); 4] = [
        ("gives up", Server::unblock),
        ("is sent off", Server::unblock_by_error),
        ("dies", Server::kill),
        ("times out", |server, _| server.at(20)),
    ];
    for (how, go) in goes {
        let mut server = shared();
        let cid = server.waits_for(20, "cid", 10);
        let dot = server.queues(&[LOCK], sharing("dot"));
        go(&mut server, cid);
        let now = server.now().ms() - START;
        server.at(now);
        assert!(server.was_granted(dot).is_some(), "it {how}");
    }
}

#[test]
fn an_exclusive_owner_that_asks_shared_stays_exclusive() {
    let mut server = server();
    let number = server.gets("ann", 50);
    assert_eq!(server.takes(&[LOCK], sharing("ann")), number);
    assert_eq!(server.holder(), held("ann", 100));
    assert_eq!(server.asks(&[LOCK], sharing("ben")), Ok(Acquired::Busy));
}

#[test]
fn one_whose_share_another_client_wrote_is_replied_to_with_it() {
    let mut server = shared();
    server.waits("cid", 10);
    let dot = server.queues(&[LOCK], sharing("dot"));
    server.foreign(Write::ZAdd(LOCK, vec![share("dot", 60)]));
    server.at(0);
    assert!(server.was_granted(dot).is_some());
}

/// `cid` shares the lock for long, and `dot` waits for it alone, before all who come to wait for a share now.
fn shared_before_a_writer() -> Server {
    let mut server = server();
    server.takes(&[LOCK], Plea { ttl: 50_000, ..sharing("cid") });
    server.queues(&[LOCK], alone("dot"));
    server
}

/// Another client has this owner share the lock, for long.
fn has_share(server: &mut Server, owner: Owner) {
    server.foreign(Write::ZAdd(LOCK, vec![share(owner, 50_000)]));
    server.foreign(Write::PExpireAt(LOCK, START + 50_000));
}

/// The other lock can't be written when this waiter comes to share the first.
fn is_served_when_writes_are_accepted_again(mut server: Server, waiter: Ticket, shares: Deed) {
    server.keys.closed.insert(OTHER);
    shares(&mut server);
    server.at(10);
    assert!(server.was_granted(waiter).is_none());
    server.keys.closed.clear();
    server.at(1000);
    assert!(server.was_granted(waiter).is_some());
}

#[test]
fn one_that_has_come_to_share_is_served_when_the_server_accepts_writes_again() {
    let mut server = shared_before_a_writer();
    let ann = server.queues(&[LOCK, OTHER], sharing("ann"));
    is_served_when_writes_are_accepted_again(server, ann, |server| has_share(server, "ann"));
}

#[test]
fn one_that_a_search_has_found_to_share_is_served_in_the_next_tick() {
    let mut server = shared_before_a_writer();
    server.takes(&[OTHER], Plea { ttl: 50_000, ..alone("dot") });
    let ann = server.queues(&[LOCK], sharing("ann"));
    // The server does not tell of everything at once.
    server.keys.write(Write::ZAdd(LOCK, vec![share("ann", 50_000)]));
    assert!(server.is_refused(&[OTHER], alone("cid")));
    server.at(10);
    assert!(server.was_granted(ann).is_some());
}

#[test]
fn a_client_that_comes_to_share_a_lock_anew_has_no_number_of_a_share_that_was_over_before() {
    let mut server = server();
    server.takes(&[LOCK], sharing("ann"));
    // Her share ends, and no client looks.
    server.lags_until(200);
    let cid = server.takes(&[LOCK], sharing("cid"));
    server.foreign(Write::ZAdd(LOCK, vec![share("ann", 300)]));
    assert!(server.takes(&[LOCK], sharing("ann")) > cid);
}

#[test]
fn a_user_s_sorted_set_is_no_lock() {
    let mut server = server();
    server.foreign(Write::ZAdd(LOCK, vec![share("ann", 60)]));
    let no_lock = Err(Refusal::NotALock(NotALock));
    assert_eq!(server.asks(&[LOCK], sharing("ann")), no_lock);
    assert_eq!(server.release(LOCK, "ann"), Err(NotALock));
    assert_eq!(server.check(LOCK, "ann"), Err(NotALock));
}

#[test]
fn a_shared_grant_that_no_client_heard_of_is_given_back_alone() {
    let mut server = late_server();
    server.gets("ann", 100);
    let ben = server.queues(&[LOCK], sharing("ben"));
    server.queues(&[LOCK], sharing("cid"));
    server.release(LOCK, "ann").unwrap();
    server.kill(ben);
    server.at(0);
    assert_eq!(server.holders_of(LOCK), all([("cid", 100)]));
}

#[test]
fn the_last_share_is_handed_over_to_a_writer() {
    let mut server = shared();
    let cid = server.waits("cid", 10);
    server.release(LOCK, "ann").unwrap();
    written(&mut server);
    server.release(LOCK, "ben").unwrap();
    server.turn();
    assert!(server.was_granted(cid).is_some());
    let over = Write::Set(LOCK, token("cid", Some(START + 10)));
    assert_eq!(written(&mut server), [over]);
}

#[test]
fn a_score_beyond_all_time_is_no_deadline() {
    for (score, deadline) in [
        (f64::NEG_INFINITY, Some(0)),
        (-1.0, Some(0)),
        (1.9, Some(1)),
        (9_007_199_254_740_991.0, Some(LAST_MS)),
        (9_007_199_254_740_992.0, None),
        (1e19, None),
        (1e300, None),
        (f64::INFINITY, None),
    ] {
        assert_eq!(Share::with_score(score).deadline, deadline, "{score}");
    }
}

#[test]
fn beside_a_share_with_a_score_beyond_all_time_the_key_has_no_end() {
    let mut server = shared();
    server.foreign(Write::ZAdd(LOCK, vec![(b"cid".to_vec(), Some(1 << 60))]));
    written(&mut server);
    server.takes(&[LOCK], sharing("ann"));
    let key = server.keys.get(LOCK).unwrap();
    assert_eq!(key.deadline, Some(START + 100));
    server.takes(&[LOCK], sharing("dot"));
    let gets = Write::ZAdd(LOCK, vec![share("dot", 100)]);
    assert_eq!(written(&mut server), [gets, Write::Persist(LOCK)]);
    server.at(200);
    assert_eq!(server.holders_of(LOCK), [("cid".to_owned(), None)]);
    // Alone it lasts for as long as its owner says.
    server.takes(&[LOCK], alone("cid"));
    assert_eq!(server.holder(), Some(("cid".to_owned(), Some(300))));
}

#[test]
fn a_share_without_an_end_gets_one_when_its_owner_asks() {
    let mut server = shared();
    let for_ever = (b"cid".to_vec(), None);
    server.foreign(Write::ZAdd(LOCK, vec![for_ever]));
    server.foreign(Write::Persist(LOCK));
    server.takes(&[LOCK], sharing("cid"));
    let three = [("ann", 100), ("ben", 30), ("cid", 100)];
    assert_eq!(server.holders_of(LOCK), all(three));
}
