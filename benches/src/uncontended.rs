//! Pairs of acquire and release with nobody in the way, and what the module costs the others.

use crate::bench::{Bench, Figures};
use crate::connection::Connection;
use crate::load::{Cycle, Pace, drive};
use crate::runtime::spawn;
use crate::server::{Server, With};
use crate::ways::documented::COMPARE_AND_DELETE;
use crate::words::{Table, count, some, time, times};
use anyhow::Result;
use serde_json::json;
use std::time::Duration;

const CONNECTIONS: [usize; 3] = [1, 8, 64];
/// Pairs that are sent before the answers are waited for.
const DEPTHS: [usize; 2] = [1, 16];
const SPAN: Duration = Duration::from_millis(500);
const TOKEN: &[u8] = b"0190f3b2-6a55-7c10-8f1e-4b7a52d9c001";
const TTL: &[u8] = b"600000";
const FUNCTION: &str = "#!lua name=lock
redis.register_function('release', function(keys, args)
    if redis.call('GET', keys[1]) == args[1] then
        return redis.call('DEL', keys[1])
    end
    return 0
end)";

/// How a lock is let go of, after SET NX PX; or both commands of the module.
#[derive(Debug, Clone)]
enum Pair {
    Del,
    Script(Box<[u8]>),
    Function,
    DelEx,
    DelIfEq,
    Module,
}

impl Pair {
    fn name(&self) -> &'static str {
        match self {
            Pair::Del => "SET NX PX, DEL",
            Pair::Script(_) => "SET NX PX, EVALSHA",
            Pair::Function => "SET NX PX, FCALL",
            Pair::DelEx => "SET NX PX, DELEX IFEQ",
            Pair::DelIfEq => "SET NX PX, DELIFEQ",
            Pair::Module => "LOCK",
        }
    }

    fn acquire<'a>(&self, key: &'a [u8]) -> Vec<&'a [u8]> {
        match self {
            Pair::Module => vec![b"LOCK.ACQUIRE", key, TOKEN, TTL],
            _ => vec![b"SET", key, TOKEN, b"NX", b"PX", TTL],
        }
    }

    fn release<'a>(&'a self, key: &'a [u8]) -> Vec<&'a [u8]> {
        match self {
            Pair::Del => vec![b"DEL", key],
            Pair::Script(script) => vec![b"EVALSHA", script, b"1", key, TOKEN],
            Pair::Function => vec![b"FCALL", b"release", b"1", key, TOKEN],
            Pair::DelEx => vec![b"DELEX", key, b"IFEQ", TOKEN],
            Pair::DelIfEq => vec![b"DELIFEQ", key, TOKEN],
            Pair::Module => vec![b"LOCK.RELEASE", key, TOKEN],
        }
    }

    /// Depth 1 waits for each answer, as a program does that works under its lock.
    fn cycle(&self, key: &str, depth: usize) -> Cycle {
        let mut cycle = Cycle::default();
        let key = key.as_bytes();
        if depth == 1 {
            cycle.send(&[self.acquire(key)], 1);
            cycle.send(&[self.release(key)], 1);
        } else {
            let pair = [self.acquire(key), self.release(key)];
            cycle.send(&pair, depth);
        }
        cycle
    }
}

/// Which of them this server can do.
async fn pairs_of(server: &Server) -> Result<Vec<Pair>> {
    let connection = &mut server.control().await?.connection;
    let script = connection.load(COMPARE_AND_DELETE).await?;
    let load: [&[u8]; 3] = [b"FUNCTION", b"LOAD", FUNCTION.as_bytes()];
    connection.call(&load).await?;
    let mut pairs = vec![Pair::Del, Pair::Script(script), Pair::Function];
    for (name, pair) in [("DELEX", Pair::DelEx), ("DELIFEQ", Pair::DelIfEq)] {
        if knows(connection, name).await? {
            pairs.push(pair);
        }
    }
    Ok(pairs)
}

async fn knows(connection: &mut Connection, command: &str) -> Result<bool> {
    let words: [&[u8]; 3] = [b"COMMAND", b"INFO", command.as_bytes()];
    let answer = connection.call(&words).await?;
    Ok(answer.items().first().is_some_and(|info| !info.is_nil()))
}

/// Measures all pairs under all loads.
pub async fn run(bench: &mut Bench) -> Result<()> {
    for (aof, lines) in [
        ("off", ""),
        ("everysec", "appendonly yes\nappendfsync everysec\n"),
    ] {
        let plain = Server::start_as(With::Nothing, lines).await?;
        let module = Server::start_as(With::Module, lines).await?;
        let mut pairs = pairs_of(&plain).await?;
        pairs.push(Pair::Module);
        for depth in DEPTHS {
            for connections in CONNECTIONS {
                let load = PairLoad {
                    aof,
                    depth,
                    connections,
                };
                let mut paces = Vec::new();
                for pair in &pairs {
                    let server = if matches!(pair, Pair::Module) {
                        &module
                    } else {
                        &plain
                    };
                    let keys = (0..connections).map(|number| format!("lock:{number}"));
                    let cycles = keys.map(|key| pair.cycle(&key, depth)).collect();
                    let what = format!("{}: {}", load.in_words(), pair.name());
                    let span = bench.shortened(SPAN);
                    let driving = drive(server, cycles, span);
                    let pace = bench.attempt("uncontended", &what, span, driving).await?;
                    paces.extend(pace.map(|pace| (pair, pace)));
                }
                load.report(bench, &paces);
            }
        }
    }
    Ok(())
}

