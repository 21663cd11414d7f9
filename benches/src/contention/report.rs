//! Contention in tables and in the file of figures.

use super::{Load, Outcome};
use crate::bench::Figures;
use crate::words::{Table, count, ms, time, times};
use serde_json::json;

/// Those of one load beside each other, for the terminal.
pub fn table(load: &Load, outcomes: &[Outcome]) -> String {
    let mut table = Table::new(&[
        &format!(
            "{} clients, held {}",
            count(load.clients as f64),
            ms(load.hold)
        ),
        "grants/s",
        "wait p50",
        "p99",
        "max",
        "max/mean",
        "idle p50",
        "idle p99",
        "fairness",
        "commands",
        "CPU",
    ]);
    for outcome in outcomes {
        table.row(vec![
            outcome.way.to_owned(),
            count(outcome.rate()),
            time(outcome.wait.p50),
            time(outcome.wait.p99),
            time(outcome.wait.max),
            times(outcome.wait.max / outcome.wait.mean),
            outcome.idle.shown(outcome.idle.p50),
            outcome.idle.shown(outcome.idle.p99),
            format!("{:.3}", outcome.fairness),
            times(outcome.commands),
            time(outcome.cpu),
        ]);
    }
    table.text()
}

/// For the file.
pub fn figures(part: &'static str, outcome: &Outcome) -> Figures {
    Figures::new(
        part,
        outcome.way,
        json!({
            "clients": outcome.clients,
            "hold_ms": outcome.hold.as_millis(),
            "seconds": outcome.seconds,
            "grants": outcome.grants,
            "grants_per_second": outcome.rate(),
            "wait": outcome.wait.to_json(),
            "unfinished_waits": outcome.unfinished,
            "without_holder": outcome.idle.to_json(),
            "jain": outcome.jain,
            "fairness": outcome.fairness,
            "longest_wait_to_mean": outcome.wait.max / outcome.wait.mean,
            "commands_per_grant": outcome.commands,
            "commands_sent_per_grant": outcome.sent,
            "bytes_per_grant": outcome.bytes,
            "server_cpu_us_per_grant": outcome.cpu * 1e6,
            "client_load": outcome.client_load,
        }),
    )
}
