//! What is counted.

use super::answer::Expected;
use super::connection::{Step, step};
use super::counting::MOST_PLACES;

/// One thing that is done again and again.
pub struct Operation {
    /// What it is called in files.
    pub id: String,
    /// What it is called in tables.
    pub name: String,
    /// What it stands beside, by its id.
    pub beside: String,
    /// The command that a server must have for it.
    pub needs: &'static str,
    /// How it is done.
    pub work: Work,
}

/// How an operation is done.
pub enum Work {
    /// By one connection that does not wait for the answers.
    Pipelined {
        /// What has to be said before.
        before: Vec<Step>,
        /// What is counted.
        again: Vec<Step>,
        /// What has to be said afterwards.
        after: Vec<Step>,
    },
    /// By many connections that wait, each once, and one that then serves them one after another.
    HandedOver {
        /// What has to be said before.
        before: Vec<Step>,
        /// How the nth waits.
        wait: fn(usize) -> Step,
        /// How the nth is served.
        serve: fn(usize) -> Vec<Step>,
        /// Does each serve the next? Then that one must have heard of it before.
        in_turn: bool,
    },
}

/// As long as a UUID, as tokens should be.
const OWNER: &str = "5b0f6c9e-6d1a-4c55-9a53-0f4a1d7f2c11";

/// The release that everybody uses: from the server's own documentation of SET.
const COMPARE_AND_DELETE: &str = "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

/// What the server calls it.
const COMPARE_AND_DELETE_SHA: &str = "ae3671744a5dbb24ea37ef607b8b10ac7856d43e";

/// The same as a function.
const COMPARE_AND_DELETE_FUNCTION: &str = "#!lua name=locks\nredis.register_function('release', function(keys, args) if redis.call('get',keys[1]) == args[1] then return redis.call('del',keys[1]) else return 0 end end)";

const OK: Expected = Expected::Line("+OK");
const ONE: Expected = Expected::Line(":1");

/// `@` stands for the owner.
fn say(line: &str, answer: Expected) -> Step {
    step(&line.replace('@', OWNER), answer)
}

fn acquire(key: &str) -> Step {
    say(&format!("LOCK.ACQUIRE {key} @ 30000"), Expected::Number)
}

fn release(key: &str) -> Step {
    say(&format!("LOCK.RELEASE {key} @"), ONE)
}

/// A command of which one word has spaces in it.
fn with_text(line: &str, text: &str, answer: Expected) -> Step {
    let mut step = say(line, answer);
    for word in step.words.iter_mut().filter(|word| *word == "TEXT") {
        text.clone_into(word);
    }
    step
}

fn set_nx(key: &str) -> Step {
    say(&format!("SET {key} @ NX PX 30000"), OK)
}

impl Operation {
    fn new(id: &str, name: &str, again: Vec<Step>) -> Self {
        Self {
            id: id.to_owned(),
            name: name.to_owned(),
            beside: id.to_owned(),
            needs: "PING",
            work: Work::Pipelined {
                before: Vec::new(),
                again,
                after: Vec::new(),
            },
        }
    }

    fn beside(mut self, other: &str) -> Self {
        self.beside = other.to_owned();
        self
    }

    fn needs(mut self, command: &'static str) -> Self {
        self.needs = command;
        self
    }

    fn between(mut self, first: Vec<Step>, last: Vec<Step>) -> Self {
        if let Work::Pipelined { before, after, .. } = &mut self.work {
            (*before, *after) = (first, last);
        }
        self
    }
}

