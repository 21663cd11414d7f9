//! How a place is asked for, and what is wrong with it.

use super::*;

/// Each with the words that follow the ttl, and the error; nothing is changed by any.
const WRONG: [(&str, &str); 21] = [
    ("QUEUE", "ERR syntax error: QUEUE needs the milliseconds for which the place is kept"),
    (
        "QUEUE 0",
        "ERR lease must be 1 to 60000 milliseconds (lock.max-place-ttl): the time after QUEUE is \"0\"",
    ),
    (
        "QUEUE -1",
        "ERR lease must be 1 to 60000 milliseconds (lock.max-place-ttl): the time after QUEUE is \"-1\"",
    ),
    (
        "QUEUE 60001",
        "ERR lease must be 1 to 60000 milliseconds (lock.max-place-ttl): the time after QUEUE is \"60001\"",
    ),
    ("QUEUE soon", "ERR value is not an integer or out of range: the time after QUEUE is \"soon\""),
    ("QUEUE 1.5", "ERR value is not an integer or out of range: the time after QUEUE is \"1.5\""),
    (
        "QUEUE 9223372036854775808",
        "ERR value is not an integer or out of range: the time after QUEUE is \"9223372036854775808\"",
    ),
    ("QUEUE 5 BLOCK 5", "ERR syntax error: BLOCK and QUEUE can't be used together"),
    ("BLOCK 5 QUEUE 5", "ERR syntax error: BLOCK and QUEUE can't be used together"),
    ("QUEUE 5 QUEUE 5", "ERR syntax error: QUEUE is given twice"),
    ("QUEUE 5 NX", "ERR syntax error: there is no option \"NX\""),
    (
        "NOTIFY ch m",
        "ERR syntax error: NOTIFY follows the milliseconds of QUEUE, with a channel and a message",
    ),
    (
        "NOTIFY ch m QUEUE 5",
        "ERR syntax error: NOTIFY follows the milliseconds of QUEUE, with a channel and a message",
    ),
    (
        "BLOCK 5 NOTIFY ch m",
        "ERR syntax error: NOTIFY follows the milliseconds of QUEUE, with a channel and a message",
    ),
    (
        "QUEUE 5 SHARED NOTIFY ch m",
        "ERR syntax error: NOTIFY follows the milliseconds of QUEUE, with a channel and a message",
    ),
    ("QUEUE 5 NOTIFY", "ERR syntax error: NOTIFY needs a channel and a message"),
    ("QUEUE 5 NOTIFY ch", "ERR syntax error: NOTIFY needs a channel and a message"),
    ("QUEUE 5 NOTIFY ch m n", "ERR syntax error: there is no option \"n\""),
    (
        "QUEUE 5 NOTIFY ch m NOTIFY ch m",
        "ERR syntax error: NOTIFY follows the milliseconds of QUEUE, with a channel and a message",
    ),
    ("QUEUE 5 SHARED LIMIT 2", "ERR syntax error: SHARED and LIMIT can't be used together"),
    (
        "QUEUE 5 LIMIT 0",
        "ERR value is not an integer or out of range: LIMIT must be 1 to 1000 (lock.max-sharers), not \"0\"",
    ),
];

/// What LOCK.ACQUIRE and LOCK.MACQUIRE say before the words in question.
fn beginnings(owner: &str) -> [Command; 2] {
    [args!["LOCK.ACQUIRE", "k", owner, LONG], args!["LOCK.MACQUIRE", 2, "k", "j", owner, LONG]]
}

#[test]
fn wrong_words_get_the_servers_own_errors_and_change_nothing() {
    let server = Server::start();
    let mut client = server.client();
    for is_held in [false, true] {
        if is_held {
            client.acquire("k", "holder");
        }
        let owner = if is_held { "holder" } else { "a" };
        for (words, error) in WRONG {
            for mut command in beginnings(owner) {
                command.extend(words.split(' ').map(|word| word.to_arg()));
                let answer = client.run(&command);
                assert_eq!(answer, Value::Error(error.to_owned()), "{words}");
            }
        }
        let exist = cmd!(client, "EXISTS", "k", "j");
        assert_eq!(exist, i64::from(is_held));
        assert_eq!(client.queue("k"), [""; 0]);
    }
}

#[test]
fn an_owner_that_the_server_makes_up_can_keep_no_place_because_no_client_could_ask_again() {
    let server = Server::start();
    let mut client = server.client();
    for mut command in beginnings("*") {
        command.extend(args!["QUEUE", 5]);
        assert!(client.run(&command).is_error("ERR syntax error"));
        command.extend(args!["NOTIFY", "ch", "m"]);
        assert!(client.run(&command).is_error("ERR syntax error"));
    }
    assert_eq!(cmd!(client, "EXISTS", "k", "j"), 0);
}

#[test]
fn a_channel_and_a_message_are_1_to_1024_bytes() {
    let server = Server::start();
    let mut client = server.client();
    let (longest, too_long) = ("x".repeat(1024), "x".repeat(1025));
    for (text, is_accepted) in [("", false), (&*too_long, false), (&*longest, true), ("\0", true)] {
        for (what, channel, message) in [("channel", text, "m"), ("message", "ch", text)] {
            let answer = client.run(&notified("k", "a", channel, message));
            if is_accepted {
                answer.fence();
                client.release("k", "a");
            } else {
                let length = text.len();
                assert_eq!(
                    answer.error(),
                    format!(
                        "ERR channel and message must be 1 to 1024 bytes: the {what} has {length}"
                    )
                );
            }
        }
    }
    assert_eq!(cmd!(client, "EXISTS", "k"), 0);
}

#[test]
fn an_operator_says_how_long_a_lease_may_be() {
    let server = Server::start();
    let mut client = server.client();
    let mut ask = |most: &str, lease: i64| {
        cmd!(client, "CONFIG", "SET", "lock.max-place-ttl", most);
        cmd!(client, "LOCK.ACQUIRE", "k", "a", LONG, "QUEUE", lease)
    };
    ask("7", 7).fence();
    assert!(ask("7", 8).is_error("ERR lease must be 1 to 7 milliseconds (lock.max-place-ttl)"));
    ask("0", 60_001).fence();
    ask("0", 1 << 52).fence();
    let too_far = ask("0", 1 << 53);
    assert!(too_far.is_error("ERR lease must be 1 to "), "{too_far:?}");
}

#[test]
fn a_free_lock_is_had_at_once_wherever_it_is_asked_for() {
    let server = Server::start();
    for mut client in [server.client(), server.client3()] {
        client.select(3);
        for words in ["", "SHARED", "LIMIT 2", "SESSION", "SHARED SESSION"] {
            for mut command in beginnings("a") {
                command.extend(words.split_whitespace().map(|word| word.to_arg()));
                command.extend(args!["QUEUE", LEASE]);
                let fence = client.run(&command).fence();
                assert_eq!(client.run(&command), fence);
                assert_eq!(client.transaction(&[command.clone()])[0], fence);
                if !words.contains("SESSION") {
                    assert_eq!(client.run(&in_lua(&command)), fence);
                }
                cmd!(client, "LOCK.MRELEASE", 2, "k", "j", "a");
            }
        }
    }
}

#[test]
fn session_is_a_syntax_error_in_a_script_beside_queue_too() {
    let server = Server::start();
    let mut client = server.client();
    let mut command = queue("k", "a");
    command.push(b"SESSION".to_vec());
    let answer = client.run(&in_lua(&command));
    assert!(answer.is_error("ERR syntax error"), "{answer:?}");
}
