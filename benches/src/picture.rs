//! Pictures of the figures. They are drawn from the file, so an old measurement can be drawn anew.

mod chart;
mod look;
mod paper;

use crate::words::{count, time, times};
use anyhow::Result;
use chart::{Bar, Better, Head, Panel, Scale, Series, draw_bars, draw_panels};
use serde_json::Value;
use std::path::Path;

/// All that there are figures for, into this folder.
pub fn draw_all(parts: &Value, results: &Path) -> Result<()> {
    market(parts, results)?;
    contention(parts, results)?;
    handover(parts, results)?;
    scale(parts, results)
}

/// The fullest market: a bar for each way.
fn market(parts: &Value, results: &Path) -> Result<()> {
    let bars: Vec<Bar<'_>> = figures(parts, "market")
        .filter(|one| number(one, "/listers") == 5.0 && number(one, "/buyers") == 5.0)
        .map(|one| {
            let retries = match number(one, "/retries") {
                retries if retries > 0.0 => format!(", {} retries", count(retries)),
                _ => String::new(),
            };
            let wait = time(number(one, "/wait/mean_us") / 1e6);
            Bar {
                way: way(one),
                value: number(one, "/bought") / number(one, "/seconds"),
                remark: format!("average wait {wait}{retries}"),
            }
        })
        .collect();
    let title = "Items bought in a second, by 5 buyers beside 5 listers";
    let file = results.join("market.svg");
    draw_bars(&file, title, &corner(parts, "market"), &bars)
}

/// One picture for each hold time.
fn contention(parts: &Value, results: &Path) -> Result<()> {
    for hold in [0, 1, 10] {
        let points = |pointer, unit| {
            let those = figures(parts, "contention");
            let those = those.filter(|one| number(one, "/hold_ms") == f64::from(hold));
            collect(those, "/clients", pointer, unit)
        };
        let panel = |title, better, scale, series| Panel {
            title,
            across: "clients that want the lock",
            better,
            scale,
            series,
        };
        let panels = [
            panel(
                "grants in a second",
                Better::More,
                Scale::Log(count),
                points("/grants_per_second", 1.0),
            ),
            panel(
                "fairness: 1 if all are granted equally often",
                Better::More,
                Scale::Part,
                points("/fairness", 1.0),
            ),
            panel(
                "wait for the lock, 99th percentile",
                Better::Less,
                Scale::Log(time),
                points("/wait/p99_us", 1e-6),
            ),
            panel(
                "from a release to the next holder, median",
                Better::Less,
                Scale::Log(time),
                points("/without_holder/p50_us", 1e-6),
            ),
            panel(
                "commands that the server runs for a grant",
                Better::Less,
                Scale::Log(times),
                points("/commands_per_grant", 1.0),
            ),
        ];
        let held = match hold {
            0 => "released at once".to_owned(),
            _ => format!("held for {hold} ms each time"),
        };
        let head = Head {
            title: format!("One lock that 2 to 4,096 clients want again and again, {held}"),
            below: "LOCK is this module, the others are what people use instead. \
                    Logarithmic scales, but for fairness.",
            corner: corner(parts, "contention"),
        };
        let file = results.join(format!("contention-{hold}ms.svg"));
        draw_panels(&file, &head, &panels)?;
    }
    Ok(())
}

/// Latency over the length of the queue.
fn handover(parts: &Value, results: &Path) -> Result<()> {
    let panels = [Panel {
        title: "time to the next holder's reply, median",
        across: "clients in the queue",
        better: Better::Less,
        scale: Scale::Log(time),
        series: collect(
            figures(parts, "handover"),
            "/waiters",
            "/latency/p50_us",
            1e-6,
        ),
    }];
    let head = Head {
        title: "From a release to the next holder's reply".to_owned(),
        below: "LOCK is this module. A bare BLPOP is a list with one element: no owner, no expiry, so no lock.",
        corner: corner(parts, "handover"),
    };
    draw_panels(&results.join("handover.svg"), &head, &panels)
}

