//! The clients: each does one small piece of work after the other, by chance but from a seed, and
//! writes down every call.

use super::history::{Action, Answer, Call, MS, Micros, Mode};
use super::run::Stage;
use crate::support::*;
use std::thread;
use std::time::Duration;

const KEYS: [&str; 3] = ["{h}a", "{h}b", "{h}c"];

/// After this long without an answer a client gives up, and asks again on another connection.
const PATIENCE: Duration = Duration::from_millis(250);

/// Numbers that look like chance, and are the same for the same seed.
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        // Odd, so never 0, from where xorshift does not come back; mixed, or seeds that stand
        // beside each other would begin alike.
        let mut chance = Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        (0..10).for_each(|_| _ = chance.below(2));
        chance
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 8) % limit
    }

    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    fn of<T: Copy, const N: usize>(&mut self, all: [T; N]) -> T {
        all[usize::try_from(self.below(N as u64)).unwrap()]
    }

    fn some_keys(&mut self) -> Vec<&'static str> {
        let count = self.of([1, 1, 1, 1, 2, 3]);
        let mut left = KEYS.to_vec();
        let mut one = || left.swap_remove(usize::try_from(self.below(left.len() as u64)).unwrap());
        (0..count).map(|_| one()).collect()
    }
}

pub struct Worker<'a> {
    pub stage: &'a Stage,
    pub chance: Chance,
    connection: Option<Client>,
    calls: Vec<Call>,
}

impl<'a> Worker<'a> {
    pub fn new(stage: &'a Stage, chance: Chance) -> Worker<'a> {
        Worker {
            stage,
            chance,
            connection: None,
            calls: Vec::new(),
        }
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
            self.piece_of_work(&format!("{name}-{round}"));
        }
        self.calls
    }

    /// A lock is asked for in some way, used or slept over, and given up in some way.
    fn piece_of_work(&mut self, owner: &str) {
        let keys = self.chance.some_keys();
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
            ttl: self.chance.of([20, 60, 60, 200, 500]) * MS,
            block: self
                .chance
                .of([None, Some(5), Some(50), Some(50), Some(200)])
                .map(|ms| ms * MS),
        };
        let mut answer = self.call(owner, &ask);
        for _ in 0..3 {
            if answer != Answer::Unknown || self.chance.one_in(4) {
                break;
            }
            answer = self.call(owner, &ask);
        }
        if !matches!(answer, Answer::Int(_)) {
            return self.think(1, 5);
        }
        if self.chance.one_in(12) {
            self.upgrade(owner, keys[0]);
        }
        for _ in 0..self.chance.below(5) {
            self.use_it(owner, &ask, &keys);
        }
        if self.chance.one_in(12) {
            return; // It is left to its time.
        }
        for key in keys {
            let answer = self.call(owner, &Action::Release { key });
            if answer == Answer::Unknown || self.chance.one_in(8) {
                self.call(owner, &Action::Release { key });
            }
        }
    }

    fn upgrade(&mut self, owner: &str, key: &'static str) {
        let ask = Action::Acquire {
            keys: vec![key],
            mode: Mode::Exclusive,
            ttl: 60 * MS,
            block: Some(20 * MS),
        };
        self.call(owner, &ask);
    }

    fn use_it(&mut self, owner: &str, ask: &Action, keys: &[&'static str]) {
        let key = keys[usize::try_from(self.chance.below(keys.len() as u64)).unwrap()];
        match self.chance.below(10) {
            0..4 => _ = self.call(owner, &Action::Check { key }),
            4..6 => {
                let ttl = self.chance.of([10, 30, 100]) * MS;
                self.call(owner, &Action::Renew { key, ttl });
            }
            6 => _ = self.call(owner, ask),
            7 => self.think(15, 70), // Past the end of a short hold.
            _ => self.think(0, 6),
        }
    }

    fn think(&mut self, least: u64, most: u64) {
        // No wait for anything: this is what the work itself takes.
        let ms = least + self.chance.below(most - least + 1);
        thread::sleep(Duration::from_millis(ms));
    }

    fn call(&mut self, owner: &str, action: &Action) -> Answer {
        let Some(mut connection) = self.connection.take().or_else(|| self.connect()) else {
            // Nothing was sent, so there is nothing to write down.
            self.think(2, 10);
            return Answer::Unknown;
        };
        let waits = match action {
            Action::Acquire { block, .. } => block.unwrap_or(0),
            _ => 0,
        };
        connection.give_up_after(PATIENCE + Duration::from_micros(waits));
        let start = self.stage.now();
        let hangs_up = self
            .stage
            .hang_up_one_in
            .is_some_and(|n| self.chance.one_in(n));
        let answer = if hangs_up {
            // It may have gone before the answer comes, or before the wait has begun.
            connection.send(&words(owner, action));
            self.think(0, 3);
            connection.reset();
            Answer::Unknown
        } else {
            match connection.try_run(&words(owner, action)) {
                Ok(value) => {
                    self.connection = Some(connection);
                    answer_of(&value)
                }
                Err(_) => Answer::Unknown,
            }
        };
        self.calls.push(Call {
            owner: owner.to_owned(),
            action: action.clone(),
            start,
            end: self.stage.now(),
            answer,
        });
        answer
    }

    fn connect(&self) -> Option<Client> {
        Client::try_connect(self.stage.address()).ok()
    }
}

/// What the watcher asks about.
pub fn locks() -> impl Iterator<Item = &'static str> {
    KEYS.into_iter()
}

fn words(owner: &str, action: &Action) -> Command {
    let ms = |time: &Micros| time / MS;
    match action {
        Action::Acquire {
            keys,
            mode,
            ttl,
            block,
        } => {
            let mut words = match keys.as_slice() {
                [key] => args!["LOCK.ACQUIRE", key],
                keys => counted("LOCK.MACQUIRE", keys),
            };
            words.extend(args![owner, ms(ttl)]);
            if let Some(block) = block {
                words.extend(args!["BLOCK", ms(block)]);
            }
            match mode {
                Mode::Exclusive => {}
                Mode::Shared => words.extend(args!["SHARED"]),
                Mode::Limit(limit) => words.extend(args!["LIMIT", limit]),
            }
            words
        }
        Action::Release { key } => args!["LOCK.RELEASE", key, owner],
        Action::Renew { key, ttl } => args!["LOCK.RENEW", key, owner, ms(ttl)],
        Action::Check { key } => args!["LOCK.CHECK", key, owner],
    }
}

fn answer_of(value: &Value) -> Answer {
    match value {
        Value::Int(number) => Answer::Int(*number),
        value if value.is_nil() => Answer::Nil,
        // Sent away from a wait: whether the lock had been granted meanwhile is not said.
        value if value.is_error("UNBLOCKED") => Answer::Unknown,
        Value::Error(_) => Answer::Refused,
        other => panic!("no answer of a lock: {other:?}"),
    }
}
