//! Holds that end with a connection.

use super::*;

/// A request by this connection, whose hold ends with it.
fn tied(plea: Plea, client: u64) -> Plea {
    Plea { client, session: true, ..plea }
}

/// `ann` holds the lock for as long as her connection lives.
fn session() -> (Server, u64) {
    let mut server = server();
    let client = server.connect();
    server.takes(&[LOCK], tied(alone("ann"), client));
    (server, client)
}

#[test]
fn a_hold_ends_at_once_when_its_connection_closes() {
    let (mut server, client) = session();
    let ben = server.waits("ben", 10);
    server.close(client);
    server.at(0);
    assert!(server.was_granted(ben).is_some());
    assert_eq!(server.holder(), held("ben", 10));
}

#[test]
fn all_that_a_connection_holds_ends_with_it_under_any_owner() {
    let mut server = server();
    let client = server.connect();
    server.takes(&[LOCK, OTHER], tied(alone("ann"), client));
    server.takes(&[THIRD], tied(sharing("ben"), client));
    server.takes(&[THIRD], tied(sharing("cid"), client));
    server.close(client);
    server.at(0);
    assert!(server.keys.keys.is_empty());
    assert_eq!(server.due(), None);
}

#[test]
fn a_session_whose_key_another_client_has_written_over_leaves_that_alone() {
    let (mut server, client) = session();
    server.set(LOCK, token("ben", None));
    server.close(client);
    server.at(0);
    assert_eq!(server.holder(), Some(("ben".to_owned(), None)));
}

#[test]
fn a_hold_that_was_retaken_through_another_connection_is_left_alone() {
    for again_tied in [true, false] {
        let (mut server, first) = session();
        let again = Plea { client: server.connect(), session: again_tied, ..alone("ann") };
        server.takes(&[LOCK], again);
        server.close(first);
        server.at(0);
        assert_eq!(server.holder(), held("ann", 100), "{again_tied}");
    }
}

#[test]
fn a_hold_that_was_retaken_between_the_end_and_the_tick_is_left_alone() {
    let (mut server, client) = session();
    server.close(client);
    server.gets("ann", 50);
    server.at(0);
    assert_eq!(server.holder(), held("ann", 100));
}

#[test]
fn renewing_does_not_change_the_tie() {
    let (mut server, client) = session();
    server.renew(LOCK, "ann", 500).unwrap();
    server.close(client);
    server.at(0);
    assert_eq!(server.holder(), None);
}

#[test]
fn a_waiter_s_hold_is_tied_to_the_connection_that_waited() {
    let mut server = server();
    server.gets("ann", 100);
    let client = server.connect();
    let ben = server.queues(&[LOCK], tied(alone("ben"), client));
    server.release(LOCK, "ann").unwrap();
    server.turn();
    assert!(server.was_granted(ben).is_some());
    server.close(client);
    server.at(0);
    assert_eq!(server.holder(), None);
}

#[test]
fn what_ends_with_a_connection_ends_when_that_is_possible_again() {
    let (mut server, client) = session();
    server.keys.closed.insert(LOCK);
    server.close(client);
    server.at(20);
    assert_eq!(server.holder(), held("ann", 100));
    server.keys.closed.clear();
    server.at(40);
    assert_eq!(server.holder(), None);
    assert_eq!(server.happened().offences, [""; 0]);
}

#[test]
fn a_server_that_takes_over_has_forgotten_all_ties() {
    let (mut server, client) = session();
    server.reload();
    server.close(client);
    server.at(0);
    assert_eq!(server.holder(), held("ann", 100));
}

#[test]
fn of_an_owners_waiters_the_one_that_came_last_decides_which_connection_it_is() {
    for last_is_tied in [true, false] {
        let mut server = server();
        server.gets("ann", 100);
        let [first, last] = [(); 2].map(|()| server.connect());
        server.queues(&[LOCK], tied(alone("ben"), first));
        let session = last_is_tied;
        server.queues(&[LOCK], Plea { session, ..tied(alone("ben"), last) });
        server.release(LOCK, "ann").unwrap();
        server.turn();
        server.close(first);
        server.at(0);
        assert_eq!(server.holder(), held("ben", 100), "{last_is_tied}");
        server.close(last);
        server.at(0);
        assert_eq!(server.holder().is_none(), last_is_tied);
    }
}

#[test]
fn an_upgrade_decides_anew_which_connection_it_is() {
    for (before, after) in [(true, true), (false, true), (true, false)] {
        let mut server = server();
        let client = server.connect();
        let asks = |plea: Plea, session| Plea { session, ..tied(plea, client) };
        server.takes(&[LOCK], asks(sharing("ann"), before));
        server.takes(&[LOCK], asks(alone("ann"), after));
        server.close(client);
        server.at(0);
        assert_eq!(server.holder().is_none(), after, "{before}, {after}");
    }
}

#[test]
fn what_comes_after_a_flush_is_tied_to_no_client() {
    let (mut server, client) = session();
    server.foreign(Write::Flush(None));
    server.set(LOCK, token("ann", Some(START + 100)));
    server.close(client);
    server.at(0);
    assert_eq!(server.holder(), held("ann", 100));
}
