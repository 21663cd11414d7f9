//! Set forward, the key goes too early, and the lock does not.

use super::*;

#[test]
fn no_client_is_granted_a_lock_early_because_the_clock_is_set_forward() {
    let server = stepped();
    let mut client = server.client();
    for step in [50, SECOND, MINUTE, DAY] {
        let holds = hold_in_all_ways(&server, &mut client, 500);
        server.step_clock(step);
        let case = format!("{step} ms forward");
        assert_can_be_had_in_time(&case, &server, &holds, || {});
    }
}

#[test]
fn no_waiter_is_granted_a_lock_early_because_the_clock_is_set_forward() {
    let server = stepped();
    for step in [50, SECOND, DAY] {
        let mut client = server.client();
        let holds = hold_in_all_ways(&server, &mut client, 900);
        // An owner waits once, so each lock has its own.
        let own = |hold: &Hold, owner: &str| format!("{owner}-{}", hold.way.key());
        let waits = |hold: &Hold, owner: &str| {
            let owner = &own(hold, owner);
            let (key, free) = (hold.way.key(), format!("{:?}-free", hold.way));
            server.waiter(&match hold.way {
                Way::Alone | Way::SharedWithAnother => macquire_waiting(&[&key, &free], owner),
                Way::Limited | Way::Renewed => {
                    ask(&key, owner, LONG, &["BLOCK", "0", "LIMIT", "1"])
                }
                _ => ask(&key, owner, LONG, &["BLOCK", "0"]),
            })
        };
        let mut first: Vec<_> = holds.iter().map(|hold| waits(hold, "w")).collect();
        server.step_clock(step);
        let mut second: Vec<_> = holds.iter().map(|hold| waits(hold, "v")).collect();
        for (hold, (reply, at)) in holds.iter().zip(replies(&mut first)) {
            let case = format!("{step} ms forward, {:?}", hold.way);
            assert!(reply.fence() > hold.fence, "{case}");
            hold.term.assert_ends_at(&case, at);
        }
        for (hold, waiter) in holds.iter().zip(&mut second) {
            assert!(waiter.still_waits(), "{:?}", hold.way);
            let keys = [hold.way.key(), format!("{:?}-free", hold.way)];
            let release =
                |owner: &str| [counted("LOCK.MRELEASE", &keys), args![own(hold, owner)]].concat();
            assert!(client.run(&release("w")).int() > 0);
            waiter.answer().fence();
            assert!(client.run(&release("v")).int() > 0);
        }
    }
}

#[test]
fn steps_in_both_directions_within_one_hold_neither_shorten_nor_prolong_it() {
    for steps in [
        &[50, -50, 50, -50][..],
        &[MINUTE, -HOUR, DAY, 50, -DAY, -SECOND, HOUR],
        &[-DAY, DAY],
        &[DAY, -DAY],
        &[-SECOND, -MINUTE, -HOUR],
        &[SECOND, MINUTE, HOUR, DAY],
    ] {
        let server = stepped();
        let mut client = server.client();
        let mut waiters = Vec::new();
        let holds = hold_in_all_ways(&server, &mut client, 900);
        // Half of them are waited for all the time, the others are tried.
        let (waited, tried) = holds.split_at(4);
        for hold in waited {
            let key = hold.way.key();
            let waiting = ask(&key, &format!("w-{key}"), LONG, &["BLOCK", "0"]);
            waiters.push(server.waiter(&waiting));
        }
        let case = format!("{steps:?}");
        let mut steps = steps.iter();
        let mut next = Instant::now();
        let step_now = || {
            if Instant::now() > next {
                next += ms(80);
                // Not even the server has seen it when the next command comes.
                (steps.next()).inspect(|step| server.step_clock_unseen(**step));
            }
        };
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| replies(&mut waiters));
            assert_can_be_had_in_time(&case, &server, tried, step_now);
            for (hold, (reply, at)) in waited.iter().zip(waiting.join().unwrap()) {
                let case = format!("{case}, {:?} is waited for", hold.way);
                assert!(reply.fence() > hold.fence, "{case}");
                hold.term.assert_ends_at(&case, at);
                let key = hold.way.key();
                client.release(&key, format!("w-{key}"));
            }
        });
    }
}

#[test]
fn a_step_within_a_transaction_ends_no_hold_of_it() {
    let server = stepped();
    for step in [DAY, -HOUR] {
        let mut client = server.client();
        assert_eq!(cmd!(client, "MULTI"), "OK");
        for command in [
            ask("k", "a", 700, &[]),
            args!["LOCK.ACQUIRE", "s", "a", 700, "SHARED"],
            args!["DEBUG", "SLEEP", 0.2],
            args!["LOCK.CHECK", "k", "a"],
            args!["LOCK.CHECK", "s", "a"],
            ask("k", "n", LONG, &[]),
            ask("s", "n", LONG, &[]),
            args!["LOCK.GUARD", "k", "a", "SET", "guarded", 1],
        ] {
            assert_eq!(client.run(&command), "QUEUED");
        }
        server.step_clock(step);
        let asked = Instant::now();
        client.send(&["EXEC"]);
        // It sleeps by now, or has not begun: as good.
        std::thread::sleep(ms(100));
        server.step_clock_unseen(step);
        let replies = client.answer();
        let case = format!("{step}: {replies:?}");
        let fence = replies[0].fence();
        for left in [&replies[3], &replies[4]] {
            assert!((1..=700).contains(&left.int()), "{case}");
        }
        assert!(replies[5].is_nil() && replies[6].is_nil(), "{case}");
        assert_eq!(replies[7], "OK", "{case}");
        let hold = Hold {
            way: Way::Alone,
            term: Term { asked, told: Instant::now(), lasts: ms(700) },
            fence,
        };
        let mut waiter = server.waiter(&ask("k", "w", LONG, &["BLOCK", "0"]));
        let (reply, at) = waiter.timed_answer();
        assert!(reply.fence() > hold.fence);
        hold.term.assert_ends_at(&case, at);
        cmd!(client, "FLUSHALL");
    }
}
