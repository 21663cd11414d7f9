//! Places, their leases and their claims go by the monotonic clock alone.

use super::*;

const STEPS: [i64; 5] = [50, SECOND, DAY, -SECOND, -HOUR];
const LEASE: &str = "60000";

/// When a place with these words has been given up.
fn watch_for_its_end(client: &mut Client, key: &str) -> Instant {
    eventually_some("the place is given up", || {
        client.queue(key).is_empty().then(Instant::now)
    })
}

#[test]
fn a_place_is_kept_for_its_lease_whatever_the_wall_clock_does() {
    let server = stepped();
    let mut client = server.client();
    client.acquire("k", "a");
    client.share("s", "a");
    for step in STEPS {
        let asks = [
            ("k", ask("k", "b", LONG, &["QUEUE", "600"])),
            ("s", ask("s", "b", LONG, &["QUEUE", "600"])),
        ];
        let terms = asks.each_ref().map(|(_, ask)| {
            let (term, place) = Term::of(600, || client.run(ask));
            assert_eq!(place, -1, "{step}");
            term
        });
        server.step_clock(step);
        for ((key, _), term) in asks.iter().zip(&terms) {
            let case = format!("{step} ms, {key}");
            term.assert_left(&case, || {
                let info = cmd!(client, "LOCK.INFO", key);
                info["waiters"][0]["lease"].clone()
            });
        }
        for ((key, _), term) in asks.iter().zip(&terms) {
            let case = format!("{step} ms, {key}");
            term.assert_ends_at(&case, watch_for_its_end(&mut client, key));
        }
    }
    client.release("k", "a");
    client.release("s", "a");
}

#[test]
fn a_place_that_is_asked_for_in_time_is_kept_over_all_steps() {
    let server = stepped();
    let mut client = server.client();
    let (held, _) = Term::of(1200, || client.run(&ask("k", "a", 1200, &[])).fence());
    let asks = |owner: &str| ask("k", owner, LONG, &["QUEUE", "900"]);
    assert_eq!(client.run(&asks("b")), -1);
    let mut steps = STEPS.iter().chain(&STEPS);
    let at = eventually_some("it is its turn", || {
        if let Some(step) = steps.next() {
            server.step_clock_unseen(*step);
        }
        let reply = client.run(&asks("b"));
        if reply.int() > 0 {
            return Some(Instant::now());
        }
        assert_eq!(reply, -1);
        assert!(client.run(&asks("c")).int() < 0);
        None
    });
    held.assert_ends_at("b's turn", at);
    let left = cmd!(client, "LOCK.CHECK", "k", "b").int();
    assert!(left > 500_000, "{left}");
    client.release("k", "b");
    client.run(&asks("c")).fence();
    client.release("k", "c");
}

/// The holder's time is up, by the monotonic clock, and whoever waits by asking is told.
#[test]
fn a_message_comes_when_it_is_their_turn_whatever_the_wall_clock_does() {
    let server = stepped();
    let mut client = server.client();
    let mut listener = server.client();
    cmd!(listener, "SUBSCRIBE", "turns");
    for step in STEPS {
        for way in [Way::Alone, Way::Shared] {
            let hold = way.take(&server, &mut client, 400);
            let more = ["QUEUE", LEASE, "NOTIFY", "turns", "yours"];
            assert_eq!(client.run(&ask(&way.key(), "b", LONG, &more)), -1);
            server.step_clock(step);
            let (message, at) = listener.timed_answer();
            let case = format!("{step} ms, {way:?}");
            assert_eq!(message[2], "yours", "{case}");
            hold.term.assert_ends_at(&case, at);
            let fence = client.run(&ask(&way.key(), "b", LONG, &more)).fence();
            assert!(fence > hold.fence, "{case}");
            client.release(way.key(), "b");
        }
    }
}

/// Whether they are to be told, and so have a certain time, or have the rest of their lease.
const CLAIMS: [&[&str]; 2] = [
    &["QUEUE", "700"],
    &["QUEUE", LEASE, "NOTIFY", "turns", "yours"],
];

