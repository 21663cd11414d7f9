//! The clients: each does one small piece of work after the other, by chance but from a seed, and
//! writes down every call.

use super::history::{Action, Answer, Call, Channel, Kind, MS, Micros, Mode, Wait};
use super::queueing::Ear;
use super::run::Stage;
use super::way::{Reply, Way};
use crate::support::*;
use std::thread;
use std::time::Duration;

const KEYS: [&str; 3] = ["{h}a", "{h}b", "{h}c"];

/// The longest that a client asks for a lock.
pub const LONGEST: Micros = 500 * MS;

/// After this long without an answer a client gives up, and retries on another connection.
const PATIENCE: Duration = Duration::from_millis(250);

/// So much later, and so many commands after that, the server has certainly seen that another
/// connection was closed, and has done what it has to do then: it may leave that to a timer.
const UNTIL_SEEN: (Duration, usize) = (Duration::from_millis(40), 4);

pub struct Worker<'a> {
    pub(super) stage: &'a Stage,
    pub(super) chance: Chance,
    pub(super) way: Way<'a>,
    pub(super) ear: Option<Ear>,
    calls: Vec<Call>,
}

impl<'a> Worker<'a> {
    pub fn new(stage: &'a Stage, chance: Chance) -> Worker<'a> {
        Worker { stage, chance, way: Way::to(stage), ear: None, calls: Vec::new() }
    }

    pub fn work_until_the_end(
        mut self,
        name: &str,
        rounds: impl Iterator<Item = u64>,
    ) -> Vec<Call> {
        for round in rounds {
            if self.stage.is_over() {
                break;
            }
            if self.stage.has_operator && self.chance.one_in(20) {
                self.operate();
            }
            self.piece_of_work(&format!("{name}-{round}"));
        }
        self.way.end();
        self.calls
    }

    fn some_keys(&mut self) -> Vec<&'static str> {
        let count = self.chance.of([1, 1, 1, 1, 2, 3]);
        let mut left = KEYS.to_vec();
        let mut one = || {
            let index = self.chance.below(left.len() as u64);
            left.swap_remove(usize::try_from(index).unwrap())
        };
        (0..count).map(|_| one()).collect()
    }

    /// A lock is asked for in some way, used or slept over, and given up in some way.
    fn piece_of_work(&mut self, owner: &str) {
        let keys = self.some_keys();
        let session = self.chance.one_in(4);
        let ask = Action::Acquire {
            keys: keys.clone(),
            mode: (self.chance).of([
                Mode::Exclusive,
                Mode::Exclusive,
                Mode::Exclusive,
                Mode::Shared,
                Mode::Limit(1),
                Mode::Limit(2),
            ]),
            ttl: self.chance.of([20 * MS, 60 * MS, 60 * MS, 200 * MS, LONGEST]),
            wait: self.some_wait(owner),
            session,
        };
        let mut answer = self.wait_for(owner, &ask);
        for _ in 0..3 {
            if answer != Answer::Unknown || self.chance.one_in(4) {
                break;
            }
            answer = self.wait_for(owner, &ask);
        }
        let Answer::Int(fence) = answer else {
            return self.think(1, 5);
        };
        if self.chance.one_in(40) {
            return self.die();
        }
        if self.chance.one_in(12) {
            self.upgrade(owner, keys[0]);
        }
        for _ in 0..self.chance.below(5) {
            self.use_it(owner, &ask, &keys, fence);
        }
        if session && self.chance.one_in(3) {
            return self.hang_up(owner, keys);
        }
        if self.chance.one_in(12) {
            return; // It is left to its time.
        }
        if self.chance.one_in(40) {
            return self.die();
        }
        self.give_up(owner, keys);
    }

    fn some_wait(&mut self, owner: &str) -> Wait {
        if self.chance.below(100) < self.stage.queueing {
            return self.some_place(owner);
        }
        match self.chance.of([0, 5, 50, 50, 200]) {
            0 => Wait::No,
            ms => Wait::Block(ms * MS),
        }
    }

    fn wait_for(&mut self, owner: &str, ask: &Action) -> Answer {
        match ask {
            Action::Acquire { wait: Wait::Queue { .. }, .. } => self.ask_until_served(owner, ask),
            _ => self.call(owner, ask),
        }
    }

