//! A command under a lock as a job of a shell.

use crate::support::{Server, Terminal, eventually, runs};

fn run(words: &str) -> String {
    format!("{} run k {words}", env!("CARGO_BIN_EXE_redis-lock"))
}

#[test]
fn a_command_has_the_terminal_and_reads_what_is_typed() {
    let server = Server::start();
    let shell = Terminal::shell(&server);
    shell.shows(&["ready"]);
    shell.enter(&run("-- sh -c 'read line; echo it was ${line}s'"));
    eventually("it holds the lock", || {
        let held: u64 = server.say(&["EXISTS", "k"]);
        (held == 1, shell.page())
    });
    shell.enter("word");
    shell.shows(&["it was words"]);
    shell.enter("echo status $?");
    shell.shows(&["status 0"]);
}

#[test]
fn ctrl_c_ends_the_command_and_the_lock_is_free() {
    let server = Server::start();
    let shell = Terminal::shell(&server);
    shell.shows(&["ready"]);
    shell.enter(&run("-- sh -c 'echo $$ >pid; sleep 600; echo too far'; echo status $?"));
    eventually("it runs", || (!shell.read("pid").is_empty(), shell.page()));
    shell.press("C-c");
    shell.shows(&["status 130"]);
    assert!(!shell.page().contains("too far\n"));
    let held: u64 = server.say(&["EXISTS", "k"]);
    assert_eq!(held, 0);
}

#[test]
fn ctrl_z_stops_the_job_its_lock_is_kept_and_it_goes_on_in_the_foreground() {
    let server = Server::start();
    let shell = Terminal::shell(&server);
    shell.shows(&["ready"]);
    shell.enter(&run("--ttl 1s -- sh -c 'echo $$ >pid; read line; echo it was ${line}s'"));
    eventually("it runs", || (!shell.read("pid").is_empty(), shell.page()));
    shell.press("C-z");
    shell.shows(&["Stopped"]);
    // Longer than the ttl.
    let before = crate::support::uptime();
    eventually("its lock is renewed", || {
        let held: u64 = server.say(&["EXISTS", "k"]);
        assert_eq!(held, 1);
        (crate::support::uptime() - before > 1.5, String::new())
    });
    assert!(runs(&shell.read("pid")));
    shell.enter("fg");
    let pid = shell.read("pid");
    eventually("it has the terminal", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let (_, behind) = stat.rsplit_once(") ").unwrap();
        (behind.split(' ').nth(5) == Some(pid.as_str()), stat.clone())
    });
    shell.enter("word");
    shell.shows(&["it was words"]);
    shell.enter("echo status $?");
    shell.shows(&["status 0"]);
}

#[test]
fn in_a_pipeline_the_other_commands_keep_the_terminal() {
    let server = Server::start();
    let shell = Terminal::shell(&server);
    shell.shows(&["ready"]);
    let line = run("-- echo one | (cat; read line </dev/tty; echo then ${line}s)");
    shell.enter(&line);
    shell.shows(&["\none"]);
    shell.enter("word");
    shell.shows(&["then words"]);
}
