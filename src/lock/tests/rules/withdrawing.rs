//! RELEASE is the one way out: it ends whatever its owner has asked of a lock.

use super::*;

#[test]
fn a_release_withdraws_what_its_owner_waits_for() {
    let mut server = server();
    server.gets("ann", 100);
    let one = server.waits("ben", 10);
    let cid = server.waits("cid", 10);
    assert_eq!(server.release(LOCK, "ben"), Ok(false));
    assert_eq!(server.queue(LOCK), [cid]);
    server.turn();
    assert_eq!(server.replies.get(&one), Some(&Reply::TimedOut));
    assert_eq!(server.holder(), held("ann", 100));
}