struct PairLoad {
    aof: &'static str,
    depth: usize,
    connections: usize,
}

impl PairLoad {
    fn in_words(&self) -> String {
        let PairLoad {
            aof,
            depth,
            connections,
        } = self;
        let how = match depth {
            1 => "one by one".to_owned(),
            depth => format!("{depth} pairs pipelined"),
        };
        let many = some(*connections, "connection");
        format!("{many}, {how}, AOF {aof}")
    }

    fn report(&self, bench: &mut Bench, paces: &[(&Pair, Pace)]) {
        let mut table = Table::new(&[
            &self.in_words(),
            "pairs/s",
            "server CPU a pair",
            "CPU, EVALSHA = 1",
        ]);
        let mut scripts = paces
            .iter()
            .filter(|(pair, _)| matches!(pair, Pair::Script(_)));
        let script = scripts.next().map_or(f64::NAN, |(_, pace)| pace.cpu);
        for (pair, pace) in paces {
            let (rate, cpu) = (pace.rate / 2.0, pace.cpu * 2.0);
            table.row(vec![
                pair.name().to_owned(),
                count(rate),
                time(cpu),
                times(pace.cpu / script),
            ]);
            let fields = json!({
                "connections": self.connections,
                "pairs_in_flight": self.depth,
                "append_only_file": self.aof,
                "pairs_per_second": rate,
                "server_cpu_us_per_pair": cpu * 1e6,
                "cpu_to_evalsha": pace.cpu / script,
            });
            bench.keep(Figures::new("uncontended", pair.name(), fields));
        }
        bench.say(&table.text());
    }
}

const ROUNDS: usize = 7;
const TAX_SPAN: Duration = Duration::from_millis(300);

/// SET and GET of others: on a bare server, beside the module, and beside one that waits.
pub async fn tax(bench: &mut Bench) -> Result<()> {
    let plain = Server::start(With::Nothing).await?;
    let idle = Server::start(With::Module).await?;
    let waited = Server::start(With::Module).await?;
    let waiter = spawn(wait_for_ever(waited.address()));
    waited
        .control()
        .await?
        .wait_for("blocked_clients", |clients| clients == 1)
        .await?;

    let servers = [
        ("without the module", &plain),
        ("with it", &idle),
        ("with it, and one waiter", &waited),
    ];
    let (rounds, span) = (bench.fewer(ROUNDS), bench.shortened(TAX_SPAN));
    let measuring = by_turns(servers.map(|(_, server)| server), rounds, span);
    let all = span * u32::try_from(rounds * servers.len())?;
    let all = bench
        .attempt("tax", "SET and GET of others", all, measuring)
        .await?
        .unwrap_or_default();
    drop(waiter);

    let mut table = Table::new(&[
        "8 connections, SET and GET",
        "commands/s",
        "CPU a command",
        "CPU",
    ]);
    let mut bare = f64::NAN;
    for ((name, _), mut paces) in servers.into_iter().zip(all) {
        paces.sort_by(|one, other| one.cpu.total_cmp(&other.cpu));
        let Some(median) = paces.get(paces.len() / 2) else {
            continue;
        };
        if bare.is_nan() {
            bare = median.cpu;
        }
        table.row(vec![
            name.to_owned(),
            count(median.rate),
            time(median.cpu),
            times(median.cpu / bare),
        ]);
        let fields = json!({
            "commands_per_second": median.rate,
            "server_cpu_us_per_command": median.cpu * 1e6,
            "cpu_to_bare": median.cpu / bare,
        });
        bench.keep(Figures::new("tax", name, fields));
    }
    bench.say(&table.text());
    Ok(())
}

/// Whatever the machine does in between meets all of them.
async fn by_turns(servers: [&Server; 3], rounds: usize, span: Duration) -> Result<[Vec<Pace>; 3]> {
    let mut all = [const { Vec::new() }; 3];
    for _ in 0..rounds {
        for (server, paces) in servers.iter().zip(&mut all) {
            paces.push(drive(server, (0..8).map(others).collect(), span).await?);
        }
    }
    Ok(all)
}

/// What others do, on a connection.
fn others(number: usize) -> Cycle {
    let mut cycle = Cycle::default();
    let key = format!("other:{number}");
    let pair: [Vec<&[u8]>; 2] = [
        vec![b"SET", key.as_bytes(), TOKEN],
        vec![b"GET", key.as_bytes()],
    ];
    cycle.send(&pair, 8);
    cycle
}

async fn wait_for_ever(address: std::net::SocketAddr) -> Result<()> {
    let mut connection = Connection::open(address).await?;
    connection.push(&[b"LOCK.ACQUIRE", b"lock", b"one", TTL]);
    connection.push(&[b"LOCK.ACQUIRE", b"lock", b"other", TTL, b"BLOCK", b"0"]);
    connection.last_of(2).await?;
    Ok(())
}
