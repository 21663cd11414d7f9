//! `lock.classes` and `INFO lock_classes`.

use super::*;

fn set(client: &mut Client, classes: &str) {
    assert_eq!(cmd!(client, "CONFIG", "SET", "lock.classes", classes), "OK");
}

/// The figures of this class, which INFO shows with a `_` for each `:`.
fn class(client: &mut Client, shown: &str) -> BTreeMap<String, u64> {
    let classes = client.info("lock_classes");
    let line = classes.get(&format!("lock_class_{shown}"));
    let line = line.unwrap_or_else(|| panic!("no {shown} in {classes:?}"));
    let fields = line.split(',').map(|field| field.split_once('='));
    (fields.map(|field| field.expect("name=value")))
        .map(|(name, value)| (name.to_owned(), value.parse().expect("a number")))
        .collect()
}

#[test]
fn without_classes_there_are_no_lines() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    assert!(client.info("lock_classes").is_empty());
    assert_eq!(cmd!(client, "CONFIG", "GET", "lock.classes")[1], "");
}

#[test]
fn each_class_has_a_line_with_its_own_figures() {
    let server = Server::start();
    let mut client = server.client();
    set(&mut client, "job:special job:* market:*");
    client.acquire("job:1", "a");
    client.acquire("job:special", "a");
    client.acquire("else", "a");
    let mut waiter = server.waiter_for("job:1", "w");
    let _next = server.waiter_for("job:1", "v");
    assert_eq!(class(&mut client, "job_*")["waiting"], 2);
    server.let_pass(20);
    client.release("job:1", "a");
    waiter.answer().fence();
    cmd!(client, "LOCK.BREAK", "job:special");
    let jobs = class(&mut client, "job_*");
    assert_eq!((jobs["grants"], jobs["waits"]), (2, 1));
    assert_eq!((jobs["waiting"], jobs["waiting_peak"]), (1, 2));
    assert!(jobs["wait_usec"] >= 20_000, "{jobs:?}");
    assert!(jobs["wait_usec_p50"] >= 19_000, "{jobs:?}");
    assert!(jobs["held_msec_p50"] >= 19, "{jobs:?}");
    assert_eq!(jobs["broken"], 0);
    let special = class(&mut client, "job_special");
    assert_eq!((special["grants"], special["broken"]), (1, 1));
    assert_eq!(class(&mut client, "market_*")["grants"], 0);
}

#[test]
fn classes_come_from_the_configuration_and_config_rewrite_keeps_them() {
    let server = Server::start();
    let mut client = server.client();
    set(&mut client, "a:* b[0-9]? c");
    assert_eq!(cmd!(client, "CONFIG", "GET", "lock.classes")[1], "a:* b[0-9]? c");
    client.acquire("b7x", "o");
    assert_eq!(class(&mut client, "b[0-9]?")["grants"], 1);
    // A class that stays keeps its figures.
    set(&mut client, "b[0-9]?   new");
    assert_eq!(class(&mut client, "b[0-9]?")["grants"], 1);
    assert_eq!(class(&mut client, "new")["grants"], 0);
    assert_eq!(client.info("lock_classes").len(), 2);
    set(&mut client, "");
    assert!(client.info("lock_classes").is_empty());
}

#[test]
fn each_pattern_has_a_name_of_its_own_although_the_server_shows_some_characters_as_others() {
    let server = Server::start();
    let mut client = server.client();
    set(&mut client, "a_b a:b a#b a_b a_b_2");
    client.acquire("a:b", "o");
    let names = ["a_b", "a_b_2", "a_b_3", "a_b_4", "a_b_2_2"];
    let grants = names.map(|name| class(&mut client, name)["grants"]);
    assert_eq!(grants, [0, 1, 0, 0, 0]);
}

#[test]
fn there_are_at_most_32_classes() {
    let server = Server::start();
    let mut client = server.client();
    let names: Vec<String> = (0..33).map(|number| format!("k{number}")).collect();
    set(&mut client, &names[..32].join(" "));
    let refused = cmd!(client, "CONFIG", "SET", "lock.classes", names.join(" "));
    assert!(refused.is_error("ERR"), "{refused:?}");
    assert_eq!(client.info("lock_classes").len(), 32);
}
