//! What requests for several locks leave in the append-only file.

use super::{asked, mrenew};
use crate::support::*;

/// Native commands that name a lock, in groups: those of one transaction stand together.
fn groups(server: &Server) -> Vec<Vec<String>> {
    let mut groups = Vec::new();
    let mut open: Option<Vec<String>> = None;
    for line in server.aof_commands() {
        assert!(!line.to_ascii_lowercase().contains("lock."), "{line}");
        match line.as_str() {
            "MULTI" => open = Some(Vec::new()),
            "EXEC" => groups.push(open.take().expect("EXEC after MULTI")),
            line if line.starts_with("SELECT") => {}
            line => match &mut open {
                Some(group) => group.push(line.to_owned()),
                None => groups.push(vec![line.to_owned()]),
            },
        }
    }
    assert!(open.is_none(), "an EXEC is missing");
    groups
}

/// The words of each command without deadlines.
fn short(group: &[String]) -> Vec<String> {
    let words = |line: &String| {
        let words = line.split(' ').filter(|word| word.parse::<u64>().is_err());
        words.collect::<Vec<_>>().join(" ")
    };
    group.iter().map(words).collect()
}

#[test]
fn what_happens_in_one_instant_is_written_as_one_transaction_of_native_commands() {
    let server = Server::with().append_only().start();
    let mut client = server.client();
    client.acquire_all(&["a", "b"], "x");
    assert_eq!(client.run(&mrenew(&["a", "b"], "x", 2 * LONG)), 1);
    let mut waiter = server.waiter_for_all(&["a", "b"], "w");
    client.release("a", "x");
    client.release("b", "x");
    waiter.answer().fence();
    client.release_all(&["a", "b"], "w");
    let expected: [&[&str]; 6] = [
        &["SET a x PXAT", "SET b x PXAT"],
        &["PEXPIREAT a", "PEXPIREAT b"],
        &["DEL a"],
        // The one that is free already, and the one that is released now.
        &["DEL b", "SET a w PXAT", "SET b w PXAT"],
        &["DEL a", "DEL b"],
        &[],
    ];
    let written = groups(&server);
    for (number, expected) in expected.iter().enumerate() {
        let group = written.get(number).map(|group| short(group));
        let group = group.unwrap_or_default();
        let mut sorted = group.clone();
        sorted.sort();
        let mut wanted = expected.to_vec();
        wanted.sort_unstable();
        // A release and a grant of the same lock may be one command.
        let same = sorted == wanted || (number == 3 && group == ["SET a w PXAT", "SET b w PXAT"]);
        assert!(same, "{number}: {group:?} is not {expected:?}; all: {written:?}");
    }
}

/// Outside of any command too: by a timer, by the end of a connection, by a deletion.
#[test]
fn a_grant_that_no_command_of_ours_makes_is_one_transaction_too() {
    let server = Server::with().append_only().start();
    let mut client = server.client();
    for way in ["expiry", "deletion", "session"] {
        let mut holder = server.client();
        holder.run(&asked(&["b"], args!["x", LONG, "SESSION"])).fence();
        let mut waiter = server.waiter_for_all(&["a", "b", "c"], way);
        match way {
            "expiry" => assert_eq!(cmd!(client, "LOCK.RENEW", "b", "x", 30), 1),
            "deletion" => assert_eq!(cmd!(client, "DEL", "b"), 1),
            _ => holder.close(),
        }
        waiter.answer().fence();
        let sets = ["a", "b", "c"].map(|key| format!("SET {key} {way} PXAT"));
        eventually("the grant is written as a whole", || {
            groups(&server).iter().any(|group| {
                let lines = short(group);
                sets.iter().all(|set| lines.contains(set))
            })
        });
        client.release_all(&["a", "b", "c"], way);
    }
}
