//! Slots that move as a whole, where the server can do that: with all kinds of holds and waits in
//! them, and back and forth under load.

use crate::support::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn every_kind_of_hold_goes_with_its_slot_and_every_kind_of_waiter_is_sent_after_it() {
    let cluster = Cluster::start(2);
    skip_unless!(
        cluster.moves_atomically(),
        "this server moves slots key by key"
    );
    let tag = cluster.key_on(0, "t");
    let slot = cluster.slot_of(&tag);
    let [alone, shared, x, y] =
        ["alone", "shared", "x", "y"].map(|name| format!("{{{tag}}}{name}"));
    let (mut here, mut there) = (cluster.client(0), cluster.client(1));
    here.acquire(&alone, "a");
    here.share(&shared, "r");
    here.permit(&shared, "s", 5);
    let last = here.acquire_all(&[&x, &y], "o");
    let deadlines = |client: &mut Client| {
        [&alone, &shared, &x, &y].map(|key| cmd!(client, "PEXPIRETIME", key).int())
    };
    let (ends, shares) = (deadlines(&mut here), here.shares(&shared));

    let node = cluster.node(0);
    let mut waiters = [
        node.waiter_for(&alone, "b"),
        node.waiter_for(&shared, "r"), // It holds a share, and wants the lock alone.
        node.waiter_for(&shared, "w"),
        node.reader_for(&shared, "v"),
        node.permit_waiter_for(&alone, "p", 3),
        node.waiter_for_all(&[&alone, &y], "m"),
    ];
    cluster.move_atomically(slot, 0, 1);
    let moved = format!("MOVED {slot} 127.0.0.1:{}", cluster.node(1).port());
    for waiter in &mut waiters {
        assert_eq!(waiter.answer().error(), moved);
    }
    cluster.wait_until_served_by(&alone, 1);
    assert_eq!(deadlines(&mut there), ends);
    assert_eq!(there.shares(&shared), shares);
    for (key, owner) in [
        (&alone, "a"),
        (&shared, "r"),
        (&shared, "s"),
        (&x, "o"),
        (&y, "o"),
    ] {
        let left = cmd!(there, "LOCK.CHECK", key, owner);
        assert!(left.int() > 0, "{key} {owner}: {left:?}");
    }

    // Where they have been sent they wait as before, and get higher numbers.
    let node = cluster.node(1);
    let mut next = node.waiter_for(&alone, "b");
    let mut upgrade = node.waiter_for(&shared, "r");
    let mut many = node.waiter_for_all(&[&alone, &y], "m");
    there.release(&alone, "a");
    assert!(next.answer().fence() > last);
    there.release(&shared, "s");
    assert!(upgrade.answer().fence() > last);
    there.release(&alone, "b");
    assert!(many.no_answer_yet());
    there.release_all(&[&x, &y], "o");
    assert!(many.answer().fence() > last);
    // Nothing of them is left where they were.
    cluster.node(0).wait_until_unloaded();
}

/// As often does the slot move in the test below.
const MOVES: usize = 6;
/// So many grants of each lock there must be between two moves, so that every move is under load.
const GRANTS_BETWEEN: u64 = 20;
const CLIENTS_OF_EACH_LOCK: usize = 4;
/// What a hold is cut down to that is then left to its time.
const SHORT_MS: u64 = 20;

#[test]
fn a_slot_that_moves_as_a_whole_under_load_has_one_holder_and_rising_numbers() {
    let cluster = Cluster::start(2);
    skip_unless!(
        cluster.moves_atomically(),
        "this server moves slots key by key"
    );
    let tag = cluster.key_on(0, "t");
    let slot = cluster.slot_of(&tag);
    let locks = ["a", "b", "c"].map(|name| Lock::new(format!("{{{tag}}}{name}")));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for lock in &locks {
            for number in 0..CLIENTS_OF_EACH_LOCK {
                let worker = Worker::new(&cluster, lock, number);
                scope.spawn(|| worker.work_until(&is_over));
            }
        }
        let _end = End(&is_over);
        for turn in 0..MOVES {
            let (from, to) = (turn % 2, (turn + 1) % 2);
            locks.iter().for_each(|lock| lock.wait_for_grants_on(from));
            cluster.move_atomically(slot, from, to);
            cluster.wait_until_served_by(&tag, to);
        }
        locks.iter().for_each(|lock| lock.wait_for_grants_on(0));
    });
    for node in cluster.nodes() {
        node.wait_until_unloaded();
    }
}

