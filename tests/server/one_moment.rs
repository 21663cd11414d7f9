//! Thousands of keys that end in one moment: locks that others wait for, one by one and several at
//! once, shared ones, hashes whose fields run out, and keys that are no locks among them. The
//! server walks through them, and must not be led astray on its way by what we do after each.

use crate::support::*;

/// Of each kind.
const MANY: usize = 400;
const ROUNDS: usize = 12;
/// So many of each kind are waited for by one each.
const SINGLES: usize = 40;
/// So many waiters want all others, each some of every kind.
const CROWD: usize = 40;
const AHEAD: i64 = 400;

/// The name of a key of this kind. They lie mixed in the server's tables.
fn name(kind: &str, number: usize) -> String {
    format!("{kind}:{number}")
}

fn now(client: &mut Client) -> i64 {
    let time = cmd!(client, "TIME");
    let part = |at: usize| -> i64 { time[at].text().parse().unwrap() };
    part(0) * 1000 + part(1) / 1000
}

#[track_caller]
fn run_all(client: &mut Client, commands: &[Command]) {
    for (answer, command) in client.pipeline(commands).iter().zip(commands) {
        assert!(!answer.is_error("") && !answer.is_nil(), "{command:?}: {answer:?}");
    }
}

#[test]
fn whatever_ends_in_one_moment_is_passed_on_and_nothing_else_happens() {
    let strict = |setup: Setup| setup.config("propagation-error-behavior panic");
    let server = strict(Server::with().append_only().config("hz 500")).start();
    let replica = server.replica_with(strict(Setup::new().without_module()));
    let mut client = server.client();
    let fields_end = !cmd!(client, "COMMAND", "INFO", "HPEXPIREAT")[0].is_nil();
    let kinds: &[&str] =
        if fields_end { &["alone", "shared", "hash"] } else { &["alone", "shared"] };
    let waiting = kinds.len() * SINGLES + CROWD;
    let mut waiters: Vec<Client> = (0..waiting).map(|_| server.client()).collect();
    for round in 0..ROUNDS {
        let mut commands = Vec::new();
        for number in 0..MANY {
            commands.push(args!["LOCK.ACQUIRE", name("alone", number), "a", LONG]);
            commands.push(args!["LOCK.ACQUIRE", name("shared", number), "a", LONG, "SHARED"]);
            commands.push(args!["LOCK.ACQUIRE", name("shared", number), "b", LONG, "SHARED"]);
            commands.push(args!["LOCK.ACQUIRE", name("hash", number), "a", LONG]);
            commands.push(args!["SET", name("data", number), "x"]);
            commands.push(args!["RPUSH", name("list", number), "x"]);
        }
        run_all(&mut client, &commands);

        let mut wants = kinds
            .iter()
            .flat_map(|kind| (0..SINGLES).map(|number| name(kind, number)))
            .map(|key| vec![key])
            .collect::<Vec<_>>();
        // More than the module sees to in one turn: so the server comes to them too.
        wants.extend((0..CROWD).map(|nth| -> Vec<String> {
            (SINGLES + nth..MANY)
                .step_by(CROWD)
                .flat_map(|number| kinds.iter().map(move |kind| name(kind, number)))
                .collect()
        }));
        for (nth, (keys, waiter)) in wants.iter().zip(&mut waiters).enumerate() {
            waiter.send(&macquire_waiting(keys, format!("w{round}-{nth}")));
        }
        server.wait_for_blocked_clients(waiting);

        let end = now(&mut client) + AHEAD;
        let mut commands = Vec::new();
        for number in 0..MANY {
            for kind in ["alone", "shared", "data", "list"] {
                commands.push(args!["PEXPIREAT", name(kind, number), end]);
            }
            let key = name("hash", number);
            if fields_end {
                commands.push(args!["MULTI"]);
                commands.push(args!["DEL", key]);
                commands.push(args!["HSET", key, "f", "v", "g", "v"]);
                commands.push(args!["HPEXPIREAT", key, end, "FIELDS", 2, "f", "g"]);
                // Some end with their fields.
                if number % 2 == 0 {
                    commands.push(args!["PEXPIREAT", key, end]);
                }
                commands.push(args!["EXEC"]);
            } else {
                commands.push(args!["DEL", key]);
            }
        }
        run_all(&mut client, &commands);
        for waiter in &mut waiters {
            waiter.answer().fence();
        }

        // All that was waited for is held, and nothing else is there.
        let held: usize = wants.iter().map(Vec::len).sum();
        eventually("all others are gone", || {
            cmd!(client, "DBSIZE") == i64::try_from(held).unwrap()
        });
        for (nth, keys) in wants.iter().enumerate() {
            let mut release = counted("LOCK.MRELEASE", keys);
            release.extend(args![format!("w{round}-{nth}")]);
            assert_eq!(client.run(&release), i64::try_from(keys.len()).unwrap());
        }
        assert_eq!(cmd!(client, "DBSIZE"), 0);
    }
    replica.wait_until_in_sync_with(&server);
    assert_eq!(cmd!(replica.client(), "DBSIZE"), 0);
    assert!(!replica.log().contains("CRITICAL"));
    for line in server.aof_commands() {
        let mut words = line.split(' ');
        let names_none =
            words.next() == Some("DEL") && !words.next().is_some_and(|key| key.contains(':'));
        assert!(!names_none, "{line:?}");
    }
}
