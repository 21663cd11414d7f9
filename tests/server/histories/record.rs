//! A history as a file, one thing on each line: a failing run leaves one, and it can be judged again.

use super::checker::check;
use super::history::{Action, Answer, Call, Event, History, Kind, Micros, Mode, Seen, Written};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

/// Where the history of a run that failed is now.
pub fn keep(history: &History, seed: u64) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("redis-lock-history-{seed}-{}-{count}.txt", process::id());
    let file = env::temp_dir().join(name);
    fs::write(&file, text(history)).unwrap();
    file
}

fn text(history: &History) -> String {
    let mut text = String::new();
    for call in &history.calls {
        let (start, end, connection) = (call.start, call.end, call.connection);
        let answer = match call.answer {
            Answer::Int(number) => number.to_string(),
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
            Kind::Break { key, grace } => format!("Break {key} {grace}"),
            kind => format!("{kind:?}"),
        };
        writeln!(text, "event {from} {to} {kind}").unwrap();
    }
    for Seen {
        key,
        waiting,
        start,
        end,
    } in &history.seen
    {
        writeln!(text, "seen {start} {end} {key} {}", waiting.join(" ")).unwrap();
    }
    for written in &history.written {
        let Written {
            key,
            owner,
            fence,
            mark,
        } = written;
        writeln!(text, "written {key} {owner} {fence} {mark}").unwrap();
    }
    text
}

fn action_text(action: &Action) -> String {
    match action {
        Action::Acquire {
            keys,
            mode,
            ttl,
            block,
            session,
        } => {
            let mode = match mode {
                Mode::Exclusive => "exclusive".to_owned(),
                Mode::Shared => "shared".to_owned(),
                Mode::Limit(limit) => limit.to_string(),
            };
            let block = block.map_or("no".to_owned(), |block| block.to_string());
            format!("acquire {mode} {ttl} {block} {session} {}", keys.join(" "))
        }
        Action::Release { keys } => format!("release {}", keys.join(" ")),
        Action::Renew { keys, ttl } => format!("renew {ttl} {}", keys.join(" ")),
        Action::Check { key } => format!("check {key}"),
        Action::Guard { key, fence, mark } => format!("guard {key} {fence} {mark}"),
        Action::HangUp { keys } => format!("hangup {}", keys.join(" ")),
    }
}

fn history(text: &str) -> History {
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
                waiting: words.rest().map(str::to_owned).collect(),
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

    fn rest(&mut self) -> impl Iterator<Item = &'a str> {
        self.0.by_ref().filter(|word| !word.is_empty())
    }

    fn keys(&mut self) -> Vec<&'static str> {
        let words: Vec<_> = self.rest().collect();
        let leaked = words
            .into_iter()
            .map(|word| word.to_owned().into_boxed_str());
        leaked.map(|word| &*Box::leak(word)).collect()
    }

    fn call(&mut self) -> Call {
        let (start, end, connection) = (self.number(), self.number(), self.number());
        let owner = self.next().to_owned();
        let answer = match self.next() {
            "nil" => Answer::Nil,
            "refused" => Answer::Refused,
            "unknown" => Answer::Unknown,
            number => Answer::Int(number.parse().unwrap()),
        };
        Call {
            owner,
            action: self.action(),
            start,
            end,
            answer,
            connection,
        }
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
                block: Some(self.next())
                    .filter(|word| *word != "no")
                    .map(|word| word.parse().unwrap()),
                session: self.next() == "true",
                keys: self.keys(),
            },
            "release" => Action::Release { keys: self.keys() },
            "renew" => Action::Renew {
                ttl: self.number(),
                keys: self.keys(),
            },
            "check" => Action::Check { key: self.key() },
            "guard" => Action::Guard {
                key: self.key(),
                fence: self.number(),
                mark: self.number(),
            },
            "hangup" => Action::HangUp { keys: self.keys() },
            other => panic!("no action: {other}"),
        }
    }

    fn event(&mut self) -> Event {
        let (from, to): (Micros, Micros) = (self.number(), self.number());
        let kind = match self.next() {
            "Flush" => Kind::Flush,
            "Failover" => Kind::Failover,
            "Forgotten" => Kind::Forgotten,
            "Moved" => Kind::Moved,
            "Break" => Kind::Break {
                key: self.key(),
                grace: self.number(),
            },
            other => panic!("no event: {other}"),
        };
        Event { kind, from, to }
    }
}

#[test]
fn a_history_is_read_as_it_was_written() {
    let keys = || vec!["j", "k"];
    let ask = |mode, block, session| Action::Acquire {
        keys: keys(),
        mode,
        ttl: 7,
        block,
        session,
    };
    let actions = [
        ask(Mode::Exclusive, None, true),
        ask(Mode::Shared, Some(3), false),
        ask(Mode::Limit(2), Some(0), false),
        Action::Release { keys: keys() },
        Action::Renew {
            keys: vec!["k"],
            ttl: 5,
        },
        Action::Check { key: "k" },
        Action::Guard {
            key: "k",
            fence: 8,
            mark: 9,
        },
        Action::HangUp { keys: keys() },
    ];
    let answers = [
        Answer::Int(-1),
        Answer::Nil,
        Answer::Refused,
        Answer::Unknown,
    ];
    let calls = actions.into_iter().zip(answers.into_iter().cycle());
    let kinds = [
        Kind::Flush,
        Kind::Failover,
        Kind::Forgotten,
        Kind::Moved,
        Kind::Break { key: "k", grace: 4 },
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
        events: kinds
            .map(|kind| Event {
                kind,
                from: 1,
                to: Micros::MAX,
            })
            .to_vec(),
        seen: [vec![], vec!["a".to_owned(), "b".to_owned()]]
            .map(|waiting| Seen {
                key: "k",
                waiting,
                start: 4,
                end: 5,
            })
            .to_vec(),
        written: vec![Written {
            key: "k",
            owner: "a".to_owned(),
            fence: 8,
            mark: 9,
        }],
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
}
