//! A history as a file, one thing on each line: a failing run leaves one, and it can be judged again.

use super::checker::check;
use super::history::{
    Action, Answer, Call, Channel, Event, History, Kind, Micros, Mode, Seen, Wait, Written,
};
use super::judge::{self, Opinion};
use super::shorten::beginning_of;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process, thread};

/// Where the history of a run that failed is now.
pub fn keep(history: &History, seed: u64) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("redis-lock-history-{seed}-{}-{count}.txt", process::id());
    let file = env::temp_dir().join(name);
    fs::write(&file, text(history)).unwrap();
    file
}

/// Where histories are recorded for others: [`publish`].
pub fn folder() -> Option<PathBuf> {
    env::var("LOCK_RECORD").ok().map(PathBuf::from)
}

/// Writes down the beginning of the history of a run, with its fault, into the folder that `LOCK_RECORD` names, if it
/// names one.
pub fn publish(history: &History) {
    if let Some(folder) = folder() {
        let current = thread::current();
        let name = current.name().unwrap_or("history").rsplit("::").next();
        let day = name.unwrap().trim_start_matches("no_two_hold_a_lock_");
        let file = folder.join(format!("{day}.txt"));
        fs::write(file, text(&beginning_of(history))).unwrap();
    }
}

fn text(history: &History) -> String {
    let mut text = String::new();
    for call in &history.calls {
        let (start, end, connection) = (call.start, call.end, call.connection);
        let answer = match call.answer {
            Answer::Int(number) => number.to_string(),
            Answer::Place(place) => format!("place{place}"),
            Answer::Nil => "nil".to_owned(),
            Answer::Refused => "refused".to_owned(),
            Answer::Unknown => "unknown".to_owned(),
        };
        let action = action_text(&call.action);
        let owner = &call.owner;
        let line = format!("call {start} {end} {connection} {owner} {answer} {action}");
        writeln!(text, "{line}").unwrap();
    }
    for Event { kind, from, to } in &history.events {
        let kind = match kind {
            Kind::Break { key } => format!("Break {key}"),
            kind => format!("{kind:?}"),
        };
        writeln!(text, "event {from} {to} {kind}").unwrap();
    }
    for Seen { key, waiting, others, start, end } in &history.seen {
        let (waiting, others) = (waiting.join(" "), others.join(" "));
        writeln!(text, "seen {start} {end} {key} {waiting} | {others}").unwrap();
    }
    for written in &history.written {
        let Written { key, owner, fence, mark } = written;
        writeln!(text, "written {key} {owner} {fence} {mark}").unwrap();
    }
    text
}

fn action_text(action: &Action) -> String {
    match action {
        Action::Acquire { keys, mode, ttl, wait, session } => {
            let mode = match mode {
                Mode::Exclusive => "exclusive".to_owned(),
                Mode::Shared => "shared".to_owned(),
                Mode::Limit(limit) => limit.to_string(),
            };
            let wait = wait_text(*wait);
            format!("acquire {mode} {ttl} {wait} {session} {}", keys.join(" "))
        }
        Action::Release { keys } => format!("release {}", keys.join(" ")),
        Action::Renew { keys, ttl } => format!("renew {ttl} {}", keys.join(" ")),
        Action::Check { key } => format!("check {key}"),
        Action::Guard { key, fence, mark } => format!("guard {key} {fence} {mark}"),
        Action::HangUp { keys } => format!("hangup {}", keys.join(" ")),
    }
}

fn wait_text(wait: Wait) -> String {
    match wait {
        Wait::No => "no".to_owned(),
        Wait::Block(block) => block.to_string(),
        Wait::Queue { lease, kept, notify } => {
            let channel = match notify {
                None => "silent",
                Some(Channel::Own) => "own",
                Some(Channel::Common) => "common",
                Some(Channel::Unheard) => "unheard",
            };
            format!("queue {lease} {kept} {channel}")
        }
    }
}

pub fn history(text: &str) -> History {
    let mut history = History::default();
    for line in text.lines() {
        let mut words = Words(line.split(' '));
        match words.next() {
            "call" => history.calls.push(words.call()),
            "event" => history.events.push(words.event()),
            "seen" => history.seen.push(Seen {
                start: words.number(),
                end: words.number(),
                key: words.key(),
                waiting: words.owners(),
                others: words.owners(),
            }),
            "written" => history.written.push(Written {
                key: words.key(),
                owner: words.next().to_owned(),
                fence: words.number(),
                mark: words.number(),
            }),
            other => panic!("no line of a history: {other}"),
        }
    }
    history
}

struct Words<'a>(std::str::Split<'a, char>);