/// What is counted on one server, one after another.
pub struct Phase {
    /// The module that is loaded for it: the variable that names its file, the file, and its name for unloading.
    /// The last one stays.
    pub module: Option<(&'static str, &'static str, &'static str)>,
    /// What is counted.
    pub operations: Vec<Operation>,
}

/// Everything. Nobody is told of keys any more when the module comes, which is the last.
pub fn all() -> Vec<Phase> {
    let phase = |module, operations| Phase { module, operations };
    vec![
        phase(None, without_the_module()),
        phase(
            Some(("BARE", "target/bare.so", "bare")),
            beside_a_bare_listener(),
        ),
        phase(
            Some(("LEAST", "target/least.so", "least")),
            by_the_least_module(),
        ),
        phase(
            Some(("MODULE", "target/release/libredis_lock.so", "lock")),
            with_the_module(),
        ),
    ]
}

/// The server as it is, and what people use on it.
fn without_the_module() -> Vec<Operation> {
    let other =
        |id, name, last| Operation::new(id, name, vec![set_nx("lock"), last]).beside("evalsha");
    vec![
        other("del", "SET NX PX + DEL", say("DEL lock", ONE)),
        other(
            "evalsha",
            "SET NX PX + EVALSHA",
            say(&format!("EVALSHA {COMPARE_AND_DELETE_SHA} 1 lock @"), ONE),
        )
        .between(
            vec![with_text(
                "SCRIPT LOAD TEXT",
                COMPARE_AND_DELETE,
                Expected::Bytes,
            )],
            Vec::new(),
        ),
        other(
            "fcall",
            "SET NX PX + FCALL",
            say("FCALL release 1 lock @", ONE),
        )
        .between(
            vec![with_text(
                "FUNCTION LOAD TEXT",
                COMPARE_AND_DELETE_FUNCTION,
                Expected::Bytes,
            )],
            Vec::new(),
        ),
        other(
            "delex",
            "SET NX PX + DELEX IFEQ",
            say("DELEX lock IFEQ @", ONE),
        )
        .needs("DELEX"),
        other("delifeq", "SET NX PX + DELIFEQ", say("DELIFEQ lock @", ONE)).needs("DELIFEQ"),
        Operation::new(
            "get",
            "GET of such a key",
            vec![say("GET lock", Expected::Bytes)],
        )
        .between(vec![set_nx("lock")], Vec::new()),
        Operation {
            id: "list_hand_over".into(),
            name: "BLPOP + LPUSH, hand-over".into(),
            beside: "list_hand_over".into(),
            needs: "PING",
            work: Work::HandedOver {
                before: Vec::new(),
                wait: |_| say("BLPOP queue 0", Expected::List),
                serve: |_| vec![say("LPUSH queue item", ONE)],
                in_turn: true,
            },
        },
    ]
    .into_iter()
    .chain(OTHERS.map(|other| other.among("", Vec::new(), Vec::new())))
    .collect()
}

/// The module's own operations, and what it does to others'. After the first waiter the server tells
/// it of every SET.
fn with_the_module() -> Vec<Operation> {
    let pair = |id, name, again| Operation::new(id, name, again).beside("evalsha");
    let within = |id, name, again| {
        Operation::new(id, name, vec![again]).between(vec![acquire("lock")], vec![release("lock")])
    };
    let others = |when, before: &[Step], after: &[Step]| {
        OTHERS.map(|other| other.among(when, before.to_vec(), after.to_vec()))
    };
    let place = say(
        "LOCK.ACQUIRE lock b 600000 QUEUE 60000",
        Expected::Line(":-1"),
    );
    let given_up = say("LOCK.RELEASE lock b", Expected::Line(":0"));
    let of_the_module = vec![
        pair(
            "lock",
            "LOCK.ACQUIRE + LOCK.RELEASE",
            vec![acquire("lock"), release("lock")],
        ),
        pair(
            "queue",
            "LOCK.ACQUIRE QUEUE + LOCK.RELEASE",
            vec![
                say("LOCK.ACQUIRE lock @ 30000 QUEUE 5000", Expected::Number),
                release("lock"),
            ],
        ),
        pair(
            "shared",
            "LOCK.ACQUIRE SHARED + LOCK.RELEASE",
            vec![
                say("LOCK.ACQUIRE lock @ 30000 SHARED", Expected::Number),
                release("lock"),
            ],
        ),
        pair(
            "several",
            "LOCK.MACQUIRE of 2 + LOCK.MRELEASE",
            vec![
                say("LOCK.MACQUIRE 2 lock other @ 30000", Expected::Number),
                say("LOCK.MRELEASE 2 lock other @", Expected::Line(":2")),
            ],
        ),
        within("renew", "LOCK.RENEW", say("LOCK.RENEW lock @ 30000", ONE)),
        within(
            "check",
            "LOCK.CHECK",
            say("LOCK.CHECK lock @", Expected::Number),
        )
        .beside("get"),
        within(
            "guard",
            "LOCK.GUARD of SET",
            say("LOCK.GUARD lock @ SET price 5", OK),
        )
        .beside("set"),
        Operation {
            id: "hand_over".into(),
            name: "LOCK.ACQUIRE BLOCK + LOCK.RELEASE, hand-over".into(),
            beside: "list_hand_over".into(),
            needs: "PING",
            work: Work::HandedOver {
                before: vec![waiter(0)],
                wait: waiter,
                serve: |place| {
                    let release = format!("LOCK.RELEASE lock {}", owner(place - 1));
                    vec![step(&release, ONE)]
                },
                in_turn: true,
            },
        },
        Operation {
            id: "behind_hand_overs".into(),
            name:
                "a hand-over, LOCK.ACQUIRE and LOCK.RELEASE, pipelined beside 500 blocked clients"
                    .into(),
            beside: "hand_over".into(),
            needs: "PING",
            work: Work::HandedOver {
                before: (1..=MOST_PLACES)
                    .map(|place| {
                        say(
                            &format!("LOCK.ACQUIRE {} @ 600000", own_lock(place)),
                            Expected::Number,
                        )
                    })
                    .collect(),
                wait: |place| {
                    let wait = format!(
                        "LOCK.ACQUIRE {} {} 600000 BLOCK 0",
                        own_lock(place),
                        owner(place)
                    );
                    step(&wait, Expected::Number)
                },
                serve: |place| {
                    vec![
                        release(&own_lock(place)),
                        acquire("other"),
                        release("other"),
                    ]
                },
                in_turn: false,
            },
        },
        Operation::new(
            "place",
            "the same to a place: LOCK.ACQUIRE QUEUE + LOCK.RELEASE + the claim, twice",
            [[owner(0), owner(1)], [owner(1), owner(0)]]
                .iter()
                .flat_map(|[holder, next]| {
                    let ask = format!("LOCK.ACQUIRE lock {next} 600000 QUEUE 60000");
                    let release = format!("LOCK.RELEASE lock {holder}");
                    [
                        step(&ask, Expected::Line(":-1")),
                        step(&release, ONE),
                        step(&ask, Expected::Number),
                    ]
                })
                .collect(),
        )
        .between(
            vec![step(
                &format!("LOCK.ACQUIRE lock {} 600000", owner(0)),
                Expected::Number,
            )],
            vec![step(&format!("LOCK.RELEASE lock {}", owner(0)), ONE)],
        )
        .beside("hand_over"),
    ];
    others("with the module", &[], &[])
        .into_iter()
        .chain(others(
            "after the first lock",
            &[acquire("lock")],
            &[release("lock")],
        ))
        .chain(of_the_module)
        .chain(others(
            "while somebody waits",
            &[acquire("lock"), place],
            &[given_up, release("lock")],
        ))
        .chain(others(
            "after somebody has waited",
            &NEEDED_BY_NOBODY.map(|()| set()),
            &[],
        ))
        .collect()
}

/// What others do, on a server that tells a module which does nothing about it.
fn beside_a_bare_listener() -> Vec<Operation> {
    let others = OTHERS.map(|other| other.among("beside a bare listener", Vec::new(), Vec::new()));
    others.into_iter().collect()
}

/// What the server's own calls cost, where a module does nothing else (`least.c`).
fn by_the_least_module() -> Vec<Operation> {
    let acquire = say("LEAST.ACQUIRE lock @ 30000", Expected::Number);
    let release = say("LEAST.RELEASE lock @", ONE);
    let check = say("LEAST.CHECK lock @", Expected::Number);
    vec![
        Operation::new(
            "least",
            "the same by the least module",
            vec![acquire.clone(), release.clone()],
        )
        .beside("lock"),
        Operation::new("least_check", "LOCK.CHECK by the least module", vec![check])
            .beside("check")
            .between(vec![acquire], vec![release]),
        Operation {
            id: "least_hand_over".into(),
            name: "the hand-over by the least module".into(),
            beside: "hand_over".into(),
            needs: "PING",
            work: Work::HandedOver {
                before: vec![least_waiter(0)],
                wait: least_waiter,
                serve: |place| {
                    let release = format!("LEAST.RELEASE lock {}", owner(place - 1));
                    vec![step(&release, ONE)]
                },
                in_turn: true,
            },
        },
    ]
}

/// From Redis 8.2 on the module asks to be told of no more, after a hundred events that nobody needed, at the beginning
/// of a turn of the server's loop. What is counted comes in few turns, and these each in one of its own.
const NEEDED_BY_NOBODY: [(); 150] = [(); 150];

fn set() -> Step {
    say("SET price 5", OK)
}

/// What others do on the server, whom no lock concerns: they should not pay for it.
struct Other {
    /// What it is called in files.
    id: &'static str,
    /// What is said.
    lines: &'static [(&'static str, &'static str)],
}

const OTHERS: [Other; 5] = [
    Other {
        id: "set",
        lines: &[("SET price 5", "+OK")],
    },
    Other {
        id: "incr",
        lines: &[("INCR count", "")],
    },
    Other {
        id: "expire",
        lines: &[("EXPIRE price 1000", ":1")],
    },
    Other {
        id: "rename",
        lines: &[("RENAME price cost", "+OK"), ("RENAME cost price", "+OK")],
    },
    Other {
        id: "set_del",
        lines: &[("SET item 5 PX 30000", "+OK"), ("DEL item", ":1")],
    },
];

impl Other {
    fn among(&self, when: &str, mut before: Vec<Step>, after: Vec<Step>) -> Operation {
        let steps = self.lines.iter().map(|(line, reply)| match *reply {
            "" => step(line, Expected::Number),
            reply => step(line, Expected::Line(reply)),
        });
        let lines: Vec<&str> = self.lines.iter().map(|(line, _)| *line).collect();
        before.push(set());
        // As a lock does, it makes the server look for the expiry of each key.
        before.push(say("SET elsewhere 5 PX 600000", OK));
        let name = format!("{} {when}", lines.join(", "));
        let id = format!("{}_{}", self.id, when.replace(' ', "_"));
        Operation::new(id.trim_end_matches('_'), name.trim_end(), steps.collect())
            .beside(self.id)
            .between(before, after)
    }
}

fn waiter(place: usize) -> Step {
    let owner = owner(place);
    let line = format!("LOCK.ACQUIRE lock {owner} 600000 BLOCK 0");
    step(&line, Expected::Number)
}

/// That of one waiter alone.
fn own_lock(place: usize) -> String {
    format!("lock:{place}")
}

fn least_waiter(place: usize) -> Step {
    let line = format!("LEAST.ACQUIRE lock {} 600000", owner(place));
    step(&line, Expected::Number)
}

/// One for each waiter, as long as a UUID.
fn owner(place: usize) -> String {
    format!("5b0f6c9e-6d1a-4c55-9a53-{place:012}")
}

/// Nothing of what was counted before is left.
pub fn empty() -> Step {
    step("FLUSHALL SYNC", OK)
}
