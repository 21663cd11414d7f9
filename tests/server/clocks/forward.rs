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