impl<'a> Words<'a> {
    fn next(&mut self) -> &'a str {
        self.0.next().expect("one more word")
    }

    fn number<T: std::str::FromStr<Err = std::num::ParseIntError>>(&mut self) -> T {
        self.next().parse().unwrap()
    }

    /// Histories name few keys, and live as long as the test.
    fn key(&mut self) -> &'static str {
        Box::leak(self.next().to_owned().into_boxed_str())
    }

    /// Up to the bar, or to the end of the line.
    fn owners(&mut self) -> Vec<String> {
        let owners = self.rest().take_while(|word| *word != "|");
        owners.map(str::to_owned).collect()
    }

    fn rest(&mut self) -> impl Iterator<Item = &'a str> {
        self.0.by_ref().filter(|word| !word.is_empty())
    }

    fn keys(&mut self) -> Vec<&'static str> {
        let words: Vec<_> = self.rest().collect();
        let leaked = words.into_iter().map(|word| word.to_owned().into_boxed_str());
        leaked.map(|word| &*Box::leak(word)).collect()
    }

    fn call(&mut self) -> Call {
        let (start, end, connection) = (self.number(), self.number(), self.number());
        let owner = self.next().to_owned();
        let answer = match self.next() {
            "nil" => Answer::Nil,
            "refused" => Answer::Refused,
            "unknown" => Answer::Unknown,
            other => match other.strip_prefix("place") {
                Some(place) => Answer::Place(place.parse().unwrap()),
                None => Answer::Int(other.parse().unwrap()),
            },
        };
        Call { owner, action: self.action(), start, end, answer, connection }
    }

    fn action(&mut self) -> Action {
        match self.next() {
            "acquire" => Action::Acquire {
                mode: match self.next() {
                    "exclusive" => Mode::Exclusive,
                    "shared" => Mode::Shared,
                    limit => Mode::Limit(limit.parse().unwrap()),
                },
                ttl: self.number(),
                wait: self.wait(),
                session: self.next() == "true",
                keys: self.keys(),
            },
            "release" => Action::Release { keys: self.keys() },
            "renew" => Action::Renew { ttl: self.number(), keys: self.keys() },
            "check" => Action::Check { key: self.key() },
            "guard" => Action::Guard { key: self.key(), fence: self.number(), mark: self.number() },
            "hangup" => Action::HangUp { keys: self.keys() },
            other => panic!("no action: {other}"),
        }
    }

    fn wait(&mut self) -> Wait {
        match self.next() {
            "no" => Wait::No,
            "queue" => Wait::Queue {
                lease: self.number(),
                kept: self.number(),
                notify: match self.next() {
                    "own" => Some(Channel::Own),
                    "common" => Some(Channel::Common),
                    "unheard" => Some(Channel::Unheard),
                    _ => None,
                },
            },
            block => Wait::Block(block.parse().unwrap()),
        }
    }

    fn event(&mut self) -> Event {
        let (from, to): (Micros, Micros) = (self.number(), self.number());
        let kind = match self.next() {
            "Flush" => Kind::Flush,
            "Failover" => Kind::Failover,
            "Quarantined" => Kind::Quarantined,
            "Acknowledged" => Kind::Acknowledged,
            "Forgotten" => Kind::Forgotten,
            "Moved" => Kind::Moved,
            "Break" => Kind::Break { key: self.key() },
            other => panic!("no event: {other}"),
        };
        Event { kind, from, to }
    }
}

#[test]
fn a_history_is_read_as_it_was_written() {
    let keys = || vec!["j", "k"];
    let ask = |mode, wait, session| Action::Acquire { keys: keys(), mode, ttl: 7, wait, session };
    let queue = |notify| Wait::Queue { lease: 6, kept: 5, notify };
    let actions = [
        ask(Mode::Exclusive, Wait::No, true),
        ask(Mode::Shared, Wait::Block(3), false),
        ask(Mode::Limit(2), Wait::Block(0), false),
        ask(Mode::Exclusive, queue(None), false),
        ask(Mode::Exclusive, queue(Some(Channel::Own)), false),
        ask(Mode::Exclusive, queue(Some(Channel::Common)), false),
        ask(Mode::Exclusive, queue(Some(Channel::Unheard)), false),
        Action::Release { keys: keys() },
        Action::Renew { keys: vec!["k"], ttl: 5 },
        Action::Check { key: "k" },
        Action::Guard { key: "k", fence: 8, mark: 9 },
        Action::HangUp { keys: keys() },
    ];
    let answers =
        [Answer::Int(1), Answer::Place(-1), Answer::Nil, Answer::Refused, Answer::Unknown];
    let calls = actions.into_iter().zip(answers.into_iter().cycle());
    let kinds = [
        Kind::Flush,
        Kind::Failover,
        Kind::Quarantined,
        Kind::Acknowledged,
        Kind::Forgotten,
        Kind::Moved,
        Kind::Break { key: "k" },
    ];
    let whole = History {
        calls: calls
            .map(|(action, answer)| Call {
                owner: "a".to_owned(),
                action,
                start: 1,
                end: 2,
                answer,
                connection: 3,
            })
            .collect(),
        events: kinds.map(|kind| Event { kind, from: 1, to: Micros::MAX }).to_vec(),
        seen: [(vec![], vec![]), (vec!["a".to_owned(), "b".to_owned()], vec!["c".to_owned()])]
            .map(|(waiting, others)| Seen { key: "k", waiting, others, start: 4, end: 5 })
            .to_vec(),
        written: vec![Written { key: "k", owner: "a".to_owned(), fence: 8, mark: 9 }],
    };
    assert_eq!(history(&text(&whole)), whole);
}

/// `LOCK_HISTORY=file scripts/test --test server -- --ignored a_history_from_a_file`
#[test]
#[ignore = "judges the file that LOCK_HISTORY names"]
fn a_history_from_a_file_is_judged_again() {
    let file = env::var("LOCK_HISTORY").expect("LOCK_HISTORY names the file");
    let history = history(&fs::read_to_string(Path::new(&file)).unwrap());
    let faults = check(&history);
    assert!(faults.is_empty(), "{faults:#?}");
    let Opinion { refused, undecided } = judge::opinion(&history);
    assert!(refused.is_empty(), "no lock gives {refused:?}");
    assert!(undecided.is_empty(), "nothing is said of {undecided:?}");
}
