//! Beside others: SHARED and LIMIT.

use super::*;
use crate::lock::{LAST_MS, Left, SHARED_MARKER, Share};

/// `ann` shares the lock for 100 ms, `ben` for 30.
fn shared() -> Server {
    let mut server = server();
    server.takes(&[LOCK], sharing("ann"));
    let short = Request { ttl: 30, ..sharing("ben") };
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
fn a_release_does_not_prolong_the_shares_of_others_that_a_client_has_shortened() {
    let mut server = shared();
    server.foreign(Write::PExpireAt(LOCK, START + 20));
    server.release(LOCK, "ben").unwrap();
    assert_eq!(server.check(LOCK, "ann"), Ok(Some(Left::Ms(20))));
    server.at(21);
    assert_eq!(server.check(LOCK, "ann"), Ok(None));
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
fn a_crowd_of_readers_gets_its_replies_in_portions() {
    let mut server = server();
    server.gets("ann", 100);
    let owners: Vec<Owner> = (0..1000).map(|number| &*format!("reader {number}").leak()).collect();
    for owner in owners {
        let long = Request { ttl: 1000, ..sharing(owner) };
        server.queues(&[LOCK], long);
    }
    server.release(LOCK, "ann").unwrap();
    server.turn();
    let at_once = server.replies.len();
    assert!((1..=50).contains(&at_once), "{at_once}");
    server.at(99);
    assert_eq!(server.replies.len(), 1000);
}

/// `cid` shares the lock for long, and `dot` waits for it alone, before all who come to wait for a share now.
fn shared_before_a_writer() -> Server {
    let mut server = server();
    server.takes(&[LOCK], Request { ttl: 50_000, ..sharing("cid") });
    server.queues(&[LOCK], alone("dot"));
    server
}

/// Another client has this owner share the lock, for long.
fn has_share(server: &mut Server, owner: Owner) {
    server.foreign(Write::ZAdd(LOCK, vec![share(owner, 50_000)]));
    server.foreign(Write::PExpireAt(LOCK, START + 50_000));
}

/// The other lock can't be written when this waiter comes to share the first.
fn is_served_when_writes_are_accepted_again(mut server: Server, waiter: Ticket, shares: Action) {
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
    server.takes(&[OTHER], Request { ttl: 50_000, ..alone("dot") });
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
