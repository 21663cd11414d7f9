//! A lock whose key went too early, in the place of which others have put something that is no lock: that is
//! their data, and stays as it is.

use super::*;

/// What others may put there.
fn data() -> Vec<Command> {
    vec![
        args!["RPUSH", "k", "precious"],
        args!["HSET", "k", "precious", "v"],
        args!["ZADD", "k", 1, "precious"],
        args!["SADD", "k", "precious"],
        args!["SET", "k", "x".repeat(1025)],
    ]
}

/// The key, as any client may copy it.
fn dump(client: &mut Client) -> Value {
    cmd!(client, "DUMP", "k")
}

/// `a` holds `k`, whose key has gone too early, and which is these data now.
fn taken(server: &Server, client: &mut Client, way: &str, data: &Command) -> Client {
    let mut holder = server.client();
    let more: &[&str] = match way {
        "shared" => &["SHARED"],
        "tied" => &["SESSION"],
        _ => &[],
    };
    expire_nothing_by_itself(client);
    assert!(holder.run(&ask("k", "a", WHILE, more)).fence() > 0);
    server.step_clock(MINUTE);
    assert!(!client.run(data).is_error(""));
    holder
}

#[test]
fn whatever_the_owner_asks_for_others_data_in_the_place_of_its_key_stay() {
    let server = stepped();
    let mut client = server.client();
    let commands = [
        args!["LOCK.RELEASE", "k", "a"],
        args!["LOCK.RENEW", "k", "a", LONG],
        args!["LOCK.GUARD", "k", "a", "SET", "guarded", 1],
        args!["LOCK.CHECK", "k", "a"],
        ask("k", "a", LONG, &[]),
        ask("k", "a", LONG, &["SHARED"]),
        ask("k", "a", LONG, &["QUEUE", "1000"]),
        args!["LOCK.MACQUIRE", 2, "other", "k", "a", LONG],
        args!["LOCK.MRENEW", 1, "k", "a", LONG],
        args!["LOCK.MRELEASE", 2, "k", "other", "a"],
        args!["LOCK.BREAK", "k"],
    ];
    for way in ["alone", "shared"] {
        for data in data() {
            for command in &commands {
                let case = format!("{way}, {data:?}, {command:?}");
                taken(&server, &mut client, way, &data);
                let before = dump(&mut client);
                let reply = client.run(command);
                assert!(reply.is_error("WRONGTYPE"), "{case}: {reply:?}");
                assert_eq!(dump(&mut client), before, "{case}");
                // Nothing comes of it later either.
                let again = client.run(command);
                assert!(again.is_error("WRONGTYPE"), "{case}: {again:?}");
                assert_eq!(dump(&mut client), before, "{case}");
                if command[0] != b"LOCK.CHECK" {
                    let lost = cmd!(client, "LOCK.LOG", 1);
                    assert_eq!(lost[0]["reason"], "overwritten", "{case}");
                }
                cmd!(client, "DEL", "k");
                client.acquire("k", "next");
                cmd!(client, "FLUSHALL");
                cmd!(client, "LOCK.LOG", "RESET");
            }
        }
    }
}

#[test]
fn the_end_of_a_session_leaves_others_data_in_the_place_of_its_key() {
    let server = stepped();
    let mut client = server.client();
    for data in data() {
        let holder = taken(&server, &mut client, "tied", &data);
        let before = dump(&mut client);
        drop(holder);
        eventually("the session is over", || {
            let memory = client.info("lock_memory");
            memory["lock_memory_sessions"] == "0" && memory["lock_memory_tasks"] == "0"
        });
        assert_eq!(dump(&mut client), before, "{data:?}");
        cmd!(client, "FLUSHALL");
    }
}

#[test]
fn a_lock_that_is_made_to_expire_on_purpose_after_a_step_forward_is_free() {
    let server = stepped();
    let mut client = server.client();
    // Not as far as its end; and beyond it, so that the key has gone and is written again.
    for (way, step) in [
        ("untouched", SECOND),
        ("renewed", SECOND),
        ("shared", SECOND),
        ("renewed", DAY),
        ("shared and renewed", DAY),
    ] {
        for expire in
            [args!["PEXPIRE", "k", -1], args!["PEXPIREAT", "k", 1], args!["EXPIRE", "k", -1]]
        {
            let case = format!("{way} after {step} ms, {expire:?}");
            let more: &[&str] = if way.starts_with("shared") { &["SHARED"] } else { &[] };
            client.run(&ask("k", "a", LONG, more)).fence();
            server.step_clock(step);
            if way.ends_with("renewed") {
                assert_eq!(cmd!(client, "LOCK.RENEW", "k", "a", LONG), 1);
            }
            assert_eq!(client.run(&expire), 1, "{case}");
            assert!(cmd!(client, "LOCK.CHECK", "k", "a").is_nil(), "{case}");
            client.acquire("k", "b");
            cmd!(client, "FLUSHALL");
        }
    }
}
