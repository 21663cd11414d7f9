//! Hand-overs as fast as they go, on servers with one, two and four io-threads.
//!
//! The newest of both kinds, whatever `REDIS_SERVER` says, if `scripts/servers` has brought them.

use crate::bench::{Bench, Figures};
use crate::contention::{Load, Outcome, measure_on};
use crate::server::{Server, With};
use crate::ways::Way;
use crate::ways::module::Module;
use crate::ways::token_list::TokenList;
use crate::words::{Table, count, time};
use anyhow::Result;
use serde_json::json;
use std::fs;
use std::path::Path;
use std::time::Duration;

const PART: &str = "threads";
const SERVERS: [(&str, &str); 2] = [
    ("redis-8.10", "redis-server"),
    ("valkey-9.1", "valkey-server"),
];
const THREADS: [usize; 3] = [1, 2, 4];
const CLIENTS: usize = 64;
const SPAN: Duration = Duration::from_secs(3);

/// All servers with all numbers of threads.
pub async fn run(bench: &mut Bench) -> Result<()> {
    for (name, program) in SERVERS {
        let Ok(program) = fs::canonicalize(format!("servers/{name}/{program}")) else {
            bench.say(&format!(
                "  no {name} here: scripts/servers {name} brings it\n"
            ));
            continue;
        };
        let mut table = Table::new(&[name, "io-threads", "hand-overs/s", "CPU each", "p50", "p99"]);
        for threads in THREADS {
            for outcome in [
                attempt::<TokenList>(bench, &program, threads).await?,
                attempt::<Module>(bench, &program, threads).await?,
            ]
            .into_iter()
            .flatten()
            {
                table.row(vec![
                    outcome.way.to_owned(),
                    threads.to_string(),
                    count(outcome.rate()),
                    time(outcome.cpu),
                    time(outcome.wait.p50),
                    time(outcome.wait.p99),
                ]);
                let fields = json!({
                    "server": name,
                    "io_threads": threads,
                    "clients": CLIENTS,
                    "handovers_per_second": outcome.rate(),
                    "server_cpu_us_each": outcome.cpu * 1e6,
                    "wait": outcome.wait.to_json(),
                });
                bench.keep(Figures::new(PART, outcome.way, fields));
            }
        }
        bench.say(&table.text());
    }
    Ok(())
}

async fn attempt<W: Way>(bench: &Bench, program: &Path, threads: usize) -> Result<Option<Outcome>> {
    let load = Load {
        clients: CLIENTS,
        hold: Duration::ZERO,
        span: bench.shortened(SPAN),
        one_process: false,
    };
    let what = format!("{}, {threads} io-threads: {}", program.display(), W::NAME);
    let measuring = async {
        let lines = format!("io-threads {threads}\n");
        let server = Server::start_program(program, With::what_needs::<W>(), &lines).await?;
        measure_on::<W>(&server, &load).await
    };
    bench.attempt(PART, &what, SPAN, measuring).await
}
