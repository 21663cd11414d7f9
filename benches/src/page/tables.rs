//! The tables, each of the figures of one part.

use crate::words::{count, some, time, times};
use serde_json::Value;

/// The names by which a page asks for them.
#[cfg(test)]
pub const NAMES: [&str; 9] = [
    "of",
    "market",
    "duplicates",
    "missed",
    "scale",
    "cluster",
    "shards",
    "threads",
    "fairness",
];

/// None if there is no such table, or nothing to put into it.
pub fn table(name: &str, parts: &Value) -> Option<String> {
    match name {
        "of" => of(parts),
        "market" => market(parts),
        "duplicates" => duplicates(parts),
        "missed" => missed(parts),
        "scale" => scale(parts),
        "cluster" => cluster(parts),
        "shards" => shards(parts),
        "threads" => threads(parts),
        "fairness" => fairness(parts),
        _ => None,
    }
}

fn figures<'a>(parts: &'a Value, part: &str) -> Vec<&'a Value> {
    let figures = parts.get(part).and_then(|part| part.get("figures"));
    let figures = figures.and_then(Value::as_array);
    figures.into_iter().flatten().collect()
}

fn text<'a>(one: &'a Value, name: &str) -> &'a str {
    one.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn number(one: &Value, pointer: &str) -> f64 {
    let value = one.pointer(pointer).and_then(Value::as_f64);
    value.unwrap_or(f64::NAN)
}

/// A dash for what is not there.
fn shown(value: f64, words: fn(f64) -> String) -> String {
    if value.is_finite() {
        words(value)
    } else {
        String::new()
    }
}

fn us(value: f64) -> String {
    shown(value / 1e6, time)
}

struct Markdown(String);

impl Markdown {
    fn of(columns: &[&str]) -> Markdown {
        let rule = "---|".repeat(columns.len());
        Markdown(format!("| {} |\n|{rule}\n", columns.join(" | ")))
    }

    fn row(&mut self, cells: &[String]) {
        self.0 += &format!("| {} |\n", cells.join(" | "));
    }
}

/// What was measured on what, and of which commits.
fn of(parts: &Value) -> Option<String> {
    let mut commits: Vec<(String, Vec<&str>)> = Vec::new();
    for (part, measured) in parts.as_object()? {
        let machine = measured.get("machine")?;
        let day = text(machine, "date").split('T').next().unwrap_or_default();
        let processor = text(machine, "processor").replace("(R)", "");
        let what = format!(
            "`{}` on {day}, {}, {} cores of {processor}",
            text(machine, "commit"),
            text(machine, "server"),
            number(machine, "/cores")
        );
        match commits.iter_mut().find(|(other, _)| *other == what) {
            Some((_, of)) => of.push(part),
            None => commits.push((what, vec![part])),
        }
    }
    let [(one, _)] = commits.as_slice() else {
        let each = commits
            .iter()
            .map(|(what, of)| format!("- {what}: {}", of.join(", ")));
        let each: Vec<String> = each.collect();
        return Some(format!(
            "Measured at several commits:\n\n{}",
            each.join("\n")
        ));
    };
    Some(format!("All figures are of commit {one}."))
}

fn market(parts: &Value) -> Option<String> {
    let all = figures(parts, "market");
    let seconds = number(all.first()?, "/seconds");
    let mut table = Markdown::of(&[
        "",
        &format!("in {seconds:.0} seconds"),
        "items listed",
        "items bought",
        "retries",
        "average wait",
    ]);
    let mut before = String::new();
    for one in all {
        let people = |name| some(number(one, &format!("/{name}s")) as usize, name);
        let crowd = format!("{}, {}", people("lister"), people("buyer"));
        let first = if crowd == before { "" } else { &crowd };
        table.row(&[
            first.to_owned(),
            text(one, "way").to_owned(),
            shown(number(one, "/listed"), count),
            shown(number(one, "/bought"), count),
            shown(number(one, "/retries"), count),
            us(number(one, "/wait/mean_us")),
        ]);
        before = crowd;
    }
    Some(table.0)
}

