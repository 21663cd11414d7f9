//! The references for those who run the server are complete.

use super::files;
use crate::support::*;
use std::fs;

fn page(name: &str) -> String {
    fs::read_to_string(files::root().join(name)).unwrap()
}

#[test]
fn the_page_on_configuration_has_each_setting_with_its_default() {
    let page = page("docs/configuration.md");
    let server = Server::start();
    let all = cmd!(server.client(), "CONFIG", "GET", "lock.*");
    assert!(all.items().len() > 20);
    for setting in all.items().chunks(2) {
        let (name, value) = (setting[0].text(), setting[1].text());
        let default = if value.is_empty() { "none" } else { &value };
        let rows = [" |", " ("].map(|end| format!("\n| `{name}` | {default}{end}"));
        assert!(rows.iter().any(|row| page.contains(row)), "no row {:?}", rows[0]);
    }
}

#[test]
fn the_page_on_metrics_has_each_field_of_info_lock() {
    let page = page("docs/metrics.md");
    let server = Server::start();
    let info = cmd!(server.client(), "INFO", "lock").text();
    let fields = info.lines().filter_map(|line| Some(line.split_once(':')?.0));
    let counters: Vec<_> = fields.take_while(|name| !name.starts_with("lock_memory_")).collect();
    assert!(counters.len() > 25, "{counters:?}");
    for name in counters {
        // The percentiles after the first are named by their ends.
        let short =
            name.trim_start_matches("lock_wait_usec").trim_start_matches("lock_replica_usec");
        assert!(
            page.contains(&format!("`{short}`")) || page.contains(&format!("`{name}`")),
            "{name}"
        );
    }
}
