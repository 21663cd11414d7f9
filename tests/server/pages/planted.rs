//! Transcripts with one thing wrong, so that it is known that the others are read.

use super::files::Page;
use super::{play, transcript};

/// What playing this comes to.
fn verdict(text: &str) -> Result<(), String> {
    let page = Page { name: "planted".to_owned(), text: format!("```\n{text}\n```\n") };
    let transcripts = transcript::all_in(&page);
    assert_eq!(transcripts.len(), 1);
    play::play(&transcripts[0])
}

const RIGHT: &str = "\
ann> LOCK.ACQUIRE market ann 10000
(integer) 1795236375515000
ann> LOCK.ACQUIRE market ann 10000
(integer) 1795236375515000
ann> LOCK.CHECK market ann
(integer) 9900
ann> LOCK.ACQUIRE stall * 10000
1) \"6f0a7bd0-1a2b-4c3d-8e4f-0123456789ab\"
2) (integer) 1795236375515001
bob> LOCK.ACQUIRE market bob 30000 BLOCK 5000
ann> LOCK.INFO market
 1) \"mode\"
...
 7) \"waiters\"
 8) 1)  1) \"owner\"
        2) \"bob\"
        3) \"mode\"
        4) \"exclusive\"
        5) \"waited\"
        6) (integer) 7
        7) \"client\"
        8) (integer) 8
        9) \"client-name\"
       10) (nil)
       11) \"client-addr\"
       12) \"127.0.0.1:50486\"
 9) \"queue\"
10) (integer) 1
ann> LOCK.RELEASE market ann
(integer) 1
bob: (integer) 1795236376080000
bob> LOCK.RELEASE market \"bo\" b
(error) ERR wrong number ... 'lock.release' command";

#[test]
fn a_right_transcript_passes() {
    assert_eq!(verdict(RIGHT), Ok(()));
}

#[test]
fn one_wrong_answer_is_found_in_a_transcript() {
    for (right, wrong) in [
        // A number that is not the first one's.
        (
            "ann 10000\n(integer) 1795236375515000\nann> LOCK.CHECK",
            "ann 10000\n(integer) 1795236375515002\nann> LOCK.CHECK",
        ),
        // One that has not grown; one that is too short.
        ("bob: (integer) 1795236376080000", "bob: (integer) 1795236375515000"),
        ("bob: (integer) 1795236376080000", "bob: (integer) 179523637608"),
        // A time that was never said, and one that has run too long.
        ("(integer) 9900", "(integer) 10001"),
        ("(integer) 9900", "(integer) 4000"),
        ("(integer) 9900", "(nil)"),
        ("\"6f0a7bd0-1a2b-4c3d-8e4f-0123456789ab\"", "\"6f0a7bd0\""),
        ("2) \"bob\"", "2) \"bo\""),
        ("6) (integer) 7", "6) (integer) 10000"),
        ("8) (integer) 8", "8) (integer) 0"),
        ("7) \"waiters\"", "7) \"waiter\""),
        ("10) (integer) 1\n", "10) (integer) 2\n"),
        ("10) (integer) 1\n", ""),
        ("ann\n(integer) 1\n", "ann\n(integer) 0\n"),
        ("ann\n(integer) 1\n", "ann\nOK\n"),
        ("'lock.release'", "'lock.renew'"),
        // No connection heard it; it is no answer of that connection's.
        ("bob: (integer) 1795236376080000\nbob>", "ann>"),
        ("bob: (integer)", "ann: (integer)"),
    ] {
        assert_eq!(RIGHT.matches(right).count(), 1, "{right}");
        let planted = RIGHT.replacen(right, wrong, 1);
        assert!(verdict(&planted).is_err(), "{right} -> {wrong}");
    }
}

#[test]
#[should_panic(expected = "expected to wait, got")]
fn a_command_without_an_answer_must_wait() {
    let _ = verdict("> PING\n> PING\nPONG");
}

#[test]
fn commands_without_a_prompt_are_found() {
    let page = |text: &str| Page { name: "planted".to_owned(), text: text.to_owned() };
    let found = |text| transcript::said_by_no_prompt(&page(text));
    let said = "Text\n\n```\n> LOCK.CHECK k a\n(nil)\n```\n```\nLOCK.CHECK key owner\n```\n";
    assert!(found(said).is_empty());
    let not_said = "Text\n\n```\nLOCK.ACQUIRE k a 10\nWAIT 1 100\n```\n";
    assert_eq!(found(not_said), ["planted:4"]);
}

#[test]
fn where_a_transcript_says_wait_there_is_one_replica() {
    let said = |count| format!("> SET k v\nOK\n> WAIT 1 10000\n(integer) {count}");
    assert_eq!(verdict(&said(1)), Ok(()));
    assert!(verdict(&said(0)).is_err());
}
