use crate::support::Server;

fn page(server: &Server, words: &[&str]) -> String {
    let said = server.locktop(words);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    String::from_utf8(said.stdout).unwrap()
}

/// What it complains of, and how it ends.
fn complaint(server: &Server, words: &[&str]) -> String {
    let said = server.locktop(words);
    assert_eq!((said.status.code(), said.stdout.len()), (Some(1), 0));
    String::from_utf8(said.stderr).unwrap()
}

#[test]
fn a_page_says_who_holds_and_who_waits() {
    let server = Server::start();
    let _: u64 = server.say(&["LOCK.ACQUIRE", "market", "ann", "600000"]);
    let _bob = server.waits("market", "bob");
    let _eve = server.waits("market", "eve");
    let _: u64 =
        server.say(&["LOCK.ACQUIRE", "printer\r\n\u{1b}[2J", "ann", "600000", "LIMIT", "2"]);
    let page = page(&server, &["--once"]);
    let row = |name: &str| {
        page.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{page}"))
    };
    let market: Vec<&str> = row("market").split_whitespace().collect();
    assert_eq!(market[..3], ["market", "excl", "2"], "{page}");
    assert!(market.contains(&"9m59s") && market.ends_with(&["ann"]), "{page}");
    assert!(row("printer\\r\\n\\x1b[2J").contains("shared"), "{page}");
    assert!(page.contains("HELD BY 1") && page.contains("WAITING 2"), "{page}");
    assert!(page.contains("bob") && page.contains("eve"), "{page}");
    assert!(page.contains("1 locks with a queue, all found; a round of 2 locks takes"), "{page}");
    assert!(page.contains("waiting 2  last minute: most 2  longest "), "{page}");
    assert!(page.contains("since load: most 2  waits: half "), "{page}");
    assert!(page.is_ascii(), "{page}");
}

#[test]
fn names_in_any_language_are_shown_as_they_are() {
    let server = Server::start();
    let _: u64 = server.say(&["LOCK.ACQUIRE", "Überweisung", "jürgen", "600000"]);
    let page = page(&server, &["--once"]);
    let row = page.lines().find(|line| line.starts_with("Überweisung")).unwrap();
    assert!(row.ends_with("jürgen"), "{page}");
}

#[test]
fn what_other_clients_have_set_is_there_with_all() {
    let server = Server::start();
    let _: String = server.say(&["SET", "elsewhere", "token", "NX", "PX", "600000"]);
    assert!(!page(&server, &["--once"]).contains("elsewhere"));
    assert!(page(&server, &["--once", "--all"]).contains("elsewhere"));
}

#[test]
fn rates_are_by_the_second() {
    let server = Server::start();
    let worker = std::thread::scope(|scope| {
        let page = scope.spawn(|| page(&server, &["--once", "--interval", "1"]));
        while !page.is_finished() {
            let _: u64 = server.say(&["LOCK.ACQUIRE", "market", "ann", "600000"]);
            let _: u64 = server.say(&["LOCK.RELEASE", "market", "ann"]);
            let _: u64 = server.say(&["LOCK.ACQUIRE", "market", "ben", "600000"]);
            let _: u64 = server.say(&["LOCK.BREAK", "market"]);
            let _: u64 = server.say(&["LOCK.RELEASE", "market", "ben"]);
        }
        page.join().unwrap()
    });
    assert!(worker.contains("granted ") && !worker.contains("granted 0/s"), "{worker}");
    assert!(worker.contains("too late: release ") && !worker.contains("release 0/s"), "{worker}");
}

#[test]
fn a_server_without_the_module_and_none_at_all_are_told_plainly() {
    let mut server = Server::without_module();
    let said = complaint(&server, &["--once"]);
    assert!(said.contains("this server has no module redis-lock"), "{said}");
    server.stop();
    let said = complaint(&server, &["--once"]);
    assert!(said.contains("no connection to the server: Connection refused"), "{said}");
}

#[test]
fn a_missing_right_is_told_with_its_command_and_keys_that_may_not_be_read_are_counted() {
    let server = Server::start();
    let allow = |words: &[&str]| {
        let user = ["ACL", "SETUSER", "watcher", "reset", "on", ">secret"];
        let _: String = server.say(&[&user, words].concat());
    };
    let login = ["--user", "watcher", "--pass", "secret", "--once"];
    for (rights, missing) in [
        (&["~*"][..], "INFO"),
        (&["~*", "+info"], "LOCK.SCAN"),
        (&["~*", "+info", "+lock.scan"], "LOCK.INFO"),
    ] {
        let _: Option<u64> = server.say(&["LOCK.ACQUIRE", "market", "ann", "600000"]);
        allow(rights);
        let said = complaint(&server, &login);
        assert!(said.contains(&format!("this user may not run {missing} (NOPERM")), "{said}");
    }
    let _: Option<u64> = server.say(&["LOCK.ACQUIRE", "bank", "ann", "600000"]);
    allow(&["~bank", "+info", "+lock.scan", "+lock.info"]);
    let page = page(&server, &login);
    assert!(
        page.contains("1 may not be read") && page.contains("bank") && !page.contains("market"),
        "{page}"
    );
    let said = complaint(&server, &["--user", "watcher", "--pass", "wrong", "--once"]);
    assert!(said.contains("wrong user or password"), "{said}");
}
