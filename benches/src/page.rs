//! The tables of the pages, filled from the file of figures.
//!
//! A table stands between `<!-- figures: contention clients=64 | way wait/p99_us -->` and `<!-- end -->`: a part, what
//! its figures must be, and the fields that are its columns. Its heading is written by hand and stays.

use crate::words::{count, time, times};
use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value};
use std::fs;
use std::path::Path;

const PAGES: [&str; 2] = ["docs/performance.md", "benches/results/README.md"];
const BEGIN: &str = "<!-- figures: ";
const END: &str = "<!-- end -->";

/// Fills all pages; those of a quick look are written beside its figures.
pub fn fill_all(parts: &Value, results: &Path, is_quick: bool) -> Result<()> {
    for page in PAGES {
        let text = fs::read_to_string(page).with_context(|| format!("could not read {page}"))?;
        let to = match is_quick {
            true => results.join(page.replace('/', "-")),
            false => page.into(),
        };
        let filled = fill(&text, parts).with_context(|| page.to_owned())?;
        fs::write(&to, filled).with_context(|| format!("could not write {}", to.display()))?;
    }
    Ok(())
}

fn fill(page: &str, parts: &Value) -> Result<String> {
    let mut filled = String::new();
    let mut rest = page;
    while let Some((before, begun)) = rest.split_once(BEGIN) {
        let (asked, begun) = begun.split_once(" -->\n").context("a comment without an end")?;
        let (old, after) = begun.split_once(END).context("a table without an end")?;
        let text = match asked {
            "commits" => commits(parts),
            "missed" => missed(parts, old),
            asked => table(asked, old, parts)?,
        };
        filled += &format!("{before}{BEGIN}{asked} -->\n{text}{END}");
        rest = after;
    }
    Ok(filled + rest)
}

/// What its heading is, and a row for each of the figures; as it was, if there are none.
fn table(asked: &str, old: &str, parts: &Value) -> Result<String> {
    let (of, columns) = asked.split_once(" | ").context("a table without columns")?;
    let mut of = of.split(' ');
    let part = of.next().unwrap_or_default();
    let conditions: Vec<(&str, &str)> = of.filter_map(|word| word.split_once('=')).collect();
    let is_asked_for = |one: &&Value| {
        let mut conditions = conditions.iter();
        conditions.all(|(name, value)| one[name].to_string().trim_matches('"') == *value)
    };
    let rows: Vec<String> = list(parts, part, "figures")
        .filter(is_asked_for)
        .map(|one| {
            let cells = columns.split(' ').map(|name| cell(name, one));
            format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
        })
        .collect();
    if rows.is_empty() {
        return Ok(old.to_owned());
    }
    let rule = old.find("\n|---").context("a table without a heading")? + 1;
    let (heading, rest) = old.split_at(rule);
    let rule = rest.lines().next().unwrap_or_default();
    ensure!(
        rule.matches('|').count() == columns.split(' ').count() + 1,
        "{asked}: the heading has other columns"
    );
    Ok(format!("{heading}{rule}\n{}", rows.concat()))
}

pub fn list<'a>(parts: &'a Value, part: &str, name: &str) -> impl Iterator<Item = &'a Value> {
    parts[part][name].as_array().into_iter().flatten()
}

/// Times are kept in microseconds, and their names say so. Nothing for what is not there.
fn cell(name: &str, one: &Value) -> String {
    match one.pointer(&format!("/{name}")) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => {
            let value = number.as_f64().unwrap_or(f64::NAN);
            match number.is_f64() {
                _ if name.ends_with("_us") => time(value / 1e6),
                true => times(value),
                false => count(value),
            }
        }
        _ => String::new(),
    }
}

fn commits(parts: &Value) -> String {
    let mut commits: Map<String, Value> = Map::new();
    for (part, measured) in parts.as_object().into_iter().flatten() {
        let machine = |name| cell(name, &measured["machine"]);
        let (commit, date, server) = (machine("commit"), machine("date"), machine("server"));
        let what = format!(
            "`{commit}` on {date}, {server}, {} cores of {}",
            machine("cores"),
            machine("processor")
        );
        let before = commits.get(&what).and_then(Value::as_str);
        let all = before.map_or(part.clone(), |before| format!("{before}, {part}"));
        commits.insert(what, all.into());
    }
    let each =
        commits.iter().map(|(what, of)| format!("- {what}: {}\n", of.as_str().unwrap_or("")));
    format!("Measured at these commits:\n\n{}", each.collect::<String>())
}

/// The goals that were missed. The reasons are written by hand, and stay with their goals.
fn missed(parts: &Value, old: &str) -> String {
    let parts = parts.as_object().into_iter().flat_map(|parts| parts.values());
    let goals: Vec<&Value> = parts.flat_map(|part| part["goals"].as_array()).flatten().collect();
    let missed = goals.iter().filter(|goal| goal["met"] == false);
    let rows: Vec<String> = missed
        .map(|goal| {
            let name = cell("goal", goal);
            let row = old.lines().find(|row| row.starts_with(&format!("| {name} |")));
            let reason = row.and_then(|row| row.trim_end_matches(" |").rsplit(" | ").next());
            let (wanted, seen) = (cell("wanted", goal), cell("seen", goal));
            format!("| {name} | {wanted} | {seen} | {} |\n", reason.unwrap_or("not known yet"))
        })
        .collect();
    match rows.len() {
        0 => format!("All {} goals were met.\n", goals.len()),
        some => format!(
            "Of {} goals, {some} were missed:\n\n| missed | wanted | measured | because |\n|---|---|---|---|\n{}",
            goals.len(),
            rows.concat()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_table_has_the_rows_and_columns_that_its_page_asks_for_and_all_else_stays() -> Result<()> {
        let page = "a\n<!-- figures: p n=1 | way x/w_us y -->\n| | x | y |\n|---|---|---|\n| old |\n<!-- end -->\nb\n";
        let one = |way, n| json!({ "way": way, "n": n, "x": { "w_us": 1500 } });
        let parts = json!({ "p": { "figures": [one("LOCK", 1), one("LOCK", 2)] } });
        let filled = fill(page, &parts)?;
        assert_eq!(filled, page.replace("| old |", "| LOCK | 1.5 ms |  |"));
        assert_eq!(fill(&filled, &json!({}))?, filled, "without figures a table stays");
        assert!(fill(&page.replace(" y -->", " -->"), &parts).is_err());
        Ok(())
    }

    #[test]
    fn the_reason_why_a_goal_is_missed_stays_with_it() {
        let goal = |goal, met| json!({ "goal": goal, "wanted": "1", "seen": "2", "met": met });
        let parts =
            json!({ "p": { "goals": [goal("a", false), goal("b", true), goal("c", false)] } });
        let filled = missed(&parts, "| a | 1 | 3 | it is slow |\n");
        assert!(filled.starts_with("Of 3 goals, 2 were missed"), "{filled}");
        assert!(
            filled.contains("| a | 1 | 2 | it is slow |\n| c | 1 | 2 | not known yet |\n"),
            "{filled}"
        );
    }

    #[test]
    fn the_pages_can_be_filled_from_the_figures_that_are_committed() -> Result<()> {
        let parts = serde_json::from_str(include_str!("../results/figures.json"))?;
        for page in PAGES {
            let text = fs::read_to_string(Path::new("..").join(page))?;
            assert!(text.contains(BEGIN));
            assert_eq!(fill(&text, &parts)?, text, "{page}: say  make bench DRAW=1");
        }
        Ok(())
    }
}
