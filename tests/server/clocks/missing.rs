//! A lock whose key a step forward has taken: the key is written again at once, unless something else came first.

use super::*;

/// Whether the server takes writes. While it does not, a lock whose key went too early is held without one.
fn takes_writes(client: &mut Client, takes: bool) {
    let least = if takes { 0 } else { 1 };
    assert_eq!(cmd!(client, "CONFIG", "SET", "min-replicas-to-write", least), "OK");
}

/// `a` holds each lock for a while, and the keys are gone: the server takes no writes.
fn gone_too_early(server: &Server, client: &mut Client) -> Vec<Hold> {
    let holds = hold_in_all_ways(server, client, WHILE);
    takes_writes(client, false);
    server.step_clock(MINUTE);
    eventually("the server has found what has expired", || cmd!(client, "DBSIZE") == 0);
    holds
}

#[test]
fn keys_that_went_too_early_come_back_by_themselves() {
    let server = Server::with().with_steps().append_only().start();
    let replica = server.replica_with(Setup::new().with_steps());
    let mut client = server.client();
    for step in [MINUTE, DAY] {
        let holds = hold_in_all_ways(&server, &mut client, WHILE);
        for server in [&server, &replica] {
            server.step_clock(step);
        }
        wait_until_all_keys_are_back(&mut client, &holds);
        for hold in &holds {
            let case = format!("{:?} after {step}", hold.way);
            hold.assert_is_back(&case, &mut client, &hold.term);
            assert_is_written(&case, hold.way, &server, &replica);
            let [first, ..] = &hold.way.keys()[..] else { unreachable!() };
            assert!(cmd!(client, "SET", first, "x", "NX", "PX", LONG).is_nil(), "{case}");
        }
        for hold in &holds {
            client.release_all(&hold.way.keys(), "a");
        }
    }
}

/// A readonly command writes nothing, and needs no leave.
#[test]
fn while_the_server_takes_no_writes_a_lock_is_held_without_its_key_which_comes_back_afterwards() {
    let server = stepped();
    let mut client = server.client();
    let holds = gone_too_early(&server, &mut client);
    for hold in &holds {
        let key = hold.way.key();
        hold.term.assert_left(&key, || cmd!(client, "LOCK.CHECK", &key, "a"));
        let info = cmd!(client, "LOCK.INFO", &key);
        assert_eq!(info["holders"][0]["owner"], "a", "{key}");
        assert_eq!(cmd!(client, "EXISTS", &key), 0, "{key}");
    }
    takes_writes(&mut client, true);
    wait_until_all_keys_are_back(&mut client, &holds);
    for hold in &holds {
        hold.assert_is_back("afterwards", &mut client, &hold.term);
    }
}

/// The server removes no expired key meanwhile and reports none: it hides it.
#[test]
fn a_lock_whose_key_is_hidden_by_a_paused_server_is_held_for_those_who_read() {
    let server = stepped();
    let mut client = server.client();
    let holds = hold_in_all_ways(&server, &mut client, WHILE);
    // The pause ends by the wall clock, too, so that it has to last beyond the step.
    assert_eq!(cmd!(client, "CLIENT", "PAUSE", 10 * MINUTE, "WRITE"), "OK");
    server.step_clock(MINUTE);
    for hold in &holds {
        let key = hold.way.key();
        assert_eq!(cmd!(client, "EXISTS", &key), 0, "{key}");
        hold.term.assert_left(&key, || cmd!(client, "LOCK.CHECK", &key, "a"));
        let info = cmd!(client, "LOCK.INFO", &key);
        assert_eq!(info["holders"][0]["owner"], "a", "{key}");
    }
    assert_eq!(cmd!(client, "CLIENT", "UNPAUSE"), "OK");
    wait_until_all_keys_are_back(&mut client, &holds);
    for hold in &holds {
        hold.assert_is_back("afterwards", &mut client, &hold.term);
    }
}

#[test]
fn a_slot_that_leaves_takes_along_what_was_held_without_a_key() {
    for more in [&[][..], &["SHARED"]] {
        let cluster =
            Cluster::with(2, |setup| setup.with_steps().config("cluster-node-timeout 1000000000"));
        let key = cluster.key_on(0, "key");
        let mut client = cluster.client(0);
        client.run(&ask(&key, "a", WHILE, more)).fence();
        takes_writes(&mut client, false);
        cluster.node(0).step_clock(MINUTE);
        eventually("its key has gone", || cmd!(client, "DBSIZE") == 0);
        assert!(cmd!(client, "LOCK.CHECK", &key, "a").int() > 0);
        let slot = cluster.slot_of(&key);
        cluster.set_importing(slot, 0, 1);
        cluster.set_migrating(slot, 0, 1);
        cluster.set_slot_owner(slot, 0, 1);
        takes_writes(&mut client, true);
        cluster.client(1).acquire(&key, "n");
        eventually("what has to be done is done", || {
            client.info("lock_memory")["lock_memory_tasks"] == "0"
        });
        assert_eq!(cmd!(client, "DBSIZE"), 0);
    }
}
