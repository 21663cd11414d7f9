//! What happens to a lock between the moment at which its key went too early and its end.

use super::*;

/// `a` holds each lock for a while; by the wall clock all are over, and the keys are gone.
fn gone_too_early(server: &Server, client: &mut Client) -> Vec<Hold> {
    let holds = hold_in_all_ways(server, client, WHILE);
    server.step_clock(MINUTE);
    wait_until_all_keys_are_gone(client);
    holds
}

/// What this process has granted it knows no more after it, so the keys say who holds what.
#[test]
fn a_load_and_a_demotion_forget_a_lock_whose_key_went_too_early() {
    for way in ["DEBUG RELOAD", "a demotion"] {
        let server = stepped();
        let mut client = server.client();
        gone_too_early(&server, &mut client);
        if way == "DEBUG RELOAD" {
            assert_eq!(cmd!(client, "DEBUG", "RELOAD"), "OK");
        } else {
            assert_eq!(cmd!(client, "REPLICAOF", "127.0.0.1", 1), "OK");
            server.promote();
            server.wait_for_role(Role::Master);
        }
        for way in Way::ALL {
            client.acquire(way.key(), "n");
        }
    }
}

#[test]
fn what_is_held_while_the_data_are_loaded_anew_ends_by_the_wall_clock() {
    let server = stepped();
    let mut client = server.client();
    let keys: Vec<_> =
        (hold_in_all_ways(&server, &mut client, WHILE).iter()).map(|hold| hold.way.key()).collect();
    assert_eq!(cmd!(client, "DEBUG", "RELOAD"), "OK");
    for key in &keys {
        assert!(cmd!(client, "LOCK.CHECK", key, "a").int() > 0, "{key}");
        assert!(client.run(&ask(key, "n", LONG, &[])).is_nil(), "{key}");
    }
    server.step_clock(MINUTE);
    for key in &keys {
        client.acquire(key, "n");
    }
}

/// A readonly command writes nothing, and needs no leave.
#[test]
fn check_and_info_write_no_key_back() {
    let server = stepped();
    let mut client = server.client();
    for hold in gone_too_early(&server, &mut client) {
        let key = hold.way.key();
        (hold.term).assert_left(&key, || cmd!(client, "LOCK.CHECK", &key, "a"));
        assert!(!cmd!(client, "LOCK.INFO", &key).is_nil(), "{key}");
        assert_eq!(cmd!(client, "EXISTS", &key), 0, "{key}");
    }
    cmd!(client, "FLUSHALL");
}
