//! A server that loads the module starts again, whatever has been done to its configuration file.

use super::*;
use std::fs;

/// How often the file has a line that loads a module.
fn lines_that_load(server: &Server) -> usize {
    let file = fs::read_to_string(server.file("redis.conf")).unwrap();
    (file.lines()).filter(|line| line.starts_with("loadmodule ")).count()
}

#[track_caller]
fn has_a_lock(server: &Server, key: &str) {
    let mut client = server.client();
    client.acquire(key, "a");
    client.release(key, "a");
}

#[test]
fn a_server_starts_again_after_each_rewrite_of_its_configuration() {
    let server = Server::with().config("lock.max-ttl 600000").start();
    for round in 0..3 {
        assert_eq!(cmd!(server.client(), "CONFIG", "REWRITE"), "OK");
        server.restart();
        assert_eq!(lines_that_load(&server), 1, "round {round}");
        has_a_lock(&server, "k");
    }
}

#[test]
fn a_module_that_was_loaded_by_hand_is_loaded_once_after_a_rewrite() {
    let server = Server::start();
    let mut client = server.client();
    let path = server.module_path();
    server.wait_until_unloaded();
    let loaded = cmd!(client, "MODULE", "LOADEX", &path, "CONFIG", "lock.quarantine", 7);
    assert_eq!(loaded, "OK");
    assert_eq!(cmd!(client, "CONFIG", "REWRITE"), "OK");
    server.restart();
    assert_eq!(lines_that_load(&server), 1);
    let now = cmd!(server.client(), "CONFIG", "GET", "lock.quarantine");
    assert_eq!(now["lock.quarantine"], "7");
}

#[test]
fn a_replica_that_sentinels_have_made_the_master_starts_again() {
    let master = Server::start();
    let replica = master.replica();
    let sentinels = Sentinels::over(&master);
    master.kill_9();
    sentinels.wait_until_they_name(&replica);
    replica.wait_for_role(Role::Master);
    let file = replica.file("redis.conf");
    eventually("the sentinels have had the file rewritten", || {
        fs::read_to_string(&file).is_ok_and(|text| text.contains("CONFIG REWRITE"))
    });
    drop(sentinels);
    replica.restart();
    assert_eq!(lines_that_load(&replica), 1);
    has_a_lock(&replica, "k");
}

#[test]
fn a_server_that_loads_the_module_twice_says_which_line_to_keep() {
    let again = format!("loadmodule {:?}", Server::start().module_path());
    let log = Server::with().config(&again).fail_to_start();
    assert!(log.contains("> not loaded: a module of this name is already loaded"), "{log}");
    assert!(log.contains("Keep the one in the configuration file and remove the other"), "{log}");
}
