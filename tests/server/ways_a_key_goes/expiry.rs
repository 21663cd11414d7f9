//! A hold ends by its time.

use super::*;

#[test]
fn a_lock_that_expires_is_handed_on_within_milliseconds() {
    let server = Server::start();
    let mut client = server.client();
    // Nothing but the module's own timer shall bring the end to light.
    assert_eq!(cmd!(client, "DEBUG", "SET-ACTIVE-EXPIRE", 0), "OK");
    let mut late = Vec::new();
    for ttl in [40, 60, 75, 110, 35, 50, 66, 87, 121] {
        let fence = cmd!(client, "LOCK.ACQUIRE", "k", "a", ttl).fence();
        let deadline = cmd!(client, "PEXPIRETIME", "k").int();
        let mut waiter = server.client();
        assert!(waiter.run(&args!["LOCK.ACQUIRE", "k", "w", LONG, "BLOCK", 0]).fence() > fence);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let deadline = Duration::from_millis(deadline.try_into().unwrap());
        assert!(now > deadline, "the hold was cut short: {now:?} of {deadline:?}");
        late.push(now - deadline);
        client.release("k", "w");
    }
    late.sort();
    // Within 5 ms where nothing else runs.
    assert!(late[late.len() / 2] < Duration::from_millis(15), "{late:?}");
    assert!(late[late.len() - 1] < Duration::from_millis(150), "{late:?}");
}

#[test]
fn a_hold_cut_short_is_handed_on_sooner_and_one_prolonged_later() {
    let server = Server::start();
    let mut client = server.client();
    // Nothing but the module's own timer shall bring the end to light.
    assert_eq!(cmd!(client, "DEBUG", "SET-ACTIVE-EXPIRE", 0), "OK");
    let in_ms = |ms: u64| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        u64::try_from(now.as_millis()).unwrap() + ms
    };
    // Shorter.
    for way in [
        args!["PEXPIRE", "k", 100],
        args!["PEXPIREAT", "k", in_ms(100)],
        args!["GETEX", "k", "PX", 100],
        args!["SET", "k", "other", "PX", 100],
        args!["PSETEX", "k", 100, "other"],
        args!["EVAL", "return redis.call('PEXPIRE', KEYS[1], 100)", 1, "k"],
    ] {
        let case = in_words(std::slice::from_ref(&way));
        client.acquire("k", "a");
        let mut waiter = server.waiter_for("k", "w");
        let way = if way[0] == b"PEXPIREAT" { args!["PEXPIREAT", "k", in_ms(100)] } else { way };
        let began = Instant::now();
        client.run(&way);
        let (answer, served) = waiter.timed_answer();
        answer.fence();
        let took = served - began;
        assert!(took > Duration::from_millis(95), "{case}: {took:?}");
        assert!(took < Duration::from_secs(3), "{case}: {took:?}");
        client.release("k", "w");
    }
    // Longer, or without end: a waiter that is in no hurry sees the old end go by.
    for way in [
        args!["PEXPIRE", "k", LONG],
        args!["PEXPIREAT", "k", in_ms(LONG)],
        args!["GETEX", "k", "PX", LONG],
        args!["PERSIST", "k"],
        args!["GETEX", "k", "PERSIST"],
        args!["SET", "k", "other"],
        args!["SET", "k", "other", "PX", LONG],
        args!["LOCK.RENEW", "k", "a", LONG],
    ] {
        let case = in_words(std::slice::from_ref(&way));
        cmd!(client, "LOCK.ACQUIRE", "k", "a", 400).fence();
        let mut waiter = server.waiter(&args!["LOCK.ACQUIRE", "k", "w", LONG, "BLOCK", 600]);
        client.run(&way);
        assert_eq!(waiter.answer(), Value::Nil, "{case}");
        assert_eq!(cmd!(client, "EXISTS", "k"), 1, "{case}");
        let mut waiter = server.waiter_for("k", "w");
        cmd!(client, "DEL", "k");
        waiter.answer().fence();
        client.release("k", "w");
    }
}