/// A row for each way, a column for each condition.
fn duplicates(parts: &Value) -> Option<String> {
    let all = figures(parts, "duplicates");
    all.first()?;
    let mut conditions: Vec<&str> = Vec::new();
    let mut ways: Vec<&str> = Vec::new();
    for one in &all {
        for (list, name) in [(&mut conditions, "condition"), (&mut ways, "way")] {
            if !list.contains(&text(one, name)) {
                list.push(text(one, name));
            }
        }
    }
    let doubles = |one: &Value| number(one, "/times_two_held_it");
    let mut columns = vec!["two held it / acquisitions"];
    columns.extend(&conditions);
    let mut table = Markdown::of(&columns);
    for way in &ways {
        let mut cells = vec![(*way).to_owned()];
        for condition in &conditions {
            let mut of_way = all.iter().filter(|one| text(one, "way") == *way);
            let one = of_way.find(|one| text(one, "condition") == *condition);
            cells.push(one.map_or(String::new(), |one| {
                let bold = if doubles(one) > 0.0 { "**" } else { "" };
                let had = count(number(one, "/acquisitions"));
                format!("{bold}{}{bold} / {had}", count(doubles(one)))
            }));
        }
        table.row(&cells);
    }
    let is_wrong = |one: &&Value| one.get("sound").and_then(Value::as_bool) == Some(false);
    let names = |bad: bool| {
        let mut names: Vec<&str> = all
            .iter()
            .copied()
            .filter(is_wrong)
            .filter(|one| !bad || doubles(one) > 0.0)
            .map(|one| text(one, "way"))
            .collect();
        names.sort_unstable();
        names.dedup();
        names.len()
    };
    Some(format!(
        "{} of the {} wrong ways gave the lock to two clients at once.\n\n{}",
        names(true),
        names(false),
        table.0
    ))
}

/// Why a goal is missed, by the beginning of its name.
const AFTER_A_FLUSH: &str = "the command takes 0.3 ms; then waiters for a thousand locks are granted all of them at once, and one such grant is one turn";

const REASONS: [(&str, &str); 13] = [
    (
        "64 clients, held 0 ms: wait p99",
        "who is served in turn waits for 63 others, and the goal is little more than that takes",
    ),
    (
        "1,050,000 holds",
        "the server's own tables grow and shrink: it misses this alone, too",
    ),
    (
        "100,000 share a lock",
        "portions are bounded by work, not by time; on this machine one takes a bit more than a millisecond",
    ),
    (
        "MRELEASE of 1,024",
        "linear in what the command names: 1,024 locks, and thousands who read are granted them",
    ),
    (
        "an owner asks 1,000 times",
        "linear in what the requests name: 1,024 locks each",
    ),
    (
        "100,000 locks end at once",
        "waiters for a thousand locks are granted all of them at once or none: one such grant is one turn",
    ),
    (
        "9,000 connections",
        "the server takes most of it to close 9,000 connections in one turn",
    ),
    (
        "4,000 connections",
        "met on another machine on 2026-11-22; why it takes longer on this one is not known yet",
    ),
    (
        "1,000,000 places",
        "met on another machine on 2026-11-22; why a turn is longer on this one is not known yet",
    ),
    (
        "market, 5 and 5",
        "in turn, a trade waits until its client has woken up, which this machine is slow at; who polls takes the lock again and again. On another machine, on 2026-11-21, LOCK was ahead by 38 %",
    ),
    ("FLUSHALL ASYNC with 100,000", AFTER_A_FLUSH),
    ("FLUSHDB ASYNC with 100,000", AFTER_A_FLUSH),
    ("SWAPDB 0 1 with 100,000", AFTER_A_FLUSH),
];

fn missed(parts: &Value) -> Option<String> {
    let mut table = Markdown::of(&["missed", "wanted", "measured", "because"]);
    let (mut missed, mut all) = (0, 0);
    for part in parts.as_object()?.values() {
        let bars = part.get("bars").and_then(Value::as_array);
        for bar in bars.into_iter().flatten() {
            all += 1;
            if bar.get("met").and_then(Value::as_bool) == Some(true) {
                continue;
            }
            missed += 1;
            let name = text(bar, "bar");
            let reason = REASONS.iter().find(|(of, _)| name.starts_with(of));
            table.row(&[
                name.to_owned(),
                text(bar, "wanted").to_owned(),
                text(bar, "seen").to_owned(),
                reason.map_or("not known yet", |(_, why)| why).to_owned(),
            ]);
        }
    }
    Some(match missed {
        0 => format!("All {all} goals were met."),
        _ => format!("Of the {all} goals, {missed} were missed:\n\n{}", table.0),
    })
}

