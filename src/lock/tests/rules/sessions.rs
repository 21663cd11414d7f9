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
fn a_server_that_takes_over_has_forgotten_all_ties() {
    let (mut server, client) = session();
    server.reload();
    server.close(client);
    server.at(0);
    assert_eq!(server.holder(), held("ann", 100));
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
