//! `redis-lock top`, which is also called `locktop`: who holds, who waits, and for how long, in one screen.
//!
//! It asks by `LOCK.SCAN`, `LOCK.INFO` and `INFO`, a bounded number of keys at each refresh, so that a server with a
//! million locks is held up no more than one with ten thousand.

mod counters;
mod lines;
mod options;
mod page;
mod recent;
mod table;
mod terminal;
mod watch;

use crate::cluster::Servers;
use crate::place::Environment;
use crate::server::Trouble;
use crate::{complain, print};
use options::{Options, help};
use page::View;
use std::env;
use std::io::{IsTerminal, stdout};
use std::process::ExitCode;
use std::thread;
use table::Sort;
use watch::{Watch, Wish};

/// Shows the locks until its user quits, or once.
pub fn top(words: impl IntoIterator<Item = String>) -> ExitCode {
    let options = match Options::read(words, Environment::read()) {
        Ok(Some(options)) => options,
        Ok(None) => return print(&help()),
        Err(wrong) => return complain(&format!("{wrong} (redis-lock top -h)"), 2),
    };
    if options.once {
        return match once(&options) {
            Ok(page) => print(&page),
            Err(trouble) => complain(&format!("{}: {trouble}", options.place.name()), 1),
        };
    }
    if !stdout().is_terminal() {
        return complain("this is no terminal: say --once for a page of plain text", 2);
    }
    match terminal::run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(&error.to_string(), 1),
    }
}

/// A page for scripts: rates need two refreshes.
fn once(options: &Options) -> Result<String, Trouble> {
    let wish = Wish {
        sort: Sort::default(),
        rows: 50,
        selected: None,
        keys: options.keys,
        patience: options.interval,
    };
    let mut server = Servers::connect(&options.place, options.node, options.all)?;
    let mut watch = Watch::default();
    watch.refresh(&mut server, &wish)?;
    thread::sleep(options.interval);
    watch.refresh(&mut server, &wish)?;

    let rows = watch.table.rows();
    let rows = rows.get(..50).unwrap_or(rows);
    let view = View {
        place: format!("{} db {}", options.place.name(), options.place.db),
        corner: String::new(),
        watch: &watch,
        rows,
        sort: wish.sort,
        selected: 0,
        trouble: None,
        keys: false,
    };
    let width = env::var("COLUMNS").ok().and_then(|width| width.parse().ok()).unwrap_or(120);
    let text = page::text(&view, width, page::height(rows.len()));
    Ok(text.trim_end().to_owned() + "\n")
}
