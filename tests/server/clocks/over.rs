//! Set back, the key of a hold that is over is still there. The first to come to it gives it an end that has passed,
//! and the server deletes it sooner or later.

use super::*;
use std::ops::RangeInclusive;

/// What may be asked of a lock that `a` has held by this number, and what may be answered now.
fn firsts(key: &str, fence: i64) -> Vec<(Command, RangeInclusive<i64>)> {
    let (granted, refused) = (fence + 1..=i64::MAX, 0..=0);
    // It is still the owner's key that goes.
    let ended = 0..=1;
    vec![
        (ask(key, "n", LONG, &[]), granted.clone()),
        (ask(key, "a", LONG, &[]), granted.clone()),
        (ask(key, "n", LONG, &["SHARED"]), granted.clone()),
        (ask(key, "a", LONG, &["LIMIT", "1"]), granted.clone()),
        (ask(key, "n", LONG, &["BLOCK", "0"]), granted.clone()),
        (ask(key, "n", LONG, &["QUEUE", "60000"]), granted.clone()),
        (args!["LOCK.MACQUIRE", 2, key, "free", "n", LONG], granted),
        (args!["LOCK.RELEASE", key, "a"], ended.clone()),
        (args!["LOCK.RELEASE", key, "n"], refused.clone()),
        (args!["LOCK.MRELEASE", 2, key, "free", "a"], ended),
        (args!["LOCK.RENEW", key, "a", LONG], refused.clone()),
        (args!["LOCK.MRENEW", 1, key, "a", LONG], refused.clone()),
        (args!["LOCK.BREAK", key], refused),
    ]
}

#[test]
fn the_first_command_after_a_hold_that_its_key_outlasts_finds_the_lock_free() {
    let server = stepped();
    let mut client = server.client();
    for number in 0..firsts("", 0).len() {
        let holds = hold_in_all_ways(&server, &mut client, 150);
        server.step_clock(-MINUTE);
        for hold in &holds {
            for key in hold.way.keys() {
                eventually("its time is up", || cmd!(client, "LOCK.CHECK", &key, "a").is_nil());
                assert_eq!(cmd!(client, "EXISTS", &key), 1, "{:?}: {key}", hold.way);
                let (first, expected) = firsts(&key, hold.fence).swap_remove(number);
                let reply = client.run(&first);
                assert!(
                    matches!(reply, Value::Int(reply) if expected.contains(&reply)),
                    "{:?}, {}: {reply:?}",
                    hold.way,
                    String::from_utf8_lossy(&first.join(&b' '))
                );
                cmd!(client, "DEL", &key, "free");
            }
        }
    }
}
