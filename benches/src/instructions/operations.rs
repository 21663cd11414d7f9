//! What is counted, as `operations.txt` lists it.

use super::server::{Expected, Step};
use anyhow::{Context, Result, bail};

const LIST: &str = include_str!("operations.txt");

/// The release that nearly every library uses, and the same as a function.
const SCRIPT: &str = "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
const FUNCTION: &str = "#!lua name=locks\nredis.register_function('release', function(keys, args) if redis.call('get',keys[1]) == args[1] then return redis.call('del',keys[1]) else return 0 end end)";

/// What others do on the server, whom no lock concerns: they should not pay for it.
const OTHERS: [(&str, &str); 5] = [
    ("set", "SET price 5 -> ok"),
    ("incr", "INCR count -> number"),
    ("expire", "EXPIRE price 1000 -> 1"),
    ("rename", "RENAME price cost -> ok; RENAME cost price -> ok"),
    ("set_del", "SET item 5 PX 30000 -> ok; DEL item -> 1"),
];

/// What stands before it: as a lock does, it makes the server look for the expiry of each key.
const BEFORE_OTHERS: &str = "SET price 5 -> ok; SET elsewhere 5 PX 600000 -> ok";

#[derive(Clone)]
pub struct Operation {
    pub id: String,
    pub name: String,
    pub beside: String,
    /// The command that a server must have for it.
    pub needs: String,
    pub before: Vec<Step>,
    /// What is counted, if it is done by one connection that does not wait for the answers.
    pub again: Vec<Step>,
    pub after: Vec<Step>,
    /// Else how the nth of many connections waits, …
    wait: Option<String>,
    /// … and how it is served by another.
    serve: Vec<String>,
    /// Does each serve the next? Then that one must have heard of it before.
    pub in_turn: bool,
}

/// What is counted on one server, one after another.
pub struct Phase {
    /// The module that is loaded for it, by its name and its file. The last one stays.
    pub module: Option<(&'static str, &'static str)>,
    pub operations: Vec<Operation>,
}

/// Everything. When the module comes, which is the last, the server tells no other of keys any more.
pub fn all() -> Result<Vec<Phase>> {
    let mut phases: Vec<Phase> = Vec::new();
    for line in LIST.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(module) = line.strip_prefix("module ") {
            let module = module.split_once(' ');
            let operations = Vec::new();
            phases.push(Phase { module, operations });
            continue;
        }
        let operations = read(line).with_context(|| line.to_owned())?;
        let phase = phases.last_mut().context("an operation without a module")?;
        phase.operations.extend(operations);
    }
    Ok(phases)
}

fn read(line: &str) -> Result<Vec<Operation>> {
    let fields: Vec<&str> = line.split('|').map(str::trim).collect();
    let [id, name, beside, before, again, after] = fields[..] else {
        bail!("it has not six fields");
    };
    let (needs, id) = id.split_once(": ").unwrap_or(("PING", id));
    let mut operation = Operation {
        id: id.to_owned(),
        name: name.to_owned(),
        beside: if beside.is_empty() { id } else { beside }.to_owned(),
        needs: needs.to_owned(),
        before: Vec::new(),
        again: Vec::new(),
        after: steps(after)?,
        wait: None,
        serve: Vec::new(),
        in_turn: false,
    };
    for said in before.split("; ").filter(|said| !said.is_empty()) {
        match (said, said.split_once(" times ")) {
            ("in turn", _) => operation.in_turn = true,
            // From Redis 8.2 on the module asks to be told of no more, after a hundred events that it did not need, at
            // the beginning of a turn of the server's loop. What is counted comes in few turns, and these each in one.
            ("unneeded", _) => operation.before.extend(vec![step("SET price 5 -> ok", 0)?; 150]),
            (_, Some((times, said))) => {
                let places = (1..=times.parse()?).map(|place| step(said, place));
                operation.before.extend(places.collect::<Result<Vec<_>>>()?);
            }
            (said, None) => operation.before.push(step(said, 0)?),
        }
    }
    if id == "others" {
        let others = OTHERS.into_iter().map(|(id, lines)| operation.of_others(id, lines));
        return others.collect();
    }
    for said in again.split("; ") {
        match (said.strip_prefix("wait "), said.strip_prefix("serve ")) {
            (Some(wait), _) => operation.wait = Some(wait.to_owned()),
            (_, Some(serve)) => operation.serve.push(serve.to_owned()),
            _ => operation.again.push(step(said, 0)?),
        }
    }
    Ok(vec![operation])
}

impl Operation {
    /// One of the others, before and after what this says.
    fn of_others(&self, id: &str, lines: &str) -> Result<Operation> {
        let again = steps(lines)?;
        let said = again.iter().map(|step| step.words.join(" "));
        let name = format!("{} {}", said.collect::<Vec<_>>().join(", "), self.name);
        let when = self.name.replace(' ', "_");
        let mut before = self.before.clone();
        before.extend(steps(BEFORE_OTHERS)?);
        Ok(Operation {
            id: format!("{id}_{when}").trim_end_matches('_').to_owned(),
            name: name.trim_end().to_owned(),
            beside: id.to_owned(),
            before,
            again,
            ..self.clone()
        })
    }

    /// How the one at this place waits, if many wait.
    pub fn wait(&self, place: usize) -> Result<Option<Step>> {
        self.wait.as_ref().map(|wait| step(wait, place)).transpose()
    }

    pub fn serve(&self, place: usize) -> Result<Vec<Step>> {
        self.serve.iter().map(|serve| step(serve, place)).collect()
    }
}

fn steps(said: &str) -> Result<Vec<Step>> {
    let all = said.split("; ").filter(|said| !said.is_empty());
    all.map(|said| step(said, 0)).collect()
}

/// A command and its answer, for the one at this place.
fn step(said: &str, place: usize) -> Result<Step> {
    let (line, answer) = said.split_once(" -> ").context("a command without an answer")?;
    let before = place.saturating_sub(1).to_string();
    let words = line.split(' ').map(|word| {
        let word = word.replace("#-", &before).replace('#', &place.to_string());
        match word.as_str() {
            "@" => "5b0f6c9e-6d1a-4c55-9a53-0f4a1d7f2c11".to_owned(),
            _ => match word.strip_prefix('@') {
                Some(place) => format!("5b0f6c9e-6d1a-4c55-9a53-{place:0>12}"),
                None => word,
            },
        }
    });
    let mut words: Vec<String> = words.collect();
    if let [_, load, text] = &mut words[..]
        && load == "LOAD"
    {
        *text = if text == "SCRIPT" { SCRIPT } else { FUNCTION }.to_owned();
    }
    let answer = match answer {
        "ok" => Expected::Ok,
        "number" => Expected::Number,
        "text" => Expected::Bytes,
        "list" => Expected::List,
        number => Expected::Is(number.parse().context("an unknown answer")?),
    };
    Ok(Step { words, answer })
}

pub fn empty() -> Step {
    Step::new("FLUSHALL SYNC", Expected::Ok)
}