fn is_cluster(one: &&Value) -> bool {
    number(one, "/masters").is_finite()
}

fn cells(one: &Value) -> [String; 4] {
    [
        us(number(one, "/server_cpu_us")),
        us(number(one, "/latency/p50_us")),
        us(number(one, "/latency/p99_us")),
        shown(number(one, "/bytes_each"), count),
    ]
}

const COSTS: [&str; 4] = ["server CPU", "p50", "p99", "bytes each"];

fn scale(parts: &Value) -> Option<String> {
    let all = figures(parts, "scale");
    all.first()?;
    let mut table = Markdown::of(&[["", "way", "beside"].as_slice(), &COSTS[..]].concat());
    let mut before = "";
    for one in all.into_iter().filter(|one| !is_cluster(one)) {
        let what = text(one, "what");
        let there = count(number(one, "/there"));
        let first = if what == before { "" } else { what };
        let beside = format!("{there} {}", text(one, "beside"));
        let head = [first.to_owned(), text(one, "way").to_owned(), beside];
        table.row(&[head.as_slice(), &cells(one)].concat());
        before = what;
    }
    // With its picture, which is there only if these figures are.
    let picture = "![CPU of a pair, of a hand-over and of an expiry, and the memory of each, beside more and more](../benches/results/scale.svg)";
    Some(format!("{picture}\n\n{}", table.0))
}

fn cluster(parts: &Value) -> Option<String> {
    let all = figures(parts, "scale");
    all.iter().find(|one| is_cluster(one))?;
    let mut table = Markdown::of(&[["masters", "", "beside"].as_slice(), &COSTS[..]].concat());
    for one in all.into_iter().filter(is_cluster) {
        let there = count(number(one, "/there"));
        let head = [
            number(one, "/masters").to_string(),
            format!("{}, {}", text(one, "what"), text(one, "way")),
            format!("{there} {}", text(one, "beside")),
        ];
        table.row(&[head.as_slice(), &cells(one)].concat());
    }
    let picture = "![The same with one, three and six masters](../benches/results/cluster.svg)";
    Some(format!("{picture}\n\n{}", table.0))
}

/// What very many shards carry, calculated from what few do.
fn shards(parts: &Value) -> Option<String> {
    let all = figures(parts, "scale");
    // The last that fits: the most masters, the most of them.
    let find = |what, way, name: &str, masters: bool| {
        let those = all.iter().filter(|one| {
            text(one, "what") == what && text(one, "way") == way && is_cluster(one) == masters
        });
        let mut values = those.map(|one| number(one, name));
        values.rfind(|value| value.is_finite())
    };
    let bytes = "/bytes_each";
    let cpu = "/server_cpu_us";
    let gigabytes = |each: f64, times: f64| each * times / 1e9;
    let half_a_core = |us: f64| 0.5e6 / us;
    let rows = [
        (
            "GB for a million held locks on each",
            gigabytes(find("pair", "LOCK", bytes, true)?, 1e6),
        ),
        (
            "GB for 100,000 places on each, in one queue",
            gigabytes(find("hand-over", "QUEUE", bytes, false)?, 1e5),
        ),
        (
            "GB for 10,000 blocked clients on each",
            gigabytes(find("hand-over", "BLOCK", bytes, false)?, 1e4),
        ),
        (
            "pairs a second in pipelines, with half a core on each",
            half_a_core(find("pair", "LOCK", cpu, true)?),
        ),
        (
            "hand-overs a second to places, likewise",
            half_a_core(find("hand-over", "QUEUE", cpu, true)?),
        ),
        (
            "expiries a second with somebody in the queue, likewise",
            half_a_core(find("expiry", "LOCK", cpu, true)?),
        ),
    ];
    let mut table = Markdown::of(&["calculated", "1 shard", "10 shards", "100 shards"]);
    for (what, one) in rows {
        let words = if what.starts_with("GB") {
            times
        } else {
            rounded
        };
        let row = [1.0, 10.0, 100.0].map(|shards| words(one * shards));
        table.row(&[[what.to_owned()].as_slice(), &row].concat());
    }
    Some(table.0)
}

