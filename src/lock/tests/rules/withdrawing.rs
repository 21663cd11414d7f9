//! RELEASE is the one way out: it ends whatever its owner has asked of a lock.

use super::*;

const BOTH: [Lock; 2] = [LOCK, OTHER];

#[test]
fn a_release_withdraws_what_its_owner_waits_for() {
    let mut server = server();
    server.gets("ann", 100);
    let one = server.waits("ben", 10);
    let cid = server.waits("cid", 10);
    assert_eq!(server.release(LOCK, "ben"), Ok(false));
    assert_eq!(server.queue(LOCK), [cid]);
    server.turn();
    assert_eq!(server.told.get(&one), Some(&Told::TimedOut));
    assert_eq!(server.holder(), held("ann", 100));
}

#[test]
fn a_grant_of_several_locks_that_no_client_was_told_of_is_withdrawn_whole() {
    // Whether it releases one of them or all: none was a hold that it had been told of.
    let releases: [Deed; 2] = [
        |server| assert_eq!(server.release(LOCK, "ann"), Ok(false)),
        |server| assert_eq!(server.release_all(&BOTH, "ann"), Ok(0)),
    ];
    for release in releases {
        let mut server = late_server();
        server.takes(&BOTH, alone("cid"));
        let ann = server.queues(&BOTH, alone("ann"));
        let ben = server.queues(&[OTHER], alone("ben"));
        server.release_all(&BOTH, "cid").unwrap();
        assert_eq!(server.holders_of(OTHER), all([("ann", 100)]));
        release(&mut server);
        server.at(0);
        assert_eq!(server.told.get(&ann), Some(&Told::TimedOut));
        assert!(server.was_granted(ben).is_some());
        assert_eq!(server.holder(), None);
    }
}

#[test]
fn a_release_of_what_is_no_lock_any_more_withdraws_all_the_same() {
    let mut server = server();
    server.gets("ann", 100);
    let ben = server.waits("ben", 10);
    server.set(LOCK, no_lock(None));
    assert_eq!(server.release(LOCK, "ben"), Err(NotALock));
    server.turn();
    assert_eq!(server.told.get(&ben), Some(&Told::TimedOut));
}
