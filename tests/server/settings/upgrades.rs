//! The settings when the module is unloaded, and loaded again in the same process.

use super::*;

/// What the log has said since it had so many bytes.
fn said_since(server: &Server, before: usize) -> String {
    server.log().split_off(before)
}

#[test]
fn the_log_names_what_is_not_as_in_the_configuration_file_after_a_load() {
    let server = Server::with()
        .config("lock.max-ttl 600000")
        .config("lock.max-waiters 7")
        .config("lock.quarantine 70")
        .config("lock.orphan-ttl \"80\"")
        .config("lock.claim-time 2000")
        .config("lock.max-place-ttl 7000")
        .config("lock.max-lease 5000")
        .start();
    let started = server.log();
    assert!(!started.contains("settings differ"), "{started}");
    let mut client = server.client();
    let path = server.module_path();
    let before = started.len();
    server.wait_until_unloaded();
    let loaded = client.run(&args![
        "MODULE",
        "LOADEX",
        &path,
        "CONFIG",
        "lock.max-ttl",
        600_000,
        "CONFIG",
        "lock.quarantine",
        71
    ]);
    assert_eq!(loaded, "OK");
    let log = said_since(&server, before);
    let lines: Vec<_> = log.lines().filter(|l| l.contains("settings differ from ")).collect();
    assert_eq!(lines.len(), 1, "{log}");
    let file = server.file("redis.conf");
    let all = format!(
        "settings differ from {}: lock.max-waiters is 10000, not 7, lock.orphan-ttl is 0, not 80, \
         lock.quarantine is 71, not 70, lock.max-place-ttl is 60000, not 7000. ",
        file.display()
    );
    assert!(lines[0].contains(&all), "{}", lines[0]);
}

#[test]
fn the_log_says_at_a_load_that_words_behind_loadmodule_keep_the_server_from_starting_again() {
    let server = Server::start();
    let (mut client, path) = (server.client(), server.module_path());
    server.wait_until_unloaded();
    let file = server.file("redis.conf");
    let text = std::fs::read_to_string(&file).unwrap();
    let line = text.lines().find(|line| line.starts_with("loadmodule ")).unwrap();
    std::fs::write(&file, text.replace(line, &format!("{} max-ttl 5", line.trim_end()))).unwrap();
    let before = server.log().len();
    assert_eq!(cmd!(client, "MODULE", "LOADEX", &path), "OK");
    let log = said_since(&server, before);
    assert!(log.contains("its loadmodule line has arguments"), "{log}");
}

#[test]
fn the_log_of_an_unload_has_the_words_that_bring_the_settings_back() {
    let server = Server::start();
    let mut client = server.client();
    let path = server.module_path();
    set(&mut client, "max-ttl", 600_000);
    set(&mut client, "quarantine", 70);
    set(&mut client, "drain", "yes");
    let before = server.log().len();
    server.wait_until_unloaded();
    let log = said_since(&server, before);
    let (_, words) = (log.lines())
        .find_map(|line| line.split_once("add to MODULE LOADEX: "))
        .unwrap_or_else(|| panic!("{log}"));
    assert_eq!(words, "CONFIG lock.max-ttl 600000 CONFIG lock.quarantine 70");
    let mut load = args!["MODULE", "LOADEX", &path];
    load.extend(words.split(' ').map(|word| word.as_bytes().to_vec()));
    assert_eq!(client.run(&load), "OK");
    for (name, value) in [("max-ttl", "600000"), ("quarantine", "70"), ("drain", "no")] {
        assert_eq!(setting(&mut client, name), value);
    }
    set(&mut client, "max-ttl", 0);
    set(&mut client, "quarantine", 0);
    let before = server.log().len();
    server.wait_until_unloaded();
    let log = said_since(&server, before);
    assert!(!log.contains("add to MODULE LOADEX"), "nothing was set: {log}");
}