/// To two digits: a calculation is not more exact.
fn rounded(number: f64) -> String {
    let unit = 10_f64.powf(number.abs().log10().floor() - 1.0);
    count((number / unit).round() * unit)
}

fn threads(parts: &Value) -> Option<String> {
    let all = figures(parts, "threads");
    all.first()?;
    let mut table = Markdown::of(&[
        "64 clients, one lock",
        "io-threads",
        "way",
        "hand-overs a second",
        "server CPU each",
        "wait p50",
        "p99",
    ]);
    for one in all {
        table.row(&[
            text(one, "server").to_owned(),
            number(one, "/io_threads").to_string(),
            text(one, "way").to_owned(),
            shown(number(one, "/handovers_per_second"), count),
            us(number(one, "/server_cpu_us_each")),
            us(number(one, "/wait/p50_us")),
            us(number(one, "/wait/p99_us")),
        ]);
    }
    Some(table.0)
}

/// What each way did with 64 clients that hold the lock for a millisecond.
fn fairness(parts: &Value) -> Option<String> {
    let all = figures(parts, "contention");
    all.first()?;
    let mut table = Markdown::of(&[
        "64 clients, each holds it for 1 ms",
        "grants a second",
        "fairness",
        "wait p50",
        "p99",
        "commands for a grant",
    ]);
    let of_load = |one: &&Value| number(one, "/clients") == 64.0 && number(one, "/hold_ms") == 1.0;
    for one in all.into_iter().filter(of_load) {
        table.row(&[
            text(one, "way").to_owned(),
            shown(number(one, "/grants_per_second"), count),
            format!("{:.2}", number(one, "/fairness")),
            us(number(one, "/wait/p50_us")),
            us(number(one, "/wait/p99_us")),
            times(number(one, "/commands_per_grant")),
        ]);
    }
    Some(table.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_ways_that_fail_are_counted_once_each_and_those_that_should_not_are_left_out() {
        let one = |way, condition, sound, doubles| {
            json!({ "way": way, "condition": condition, "sound": sound,
                "acquisitions": 1000, "times_two_held_it": doubles })
        };
        let parts = json!({ "duplicates": { "figures": [
            one("DEL", "calm", false, 0), one("DEL", "pause", false, 3),
            one("GET", "calm", false, 0), one("GET", "pause", false, 0),
            one("LOCK", "calm", true, 0),
        ] } });
        let table = table("duplicates", &parts).unwrap_or_default();
        assert!(table.starts_with("1 of the 2 wrong ways"), "{table}");
        assert!(
            table.contains("| DEL | 0 / 1,000 | **3** / 1,000 |"),
            "{table}"
        );
        assert!(table.contains("| LOCK | 0 / 1,000 |  |"), "{table}");
    }

    #[test]
    fn a_goal_that_was_missed_stands_there_with_its_reason() {
        let bar = |name, met| json!({ "bar": name, "wanted": "1", "seen": "2", "met": met });
        let parts = json!({ "a": { "bars": [bar("100,000 share a lock; x", false), bar("met", true)] },
            "b": { "bars": [bar("else", false)] } });
        let table = table("missed", &parts).unwrap_or_default();
        assert!(
            table.starts_with("Of the 3 goals, 2 were missed"),
            "{table}"
        );
        assert!(table.contains("bounded by work") && !table.contains("| met |"));
        assert!(
            table.contains("| else | 1 | 2 | not known yet |"),
            "{table}"
        );
    }

    #[test]
    fn what_is_calculated_is_rounded() {
        assert_eq!(rounded(469_123.0), "470,000");
        assert_eq!(rounded(96.0), "96");
    }
}
