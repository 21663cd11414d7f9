//! `locktop`: the locks of a server in one screen: who holds them, who waits, and for how long.
//!
//! It asks by `LOCK.SCAN`, `LOCK.INFO` and `INFO`, a bounded number of keys at each refresh, so that a server with a
//! million locks is held up no more than one with ten thousand.

mod cluster;
mod counters;
mod lines;
mod lock;
mod options;
mod page;
mod recent;
mod server;
mod table;
mod terminal;
mod watch;
mod words;

use cluster::Servers;
use options::{HELP, Options};
use page::View;
use server::Trouble;
use std::io::{IsTerminal, Write, stdout};
use std::process::ExitCode;
use std::{env, thread};
use table::Sort;
use watch::{Watch, Wish};

fn main() -> ExitCode {
    let options = match Options::read(env::args().skip(1), env::var("REDISCLI_AUTH").ok()) {
        Ok(Some(options)) => options,
        Ok(None) => return print(HELP),
        Err(wrong) => return complain(&format!("{wrong} (locktop -h)"), 2),
    };
    if options.once {
        return match once(&options) {
            Ok(page) => print(&page),
            Err(trouble) => complain(&format!("{}: {trouble}", options.place()), 1),
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
    let mut server = Servers::connect(options)?;
    let mut watch = Watch::default();
    watch.refresh(&mut server, &wish)?;
    thread::sleep(options.interval);
    watch.refresh(&mut server, &wish)?;

    let rows = watch.table.rows();
    let rows = rows.get(..50).unwrap_or(rows);
    let view = View {
        place: format!("{} db {}", options.place(), options.db),
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

fn print(text: &str) -> ExitCode {
    match stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has gone: it has had enough.
        Err(_) => ExitCode::FAILURE,
    }
}

fn complain(why: &str, code: u8) -> ExitCode {
    eprintln!("locktop: {why}");
    ExitCode::from(code)
}
