//! The second process: it acquires the lock, renews it and lets go of it, and sees to it that the command does not outlive
//! the hold if the first process is stopped or killed.
//!
//! It is a process of its own so that each of the two can do that in place of the other.

use super::clock::{Alarm, now};
use super::held::{Lock, Reply};
use super::link::{Failure, Link};
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
    /// The first process has ended, in whatever way.
    Gone,
    Wake,
}

/// What is guarded, and until when; None: nothing any more.
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

    /// Kills what still runs a margin before the end.
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

/// Does all of it. It says why it ends.
pub fn keep(options: Options) -> io::Result<()> {
    // The first process hears signals, and says when it is over.
    SigSet::all().thread_block()?;
    // In ps; and not the first one's, so that pkill with that name leaves this one to clean up.
    nix::sys::prctl::set_name(c"lock-keeper")?;
    let first = getppid();
    let owner = owner(first.as_raw().unsigned_abs())?;
    let (send, heard) = channel();
    listen(send.clone());
    let tree = Tree { adopts: Some(first), spared: children(first), ..Tree::default() };
    let margin = Margin::of(options.ttl);
    let guard = Guard(Arc::new(Mutex::new(Guarded { ends: None, margin, tree })));
    let lock = Lock::new(Link::to(&options.place), &options.key, owner.as_bytes(), options.mode);
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

/// If the first process has gone, standard input ends too.
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

/// How long a reply may take while the lock is not ours yet.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a server that was not reached yet is tried, and one that does not say whether the lock is free.
const CONTACT: Duration = Duration::from_secs(5);
/// The pauses between two questions of one who waits: the first, and the longest of the next, of those behind it, and
/// of all where there is no queue.
const FIRST: Duration = Duration::from_millis(10);
const NEXT: Duration = Duration::from_millis(100);
const BEHIND: Duration = Duration::from_millis(500);
/// How long the end of a hold is tried for.
const LETTING_GO: Duration = Duration::from_secs(2);

impl Keeper {
    /// How long the hold has to last from now on, if it was granted then.
    fn length(&self, granted: Duration) -> Duration {
        let rest = (granted + self.options.hold).saturating_sub(now());
        self.options.ttl.max(rest)
    }

    /// The token and the end of the hold; None if it was said why there is none.
    fn acquire(&mut self) -> Option<(Option<u64>, Duration)> {
        let began = now();
        let until = self.options.wait.map(|wait| began + wait);
        let waits = self.options.wait != Some(Duration::ZERO);
        let (mut reached, mut complained, mut said_plain) = (false, false, false);
        let (mut stood, mut pause) = (0, FIRST);
        loop {
            let asked = now();
            let length = self.options.ttl.max(self.options.hold);
            let reply = self.lock.acquire(length, waits, PATIENCE);
            // Not by each of ten machines whose cron finds it taken.
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
                    // By a late reply the end is not known well enough.
                    if now().saturating_sub(asked) < self.options.ttl / 10 {
                        return Some((fence, asked + length));
                    }
                    let asked = now();
                    if let Ok(true) = self.lock.renew(length, PATIENCE)
                        && now().saturating_sub(asked) < self.options.ttl / 10
                    {
                        return Some((fence, asked + length));
                    }
                    NEXT
                }
                Ok(Reply::Taken) if !waits => {
                    self.busy(false);
                    return None;
                }
                Ok(reply) => {
                    reached = true;
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
                self.busy(true);
                return None;
            }
            pause = (pause * 2).min(longest);
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

    /// The place in the queue, and a grant whose reply was lost: before it is said that there is none.
    fn withdraw(&mut self) {
        _ = self.lock.release(PATIENCE / 2);
    }

    /// Until the first process says that it is over, or is gone.
    fn hold(&mut self, first_ends: Duration) {
        let granted = now();
        let third = self.options.ttl / 3;
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
                    // Nothing is left that would hand signals on to the command, or return its status.
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
                    // The first process kills it one margin from now.
                    let margin = self.guard.lock().margin.length();
                    ends = ends.min(now() + margin * 3);
                    self.guard_until(ends);
                }
                Err(failure) => {
                    due = now() + patience / 4;
                    if let Failure::Refused(why) = failure
                        && !complained
                    {
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

    /// Nothing runs under the lock any more. Within a period it is kept to its end.
    fn let_go(&mut self, granted: Duration, ends: Duration, is_lost: bool) {
        let mut guarded = self.guard.lock();
        guarded.ends = None;
        // It is lost, or the server has been silent for long.
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
                // It may have been released by a request whose reply was lost.
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
