//! MAXQUEUE: requests that don't wait behind too many others.

use super::super::simulated::place;
use super::*;

/// A request that waits indefinitely, if fewer than so many others wait before it.
fn behind(most: u64, ask: Request) -> Request {
    Request { patience: Patience::Forever, max_queue: Some(most), ..ask }
}

/// A request for a place, if fewer than so many others wait before it.
fn place_behind(most: u64, ask: Request) -> Request {
    Request { patience: place(1000), ..behind(most, ask) }
}

#[test]
fn a_request_waits_behind_fewer_than_it_says_and_else_is_told_how_many_wait() {
    let mut server = server();
    server.gets("ann", 100);
    server.queues(&[LOCK], behind(1, alone("ben")));
    for ask in [alone("dot"), sharing("dot"), limited("dot", 9)] {
        let full = server.asks(&[LOCK], behind(1, ask));
        assert_eq!(full, Err(Refusal::Behind(1)));
        let full = server.asks(&[LOCK], place_behind(1, ask));
        assert_eq!(full, Err(Refusal::Behind(1)));
    }
    server.queues(&[LOCK], behind(2, alone("cid")));
    let full = server.asks(&[LOCK], behind(1, alone("dot")));
    assert_eq!(full, Err(Refusal::Behind(2)));
    assert_eq!(server.queue(LOCK).len(), 2);
}

#[test]
fn behind_none_is_a_try_that_says_how_many_wait() {
    let mut server = server();
    server.gets("ann", 100);
    let full = server.asks(&[LOCK], behind(0, alone("ben")));
    assert_eq!(full, Err(Refusal::Behind(0)));
}

#[test]
fn polling_for_a_place_is_never_refused() {
    let mut server = server();
    server.gets("ann", 100);
    server.waits("ben", 100);
    let asks = |server: &mut Server, most, ask| server.asks(&[LOCK], place_behind(most, ask));
    assert_eq!(asks(&mut server, 2, alone("cid")), Ok(Acquired::Place(1)));
    assert_eq!(asks(&mut server, 0, alone("cid")), Ok(Acquired::Place(1)));
    // Another mode is another place.
    let other = asks(&mut server, 1, sharing("cid"));
    assert_eq!(other, Err(Refusal::Behind(1)));
    assert_eq!(asks(&mut server, 0, alone("cid")), Ok(Acquired::Place(1)));
    // Its own place is none of the others.
    assert_eq!(asks(&mut server, 2, sharing("cid")), Ok(Acquired::Place(1)));
}

#[test]
fn a_place_that_sleeps_is_not_counted_and_comes_back_unasked() {
    let mut server = server();
    server.gets("ann", 500);
    let ask = |owner, most| Request { patience: place(1000), ..behind(most, alone(owner)) };
    server.asks(&[LOCK], ask("ben", 1)).unwrap();
    server.at(500);
    server.release(LOCK, "ann").unwrap();
    // Its turn has come, and it does not claim it.
    server.at(999);
    server.asks(&[LOCK], ask("cid", 2)).unwrap();
    assert_eq!(server.asks(&[LOCK], ask("dot", 1)), Err(Refusal::Behind(1)));
}
