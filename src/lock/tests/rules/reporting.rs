//! What INFO lists and counts.

use super::super::simulated::place;
use super::*;

const NAMES: [Owner; 6] = ["w0", "w1", "w2", "w3", "w4", "w5"];

/// How many holders and waiters INFO lists, and how many there are.
fn listed_and_counted(server: &mut Server, most: usize) -> [usize; 4] {
    let report = server.report_of(LOCK, most).unwrap().unwrap();
    [report.holders.len(), report.count, report.waiters.len(), report.queue]
}

#[test]
fn info_lists_as_many_as_are_asked_for_and_counts_all() {
    let mut server = server();
    for owner in NAMES {
        server.takes(&[LOCK], sharing(owner));
    }
    let waiters: [Owner; 4] = ["ann", "ben", "cid", "dot"];
    for owner in waiters {
        server.waits(owner, 100);
    }
    for (most, holders, waiting) in [(0, 0, 0), (1, 1, 1), (4, 4, 4), (5, 5, 4), (1000, 6, 4)] {
        let counted = listed_and_counted(&mut server, most);
        assert_eq!(counted, [holders, 6, waiting, 4], "{most}");
    }
    let report = server.report_of(LOCK, 2).unwrap().unwrap();
    let listed: Vec<_> = (report.waiters.iter()).map(|one| &*one.owner).collect();
    assert_eq!(listed, [b"ann", b"ben"]);
}

#[test]
fn info_lists_nothing_of_a_lock_held_alone_where_only_numbers_are_asked_for() {
    let mut server = server();
    server.gets("ann", 100);
    assert_eq!(listed_and_counted(&mut server, 0), [0, 1, 0, 0]);
    assert_eq!(listed_and_counted(&mut server, 1), [1, 1, 0, 0]);
}

#[test]
fn a_grant_can_be_claimed_no_longer_than_it_lasts() {
    let mut server = server();
    server.gets("ann", 50_000);
    server.asks(&[LOCK], Request { patience: place(40_000), ..alone("ben") }).unwrap();
    server.release(LOCK, "ann").unwrap();
    let claim = |server: &mut Server| server.report(LOCK).unwrap().unwrap().holders[0].claim;
    assert_eq!(claim(&mut server), Some(40_000));
    server.foreign(Write::PExpireAt(LOCK, START + 150));
    assert_eq!(claim(&mut server), Some(150));
}

#[test]
fn sleeping_places_are_listed_last_and_counted_with_the_others() {
    let mut server = server();
    server.gets("ann", 100);
    let ask = |owner| Request { patience: place(150), ..alone(owner) };
    server.asks(&[LOCK], ask("ben")).unwrap();
    server.at(101);
    // Its turn came and it did not claim it, but keeps its place.
    server.asks(&[LOCK], ask("ben")).unwrap();
    server.release(LOCK, "ben").unwrap();
    server.gets("ann", 100);
    server.asks(&[LOCK], ask("cid")).unwrap();
    server.waits("dot", 100);
    assert_eq!(listed_and_counted(&mut server, 1), [1, 1, 1, 2]);
    assert_eq!(listed_and_counted(&mut server, 9), [1, 1, 2, 2]);
}
