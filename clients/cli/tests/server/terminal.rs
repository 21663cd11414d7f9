use crate::support::{Server, Terminal, eventually};
use std::path::Path;
use std::process::Command;

#[test]
fn a_terminal_shows_holders_and_waiters_sorts_them_and_is_restored_when_somebody_quits() {
    let server = Server::start();
    for (lock, ttl) in [("bank", "60000"), ("market", "600000"), ("printer", "5400000")] {
        let _: u64 = server.say(&["LOCK.ACQUIRE", lock, "ann", ttl]);
    }
    let _waiters = ["bob", "eve"].map(|owner| server.waits("market", owner));
    let _one = server.waits("bank", "joe");
    let terminal = Terminal::open(&server, (80, 24));
    let page = terminal.shows(&["3 locks takes", "WAITING 2", "bob", "eve", "q quit"]);
    let order = |page: &str, names: [&str; 3]| {
        let places =
            names.map(|name| page.lines().position(|line| line.starts_with(&format!("{name} "))));
        places.is_sorted() && places.iter().all(Option::is_some)
    };
    assert!(order(&page, ["market", "bank", "printer"]), "{page}");

    terminal.press("Down");
    terminal.shows(&["WAITING 1", "joe"]);
    terminal.press("t");
    eventually("sorted by the time that is left", || {
        let page = terminal.page();
        (order(&page, ["printer", "market", "bank"]), page)
    });
    let _: u64 = server.say(&["LOCK.RELEASE", "printer", "ann"]);
    eventually("a lock that is released goes", || {
        let page = terminal.page();
        (!page.contains("printer"), page)
    });
    terminal.press("p");
    terminal.shows(&["PAUSED"]);
    terminal.press("q");
    terminal.shows(&["ended with 0"]);
    terminal.is_restored();
}

#[test]
fn a_signal_leaves_the_terminal_as_it_was() {
    let server = Server::start();
    let terminal = Terminal::open(&server, (120, 40));
    terminal.shows(&["q quit"]);
    assert!(Command::new("kill").arg(terminal.pid()).status().unwrap().success());
    terminal.shows(&["ended with 143"]);
    terminal.is_restored();
}

#[test]
fn a_server_that_goes_is_told_and_asked_again_until_it_is_back() {
    let mut server = Server::start();
    let terminal = Terminal::open(&server, (80, 24));
    terminal.shows(&["no lock seen so far"]);
    server.stop();
    terminal.shows(&["no connection to the server", "Retrying every 0.2 s."]);
    server.start_again();
    let _: u64 = server.say(&["LOCK.ACQUIRE", "market", "ann", "600000"]);
    terminal.shows(&["market", "HELD BY 1"]);
}

#[test]
fn a_terminal_that_is_closed_ends_it() {
    let server = Server::start();
    let terminal = Terminal::open(&server, (80, 24));
    terminal.shows(&["q quit"]);
    let process = format!("/proc/{}", terminal.pid());
    drop(terminal);
    eventually("it has ended", || {
        let is_there = Path::new(&process).exists();
        (!is_there, format!("{process} is still there"))
    });
}
