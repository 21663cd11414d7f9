//! Answers as redis-cli shows them.

use crate::support::*;
use std::iter::repeat_n;
use std::process::Command;

/// The lines of an answer.
pub fn lines(answer: &Value) -> Vec<String> {
    match answer {
        Value::Simple(text) => vec![text.clone()],
        // What redis-cli shows as it is: INFO, and texts of RESP3.
        Value::Verbatim(text) => text.lines().map(str::to_owned).collect(),
        Value::Error(text) => vec![format!("(error) {text}")],
        Value::Int(number) => vec![format!("(integer) {number}")],
        Value::Double(number) => vec![format!("(double) {number}")],
        Value::Bool(yes) => vec![format!("({yes})")],
        Value::BigNumber(digits) => vec![digits.clone()],
        Value::Bulk(bytes) => vec![quoted(bytes)],
        Value::Nil | Value::NilArray | Value::Null => vec!["(nil)".to_owned()],
        Value::Array(items) | Value::Push(items) => listed(items, ")", "(empty array)"),
        Value::Set(items) => listed(items, "~", "(empty set)"),
        Value::Map(pairs) => mapped(pairs),
    }
}

fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for &byte in bytes {
        match byte {
            b'\\' | b'"' => text.extend(['\\', char::from(byte)]),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text + "\""
}

fn listed(items: &[Value], mark: &str, empty: &str) -> Vec<String> {
    if items.is_empty() {
        return vec![empty.to_owned()];
    }
    let width = items.len().to_string().len();
    let numbered = (1..).zip(items).flat_map(|(number, item)| {
        let heads = head(number, width, mark);
        heads.zip(lines(item)).map(|(head, line)| head + &line)
    });
    numbered.collect()
}

fn mapped(pairs: &[(Value, Value)]) -> Vec<String> {
    if pairs.is_empty() {
        return vec!["(empty hash)".to_owned()];
    }
    let width = pairs.len().to_string().len();
    let numbered = (1..).zip(pairs).flat_map(|(number, (key, value))| {
        let key = lines(key).join(" ");
        let mut shown = lines(value);
        let is_nested = match value {
            Value::Array(items) | Value::Set(items) => !items.is_empty(),
            Value::Map(pairs) => !pairs.is_empty(),
            _ => false,
        };
        if is_nested {
            shown.insert(0, format!("{key} =>"));
        } else {
            shown[0] = format!("{key} => {}", shown[0]);
        }
        head(number, width, "#").zip(shown).map(|(head, line)| head + &line)
    });
    numbered.collect()
}

/// What stands before the lines of an item: its number, and then as much room.
fn head(number: usize, width: usize, mark: &str) -> impl Iterator<Item = String> {
    let first = format!("{number:>width$}{mark} ");
    let rest = " ".repeat(first.len());
    std::iter::once(first).chain(repeat_n(rest, usize::MAX))
}

/// By the real one, where there is one.
#[test]
fn answers_are_shown_as_redis_cli_shows_them() {
    let has_cli = output(Command::new("redis-cli").arg("--version")).is_ok();
    skip_unless!(has_cli, "redis-cli is not on PATH");
    let server = Server::start();
    let mut client = server.client();
    cmd!(client, "HSET", "hash", "a", 1, "b", "two \"words\" \\ \n");
    cmd!(client, "SADD", "set", 3);
    cmd!(client, "ZADD", "sorted", 1.5, "a", 2, "b");
    for number in 0..11 {
        cmd!(client, "RPUSH", "list", number);
    }
    client.acquire("market", "ann");
    let _waiter = server.waiter_for("market", "bob");
    let mut third = server.client3();
    for typed in [
        "SET k v",
        "GET k",
        "GET none",
        "INCR n",
        "INCR k",
        "LRANGE list 0 -1",
        "LRANGE none 0 -1",
        "HGETALL hash",
        "HGETALL none",
        "SMEMBERS set",
        "SMEMBERS none",
        "ZRANGE sorted 0 -1 WITHSCORES",
        "LOCK.SCAN 0",
        "COMMAND DOCS LOCK.CHECK",
    ] {
        let words = super::transcript::words(typed);
        for (protocol, client) in [("-2", &mut client), ("-3", &mut third)] {
            let mut cli = Command::new("redis-cli");
            cli.args(["--no-raw", protocol, "-p", &server.port().to_string()]);
            let shown = output(cli.args(&words)).unwrap();
            let shown = String::from_utf8(shown.stdout).unwrap();
            let shown: Vec<_> = shown.trim_end().lines().map(str::trim_end).collect();
            let ours = lines(&client.run(&words));
            if typed == "INCR n" {
                assert!(ours[0].starts_with("(integer) ") && shown[0].starts_with("(integer) "));
            } else {
                assert_eq!(ours, shown, "{typed} {protocol}");
            }
        }
    }
}
