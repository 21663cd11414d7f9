//! A master that was cut off goes on, with clients of its own, beside the one that took over. Its numbers stay
//! below its successor's, so that a resource which checks them refuses the late ones and nobody else.

use crate::support::*;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;

/// A resource that takes no number below the highest that it has seen.
#[derive(Default)]
struct Resource {
    highest: i64,
}

impl Resource {
    fn accepts(&mut self, number: i64) -> bool {
        let accepts = number >= self.highest;
        self.highest = self.highest.max(number);
        accepts
    }
}

/// The numbers of so many grants, one after another.
#[track_caller]
fn grants(server: &Server, count: usize) -> Vec<i64> {
    let pair = || {
        [
            args!["LOCK.ACQUIRE", "k", "a", LONG],
            args!["LOCK.RELEASE", "k", "a"],
        ]
    };
    let pairs: Vec<Command> = (0..count).flat_map(|_| pair()).collect();
    let replies = server.client().pipeline(&pairs);
    replies.iter().step_by(2).map(Value::fence).collect()
}

#[test]
fn of_two_masters_no_rightful_holder_is_refused_by_what_checks_its_number() {
    let stepped = || Setup::new().with_steps();
    let first = stepped().start();
    let (second, third) = (first.replica_with(stepped()), first.replica_with(stepped()));
    // A day lies between these clocks.
    second.step_clock(-12 * HOUR);
    third.step_clock(12 * HOUR);
    let all_step = |by: i64| [&first, &second, &third].map(|server| server.step_clock(by));
    let mut resource = Resource::default();
    for number in grants(&first, 1000) {
        assert!(resource.accepts(number));
    }
    let mut cut_off = vec![&first];
    for next in [&second, &third] {
        // Takeovers are further apart than the clocks are.
        all_step(25 * HOUR);
        // Whoever it has followed so far hears nothing of it.
        next.promote();
        for minute in 0..10 {
            for number in grants(next, 100) {
                assert!(
                    resource.accepts(number),
                    "a rightful holder, minute {minute}"
                );
            }
            for old in &cut_off {
                for number in grants(old, 500) {
                    assert!(
                        !resource.accepts(number),
                        "one that is late, minute {minute}"
                    );
                }
            }
            all_step(MINUTE);
        }
        cut_off.push(next);
    }
}

#[test]
fn the_numbers_of_a_master_that_was_cut_off_a_moment_ago_stay_below_its_successors() {
    let first = Server::start();
    let mut before = grants(&first, 1000);
    let second = first.replica();
    second.promote();
    let successors = grants(&second, 1)[0];
    // It goes on for longer than it used to be ahead.
    first.let_pass(6000);
    before.extend(grants(&first, 1000));
    assert!(before.iter().all(|&number| number < successors));
}

/// The pages say so: what prevents it is that it grants nothing without a replica, or after a start.
#[test]
fn a_master_that_was_cut_off_and_is_started_again_counts_as_the_one_that_took_over_last() {
    let first = Server::with().append_only().start();
    let second = first.replica();
    second.promote();
    let successors = grants(&second, 1)[0];
    assert!(grants(&first, 1)[0] < successors);
    first.restart();
    assert!(grants(&first, 1)[0] > successors);
    for setting in ["min-replicas-to-write 1", "lock.quarantine 60000"] {
        first.restart_as(|setup| setup.config(setting));
        let reply = cmd!(first.client(), "LOCK.ACQUIRE", "k", "a", LONG);
        assert!(
            reply.is_nil() || reply.is_error("NOREPLICAS"),
            "{setting}: {reply:?}"
        );
        first.restart_as(|setup| setup.config("min-replicas-to-write 0"));
    }
}
