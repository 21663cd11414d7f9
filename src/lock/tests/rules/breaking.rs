//! What an operator's BREAK does to a lock.

use super::*;

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
