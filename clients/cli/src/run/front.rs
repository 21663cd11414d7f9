//! The first process, which the user has started: the parent of the command.

use super::clock::{Alarm, now};
use super::margin::Margin;
use super::options::{OnLost, Options};
use super::terminal::{Terminal, suspend};
use super::tree::{Tree, children};
use super::wire::{News, Order};
use super::{LOST, NOT_ACQUIRED, signals};
use crate::words::escaped;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, BufRead, BufReader, IsTerminal, Write, stderr};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, sleep};
use std::time::Duration;

/// This very program, also if another has been installed in its place since.
const OURSELVES: &str = "/proc/self/exe";
/// How long to wait for the keeper's last report. It tries for two seconds.
const LAST_WORD: Duration = Duration::from_secs(3);
/// How long processes that the command leaves behind may take to end by themselves.
const DYING: Duration = Duration::from_millis(100);
/// An alarm that is later than this means that we were stopped.
const LATE: Duration = Duration::from_millis(50);
/// How long the keeper then has to report that the lock was renewed meanwhile.
const MOMENT: Duration = Duration::from_millis(500);

enum Event {
    News(News),
    /// The keeper has ended.
    Gone,
    Signal(Signal),
    Alarm,
}

/// Runs the command under the lock, and returns its status or ours.
pub fn run(options: &Options, words: &[OsString]) -> io::Result<u8> {
    if fs::metadata(OURSELVES).is_err() {
        return Err(io::Error::other("/proc is not mounted"));
    }
    let (send, events) = channel();
    let hears = send.clone();
    signals::listen(move |signal| hears.send(Event::Signal(signal)).is_ok())?;
    // Orphans among the command's processes become our children, so we still find them.
    nix::sys::prctl::set_child_subreaper(true)?;
    let rings = send.clone();
    let alarm = Alarm::start(move |_| rings.send(Event::Alarm).is_ok())?;
    let mut spared = children(Pid::this());
    let mut keeper = Command::new(OURSELVES)
        .arg0("redis-lock")
        .arg("keep")
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // Out of reach of the terminal's signals.
        .process_group(0)
        .spawn()?;
    read_news(&mut keeper, send);
    let orders = keeper.stdin.take();
    spared.push(Pid::from_raw(keeper.id() as i32));
    let mut front = Front {
        options,
        events,
        orders,
        alarm,
        margin: Margin::of(options.ttl),
        terminal: Terminal::open(),
        tree: Tree { adopts: Some(Pid::this()), spared, ..Tree::default() },
        ends: Duration::ZERO,
        rings: None,
        lost: None,
        is_asked_to_end: false,
        status: None,
    };
    match front.wait_for_the_grant() {
        Err(status) => Ok(status),
        Ok((owner, fence)) => {
            front.start(&owner, fence)?;
            front.watch();
            Ok(front.end())
        }
    }
}

fn read_news(keeper: &mut Child, send: Sender<Event>) {
    let Some(out) = keeper.stdout.take() else { return };
    thread::spawn(move || {
        let news = BufReader::new(out).lines().map_while(Result::ok);
        for one in news.filter_map(|line| News::read(&line)) {
            if send.send(Event::News(one)).is_err() {
                return;
            }
        }
        _ = send.send(Event::Gone);
    });
}

fn complain(text: &str) {
    _ = writeln!(stderr(), "redis-lock: {text}");
}

struct Front<'a> {
    options: &'a Options,
    events: Receiver<Event>,
    orders: Option<ChildStdin>,
    alarm: Alarm,
    margin: Margin,
    terminal: Terminal,
    tree: Tree,
    /// When the hold ends unless it is renewed.
    ends: Duration,
    /// When the alarm is set to ring.
    rings: Option<Duration>,
    /// When we found that the lock was lost.
    lost: Option<Duration>,
    /// Was `TERM` sent?
    is_asked_to_end: bool,
    /// The command's exit status, once it has ended.
    status: Option<u8>,
}