    /// The connection is lost, and its client never comes back for what was asked.
    pub(super) fn die(&mut self) {
        if let Some((client, _)) = self.way.leave() {
            if self.chance.one_in(2) {
                client.reset();
            } else {
                client.close();
            }
        }
    }

    pub(super) fn give_up(&mut self, owner: &str, keys: Vec<&'static str>) {
        let at_once = self.chance.one_in(2);
        let parts =
            if at_once { vec![keys] } else { keys.into_iter().map(|key| vec![key]).collect() };
        for keys in parts {
            let release = Action::Release { keys };
            let answer = self.call(owner, &release);
            if answer == Answer::Unknown || self.chance.one_in(8) {
                self.call(owner, &release);
            }
        }
    }

    fn upgrade(&mut self, owner: &str, key: &'static str) {
        let ask = Action::Acquire {
            keys: vec![key],
            mode: Mode::Exclusive,
            ttl: 60 * MS,
            wait: Wait::Block(20 * MS),
            session: false,
        };
        self.call(owner, &ask);
    }

    fn use_it(&mut self, owner: &str, ask: &Action, keys: &[&'static str], fence: i64) {
        let key = keys[usize::try_from(self.chance.below(keys.len() as u64)).unwrap()];
        match self.chance.below(13) {
            0..4 => _ = self.call(owner, &Action::Check { key }),
            4..6 => {
                let ttl = self.chance.of([10, 30, 100]) * MS;
                let all = self.chance.one_in(2);
                let keys = if all { keys.to_vec() } else { vec![key] };
                self.call(owner, &Action::Renew { keys, ttl });
            }
            6 => _ = self.call(owner, ask),
            7 => self.think(15, 70), // Past the end of a short hold.
            8..11 => {
                let mark = self.stage.next_number();
                self.call(owner, &Action::Guard { key, fence, mark });
            }
            _ => self.think(0, 6),
        }
    }

    /// The connection goes, and with it what is tied to it.
    fn hang_up(&mut self, owner: &str, keys: Vec<&'static str>) {
        let Some((client, connection)) = self.way.leave() else {
            return; // It is lost already.
        };
        let start = self.stage.now();
        if self.chance.one_in(2) {
            client.reset();
        } else {
            client.close();
        }
        let (pause, commands) = UNTIL_SEEN;
        // It may have stood still until now, with all that was said to it meanwhile still to be read.
        let goes_on = self.server_answers();
        thread::sleep(pause);
        let is_seen =
            goes_on && self.stage.ends_are_prompt && (0..commands).all(|_| self.server_answers());
        self.calls.push(Call {
            owner: owner.to_owned(),
            action: Action::HangUp { keys: keys.clone() },
            start,
            end: self.stage.now(),
            answer: if is_seen { Answer::Int(1) } else { Answer::Unknown },
            connection,
        });
        for key in keys {
            self.call(owner, &Action::Check { key });
        }
    }

    fn server_answers(&mut self) -> bool {
        let told = self.way.run(&args!["PING"], PATIENCE);
        told.and_then(|told| told.answer).is_some_and(|answer| answer == "PONG")
    }

    /// What an operator does now and then: he ends whatever holds a lock are there.
    fn operate(&mut self) {
        let key = self.chance.of(KEYS);
        let Some(told) = self.way.run(&args!["LOCK.BREAK", key], PATIENCE) else {
            return;
        };
        let to = match told.answer {
            Some(Value::Int(_)) => self.stage.now(),
            Some(_) => return, // It says that nothing was done.
            None => Micros::MAX,
        };
        self.stage.note(Kind::Break { key }, told.start, to);
    }

    pub(super) fn think(&mut self, least: u64, most: u64) {
        // No wait for anything: this is what the work itself takes.
        let ms = least + self.chance.below(most - least + 1);
        thread::sleep(Duration::from_millis(ms));
    }

    pub(super) fn call(&mut self, owner: &str, action: &Action) -> Answer {
        let words = words(owner, action);
        let waits = match action {
            Action::Acquire { wait: Wait::Block(block), .. } => *block,
            _ => 0,
        };
        let patience = PATIENCE + Duration::from_micros(waits);
        let hangs_up = (self.stage.hang_up_one_in).is_some_and(|n| self.chance.one_in(n));
        let told = if hangs_up {
            let pause = Duration::from_millis(self.chance.below(4));
            self.way.send_and_vanish(&words, || thread::sleep(pause))
        } else {
            self.way.run(&words, patience)
        };
        let Some(Reply { start, connection, answer }) = told else {
            // Nothing was sent, so there is nothing to write down.
            self.think(2, 10);
            return Answer::Unknown;
        };
        let answer = answer.as_ref().map_or(Answer::Unknown, |value| answer_of(action, value));
        self.stage.count(action, answer);
        self.calls.push(Call {
            owner: owner.to_owned(),
            action: action.clone(),
            start,
            end: self.stage.now(),
            answer,
            connection,
        });
        answer
    }
}

/// What the watcher asks about.
pub fn locks() -> impl Iterator<Item = &'static str> {
    KEYS.into_iter()
}

