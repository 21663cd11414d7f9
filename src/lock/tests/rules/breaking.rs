//! What an operator's BREAK does to a lock.

use super::*;

#[test]
fn it_ends_the_hold_and_hands_the_lock_on_in_the_same_instant() {
    let mut server = server();
    server.gets("ann", 100);
    let ben = server.waits("ben", 50);
    written(&mut server);
    assert_eq!(server.break_holds(LOCK, false), Ok(1));
    server.at(0);
    assert!(server.was_granted(ben).is_some());
    let over = Write::Set(LOCK, token("ben", Some(START + 50)));
    assert_eq!(written(&mut server), [over]);
}

#[test]
fn what_is_no_lock_is_refused_and_stays() {
    let mut server = server();
    server.set(LOCK, no_lock(None));
    for force in [false, true] {
        assert_eq!(server.break_holds(LOCK, force), Err(NotALock));
    }
    assert_eq!(server.keys.get(LOCK), Some(&no_lock(None)));
}

#[test]
fn a_string_without_an_end_that_is_not_ours_is_left_alone_unless_it_is_forced() {
    let mut server = server();
    server.set(LOCK, token("data", None));
    assert_eq!(server.break_holds(LOCK, false), Ok(0));
    // To have spoken to us makes it no grant of ours.
    assert!(server.check(LOCK, "data").unwrap().is_some());
    assert_eq!(server.break_holds(LOCK, false), Ok(0));
    assert_eq!(server.keys.get(LOCK), Some(&token("data", None)));
    assert_eq!(server.break_holds(LOCK, true), Ok(1));
    assert!(server.keys.get(LOCK).is_none());
}
