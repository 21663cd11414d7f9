//! An owner comes back to a lock whose key has gone too early, before or after that was written again.

use super::*;

/// What an owner may do with its hold, and the ttl that it has then, if it is another.
fn returns(way: Way) -> Vec<(&'static str, Command, Option<u64>)> {
    let keys = way.keys();
    let of_all = |name: &str, more: Command| [counted(name, &keys), more].concat();
    vec![
        ("ACQUIRE, not as long", way.ask("a", 1), None),
        ("ACQUIRE, longer", way.ask("a", 2 * WHILE), Some(2 * WHILE)),
        ("MRENEW", of_all("LOCK.MRENEW", args!["a", 5_000]), Some(5_000)),
        ("MRENEW, longer", of_all("LOCK.MRENEW", args!["a", 2 * WHILE]), Some(2 * WHILE)),
    ]
}

#[test]
fn an_owner_has_its_key_back_with_its_number_and_with_what_is_left() {
    let server = Server::with().with_steps().append_only().start();
    let replica = server.replica_with(Setup::new().with_steps());
    let mut client = server.client();
    for number in 0..returns(Way::Alone).len() {
        let holds = hold_in_all_ways(&server, &mut client, WHILE);
        for server in [&server, &replica] {
            server.step_clock(MINUTE);
        }
        // Sometimes the server finds that the key has expired, and sometimes we do.
        if number % 2 == 0 {
            wait_until_all_keys_are_back(&mut client, &holds);
        }
        for hold in &holds {
            let (name, command, ttl) = returns(hold.way).swap_remove(number);
            let case = format!("{name}, {:?}", hold.way);
            let (term, reply) = Term::of(ttl.unwrap_or(0), || client.run(&command));
            if name.starts_with("ACQUIRE") {
                assert_eq!(reply, hold.fence, "{case}");
            } else {
                assert_eq!(reply, 1, "{case}");
            }
            let term = if ttl.is_some() { term } else { hold.term };
            hold.assert_is_back(&case, &mut client, &term);
            assert_is_written(&case, hold.way, &server, &replica);
        }
        for hold in &holds {
            client.release_all(&hold.way.keys(), "a");
        }
    }
}

/// Whatever runs under the lock finds it as it should be.
#[test]
fn guard_has_the_key_back_before_its_command_runs() {
    let server = Server::with().with_steps().append_only().start();
    let replica = server.replica_with(Setup::new().with_steps());
    let mut client = server.client();
    let holds = hold_in_all_ways(&server, &mut client, WHILE);
    for server in [&server, &replica] {
        server.step_clock(MINUTE);
    }
    for hold in &holds {
        let case = format!("{:?}", hold.way);
        for key in hold.way.keys() {
            let reply = cmd!(client, "LOCK.GUARD", &key, "a", "PEXPIRETIME", &key);
            hold.term.assert_left(&case, || Value::Int(reply.int() - server.wall_clock()));
            let refused = cmd!(client, "LOCK.GUARD", &key, "n", "SET", "x", 1);
            assert!(refused.is_error("NOTOWNER"), "{case}: {refused:?}");
        }
        hold.assert_is_back(&case, &mut client, &hold.term);
        assert_is_written(&case, hold.way, &server, &replica);
    }
    for hold in &holds {
        client.release_all(&hold.way.keys(), "a");
    }
}
