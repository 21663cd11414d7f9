//! Those who are called at night find what they were called for.

use super::files;
use std::fs;

#[test]
fn the_page_for_those_who_are_called_says_what_to_do_for_every_alert() {
    let read = |file| fs::read_to_string(files::root().join(file)).unwrap();
    let (rules, page) = (read("docs/monitoring/alerts.yml"), read("docs/runbook.md"));
    let alerts: Vec<&str> =
        (rules.lines()).filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    let unsaid: Vec<_> =
        (alerts.iter()).filter(|alert| !page.contains(&format!("\n| `{alert}` |"))).collect();
    assert!(alerts.len() > 3 && unsaid.is_empty(), "{unsaid:?}");
}
