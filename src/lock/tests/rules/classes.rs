//! Figures by class of keys.

use super::super::simulated::place;
use super::*;
use crate::lock::{Class, Reason};

/// Both locks of these rules begin with one of these: LOCK and OTHER.
const PATTERNS: [&[u8]; 2] = [b"lo*", b"ot*"];

fn server_with_classes() -> Server {
    let mut server = server();
    set(&mut server, &PATTERNS);
    server
}

fn set(server: &mut Server, patterns: &[&[u8]]) {
    let fits: fn(&[u8], &[u8]) -> bool = |pattern, key| {
        let (last, before) = pattern.split_last().unwrap();
        if *last == b'*' { key.starts_with(before) } else { pattern == key }
    };
    server.locks.waiting.set_classes(patterns.iter().copied(), fits);
}

fn class(server: &Server, at: usize) -> &Class {
    server.locks.waiting.classes.iter().nth(at).unwrap()
}

#[test]
fn grants_and_waits_are_counted_in_the_class_of_their_lock() {
    let mut server = server_with_classes();
    server.gets("ann", 100);
    server.takes(&[LOCK, OTHER], Request { ttl: 900, ..alone("ann") });
    let ben = server.waits("ben", 100);
    server.at(30);
    server.release(LOCK, "ann").unwrap();
    server.turn();
    assert!(server.was_granted(ben).is_some());
    let lock = class(&server, 0);
    assert_eq!((lock.grants, lock.waits, lock.waited), (2, 1, 30_000));
    assert!(lock.wait_times.quantile(500).abs_diff(30_000) < 2_000);
    let other = class(&server, 1);
    assert_eq!((other.grants, other.waits, other.waited), (1, 0, 0));
}

#[test]
fn those_who_wait_are_counted_while_they_wait_blocked_or_not() {
    let mut server = server_with_classes();
    server.takes(&[LOCK, OTHER], alone("ann"));
    let ben = server.queues(&[LOCK, OTHER], alone("ben"));
    server.waits("cid", 100);
    let ask = Request { patience: place(500), ..alone("dot") };
    server.asks(&[LOCK], ask).unwrap();
    assert_eq!((class(&server, 0).waiting, class(&server, 1).waiting), (3, 1));
    server.unblock(ben);
    server.release(LOCK, "dot").unwrap();
    assert_eq!((class(&server, 0).waiting, class(&server, 1).waiting), (1, 0));
    server.release(LOCK, "ann").unwrap();
    assert_eq!(class(&server, 0).waiting, 0);
    assert_eq!(class(&server, 0).waiting_peak, 3);
    assert_eq!(class(&server, 1).waiting_peak, 1);
}

#[test]
fn those_who_waited_before_a_class_was_set_are_not_counted_in_it() {
    let mut server = server();
    server.gets("ann", 100);
    let ben = server.waits("ben", 100);
    set(&mut server, &PATTERNS);
    server.waits("cid", 100);
    assert_eq!(class(&server, 0).waiting, 1);
    server.unblock(ben);
    assert_eq!(class(&server, 0).waiting, 1);
    // The same patterns again are the same classes.
    set(&mut server, &PATTERNS);
    assert_eq!(class(&server, 0).waiting, 1);
}

#[test]
fn losses_are_counted_by_reason_and_each_once() {
    let mut server = server_with_classes();
    server.gets("ann", 100);
    server.waits("ben", 100);
    server.at(101);
    server.at(202);
    server.gets("ann", 100);
    server.break_holds(LOCK, false).unwrap();
    server.takes(&[OTHER], alone("cid"));
    server.loses(OTHER, Reason::Deleted);
    server.turn();
    let lock = class(&server, 0);
    assert_eq!(lock.lost(Reason::Expired), 2);
    assert_eq!(lock.lost(Reason::Broken), 1);
    assert_eq!(lock.lost(Reason::Deleted), 0);
    assert_eq!(class(&server, 1).lost(Reason::Deleted), 1);
}

#[test]
fn how_long_holds_have_lasted_is_counted_when_they_are_released_or_lost() {
    let mut server = server_with_classes();
    server.gets("ann", 1000);
    server.at(40);
    server.release(LOCK, "ann").unwrap();
    assert_eq!(class(&server, 0).hold_times.quantile(500), 41);
    server.takes(&[LOCK], sharing("ben"));
    server.takes(&[LOCK], sharing("cid"));
    server.at(60);
    server.release(LOCK, "ben").unwrap();
    server.release(LOCK, "cid").unwrap();
    assert!(class(&server, 0).hold_times.quantile(500).abs_diff(20) <= 1);
    server.takes(&[LOCK, OTHER], Request { ttl: 5000, ..alone("ann") });
    server.at(1060);
    server.release_all(&[LOCK, OTHER], "ann").unwrap();
    assert!(class(&server, 1).hold_times.quantile(990).abs_diff(1000) < 40);
}

#[test]
fn what_an_owner_held_before_it_waited_for_more_was_not_waited_for() {
    let mut server = server_with_classes();
    server.gets("ann", 1000);
    server.takes(&[OTHER], alone("ben"));
    let ann = server.queues(&[LOCK, OTHER], alone("ann"));
    server.release(OTHER, "ben").unwrap();
    server.turn();
    assert!(server.was_granted(ann).is_some());
    let waits = [0, 1].map(|at| (class(&server, at).grants, class(&server, at).waits));
    assert_eq!(waits, [(1, 0), (2, 1)]);
}
