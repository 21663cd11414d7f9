//! The words of MODES, and what is wrong with them.

use super::*;
use crate::commands::{Mistakes, syntax};

const EACH: &str = "MODES needs EXCLUSIVE, SHARED or a limit of 1 or more for each key";
const TOGETHER: &str = "MODES can't be used together with SHARED or LIMIT";

#[test]
fn words_that_are_no_modes_get_one_clear_error_and_change_nothing() {
    let mut all = Mistakes::default();
    for (text, lines) in [
        (
            EACH,
            "2 a b o 600000 MODES | 2 a b o 600000 MODES 3 | 2 a b o 600000 MODES SHARED
            | 2 a b o 600000 MODES 3 0 | 2 a b o 600000 MODES 0 3 | 2 a b o 600000 MODES -1 3
            | 2 a b o 600000 MODES 3 1.5 | 2 a b o 600000 MODES 3 03 | 2 a b o 600000 MODES 3 ''
            | 2 a b o 600000 MODES 3 9223372036854775808 | 2 a b o 600000 MODES READ WRITE
            | 2 a b o 600000 MODES 3 BLOCK 0 | 2 a b o 600000 BLOCK 0 MODES 3
            | 2 a b o 600000 MODES LIMIT 3 | 3 a b a o 600000 MODES 3 1
            | 1 a o 600000 MODES * | 2 a b o 600000 MODES MODES MODES",
        ),
        (
            "MODES has two modes for one key",
            "2 a a o 600000 MODES SHARED EXCLUSIVE | 3 a b a o 600000 MODES 3 1 4
            | 3 a b a o 600000 MODES 3 1 SHARED BLOCK 0",
        ),
        (
            TOGETHER,
            "2 a b o 600000 MODES 3 1 SHARED | 2 a b o 600000 SHARED MODES 3 1
            | 2 a b o 600000 MODES 3 1 LIMIT 3 | 2 a b o 600000 LIMIT 3 MODES 3 1
            | 2 a b o 600000 SHARED BLOCK 0 MODES SHARED SHARED",
        ),
        (
            "MODES is given twice",
            "2 a b o 600000 MODES 3 1 MODES 3 1 | 1 a o 600000 MODES 1 BLOCK 0 MODES 1",
        ),
        ("there is no option \"2\"", "2 a b o 600000 MODES 3 1 2 | 1 a o 600000 MODES SHARED 2"),
        (
            "there is no option \"EXCLUSIVE\"",
            "2 a b o 600000 EXCLUSIVE | 2 a b o 600000 MODES 3 1 EXCLUSIVE",
        ),
    ] {
        let lines: Vec<_> = each(lines, '|').map(|line| format!("LOCK.MACQUIRE {line}")).collect();
        all.get(&syntax(text), &lines.join(" | "));
    }
    all.get(
        &syntax("there is no option \"MODES\""),
        "LOCK.ACQUIRE a o 600000 MODES 3 | LOCK.ACQUIRE a o 600000 BLOCK 0 MODES SHARED",
    );
    all.change_nothing(&["a", "b"]);
}

#[test]
fn the_words_may_be_written_in_any_way_and_stand_anywhere_behind_the_ttl() {
    let server = Server::start();
    let mut client = server.client();
    for line in [
        "modes shared Exclusive",
        "BLOCK 0 MODES 9223372036854775807 exclusive",
        "SESSION MODES 1 EXCLUSIVE QUEUE 1000 NOTIFY MODES MODES MAXQUEUE 1",
        "QUEUE 1000 MODES SHARED EXCLUSIVE SESSION",
    ] {
        client.run(&with_words(&TABLE, "o", line)).fence();
        assert_eq!(client.mode("table"), "shared", "{line}");
        assert_eq!(client.mode("row"), "exclusive", "{line}");
        client.release_all(&TABLE, "o");
    }
    // Keys and owners that look like them.
    let keys = ["MODES", "SHARED"];
    client.run(&with_words(&keys, "MODES", "MODES EXCLUSIVE 3")).fence();
    assert_eq!(client.mode("MODES"), "exclusive");
    assert_eq!(client.mode("SHARED"), "shared");
}

#[test]
fn a_thousand_locks_have_a_mode_each() {
    let server = Server::start();
    let mut client = server.client();
    let keys: Vec<String> = (0..1024).map(|number| format!("k{number}")).collect();
    let modes = "EXCLUSIVE SHARED 3 4 ".repeat(256);
    let request = with_words(&keys, "o", &format!("MODES {modes}"));
    let fence = client.run(&request).fence();
    assert_eq!(client.run(&request), fence);
    for (key, mode) in keys.iter().zip(["exclusive", "shared", "shared", "shared"]) {
        assert_eq!(client.mode(key), mode);
        assert_eq!(client.number_of(key), fence);
    }
    client.permit("k3", "x", 4);
    client.release_all(&keys, "o");
    assert_eq!(cmd!(client, "DBSIZE"), 1);
}

#[test]
fn the_server_finds_the_keys_before_the_modes() {
    let server = Server::start();
    let mut client = server.client();
    for (keys, modes) in
        [(vec!["a", "b"], "MODES 100 3"), (vec!["a", "b", "a"], "BLOCK 0 MODES 1 2 1")]
    {
        let call = with_words(&keys, "o", modes);
        let found = client.run(&[args!["COMMAND", "GETKEYS"], call].concat());
        let found: Vec<String> = found.items().iter().map(Value::text).collect();
        // The first once more, by which the server routes.
        assert_eq!(found, [keys.clone(), vec![keys[0]]].concat());
    }
}
