//! The second process: it acquires, renews and releases the lock, and kills the command before the hold ends if the first
//! process was stopped or killed.
//!
//! It is a process of its own, so that either of the two can end the command without the other.

use super::clock::{Alarm, now};
use super::held::{Lock, Reply};
use super::link::Failure;
use super::margin::Margin;
use super::options::{OnLost, Options};
use super::owner::owner;
use super::tree::{Tree, children};
use super::wire::{News, Order};
use crate::words::escaped;
use nix::sys::signal::SigSet;
use nix::unistd::{Pid, getppid};
use std::io::{self, BufRead, Write, stdin, stdout};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, sleep};
use std::time::Duration;

/// What the keeper hears.
enum Heard {
    Order(Order),
    /// The first process has ended.
    Gone,
    Wake,
}

/// What is guarded, and until when. None: nothing.
struct Guarded {
    ends: Option<Duration>,
    margin: Margin,
    tree: Tree,
}

/// The command's processes, and the end of the hold.
#[derive(Clone)]
struct Guard(Arc<Mutex<Guarded>>);

impl Guard {
    fn lock(&self) -> MutexGuard<'_, Guarded> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kills what still runs, a margin before the hold ends.
    fn watch(&self) -> io::Result<Alarm> {
        let guard = self.clone();
        Alarm::start(move |alarm| {
            let guarded = guard.lock();
            let tree = guarded.tree.clone();
            let due = guarded.ends.map(|ends| guarded.margin.guard(ends));
            drop(guarded);
            match due {
                Some(due) if due <= now() => _ = tree.kill_all(|| false),
                Some(due) => alarm.set(due),
                None => {}
            }
            true
        })
    }
}

/// Acquires the lock, and keeps it until the first process is done or gone. Reports why there is no grant.
pub fn keep(options: Options) -> io::Result<()> {
    // Signals are for the first process, which says when it is done.
    SigSet::all().thread_block()?;
    // Its name in ps. It differs from the first one's, so `pkill redis-lock` leaves this process to clean up.
    nix::sys::prctl::set_name(c"lock-keeper")?;
    let first = getppid();
    let owner = owner(options.group.as_deref(), first.as_raw().unsigned_abs())?;
    let (send, heard) = channel();
    listen(send.clone());
    let tree = Tree { adopts: Some(first), spared: children(first), ..Tree::default() };
    let margin = Margin::of(options.ttl);
    let guard = Guard(Arc::new(Mutex::new(Guarded { ends: None, margin, tree })));
    let lock = Lock::new(&options, &owner);
    let wake = Alarm::start(move |_| send.send(Heard::Wake).is_ok())?;
    let watch = guard.watch()?;
    let mut keeper = Keeper { options, owner, lock, heard, guard, wake, watch };
    if let Some((fence, ends)) = keeper.acquire() {
        let owner = keeper.owner.clone();
        say(&News::Granted { ends, owner, fence });
        keeper.hold(ends);
    }
    Ok(())
}

fn listen(send: Sender<Heard>) {
    thread::spawn(move || {
        for line in stdin().lock().lines().map_while(Result::ok) {
            if let Some(order) = Order::read(&line)
                && send.send(Heard::Order(order)).is_err()
            {
                return;
            }
        }
        _ = send.send(Heard::Gone);
    });
}

/// An error is ignored: if the first process is gone, standard input ends too.
fn say(news: &News) {
    let mut out = stdout().lock();
    _ = out.write_all(news.line().as_bytes()).and_then(|()| out.flush());
}

struct Keeper {
    options: Options,
    owner: String,
    lock: Lock,
    heard: Receiver<Heard>,
    guard: Guard,
    wake: Alarm,
    watch: Alarm,
}

/// How long a reply may take before the grant.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long to try a server that isn't reached, or doesn't say whether the lock is free.
const CONTACT: Duration = Duration::from_secs(5);
/// The pauses between two polls of a waiter: the first, the longest of the next in the queue, and the longest of those
/// behind it and of all where there is no queue.
const FIRST: Duration = Duration::from_millis(10);
const NEXT: Duration = Duration::from_millis(100);
const BEHIND: Duration = Duration::from_millis(500);
/// How long to try to end a hold.
const LETTING_GO: Duration = Duration::from_secs(2);