/// Ends the work also when the moves panic, or nobody would ever come to the end of the scope.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A lock, and what its clients know of it together: what one of them has been told the others
/// must not be told of.
struct Lock {
    key: String,
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Known {
    /// The end of the last hold, or the earliest time at which it may end; none while it lasts.
    free_from: Option<Instant>,
    last: i64,
    granted_on: [u64; 2],
}

impl Lock {
    fn new(key: String) -> Lock {
        let known = Known {
            free_from: Some(Instant::now()),
            last: 0,
            granted_on: [0; 2],
        };
        Lock {
            key,
            known: Mutex::new(known),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap()
    }

    /// A client has been told that it holds the lock.
    fn is_granted(&self, fence: i64, node: usize) {
        let (mut known, now) = (self.known(), Instant::now());
        let is_free = known.free_from.is_some_and(|time| time <= now);
        assert!(is_free, "{}: {fence} at {now:?} beside {known:?}", self.key);
        known.free_from = None;
        assert!(fence > known.last, "{}: {fence} after {known:?}", self.key);
        known.last = fence;
        known.granted_on[node] += 1;
    }

    /// Whoever holds the lock is about to end that, and it will be no earlier than then.
    fn ends_after(&self, time: Duration) {
        self.known().free_from = Some(Instant::now() + time);
    }

    fn wait_for_grants_on(&self, node: usize) {
        let granted = || self.known().granted_on[node];
        let before = granted();
        eventually("the lock goes round", || {
            granted() >= before + GRANTS_BETWEEN
        });
    }
}

/// One client, with a connection to each node.
struct Worker<'a> {
    lock: &'a Lock,
    name: usize,
    nodes: [Client; 2],
    node: usize,
}

impl Worker<'_> {
    fn new<'a>(cluster: &Cluster, lock: &'a Lock, name: usize) -> Worker<'a> {
        Worker {
            lock,
            name,
            nodes: [cluster.client(0), cluster.client(1)],
            node: 0,
        }
    }

    /// Waits for the lock without an end, so that it comes back only if it is granted or sent on.
    fn work_until(mut self, is_over: &AtomicBool) {
        let key = self.lock.key.clone();
        for round in 0.. {
            if is_over.load(Ordering::Relaxed) {
                return;
            }
            // An owner is one piece of work: it does not want two locks at once.
            let owner = format!("{key}-{}-{round}", self.name);
            let fence = self.run(&args!["LOCK.ACQUIRE", key, owner, LONG, "BLOCK", 0]);
            self.lock.is_granted(fence.fence(), self.node);
            let is_left_to_its_time = round % 5 == 4;
            let ended = if is_left_to_its_time {
                // The server counts whole milliseconds from the beginning of one.
                self.lock.ends_after(Duration::from_millis(SHORT_MS - 1));
                self.run(&args!["LOCK.RENEW", key, owner, SHORT_MS])
            } else {
                self.lock.ends_after(Duration::ZERO);
                self.run(&args!["LOCK.RELEASE", key, owner])
            };
            assert_eq!(ended, 1, "{key}: {owner} did not hold it any more");
        }
    }

    /// Asks where the lock is, and goes to the other node when it is sent there.
    fn run(&mut self, command: &Command) -> Value {
        eventually_some("one of the nodes has the slot", || {
            let answer = self.nodes[self.node].run(command);
            if answer.is_error("MOVED") {
                self.node = 1 - self.node;
                return None;
            }
            Some(answer)
        })
    }
}
