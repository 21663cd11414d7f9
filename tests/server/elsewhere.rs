//! Bugs that locks elsewhere have or had, each by the name that it goes by there. (What went wrong
//! is said in our own words; the numbers are those of the projects' public trackers.)

use crate::support::*;
use std::thread;
use std::time::{Duration, Instant};

/// What "at once" may take on a machine that is busy with other tests.
const AT_ONCE: Duration = Duration::from_secs(2);

/// Asks for the lock and waits so long for it at most.
fn waiting(key: &str, owner: &str, ttl: u64, block: u64) -> Command {
    args!["LOCK.ACQUIRE", key, owner, ttl, "BLOCK", block]
}

/// The session of a waiter ended while it waited, and it was told later that it has the lock.
#[test]
fn etcd_11456_a_waiter_is_not_granted_after_its_own_end() {
    let server = Server::start();
    let mut client = server.client();
    type End = fn(&Server, Client);
    let ends: [(&str, End); 4] = [
        ("closed", |_, waiter| waiter.close()),
        ("reset", |_, waiter| waiter.reset()),
        ("killed", |server, mut waiter| {
            cmd!(server.client(), "CLIENT", "KILL", "ID", waiter.id());
            waiter.wait_until_closed();
        }),
        ("out of time", |_, mut waiter| {
            assert!(waiter.answer().is_nil());
        }),
    ];
    for (how, end) in ends {
        client.acquire("k", "holder");
        let waiter = server.waiter(&[waiting("k", "gone", LONG, 300), args!["SESSION"]].concat());
        end(&server, waiter);
        eventually("it has left the queue", || client.queue("k").is_empty());
        client.release("k", "holder");
        assert_eq!(client.holder("k"), Value::Nil, "{how}");
        assert!(cmd!(client, "LOCK.CHECK", "k", "gone").is_nil(), "{how}");
    }
}

/// Waiters that gave up or died stayed in the fair lock's queue, each with a time far ahead, and
/// those who came later waited for all of them.
#[test]
fn redisson_1104_dead_waiters_do_not_poison_the_line() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "holder");
    thread::scope(|scope| {
        for name in 0..3 {
            let mut impatient = server.client();
            scope.spawn(move || {
                for attempt in 0..30 {
                    let owner = format!("{name}.{attempt}");
                    let answer = impatient.run(&waiting("k", &owner, 30_000, 5));
                    assert!(answer.is_nil(), "{answer:?}");
                }
            });
        }
    });
    for dying in 0..30 {
        server.waiter_for("k", format!("dying{dying}")).reset();
    }
    let mut living = server.waiter_for("k", "living");
    let began = Instant::now();
    client.release("k", "holder");
    living.answer().fence();
    let took = began.elapsed();
    assert!(took < AT_ONCE, "{took:?}");
    client.release("k", "living");
    assert_eq!(client.queue("k"), [""; 0]);
}

/// A release between a waiter's last look at the lock and its subscription woke no client, and the
/// waiter slept on beside a free lock.
#[test]
fn redisson_5761_a_release_in_the_moment_of_the_wait_wakes_the_waiter() {
    const ROUNDS: usize = 2_000;
    let server = Server::start();
    thread::scope(|scope| {
        for owner in ["a", "b", "c"] {
            let mut client = server.client();
            scope.spawn(move || {
                client.send(&waiting("k", owner, LONG, 0));
                for _ in 0..ROUNDS {
                    client.answer().fence();
                    // In one write, so that the release meets the others in every state.
                    client.send_pipeline(&[
                        args!["LOCK.RELEASE", "k", owner],
                        waiting("k", owner, LONG, 0),
                    ]);
                    assert_eq!(client.answer(), 1);
                }
                client.answer().fence();
                client.release("k", owner);
            });
        }
    });
    assert_eq!(cmd!(server.client(), "EXISTS", "k"), 0);
    let waited: usize = server.info("lock_acquired_after_wait_total").parse().unwrap();
    assert!(waited > ROUNDS, "only {waited} have waited");
}

/// A reader with a short ttl set the end of the whole lock, so that a longer reader lost its share.
#[test]
fn redisson_2144_the_last_readers_ttl_does_not_shorten_the_others() {
    let server = Server::start();
    let mut client = server.client();
    client.share("k", "long");
    let ends_at = client.shares("k")["long"];
    cmd!(client, "LOCK.ACQUIRE", "k", "short", 30, "SHARED").fence();
    assert_eq!(cmd!(client, "PEXPIRETIME", "k"), ends_at);
    eventually("the short one is over", || cmd!(client, "LOCK.CHECK", "k", "short").is_nil());
    assert!(cmd!(client, "LOCK.ACQUIRE", "k", "writer", LONG).is_nil());
    cmd!(client, "LOCK.ACQUIRE", "k", "short", LONG, "SHARED").fence();
    assert_eq!(cmd!(client, "LOCK.RENEW", "k", "short", 1_000), 1);
    client.release("k", "short");
    assert_eq!(client.shares("k")["long"], ends_at);
    assert_eq!(cmd!(client, "PEXPIRETIME", "k"), ends_at);
}