impl Keeper {
    /// How long the hold must last from now, if it was granted then.
    fn length(&self, granted: Duration) -> Duration {
        let rest = (granted + self.options.hold).saturating_sub(now());
        self.options.ttl.max(rest)
    }

    /// The token and the end of the hold. None: it has reported why there is no grant.
    fn acquire(&mut self) -> Option<(Option<u64>, Duration)> {
        let began = now();
        let until = self.options.wait.map(|wait| began + wait);
        let waits = self.options.wait != Some(Duration::ZERO);
        let (mut reached, mut complained, mut said_plain) = (false, false, false);
        let (mut stood, mut pause, mut trouble) = (0, FIRST, None);
        // The ttl of a place may begin at any time after a reply that was no grant: when replicas have it.
        let mut since = now();
        loop {
            let asked = now();
            let length = self.options.ttl.max(self.options.hold);
            let reply = self.lock.acquire(length, waits, PATIENCE);
            // Not if cron starts us on ten machines and nine don't get the lock.
            let concerns_us = waits || matches!(reply, Ok(Reply::Granted(_)));
            if self.lock.is_plain() && concerns_us && !said_plain {
                said_plain = true;
                say(&News::Say(
                    "this server has no module redis-lock: the lock is taken by SET NX PX, without a queue and without a \
                     fencing token"
                        .to_owned(),
                ));
            }
            let longest = match reply {
                Ok(Reply::Granted(fence)) => {
                    let is_late = |asked| now().saturating_sub(asked) >= self.options.ttl / 10;
                    if !is_late(since) {
                        return Some((fence, since + length));
                    }
                    let asked = now();
                    match self.lock.acquire(length, false, PATIENCE) {
                        Ok(Reply::Granted(fence)) if !is_late(asked) => {
                            return Some((fence, asked + length));
                        }
                        Err(Failure::Passing(why)) => trouble = Some(why),
                        Err(Failure::Refused(why)) => {
                            self.withdraw();
                            say(&News::Refused(why));
                            return None;
                        }
                        _ => trouble = None,
                    }
                    NEXT
                }
                Ok(Reply::Taken) if !waits => {
                    self.busy(false);
                    return None;
                }
                Ok(reply) => {
                    (reached, trouble, since) = (true, None, asked);
                    let place = if let Reply::Place(place) = reply { place } else { 0 };
                    if place != stood {
                        (stood, pause) = (place, FIRST);
                    }
                    if place == 1 { NEXT } else { BEHIND }
                }
                Err(Failure::Passing(why)) => {
                    if now() > began + CONTACT && !(reached && waits) {
                        self.withdraw();
                        say(&News::Refused(why));
                        return None;
                    }
                    if reached && !complained {
                        complained = true;
                        say(&News::Say(format!("{why}; trying again")));
                    }
                    trouble = Some(why);
                    NEXT
                }
                Err(Failure::Refused(why)) => {
                    say(&News::Refused(why));
                    return None;
                }
                Err(Failure::NoModule) => BEHIND,
            };
            let rest = until.map_or(Duration::MAX, |until| until.saturating_sub(now()));
            if waits && rest.is_zero() {
                self.withdraw();
                match trouble {
                    Some(why) => say(&News::Refused(why)),
                    None => self.busy(true),
                }
                return None;
            }
            pause = (pause * 2).min(longest).min(self.lock.longest_pause());
            match self.heard.recv_timeout(pause.min(rest)) {
                Err(RecvTimeoutError::Timeout) | Ok(Heard::Order(Order::Heard) | Heard::Wake) => {}
                _ => {
                    self.withdraw();
                    return None;
                }
            }
        }
    }

    fn busy(&self, waited: bool) {
        let key = escaped(&self.options.key);
        let word = if waited { "is still held" } else { "is held" };
        say(&News::Busy(format!("{key} {word} by another: redis-lock who {key}")));
    }

    /// Gives up the place in the queue, or a grant whose reply was lost.
    fn withdraw(&mut self) {
        _ = self.lock.release(PATIENCE / 2);
    }