impl Front<'_> {
    fn order(&mut self, order: Order) {
        if let Some(orders) = &mut self.orders {
            _ = orders.write_all(order.line().as_bytes());
        }
    }

    /// The owner and the token, or the exit status if there is no grant.
    fn wait_for_the_grant(&mut self) -> Result<(String, Option<u64>), u8> {
        loop {
            match self.events.recv().unwrap_or(Event::Gone) {
                Event::News(News::Granted { ends, owner, fence }) => {
                    self.ends = ends;
                    return Ok((owner, fence));
                }
                Event::News(News::Say(text)) => complain(&text),
                Event::News(News::Busy(text)) => {
                    // Without a terminal the status is enough: cron would mail a line from each host that didn't get the lock.
                    let is_expected = self.options.wait == Some(Duration::ZERO);
                    if !is_expected || stderr().is_terminal() {
                        complain(&text);
                    }
                    return Err(NOT_ACQUIRED);
                }
                Event::News(News::Refused(text)) => {
                    complain(&format!("{}: {text}", self.options.place.name()));
                    return Err(NOT_ACQUIRED);
                }
                Event::Gone => {
                    complain("the process that acquires the lock has ended");
                    return Err(NOT_ACQUIRED);
                }
                Event::Signal(Signal::SIGTSTP) => _ = suspend(),
                Event::Signal(signal) if signals::ends(signal) => {
                    self.orders = None;
                    self.last_word();
                    return Err(128 + signal as u8);
                }
                _ => {}
            }
        }
    }

    fn start(&mut self, owner: &str, fence: Option<u64>) -> io::Result<()> {
        let mut launcher = Command::new(OURSELVES);
        launcher
            .arg0("redis-lock")
            .arg("launch")
            .arg(std::process::id().to_string())
            .args(&self.options.command)
            .env("LOCK_KEY", OsStr::from_bytes(&self.options.key))
            .env("LOCK_OWNER", owner)
            // It could be that of an outer redis-lock run.
            .env_remove("FENCE")
            .process_group(0);
        if let Some(fence) = fence {
            launcher.env("FENCE", fence.to_string());
        }
        let command = Pid::from_raw(launcher.spawn()?.id() as i32);
        (self.tree.group, self.tree.leads) = (Some(command), true);
        self.order(Order::Group(command.as_raw()));
        match waitpid(command, Some(WaitPidFlag::WUNTRACED)) {
            Ok(WaitStatus::Stopped(..)) => {
                self.terminal.offer(command);
                _ = killpg(command, Signal::SIGCONT);
            }
            Ok(ended) => self.note(ended),
            Err(error) => return Err(error.into()),
        }
        self.set_alarm();
        Ok(())
    }

    fn group(&self) -> Option<Pid> {
        self.tree.group.filter(|_| self.status.is_none())
    }

    /// Runs until the command has ended.
    fn watch(&mut self) {
        while self.status.is_none() {
            match self.events.recv().unwrap_or(Event::Gone) {
                Event::News(News::Say(text)) => complain(&text),
                Event::News(News::Ends(ends)) => {
                    self.order(Order::Heard);
                    self.ends = self.ends.max(ends);
                    self.set_alarm();
                }
                Event::News(News::Lost(why)) => self.lose(&why),
                Event::News(_) => {}
                Event::Gone => {
                    self.orders = None;
                    complain(
                        "the process that renews the lock has ended: it is not renewed any more",
                    );
                }
                Event::Signal(Signal::SIGCHLD) => self.reap(),
                Event::Signal(Signal::SIGCONT) => {
                    if let Some(group) = self.group() {
                        self.terminal.continued(group);
                    }
                }
                Event::Signal(signal) => {
                    if let Some(group) = self.group() {
                        _ = killpg(group, signal);
                    }
                }
                Event::Alarm => self.ring(),
            }
        }
    }

    /// Reaps all that have ended, orphans too.
    fn reap(&mut self) {
        let flags = WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED;
        while let Ok(status) = waitpid(None, Some(flags)) {
            match status {
                WaitStatus::StillAlive => return,
                WaitStatus::Stopped(pid, by) if Some(pid) == self.tree.group => {
                    self.terminal.stopped(pid, by);
                }
                status => self.note(status),
            }
        }
    }

    fn note(&mut self, status: WaitStatus) {
        if status.pid() == self.tree.group {
            self.status = match status {
                WaitStatus::Exited(_, status) => Some(status as u8),
                WaitStatus::Signaled(_, signal, _) => Some(128 + signal as u8),
                _ => return,
            };
            self.tree.leads = false;
        }
    }

    /// When the alarm has to ring, unless the lock is renewed before.
    fn due(&self) -> Option<Duration> {
        let kill = self.margin.kill(self.ends);
        match (self.options.on_lost, self.lost) {
            (OnLost::Ignore, None) => Some(self.ends),
            (OnLost::Ignore, Some(_)) => None,
            (OnLost::Term, None) => Some(self.margin.term(self.ends)),
            (OnLost::Term, Some(lost)) => Some(kill.min(lost + self.margin.length())),
            (OnLost::Kill, None) => Some(kill),
            (OnLost::Kill, Some(lost)) => Some(lost),
        }
    }

    fn set_alarm(&mut self) {
        self.rings = self.due();
        match self.rings {
            Some(at) => self.alarm.set(at),
            None => self.alarm.unset(),
        }
    }

    fn ring(&mut self) {
        let (Some(due), Some(rings)) = (self.due(), self.rings) else { return };
        if now() < due.max(rings) {
            return;
        }
        if self.lost.is_some() {
            self.kill();
            return;
        }
        // We were probably stopped. If the lock was renewed meanwhile, the keeper reports it in a moment; if not, it has
        // killed the command.
        let now = now();
        if rings == due && now > due + LATE {
            let rest = self.ends.saturating_sub(now);
            let moment = if rest.is_zero() { MOMENT } else { MOMENT.min(rest / 2) };
            self.rings = Some(now + moment);
            self.alarm.set(now + moment);
            return;
        }
        self.lose("it could not be renewed in time");
    }

    fn lose(&mut self, why: &str) {
        if self.lost.is_some() {
            return;
        }
        self.lost = Some(now());
        let key = escaped(&self.options.key);
        let ends = match self.options.on_lost {
            OnLost::Ignore => "the command goes on",
            _ => "the command is ended",
        };
        complain(&format!("the lock {key} is lost ({why}): {ends}"));
        if self.options.on_lost == OnLost::Term {
            self.tree.signal(Signal::SIGTERM);
            self.is_asked_to_end = true;
        }
        self.set_alarm();
        if self.options.on_lost == OnLost::Kill {
            self.kill();
        }
    }

    fn kill(&mut self) {
        let killed = self.tree.clone().kill_all(|| {
            self.reap();
            self.tree.leads
        });
        if !killed {
            let left: Vec<String> = self.tree.members().iter().map(Pid::to_string).collect();
            complain(&format!("these processes can't be killed: {}", left.join(" ")));
        }
    }

    /// The command has ended. Ends the processes that it left behind, then the hold.
    fn end(&mut self) -> u8 {
        self.terminal.take();
        let status = self.status.unwrap_or(NOT_ACQUIRED);
        let ignores = self.options.on_lost == OnLost::Ignore;
        if !ignores {
            self.end_what_is_left();
        }
        if self.orders.is_some() {
            self.order(Order::Done);
            if self.last_word() == Some(false) && self.lost.is_none() {
                let key = escaped(&self.options.key);
                self.lost = Some(now());
                complain(&format!(
                    "the lock {key} was lost before the command ended, with status {status}"
                ));
            }
        }
        if self.lost.is_some() && !ignores { LOST } else { status }
    }

    fn end_what_is_left(&mut self) {
        // A signal that ended the command may be about to end its children.
        let dying = if self.lost.is_none() { DYING } else { Duration::ZERO };
        if self.is_gone_by(now() + dying) {
            return;
        }
        let left = self.tree.members();
        if !self.is_asked_to_end && self.options.on_lost == OnLost::Term {
            let pids: Vec<String> = left.iter().map(Pid::to_string).collect();
            complain(&format!(
                "the command has left processes, which are ended: {}",
                pids.join(" ")
            ));
            self.tree.signal(Signal::SIGTERM);
        }
        let asked = self.lost.unwrap_or_else(now);
        let until = self.margin.kill(self.ends).min(asked + self.margin.length());
        if self.options.on_lost == OnLost::Kill || !self.is_gone_by(until) {
            self.kill();
        }
    }

    /// Waits until none of the command's processes is left, or until then.
    fn is_gone_by(&mut self, until: Duration) -> bool {
        loop {
            self.reap();
            if self.tree.members().is_empty() {
                return true;
            }
            if now() >= until {
                return false;
            }
            sleep(Duration::from_millis(10));
        }
    }

    /// Was the lock held to the end? None if the keeper doesn't report.
    fn last_word(&mut self) -> Option<bool> {
        let until = now() + LAST_WORD;
        loop {
            match self.events.recv_timeout(until.checked_sub(now())?).ok()? {
                Event::News(News::Over(was_held)) => return Some(was_held),
                Event::News(News::Lost(why)) if self.orders.is_some() => self.lose(&why),
                Event::Gone => return None,
                _ => {}
            }
        }
    }
}