/// The answer of an acquire came late, the client asked again, and the lock was counted twice: one
/// release left it held.
#[test]
fn redisson_7367_a_retried_acquire_is_one_hold() {
    let server = Server::start();
    let mut client = server.client();
    for mode in [&[][..], &args!["SHARED"], &args!["LIMIT", 3]] {
        let request = [args!["LOCK.ACQUIRE", "k", "uid", LONG], mode.to_vec()].concat();
        let mut lost = server.client();
        lost.send(&request);
        eventually("the first has arrived", || !cmd!(client, "LOCK.CHECK", "k", "uid").is_nil());
        lost.reset();
        let again = client.run(&request).fence();
        assert_eq!(client.run(&request).fence(), again);
        assert_eq!(cmd!(client, "LOCK.INFO", "k")["count"], 1);
        client.release("k", "uid");
        assert_eq!(cmd!(client, "EXISTS", "k"), 0, "{mode:?}");
    }
}

/// An owner that released and asked again at once came before those who had waited for long.
#[test]
fn python_redis_lock_58_no_client_barges_in_before_those_who_wait() {
    let server = Server::start();
    let mut greedy = server.client();
    greedy.acquire("k", "greedy0");
    let mut waiters: Vec<_> =
        (0..5).map(|number| server.waiter_for("k", format!("waiter{number}"))).collect();
    let answers = greedy.pipeline(&[
        args!["LOCK.RELEASE", "k", "greedy0"],
        args!["LOCK.ACQUIRE", "k", "greedy1", LONG],
        args!["SET", "k", "greedy2", "NX", "PX", LONG],
    ]);
    assert_eq!(answers, [Value::Int(1), Value::Nil, Value::Nil]);
    let mut last = server.waiter_for("k", "greedy3");
    for (number, waiter) in waiters.iter_mut().enumerate() {
        waiter.answer().fence();
        assert!(last.no_answer_yet());
        greedy.release("k", format!("waiter{number}"));
    }
    last.answer().fence();
}

/// A deadlock was reported where none of those in it waited for another.
#[test]
fn mysql_87620_a_wait_that_no_client_waits_back_for_is_no_deadlock() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("x", "ann");
    client.acquire("y", "ben");
    // Ann has what another waits for, and waits for what another has.
    let mut eve = server.waiter_for("x", "eve");
    let mut ann = server.waiter_for("y", "ann");
    // Ben does not wait: he only tries, in both ways.
    assert!(cmd!(client, "LOCK.ACQUIRE", "x", "ben", LONG).is_nil());
    let answers = client.transaction(&[waiting("x", "ben", LONG, 0)]);
    assert!(answers[0].is_nil(), "{answers:?}");
    // Others wait for both, in any number, and none of them holds anything.
    let mut others: Vec<_> = ["x", "y", "x", "y"]
        .iter()
        .enumerate()
        .map(|(number, key)| server.waiter_for(key, format!("other{number}")))
        .collect();
    client.release("y", "ben");
    ann.answer().fence();
    // Now that ann has both, ben may wait.
    let mut ben = server.waiter_for("x", "ben");
    client.release("y", "ann");
    client.release("x", "ann");
    eve.answer().fence();
    client.release("x", "eve");
    for (other, (key, owner)) in
        others.iter_mut().zip([("x", "other0"), ("y", "other1"), ("x", "other2"), ("y", "other3")])
    {
        other.answer().fence();
        client.release(key, owner);
    }
    ben.answer().fence();
}

/// A renewal wrote the lock anew when it was gone, beside the owner that had taken it meanwhile.
#[test]
fn redlock_net_48_a_renewal_revives_nothing() {
    let server = Server::start();
    let mut client = server.client();
    let renewals =
        [args!["LOCK.RENEW", "k", "slow", LONG], args!["LOCK.MRENEW", 1, "k", "slow", LONG]];
    for mode in [&[][..], &args!["SHARED"]] {
        let request = [args!["LOCK.ACQUIRE", "k", "slow", 20], mode.to_vec()].concat();
        client.run(&request).fence();
        eventually("its time is over", || cmd!(client, "LOCK.CHECK", "k", "slow").is_nil());
        for renewal in &renewals {
            assert_eq!(client.run(renewal), 0);
            assert_eq!(cmd!(client, "EXISTS", "k"), 0);
        }
        client.acquire("k", "next");
        for renewal in &renewals {
            assert_eq!(client.run(renewal), 0);
            assert_eq!(client.holder("k"), "next");
        }
        client.release("k", "next");
    }
}
