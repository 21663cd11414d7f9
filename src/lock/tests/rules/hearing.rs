//! Whether any client has heard of a grant.

use super::*;

/// `ben` was granted the lock, and has not been told.
fn on_its_way() -> (Server, Ticket) {
    let mut server = late_server();
    server.gets("ann", 100);
    let ben = server.waits("ben", 100);
    server.release(LOCK, "ann").unwrap();
    assert_eq!(server.holder(), held("ben", 100));
    (server, ben)
}

#[test]
fn a_grant_whose_client_is_cut_off_in_the_turn_of_its_answer_goes_to_the_next() {
    for answers in [Answers::Straight, Answers::Kept, Answers::Late] {
        let mut server = server_like(Flavour { answers, ..Flavour::default() });
        server.gets("ann", 100);
        let ben = server.waits("ben", 100);
        let cid = server.waits("cid", 50);
        server.release(LOCK, "ann").unwrap();
        server.doom(ben);
        server.turn();
        server.at(0);
        assert!(server.was_granted(cid).is_some(), "{answers:?}");
        assert_eq!(server.holder(), held("cid", 50), "{answers:?}");
        assert_eq!(server.locks.counts().undelivered, 1, "{answers:?}");
    }
}

#[test]
fn a_grant_whose_reply_has_gone_out_is_kept_although_its_connection_closes_before_the_wait_ends() {
    for is_doomed in [false, true] {
        let mut server = server_like(Flavour::default());
        server.gets("ann", 100);
        let ben = server.waits("ben", 100);
        let cid = server.waits("cid", 50);
        server.release(LOCK, "ann").unwrap();
        if is_doomed {
            server.doom(ben);
        }
        server.turn_too_early_for_the_ends();
        server.kill(ben);
        server.turn();
        server.at(0);
        // Who is cut off in the very turn of its reply has not heard.
        assert_eq!(server.was_granted(cid).is_some(), is_doomed);
        let holder = if is_doomed { ("cid", 50) } else { ("ben", 100) };
        assert_eq!(server.holder(), held(holder.0, holder.1));
    }
}

#[test]
fn who_is_known_to_have_heard_has_heard_although_the_connection_closes_as_the_wait_ends() {
    let mut server = server();
    server.gets("ann", 100);
    let ben = server.waits("ben", 100);
    let client = server.client_of(ben).unwrap();
    server.release(LOCK, "ann").unwrap();
    server.turn_too_early_for_the_ends();
    server.falls_asleep();
    server.says_closed(client);
    server.at(10);
    assert_eq!(server.holder(), held("ben", 100));
}

#[test]
fn a_grant_is_not_known_to_be_heard_before_its_connection_has_outlived_the_turn() {
    let (mut server, ben) = on_its_way();
    server.doom(ben);
    server.falls_asleep();
    server.tick();
    assert_eq!(server.holder(), held("ben", 100));
    assert!(!server.locks.is_idle());
    server.turn();
    server.at(0);
    assert_eq!(server.holder(), None);
    assert!(server.locks.is_idle());
}

type Release = fn(&mut Server) -> Result<bool, NotALock>;

#[test]
fn after_a_release_the_owner_s_name_in_the_key_is_no_grant_that_no_client_heard_of() {
    let release: Release = |server| server.release(LOCK, "ann");
    let release_all: Release =
        |server| server.release_all(&[LOCK], "ann").map(|released| released > 0);
    let writes = [
        (Write::Set(LOCK, token("ben", None)), release, Ok(false)),
        (Write::Set(LOCK, no_lock(None)), release, Err(NotALock)),
        (Write::Set(LOCK, no_lock(None)), release_all, Err(NotALock)),
        (Write::Del(LOCK), release, Ok(false)),
    ];
    for (write, release, released) in writes {
        let mut server =
            server_like(Flavour { answers: Answers::Late, says_how: false, ..Flavour::default() });
        server.takes(&[LOCK], sharing("ben"));
        let ann = server.waits("ann", 100);
        server.release(LOCK, "ben").unwrap();
        assert_eq!(server.holder(), held("ann", 100));
        server.foreign(write.clone());
        assert_eq!(release(&mut server), released, "{write:?}");
        server.set(LOCK, token("ann", Some(START + 50)));
        server.kill(ann);
        server.at(0);
        assert_eq!(server.holder(), held("ann", 50), "{write:?}");
    }
}

#[test]
fn a_hold_with_session_ends_if_its_connection_closed_before_the_grant_though_its_owner_has_heard() {
    let mut server = late_server();
    server.gets("ann", 100);
    let ben = server.queues(&[LOCK], Request { session: true, ..alone("ben") });
    let client = server.client_of(ben).unwrap();
    server.says_closed(client);
    server.release(LOCK, "ann").unwrap();
    // By another connection.
    assert!(server.check(LOCK, "ben").unwrap().is_some());
    server.end_waits_of(client);
    server.at(1);
    assert_eq!(server.holder(), None);
}

#[test]
fn a_grant_whose_connection_has_closed_in_the_turn_of_its_reply_is_given_back_as_the_wait_ends() {
    let (mut server, ben) = on_its_way();
    assert!(server.locks.outcomes().outcome(ben, true).is_some());
    server.locks.outcomes().confirm(|_| false);
    server.kill(ben);
    server.at(0);
    assert_eq!(server.holder(), None);
}
