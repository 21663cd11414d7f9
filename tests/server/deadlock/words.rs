//! The words of a refusal: who waits for what, and nothing that the reader must not see.

use super::{assert_refused, refused, waiting};
use crate::support::*;

/// ann holds x and waits for y, ben holds y.
fn ann_waits_for_ben(server: &Server) -> Client {
    let mut client = server.client();
    client.acquire("x", "ann");
    client.acquire("y", "ben");
    server.waiter_for("y", "ann")
}

#[test]
fn owners_and_keys_are_shown_as_redis_cli_shows_them() {
    let server = Server::start();
    let mut client = server.client();
    let long = [b'l'; 70];
    for (bytes, shown) in [
        (&b"plain"[..], r#""plain""#),
        (b"two words", r#""two words""#),
        (b"\"quoted\\", r#""\"quoted\\""#),
        (b"line\r\n\ttab", r#""line\r\n\ttab""#),
        (b"\x07\x08\x00\x1f\x7f\xff", r#""\a\b\x00\x1f\x7f\xff""#),
        ("schlo\u{df}".as_bytes(), r#""schlo\xc3\x9f""#),
        (&long, &format!(r#""{}...""#, "l".repeat(64))),
        (&long[..64], &format!(r#""{}""#, "l".repeat(64))),
    ] {
        cmd!(client, "FLUSHALL");
        client.acquire(bytes, "ann");
        client.acquire("y", bytes);
        let mut ann = server.waiter_for("y", "ann");
        assert_refused(
            &mut client,
            &waiting(bytes, bytes, ""),
            &format!(
                r#"{shown} waits for {shown}, held by "ann"; "ann" waits for "y", held by {shown}"#
            ),
        );
        // It is one line of the protocol: what comes after it is answered too.
        assert_eq!(cmd!(client, "PING"), "PONG");
        client.release("y", bytes);
        ann.answer().fence();
    }
}

#[test]
fn a_key_that_the_user_may_not_read_is_not_named_nor_is_its_holder() {
    let server = Server::start();
    let mut admin = server.client();
    let _ann = ann_waits_for_ben(&server);
    let all = r#""ben" waits for "x", held by "ann"; "ann" waits for "y", held by "ben""#;
    let not_y =
        r#""ben" waits for "x", held by "ann"; "ann" waits for (another key), held by "ben""#;
    for (rules, words) in [
        ("~* +@all", all),
        ("~x ~y +@all", all),
        ("~x +@all", not_y),
        ("~x %W~y +@all", not_y),
        ("~x %R~y +@all", all),
        ("%RW~x %R~y +@all", all),
        ("%RW~x %W~y +@all", not_y),
        // What another selector may read the user may read.
        ("~x +lock.acquire (~y +get)", all),
        ("~x +@all (%W~y +set)", not_y),
    ] {
        let mut client = server.as_user(rules);
        let text = refused(&mut client, &waiting("x", "ben", ""));
        assert_eq!(text, words, "{rules}");
    }
    // One in the middle of whom nothing is to be seen.
    admin.acquire("z", "cid");
    let _ben = server.waiter_for("z", "ben");
    let mut client = server.as_user("~x +@all");
    assert_refused(
        &mut client,
        &waiting("x", "cid", ""),
        r#""cid" waits for "x", held by "ann"; "ann" waits for (another key), held by (another owner); (another owner) waits for (another key), held by "cid""#,
    );
    let mut client = server.as_user("~x ~z +@all");
    assert_refused(
        &mut client,
        &waiting("x", "cid", ""),
        r#""cid" waits for "x", held by "ann"; "ann" waits for (another key), held by (another owner); (another owner) waits for "z", held by "cid""#,
    );
}

/// A user that is deleted or loses its rights while it waits.
#[test]
fn rights_that_change_count_at_once() {
    let server = Server::start();
    let mut admin = server.client();
    let _ann = ann_waits_for_ben(&server);
    let mut client = server.as_user("~x ~y +@all");
    let words = refused(&mut client, &waiting("x", "ben", ""));
    assert!(words.contains(r#""y""#), "{words}");
    let rule = args!["ACL", "SETUSER", "user", "resetkeys", "~x"];
    assert_eq!(admin.run(&rule), "OK");
    let words = refused(&mut client, &waiting("x", "ben", ""));
    assert!(!words.contains(r#""y""#), "{words}");
}