/// Where the guarded writes of a lock go.
pub fn journal(key: &str) -> String {
    format!("{key}:written")
}

/// In the slot of the locks. A worker's own has the worker's name, with which its owners' begin.
pub(super) fn channel_of(owner: &str, channel: Channel) -> String {
    match channel {
        Channel::Own => format!("{{h}}{}", owner.split('-').next().unwrap_or_default()),
        Channel::Common => "{h}all".to_owned(),
        Channel::Unheard => "{h}none".to_owned(),
    }
}

fn words(owner: &str, action: &Action) -> Command {
    let ms = |time: &Micros| time / MS;
    match action {
        Action::Acquire { keys, mode, ttl, wait, session } => {
            let mut words = one_or_more("LOCK.ACQUIRE", "LOCK.MACQUIRE", keys);
            words.extend(args![owner, ms(ttl)]);
            match wait {
                Wait::No => {}
                Wait::Block(block) => words.extend(args!["BLOCK", ms(block)]),
                Wait::Queue { lease, notify, .. } => {
                    words.extend(args!["QUEUE", ms(lease)]);
                    if let Some(channel) = notify {
                        words.extend(args!["NOTIFY", channel_of(owner, *channel), owner]);
                    }
                }
            }
            match mode {
                Mode::Exclusive => {}
                Mode::Shared => words.extend(args!["SHARED"]),
                Mode::Limit(limit) => words.extend(args!["LIMIT", limit]),
            }
            if *session {
                words.extend(args!["SESSION"]);
            }
            words
        }
        Action::Release { keys } => {
            let mut words = one_or_more("LOCK.RELEASE", "LOCK.MRELEASE", keys);
            words.extend(args![owner]);
            words
        }
        Action::Renew { keys, ttl } => {
            let mut words = one_or_more("LOCK.RENEW", "LOCK.MRENEW", keys);
            words.extend(args![owner, ms(ttl)]);
            words
        }
        Action::Check { key } => args!["LOCK.CHECK", key, owner],
        Action::Guard { key, fence, mark } => {
            let written = format!("{owner} {fence} {mark}");
            args!["LOCK.GUARD", key, owner, "RPUSH", journal(key), written]
        }
        Action::HangUp { .. } => unreachable!("no command"),
    }
}

fn one_or_more(one: &str, more: &str, keys: &[&str]) -> Command {
    match keys {
        [key] => args![one, key],
        keys => counted(more, keys),
    }
}

fn answer_of(action: &Action, value: &Value) -> Answer {
    match value {
        Value::Int(place @ ..0) if matches!(action, Action::Acquire { .. }) => {
            Answer::Place(*place)
        }
        Value::Int(number) => Answer::Int(*number),
        value if value.is_nil() => Answer::Nil,
        // Sent away from a wait: whether the lock had been granted meanwhile is not said.
        value if value.is_error("UNBLOCKED") => Answer::Unknown,
        // It has waited, and a later request of its owner has its wait, or had another in its stead.
        value if value.is_error("REPLACED") => Answer::Unknown,
        // It may have waited until its owner came to share the lock.
        value if value.is_error("NOUPGRADE") => Answer::Unknown,
        value if value.is_error("NOTOWNER") && matches!(action, Action::Guard { .. }) => {
            Answer::Int(0)
        }
        // The lock may have been granted, and not taken back on every server.
        value if value.is_error("NOREPLICAS lock was") => Answer::Unknown,
        Value::Error(_) => Answer::Refused,
        other => panic!("no answer of a lock: {other:?}"),
    }
}