    /// Renews until the first process is done or gone.
    fn hold(&mut self, first_ends: Duration) {
        let granted = now();
        let (half, third) = (self.options.ttl / 2, self.options.ttl / 3);
        let patience = (self.options.ttl / 6).min(PATIENCE);
        let mut ends = first_ends;
        let mut due = now() + third;
        let (mut is_lost, mut may_say, mut unsaid, mut complained) = (false, true, false, false);
        self.guard_until(ends);
        loop {
            if !is_lost {
                self.wake.set(due);
            }
            match self.heard.recv().unwrap_or(Heard::Gone) {
                Heard::Order(Order::Group(pid)) => {
                    let tree = &mut self.guard.lock().tree;
                    (tree.group, tree.leads) = (Some(Pid::from_raw(pid)), true);
                    continue;
                }
                Heard::Order(Order::Heard) => {
                    may_say = true;
                    if unsaid {
                        (may_say, unsaid) = (false, false);
                        say(&News::Ends(ends));
                    }
                    continue;
                }
                Heard::Order(Order::Done) => return self.let_go(granted, ends, is_lost),
                Heard::Gone => {
                    // No process is left to pass signals on to the command, or to return its status.
                    let mut tree = self.guard.lock().tree.clone();
                    tree.adopts = None;
                    tree.mark = Some(format!("LOCK_OWNER={}", self.owner).into_bytes());
                    if tree.kill_all(|| false) {
                        self.let_go(granted, ends, is_lost);
                    }
                    return;
                }
                Heard::Wake if is_lost || now() < due => continue,
                Heard::Wake => {}
            }
            let asked = now();
            if asked >= ends {
                is_lost = true;
                say(&News::Lost("it was not renewed in time".to_owned()));
                continue;
            }
            let length = self.length(granted);
            match self.lock.renew(length, patience) {
                Ok(true) => {
                    ends = ends.max(asked + length);
                    due = asked + third;
                    self.guard_until(ends);
                    unsaid = !may_say;
                    if may_say {
                        may_say = false;
                        say(&News::Ends(ends));
                    }
                    self.lock.link.learn_nodes();
                }
                Ok(false) => {
                    is_lost = true;
                    say(&News::Lost(
                        "the server says that another holds it, or that it was ended".to_owned(),
                    ));
                    // The first process kills the command one margin from now.
                    let margin = self.guard.lock().margin.length();
                    ends = ends.min(now() + margin * 3);
                    self.guard_until(ends);
                }
                Err(failure) => {
                    due = now() + patience / 4;
                    let why = match failure {
                        Failure::Refused(why) => Some(why),
                        // It may pass before the command has to end.
                        Failure::Passing(why) => Some(why).filter(|_| now() + half >= ends),
                        Failure::NoModule => None,
                    };
                    if let Some(why) = why.filter(|_| !complained) {
                        complained = true;
                        say(&News::Say(format!("the lock is not renewed: {why}")));
                    }
                }
            }
        }
    }

    fn guard_until(&self, ends: Duration) {
        if self.options.on_lost == OnLost::Ignore {
            return;
        }
        let mut guarded = self.guard.lock();
        guarded.ends = Some(ends);
        self.watch.set(guarded.margin.guard(ends));
    }

    /// Nothing runs under the lock any more: releases it, or keeps it to the end of its period.
    fn let_go(&mut self, granted: Duration, ends: Duration, is_lost: bool) {
        let mut guarded = self.guard.lock();
        guarded.ends = None;
        // The lock is lost, or the server has been silent for long.
        let is_late = is_lost || now() >= guarded.margin.term(ends);
        drop(guarded);
        let until = now() + if is_late { LETTING_GO / 4 } else { LETTING_GO };
        let mut repeated = false;
        let was_held = loop {
            let rest = (granted + self.options.hold).saturating_sub(now());
            let is_kept = rest >= Duration::from_millis(1);
            let reply = match is_kept {
                true => self.lock.renew(rest, PATIENCE / 4),
                false => self.lock.release(PATIENCE / 4),
            };
            match reply {
                // An earlier request may have released it, its reply being lost.
                Ok(false) if repeated && !is_kept => break now() < ends,
                Ok(was_held) => break was_held,
                Err(Failure::Passing(_)) if now() < until => {
                    repeated = true;
                    sleep(Duration::from_millis(50));
                }
                Err(_) => break now() < ends,
            }
        };
        say(&News::Over(was_held && !is_lost));
    }
}