/// `b` has its turn, and has 700 ms to claim it; the next waits behind it.
#[track_caller]
fn unclaimed(server: &Server, client: &mut Client, more: &[&str]) -> (Term, Client) {
    let set = cmd!(client, "CONFIG", "SET", "lock.claim-time", 700);
    assert_eq!(set, "OK");
    client.acquire("k", "a");
    let mut next = server.client();
    let (lease, place) = Term::of(700, || client.run(&ask("k", "b", LONG, more)));
    assert_eq!(place, -1);
    next.send_and_block(&ask("k", "c", LONG, &["BLOCK", "0"]));
    let (claim, ()) = Term::of(700, || client.release("k", "a"));
    assert_eq!(client.holder("k"), "b");
    (if more.len() > 2 { claim } else { lease }, next)
}

#[test]
fn a_grant_that_is_not_claimed_runs_out_in_time_whatever_the_wall_clock_does() {
    let server = stepped();
    let mut client = server.client();
    let mut listener = server.client();
    cmd!(listener, "SUBSCRIBE", "turns");
    for step in STEPS {
        for more in CLAIMS {
            let (term, mut next) = unclaimed(&server, &mut client, more);
            server.step_clock(step);
            let case = format!("{step} ms, {more:?}");
            term.assert_left(&case, || cmd!(client, "LOCK.CHECK", "k", "b"));
            let (reply, at) = next.timed_answer();
            reply.fence();
            term.assert_ends_at(&case, at);
            cmd!(client, "LOCK.RELEASE", "k", "b");
            client.release("k", "c");
        }
    }
}

#[test]
fn a_grant_can_be_claimed_for_as_long_as_it_says_although_the_clock_was_set_forward() {
    let server = stepped();
    let mut client = server.client();
    let mut listener = server.client();
    cmd!(listener, "SUBSCRIBE", "turns");
    for more in CLAIMS {
        for by_renewal in [false, true] {
            for met in [false, true] {
                let (_, mut next) = unclaimed(&server, &mut client, more);
                let fence = client.number_of("k");
                server.step_clock(MINUTE);
                if met {
                    wait_until_all_keys_are_gone(&mut client);
                }
                let case = format!("{more:?}, {by_renewal}, {met}");
                let claim = if by_renewal {
                    args!["LOCK.RENEW", "k", "b", WHILE]
                } else {
                    ask("k", "b", WHILE, more)
                };
                let (term, reply) = Term::of(WHILE, || client.run(&claim));
                assert_eq!(reply, if by_renewal { 1 } else { fence }, "{case}");
                let hold = Hold {
                    way: Way::Alone,
                    term,
                    fence,
                };
                assert_eq!(client.holder("k"), "b", "{case}");
                assert_eq!(client.number_of("k"), hold.fence, "{case}");
                term.assert_left(&case, || cmd!(client, "PTTL", "k"));
                assert!(next.still_waits(), "{case}");
                client.release("k", "b");
                next.answer().fence();
                client.release("k", "c");
            }
        }
    }
}

/// It has been passed over, and its place still lives.
#[test]
fn a_place_that_sleeps_stands_where_it_stood_when_its_owner_asks_after_a_step() {
    let server = stepped();
    let mut client = server.client();
    let set = cmd!(client, "CONFIG", "SET", "lock.claim-time", 300);
    assert_eq!(set, "OK");
    let mut listener = server.client();
    cmd!(listener, "SUBSCRIBE", "turns");
    let more = ["QUEUE", LEASE, "NOTIFY", "turns", "yours"];
    for step in STEPS {
        client.acquire("k", "a");
        assert_eq!(client.run(&ask("k", "b", LONG, &more)), -1);
        assert_eq!(client.run(&ask("k", "c", LONG, &["QUEUE", LEASE])), -2);
        assert_eq!(client.run(&ask("k", "d", LONG, &["QUEUE", LEASE])), -3);
        client.release("k", "a");
        eventually("c has its turn", || client.holder("k") == "c");
        server.step_clock(step);
        assert_eq!(client.run(&ask("k", "b", LONG, &more)), -1, "{step}");
        assert_eq!(client.run(&ask("k", "d", LONG, &["QUEUE", LEASE])), -2);
        client.run(&ask("k", "c", LONG, &["QUEUE", LEASE])).fence();
        client.release("k", "c");
        client.run(&ask("k", "b", LONG, &more)).fence();
        client.release("k", "b");
        client.run(&ask("k", "d", LONG, &["QUEUE", LEASE])).fence();
        client.release("k", "d");
    }
}