/// What each thing costs and takes, beside more and more, and with more and more masters.
fn scale(parts: &Value, results: &Path) -> Result<()> {
    const MASTERS: &str = "masters in the cluster";
    for (name, title, below, by, across, in_cluster) in [
        (
            "scale",
            "What an operation costs beside up to a million locks, places or waiters",
            "CPU of the server's process for one of each, and memory by used_memory. \
             LOCK, QUEUE and BLOCK are this module. Logarithmic scales.",
            "/there",
            [
                "locks held meanwhile (SET NX PX: keys)",
                "waiting in the queue",
                "holds that expire at the same moment",
                "how many there are",
            ],
            false,
        ),
        (
            "cluster",
            "What an operation costs with one, three and six masters",
            "CPU of one master's process for one of each, and memory by used_memory. \
             LOCK and QUEUE are this module. Logarithmic scales.",
            "/masters",
            [MASTERS; 4],
            true,
        ),
    ] {
        let points = |what: Option<&str>, pointer, unit| {
            let those = figures(parts, "scale")
                .filter(|one| number(one, "/masters").is_finite() == in_cluster)
                .filter(|one| one.get("beside").and_then(Value::as_str) != Some("other keys"))
                .filter(|one| what.is_none_or(|what| text(one, "what") == what))
                .filter(|one| number(one, pointer).is_finite());
            collect(those, by, pointer, unit)
        };
        let panel = |title, across, scale, series| Panel {
            title,
            across,
            better: Better::Less,
            scale,
            series,
        };
        let cpu = |title, across, what| {
            panel(
                title,
                across,
                Scale::Log(time),
                points(Some(what), "/server_cpu_us", 1e-6),
            )
        };
        let [pair, hand_over, expiry, bytes] = across;
        let panels = [
            cpu("CPU: a lock is acquired and released", pair, "pair"),
            cpu("CPU: a lock goes to the next", hand_over, "hand-over"),
            cpu("CPU: a hold expires, another waits", expiry, "expiry"),
            panel(
                "memory: bytes for each",
                bytes,
                Scale::Log(count),
                points(None, "/bytes_each", 1.0),
            ),
        ];
        let head = Head {
            title: title.to_owned(),
            below,
            corner: corner(parts, "scale"),
        };
        draw_panels(&results.join(format!("{name}.svg")), &head, &panels)?;
    }
    Ok(())
}

fn figures<'a>(parts: &'a Value, part: &str) -> impl Iterator<Item = &'a Value> {
    let figures = parts.get(part).and_then(|part| part.get("figures"));
    figures.and_then(Value::as_array).into_iter().flatten()
}

fn way(figure: &Value) -> &str {
    text(figure, "way")
}

fn text<'a>(figure: &'a Value, name: &str) -> &'a str {
    figure.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Not a number where there is none: it is not drawn.
fn number(figure: &Value, pointer: &str) -> f64 {
    let value = figure.pointer(pointer).and_then(Value::as_f64);
    value.unwrap_or(f64::NAN)
}

/// What stands in the corner: the server, the machine and the day of the measurement.
fn corner(parts: &Value, part: &str) -> String {
    let text = |name: &str| {
        let value = parts.pointer(&format!("/{part}/machine/{name}"));
        match value {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => "?".to_owned(),
        }
    };
    let date = text("date");
    let day = date.split('T').next().unwrap_or_default();
    let processor = text("processor").replace("(R)", "");
    format!(
        "{}, {} cores of {processor}, {day}",
        text("server"),
        text("cores")
    )
}

fn collect<'a>(
    figures: impl Iterator<Item = &'a Value>,
    across: &str,
    up: &str,
    unit: f64,
) -> Vec<Series<'a>> {
    let mut all: Vec<Series<'_>> = Vec::new();
    for figure in figures {
        let point = (number(figure, across), number(figure, up) * unit);
        match all.iter_mut().find(|series| series.way == way(figure)) {
            Some(series) => series.points.push(point),
            None => all.push(Series {
                way: way(figure),
                points: vec![point],
            }),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::fs;

    fn drawn(parts: &Value, picture: &str) -> Result<String> {
        let folder = tempfile::tempdir()?;
        draw_all(parts, folder.path())?;
        Ok(fs::read_to_string(folder.path().join(picture))?)
    }

    #[test]
    fn a_picture_can_be_drawn_of_values_that_are_none() -> Result<()> {
        let waiter = |waiters, p50| json!({ "way": "LOCK", "waiters": waiters, "latency": { "p50_us": p50 } });
        let parts = json!({ "handover": { "figures": [
            waiter(1, json!(5)), waiter(100, json!(0)), waiter(1000, json!(null)),
        ] } });
        let picture = drawn(&parts, "handover.svg")?;
        assert!(
            !picture.contains("NaN") && !picture.contains("inf"),
            "{picture}"
        );
        // What was not measured has no picture.
        assert!(drawn(&json!({}), "market.svg").is_err());
        Ok(())
    }

    #[test]
    fn two_ways_with_the_same_values_do_not_hide_each_other() -> Result<()> {
        let one = |way| json!({ "way": way, "waiters": 1, "latency": { "p50_us": 30 } });
        let parts = json!({ "handover": { "figures": [one("LOCK"), one("bare BLPOP")] } });
        let picture = drawn(&parts, "handover.svg")?;
        let lines = picture.lines().filter(|line| line.contains("<polyline"));
        // Behind them come those of the legend.
        let lines = lines.take(2);
        let spots: Vec<&str> = lines
            .filter_map(|line| line.split("points=").nth(1))
            .collect();
        assert_eq!(spots.len(), 2, "{picture}");
        assert_ne!(spots.first(), spots.get(1));
        Ok(())
    }
}
