//! How long a client waits is a matter of the monotonic clock alone.

use super::*;

/// Both at once, in short and in long.
const STEPS: [i64; 6] = [50, SECOND, DAY, -50, -SECOND, -HOUR];

#[test]
fn patience_ends_in_time_whatever_the_wall_clock_does() {
    let server = stepped();
    let mut client = server.client();
    for step in STEPS {
        client.acquire("k", "a");
        client.share("s", "a");
        client.share("s", "b");
        let asks = [
            ask("k", "w", LONG, &["BLOCK", "500"]),
            ask("k", "r", LONG, &["BLOCK", "500", "SHARED"]),
            ask("k", "p", LONG, &["BLOCK", "500", "LIMIT", "2"]),
            args!["LOCK.MACQUIRE", 2, "k", "s", "m", LONG, "BLOCK", 500],
            ask("s", "v", LONG, &["BLOCK", "500"]),
        ];
        let mut terms = Vec::new();
        let mut waiters: Vec<_> = (asks.iter())
            .map(|ask| {
                let (term, waiter) = Term::of(500, || server.waiter(ask));
                terms.push(term);
                waiter
            })
            .collect();
        server.step_clock(step);
        for ((ask, term), (reply, at)) in asks.iter().zip(terms).zip(replies(&mut waiters)) {
            let case = format!("{step} ms, {ask:?}");
            assert!(reply.is_nil(), "{case}: {reply:?}");
            term.assert_ends_at(&case, at);
        }
        assert_eq!(client.queue("k"), [""; 0]);
        cmd!(client, "FLUSHALL");
    }
}

/// While replicas are missing no client is granted anything; it is tried again shortly, by any clock.
#[test]
fn what_is_tried_again_is_tried_again_soon_after_any_step() {
    for step in STEPS {
        let server = stepped();
        let mut client = server.client();
        client.acquire("k", "a");
        client.acquire("l", "a");
        let mut waiters = [server.waiter_for("k", "w"), server.waiter_for("l", "v")];
        let enough = |least: u64| args!["CONFIG", "SET", "min-replicas-to-write", least];
        // From then on nothing can be written.
        client.transaction(&[args!["PEXPIRE", "k", 20], args!["PEXPIRE", "l", 20], enough(1)]);
        eventually("they are over", || cmd!(client, "EXISTS", "k", "l") == 0);
        assert!(waiters.iter_mut().all(Client::still_waits));
        server.step_clock(step);
        assert!(waiters.iter_mut().all(Client::still_waits));
        let began = Instant::now();
        assert_eq!(client.run(&enough(0)), "OK");
        for (reply, at) in replies(&mut waiters) {
            reply.fence();
            assert!(at - began < 2 * SLACK, "{step}: {:?}", at - began);
        }
    }
}

/// After a step forward the server looks at a module's timers when the oldest would have been due.
#[test]
fn other_modules_timers_hold_up_no_client_after_a_step() {
    for step in [SECOND, MINUTE, DAY, -SECOND, -HOUR] {
        let server = Server::with().with_steps().with_neighbour().start();
        let mut client = server.client();
        for due in [5_000, 60_000, 3_600_000] {
            assert_eq!(cmd!(client, "NEIGHBOUR.TIMER", due), "OK");
        }
        let holds = hold_in_all_ways(&server, &mut client, 700);
        let asks = |hold: &Hold| {
            let key = hold.way.key();
            ask(&key, &format!("w-{key}"), LONG, &["BLOCK", "0"])
        };
        let mut waiters: Vec<_> = holds.iter().map(|hold| server.waiter(&asks(hold))).collect();
        client.acquire("held", "a");
        let (patience, mut impatient) =
            Term::of(700, || server.waiter(&ask("held", "w", LONG, &["BLOCK", "700"])));
        server.step_clock(step);
        for (hold, (reply, at)) in holds.iter().zip(replies(&mut waiters)) {
            let case = format!("{step} ms, {:?}", hold.way);
            assert!(reply.fence() > hold.fence, "{case}");
            hold.term.assert_ends_at(&case, at);
        }
        let (reply, at) = impatient.timed_answer();
        assert!(reply.is_nil());
        assert!(at <= patience.told + patience.lasts + SLACK, "{step}: {at:?}");
        // What has to wait for a turn of the loop comes with the next one.
        let mut killed = server.waiter_for("held", "v");
        let mut next = server.waiter_for("held", "u");
        let began = Instant::now();
        client.transaction(&[
            args!["LOCK.RELEASE", "held", "a"],
            args!["CLIENT", "KILL", "ID", killed.id()],
        ]);
        let (reply, at) = next.timed_answer();
        reply.fence();
        assert!(at - began < SLACK, "{step}: {:?}", at - began);
        cmd!(client, "FLUSHALL");
    }
}
