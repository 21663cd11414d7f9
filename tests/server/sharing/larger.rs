//! A lock that more share than may: as version 1.0 left it, or as others wrote it.

use crate::support::*;

/// As many as version 1.0 could let share a lock.
const MANY: usize = 5_000;
const MOST: usize = 1_000;

fn owner(number: usize) -> String {
    format!("host:{number}:0190f3b2-6a55-7c10-8f1e-4b7a52d9c001")
}

/// Writes the sorted set that so many have shared since version 1.0, until `end` at most; shares from `lasting` on end
/// then, and the others at `soon`.
fn write(client: &mut Client, (soon, lasting): (i64, usize), end: i64) {
    let mut commands = vec![args!["ZADD", "k", "inf", MARKER]];
    commands.extend((0..MANY).map(|number| {
        args!["ZADD", "k", if number < lasting { soon } else { end }, owner(number)]
    }));
    commands.push(args!["PEXPIREAT", "k", end]);
    client.pipeline(&commands);
}

fn now(client: &mut Client) -> i64 {
    let time = cmd!(client, "TIME");
    let part = |at: usize| -> i64 { time[at].text().parse().unwrap() };
    part(0) * 1000 + part(1) / 1000
}

/// What this command says to each of these owners.
fn each(client: &mut Client, owners: std::ops::Range<usize>, command: &[&str]) -> Vec<Value> {
    let of = |number| {
        let mut words = args![command[0], "k", owner(number)];
        words.extend(command[1..].iter().map(|word| word.as_bytes().to_vec()));
        words
    };
    client.pipeline(&owners.map(of).collect::<Vec<_>>())
}

#[test]
fn of_five_thousand_that_share_a_lock_since_version_1_0_each_keeps_its_share_and_no_other_gets_in()
{
    let server = Server::start();
    let mut client = server.client();
    let end = now(&mut client) + i64::try_from(LONG).unwrap();
    write(&mut client, (end, 0), end);
    assert_eq!(cmd!(client, "SAVE"), "OK");
    server.restart();
    let mut client = server.client();
    assert_eq!(cmd!(client, "ZCARD", "k"), i64::try_from(MANY + 1).unwrap());
    assert_eq!(cmd!(client, "LOCK.INFO", "k")["count"], i64::try_from(MANY).unwrap());
    for way in [args!["SHARED"], args!["LIMIT", MOST], args![]] {
        let command = [args!["LOCK.ACQUIRE", "k", "new", LONG], way].concat();
        assert_eq!(client.run(&command), Value::Nil, "{command:?}");
    }
    let mut reader = server.reader_for("k", "reader");
    let writer = server.waiter_for("k", "writer");
    let all = 0..MANY;
    let ttl = LONG.to_string();
    let left = each(&mut client, all.clone(), &["LOCK.CHECK"]);
    assert!(left.iter().all(|left| left.int() > 0));
    let renewed = each(&mut client, all.clone(), &["LOCK.RENEW", &ttl]);
    assert!(renewed.iter().all(|renewed| *renewed == 1));
    let numbers = each(&mut client, all.clone(), &["LOCK.ACQUIRE", &ttl, "SHARED"]);
    assert!(numbers.windows(2).all(|two| two[0].fence() < two[1].fence()));
    let again = each(&mut client, all, &["LOCK.ACQUIRE", &ttl, "LIMIT", "7", "BLOCK", "0"]);
    assert_eq!(again, numbers);
    // There is room again when enough have gone.
    let released = each(&mut client, 0..MANY - MOST, &["LOCK.RELEASE"]);
    assert!(released.iter().all(|released| *released == 1));
    assert!(reader.still_waits());
    client.release("k", owner(MANY - 1));
    reader.answer().fence();
    drop(writer);
    eventually("the writer has left", || client.queue("k").is_empty());
    assert_eq!(cmd!(client, "LOCK.BREAK", "k"), i64::try_from(MOST).unwrap());
    assert_eq!(cmd!(client, "DBSIZE"), 0);
}

#[test]
fn of_five_thousand_shares_all_that_are_over_leave_at_once() {
    let server = Server::start();
    let mut client = server.client();
    let soon = now(&mut client) + 1_500;
    write(&mut client, (soon, MANY - 2), soon + i64::try_from(LONG).unwrap());
    let mut reader = server.reader_for("k", "reader");
    reader.answer().fence();
    assert_eq!(client.shares("k").len(), 3);
    assert_eq!(cmd!(client, "LOCK.INFO", "k")["count"], 3);
    client.release("k", owner(MANY - 1));
}
