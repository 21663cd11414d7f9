//! Pairs of acquire and release of a lock that no other client wants.

use crate::bench::Bench;
use crate::load::{Cycle, drive};
use crate::server::{Server, With};
use crate::ways::polling::COMPARE_AND_DELETE;
use crate::words::{Table, count, some, time, times};
use anyhow::Result;
use std::time::Duration;

const CONNECTIONS: [usize; 3] = [1, 8, 64];
/// Pairs that are sent before the answers are waited for.
const DEPTHS: [usize; 2] = [1, 16];
const SPAN: Duration = Duration::from_millis(500);
const TOKEN: &str = "0190f3b2-6a55-7c10-8f1e-4b7a52d9c001";
const FUNCTION: &str = "#!lua name=lock
redis.register_function('release', function(keys, args)
    if redis.call('GET', keys[1]) == args[1] then
        return redis.call('DEL', keys[1])
    end
    return 0
end)";
const LOCK: &str = "LOCK";
const SCRIPT: &str = "SET NX PX, EVALSHA";

/// A way, how it acquires, and how it releases: `KEY` stands for the lock's name.
type Pair = (&'static str, String, String);

async fn pairs_of(server: &Server) -> Result<Vec<Pair>> {
    let connection = &mut server.connect().await?;
    let script = connection.load(COMPARE_AND_DELETE).await?;
    connection.call_words(&["FUNCTION", "LOAD", FUNCTION]).await?;
    let mut pairs = Vec::new();
    for (name, release) in [
        ("SET NX PX, DEL", "DEL KEY".to_owned()),
        (SCRIPT, format!("EVALSHA {script} 1 KEY {TOKEN}")),
        ("SET NX PX, FCALL", format!("FCALL release 1 KEY {TOKEN}")),
        ("SET NX PX, DELEX IFEQ", format!("DELEX KEY IFEQ {TOKEN}")),
        ("SET NX PX, DELIFEQ", format!("DELIFEQ KEY {TOKEN}")),
    ] {
        let command = release.split(' ').next().unwrap_or_default();
        let known = connection.call(&format!("COMMAND INFO {command}")).await?;
        if known.items().first().is_some_and(|info| !info.is_nil()) {
            pairs.push((name, format!("SET KEY {TOKEN} NX PX 600000"), release));
        }
    }
    let acquire = format!("LOCK.ACQUIRE KEY {TOKEN} 600000");
    pairs.push((LOCK, acquire, format!("LOCK.RELEASE KEY {TOKEN}")));
    Ok(pairs)
}

/// Depth 1 waits for each answer, as a program does that works under its lock.
fn cycle((_, acquire, release): &Pair, key: &str, depth: usize) -> Cycle {
    let (acquire, release) = (acquire.replace("KEY", key), release.replace("KEY", key));
    let mut cycle = Cycle::default();
    match depth {
        1 => {
            cycle.send(&[acquire]);
            cycle.send(&[release]);
        }
        depth => cycle.send(&vec![[acquire, release]; depth].concat()),
    }
    cycle
}

pub async fn run(bench: &Bench) -> Result<()> {
    bench.title("Uncontended: acquire and release of a lock that no other client wants");
    for (aof, lines) in [("off", ""), ("everysec", "appendonly yes\nappendfsync everysec\n")] {
        let plain = Server::start_as(With::Nothing, lines).await?;
        let module = Server::start_as(With::Module, lines).await?;
        let pairs = pairs_of(&plain).await?;
        for (depth, connections) in
            DEPTHS.into_iter().flat_map(|depth| CONNECTIONS.map(|many| (depth, many)))
        {
            let how = match depth {
                1 => "one by one".to_owned(),
                depth => format!("{depth} pairs pipelined"),
            };
            let load = format!("{}, {how}, AOF {aof}", some(connections, "connection"));
            let mut table =
                Table::new(&[&load, "pairs/s", "server CPU a pair", "CPU, EVALSHA = 1"]);
            let mut paces = Vec::new();
            for pair in &pairs {
                let server = if pair.0 == LOCK { &module } else { &plain };
                let keys = (0..connections).map(|number| format!("lock:{number}"));
                let cycles = keys.map(|key| cycle(pair, &key, depth)).collect();
                let what = format!("{load}: {}", pair.0);
                let span = bench.shortened(SPAN);
                let driving = drive(server, cycles, span);
                let pace = bench.attempt("uncontended", &what, span, driving).await?;
                paces.extend(pace.map(|pace| (pair.0, pace)));
            }
            let script = paces.iter().find(|(way, _)| *way == SCRIPT);
            let script = script.map_or(f64::NAN, |(_, pace)| pace.cpu);
            for (way, pace) in paces {
                let (rate, cpu) = (count(pace.rate / 2.0), time(pace.cpu * 2.0));
                table.row([way, &rate, &cpu, &times(pace.cpu / script)]);
            }
            println!("{}", table.text());
        }
    }
    Ok(())
}
