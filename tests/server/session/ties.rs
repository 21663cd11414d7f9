//! When it is forgotten which connection a hold ends with.

use super::{modes, tied};
use crate::support::*;

#[test]
fn demotion_forgets_the_ties() {
    let server = Server::with().append_only().start();
    let other = Server::start();
    other.client().share("k", "a");
    let mut client = server.session("k", "a");
    let mut short = server.session("short", "a");
    // One closes while the server is a replica, and one afterwards.
    server.follow(&other);
    server.wait_until_in_sync_with(&other);
    let id = short.id();
    short.close();
    server.wait_for_the_end_of(id);
    assert_eq!(server.client().sharers("k"), ["a"]);
    server.promote();
    let id = client.id();
    client.close();
    server.wait_for_the_end_of(id);
    assert_eq!(server.client().sharers("k"), ["a"]);
    let commands = server.aof_commands();
    assert!(!commands.iter().any(|line| line.contains("LOCK.")));
    // Demoted and promoted in one breath, so that the keys stay.
    let mut client = server.session("l", "a");
    let id = client.id();
    server
        .client()
        .pipeline(&[args!["REPLICAOF", "127.0.0.1", 1], args!["REPLICAOF", "NO", "ONE"]]);
    client.close();
    server.wait_for_the_end_of(id);
    assert!(server.client().is_held_by("l", "a"));
    // And from then on all is as ever.
    let mut client = server.client();
    client.run(&tied("l", "a", &args![])).fence();
    client.close();
    let mut observer = server.client();
    eventually("the hold is over", || cmd!(observer, "EXISTS", "l") == 0);
}

#[test]
fn a_module_that_is_unloaded_and_loaded_again_has_forgotten_the_ties() {
    let server = Server::start();
    let path = server.module_path();
    let mut observer = server.client();
    let mut before = server.session("k", "a");
    let id = before.id();
    let mut while_away = server.session("l", "a");
    let id_away = while_away.id();
    server.wait_until_unloaded();
    while_away.close();
    server.wait_for_the_end_of(id_away);
    assert_eq!(cmd!(observer, "MODULE", "LOAD", path), "OK");
    before.close();
    server.wait_for_the_end_of(id);
    assert!(observer.is_held_by("k", "a"));
    assert!(observer.is_held_by("l", "a"));
    let again = server.session("k", "a");
    again.close();
    eventually("the hold is over", || cmd!(observer, "EXISTS", "k") == 0);
}

#[test]
fn a_connection_that_ends_in_the_transaction_that_ties_it_holds_nothing() {
    let server = Server::start();
    let mut observer = server.client();
    for mode in modes() {
        let mut client = server.client();
        let id = client.id();
        client.send_pipeline(&[
            args!["MULTI"],
            tied("k", "a", &mode),
            args!["CLIENT", "KILL", "ID", id, "SKIPME", "no"],
            args!["EXEC"],
        ]);
        server.wait_for_the_end_of(id);
        eventually("the hold is over", || cmd!(observer, "EXISTS", "k") == 0);
    }
}
