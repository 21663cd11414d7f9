//! One command at a time, at either end of a queue and in its middle, beside a PING.

use super::{PART, ask, release};
use crate::bench::Figures;
use crate::connection::Connection;
use crate::stalls::seen::call;
use crate::stats::Spread;
use crate::words::{Table, count, time, times};
use anyhow::{Result, ensure};
use serde_json::{Map, Value};
use std::time::Instant;

/// Each is measured so often, in turns.
const ROUNDS: usize = 1_000;
/// These only warm up.
const FIRST_ROUNDS: usize = 20;
/// What is measured; the first is what the others are compared with.
const NAMES: [&str; 6] = [
    "PING",
    "join",
    "ask as first",
    "in the middle",
    "as last",
    "give up",
];

/// The median round trips.
#[derive(Debug, Clone)]
pub struct Probe {
    places: usize,
    medians: Vec<f64>,
}

impl Probe {
    /// That of a queue of so many places, whose owners are numbered from 1 on.
    pub async fn of(connection: &mut Connection, places: usize) -> Result<Probe> {
        let (middle, newcomer) = (places / 2, places + 1);
        let place = |number: usize| i64::try_from(number).map(|number| Some(-number));
        let commands = [
            ("PING".to_owned(), None),
            (ask(newcomer), place(places + 1)?),
            (ask(1), place(1)?),
            (ask(middle), place(middle)?),
            (ask(places), place(places)?),
            (release(newcomer), place(0)?),
        ];
        let mut times = vec![Vec::with_capacity(ROUNDS); commands.len()];
        for round in 0..FIRST_ROUNDS + ROUNDS {
            for ((command, reply), times) in commands.iter().zip(&mut times) {
                let began = Instant::now();
                let replied = call(connection, command).await?;
                let took = began.elapsed().as_secs_f64();
                if let Some(reply) = *reply {
                    let replied = replied.number()?;
                    ensure!(
                        replied == reply,
                        "{command} answered {replied}, not {reply}"
                    );
                }
                if round >= FIRST_ROUNDS {
                    times.push(took);
                }
            }
        }
        let medians = times.into_iter().map(|times| Spread::of(times).p50);
        Ok(Probe {
            places,
            medians: medians.collect(),
        })
    }

    /// The dearest of them beside PING.
    pub fn dearest_to_ping(&self) -> f64 {
        self.to_ping().fold(0.0, f64::max)
    }

    fn to_ping(&self) -> impl Iterator<Item = f64> + '_ {
        let ping = self.medians.first().copied().unwrap_or(f64::NAN);
        self.medians.iter().map(move |median| median / ping)
    }

    /// For the file.
    pub fn figures(&self) -> Figures {
        let mut fields = Map::new();
        fields.insert("places".to_owned(), self.places.into());
        let named = NAMES.iter().zip(&self.medians);
        let us = named.map(|(name, median)| ((*name).to_owned(), Value::from(median * 1e6)));
        fields.insert("round_trip_p50_us".to_owned(), Value::Object(us.collect()));
        Figures::new(PART, "round trips", fields.into())
    }
}

/// With few places and with many.
pub fn table(probes: &[&Probe]) -> String {
    let mut columns = vec!["one at a time, places"];
    columns.extend(NAMES);
    let mut table = Table::new(&columns);
    for probe in probes {
        let mut absolute = vec![count(probe.places as f64)];
        absolute.extend(probe.medians.iter().map(|&median| time(median)));
        table.row(absolute);
        let mut relative = vec!["  times PING".to_owned()];
        relative.extend(probe.to_ping().map(times));
        table.row(relative);
    }
    table.text()
}
