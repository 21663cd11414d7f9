//! Places, their leases and their claims go by the monotonic clock alone.

use super::*;

const STEPS: [i64; 5] = [50, SECOND, DAY, -SECOND, -HOUR];
const LEASE: &str = "60000";

/// The holder's time is up, by the monotonic clock, and one that polls gets a message.
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
const CLAIMS: [&[&str]; 2] = [&["QUEUE", "700"], &["QUEUE", LEASE, "NOTIFY", "turns", "yours"]];

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
