//! What an operator may set: where it is said, what it may be, that it is kept, and what it does.

mod drain;
mod orphans;
mod quarantine;
mod queues;
mod upgrades;

use crate::support::*;

/// Every setting: its default, the least and the most that it may be.
const NUMBERS: [(&str, i64, i64, i64); 12] = [
    ("max-ttl", 0, 0, (1 << 53) - 1),
    ("max-waiters", 10_000, 0, 1_000_000_000),
    ("max-waiters-total", 100_000, 0, 1_000_000_000),
    ("max-sharers", 1_000, 1, 1_000),
    ("fence-lead", 604_800_000, 0, 315_360_000_000),
    ("orphan-ttl", 0, 0, (1 << 53) - 1),
    ("quarantine", 0, 0, 86_400_000),
    ("max-place-ttl", 60_000, 0, (1 << 53) - 1),
    ("claim-time", 2_000, 1, 86_400_000),
    ("replicas", 0, 0, 64),
    ("replica-timeout", 1_000, 1, 86_400_000),
    ("log-max-len", 128, 0, 1_000),
];

/// What a setting is now.
#[track_caller]
fn setting(client: &mut Client, name: &str) -> String {
    let name = format!("lock.{name}");
    cmd!(client, "CONFIG", "GET", &name)[name.as_str()].text()
}

#[track_caller]
fn set(client: &mut Client, name: &str, value: impl Arg) {
    let name = format!("lock.{name}");
    assert_eq!(cmd!(client, "CONFIG", "SET", &name, value), "OK");
}

#[test]
fn every_setting_has_its_default() {
    let server = Server::start();
    let mut client = server.client();
    for (name, default, ..) in NUMBERS {
        assert_eq!(setting(&mut client, name), default.to_string(), "{name}");
    }
    assert_eq!(setting(&mut client, "drain"), "no");
    assert_eq!(setting(&mut client, "classes"), "");
    let all = cmd!(client, "CONFIG", "GET", "lock.*");
    assert_eq!(all.items().len(), 2 * (NUMBERS.len() + 2), "{all:?}");
}

#[test]
fn a_value_out_of_its_range_is_refused_in_the_servers_words_and_nothing_changes() {
    let server = Server::start();
    let mut client = server.client();
    for (name, _, least, most) in NUMBERS {
        for value in [least, least + 1, most] {
            set(&mut client, name, value);
            assert_eq!(setting(&mut client, name), value.to_string(), "{name}");
        }
        set(&mut client, name, 7);
        let full_name = format!("lock.{name}");
        let numbers = [least - 1, most + 1].map(|number| number.to_string());
        for wrong in numbers.into_iter().chain(["soon".to_owned()]) {
            let answer = cmd!(client, "CONFIG", "SET", &full_name, &wrong);
            assert!(answer.is_error("ERR CONFIG SET failed"), "{name}: {answer:?}");
            assert_eq!(setting(&mut client, name), "7", "{name} {wrong}");
        }
    }
    let answer = cmd!(client, "CONFIG", "SET", "lock.drain", "maybe");
    assert!(answer.is_error("ERR CONFIG SET failed"), "{answer:?}");
    set(&mut client, "drain", "yes");
    assert_eq!(setting(&mut client, "drain"), "yes");
}

/// The server sets the first, refuses the second, and sets the first back.
#[test]
fn settings_of_which_one_is_refused_do_nothing_not_even_for_a_moment() {
    let server = Server::start();
    let mut client = server.client();
    set(&mut client, "classes", "k*");
    let mut holder = server.client();
    let first = holder.acquire("k", "a");
    holder.run(&args!["LOCK.ACQUIRE", "lost", "a", LONG]).fence();
    cmd!(holder, "LOCK.CHECK", "lost", "a");
    cmd!(holder, "DEL", "lost");
    cmd!(holder, "LOCK.RELEASE", "lost", "a");
    assert_eq!(cmd!(client, "LOCK.ACQUIRE", "k", "b", LONG, "QUEUE", 60_000), -1);
    let refused = ["lock.claim-time", "maxmemory-policy"];
    let figures = |client: &mut Client| {
        let class = client.info("lock_classes")["lock_class_k*"].clone();
        (cmd!(client, "LOCK.LOG").items().len(), class, client.info("lock")["lock_places"].clone())
    };
    let before = figures(&mut client);
    for other in refused {
        for (name, value) in [
            ("fence-lead", "315360000000"),
            ("drain", "yes"),
            ("log-max-len", "0"),
            ("classes", ""),
        ] {
            let is = setting(&mut client, name);
            let name = format!("lock.{name}");
            let answer = cmd!(client, "CONFIG", "SET", &name, value, other, "none of these");
            assert!(answer.is_error("ERR CONFIG SET failed"), "{name}: {answer:?}");
            assert_eq!(cmd!(client, "CONFIG", "GET", &name)[name.as_str()].text(), is);
        }
    }
    assert_eq!(figures(&mut client), before);
    let next = client.acquire("free", "a");
    assert!(next - first < 600_000_000_000, "from {first} to {next}");
}

#[test]
fn a_setting_may_be_said_in_the_configuration_file_and_to_module_loadex() {
    let server = Server::with().config("lock.quarantine 7").config("lock.drain yes").start();
    let mut client = server.client();
    assert_eq!(setting(&mut client, "quarantine"), "7");
    assert_eq!(setting(&mut client, "drain"), "yes");
    assert_eq!(setting(&mut client, "max-ttl"), "0");

    let path = server.module_path();
    server.wait_until_unloaded();
    let loaded = cmd!(client, "MODULE", "LOADEX", &path, "CONFIG", "lock.max-waiters", 3);
    assert_eq!(loaded, "OK");
    assert_eq!(setting(&mut client, "max-waiters"), "3");
    assert_eq!(setting(&mut client, "drain"), "no", "it begins anew");
}

#[test]
fn a_server_whose_file_lets_more_share_a_lock_than_may_starts_and_its_log_says_what_counts() {
    let server = Server::with().config("lock.max-sharers 5000").start();
    let mut client = server.client();
    assert_eq!(setting(&mut client, "max-sharers"), "1000");
    let warning = "lock.max-sharers 5000 exceeds the maximum and counts as 1000";
    assert!(server.log().contains(warning), "{}", server.log());
    let refused = cmd!(client, "CONFIG", "SET", "lock.max-sharers", 5000);
    assert!(refused.is_error("ERR CONFIG SET failed"), "{refused:?}");
    assert!(refused.error().contains("between 1 and 1000 inclusive"), "{refused:?}");
    // The words of an old load likewise.
    let path = server.module_path();
    server.wait_until_unloaded();
    let load = cmd!(client, "MODULE", "LOADEX", &path, "CONFIG", "lock.max-sharers", 10_000);
    assert_eq!(load, "OK");
    assert_eq!(setting(&mut client, "max-sharers"), "1000");
    assert!(
        server.log().contains("lock.max-sharers 10000 exceeds the maximum"),
        "{}",
        server.log()
    );
    assert!(!server.log().contains("settings differ"), "{}", server.log());
}

#[test]
fn settings_are_kept_by_config_rewrite_and_a_restart() {
    let server = Server::start();
    let mut client = server.client();
    for (name, ..) in NUMBERS {
        set(&mut client, name, 57);
    }
    set(&mut client, "drain", "yes");
    set(&mut client, "classes", "job:* [a-c]?");
    assert_eq!(cmd!(client, "CONFIG", "REWRITE"), "OK");
    server.restart();
    let mut client = server.client();
    for (name, ..) in NUMBERS {
        assert_eq!(setting(&mut client, name), "57", "{name}");
    }
    assert_eq!(setting(&mut client, "drain"), "yes");
    assert_eq!(setting(&mut client, "classes"), "job:* [a-c]?");
}

/// What the old name of `max-place-ttl` says is what the new one says.
#[track_caller]
fn place_ttl(client: &mut Client) -> String {
    let said = setting(client, "max-place-ttl");
    assert_eq!(setting(client, "max-lease"), said);
    said
}

#[test]
fn the_old_name_of_max_place_ttl_works_wherever_it_is_said() {
    for (file, said) in [
        ("lock.max-lease 7000", "7000"),
        ("lock.max-place-ttl 7000", "7000"),
        ("lock.max-place-ttl 7000\nlock.max-lease 5000", "7000"),
        ("lock.max-lease 5000\nlock.max-place-ttl 7000", "7000"),
    ] {
        let server = Server::with().config(file).start();
        let mut client = server.client();
        assert_eq!(place_ttl(&mut client), said, "{file}");
        let ask = args!["LOCK.ACQUIRE", "k", "a", LONG, "QUEUE", 7001];
        assert!(client.run(&ask).is_error("ERR lease must be 1 to 7000 milliseconds "), "{file}");
    }
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(place_ttl(&mut client), "60000");
    for (name, value) in [("max-lease", "5"), ("max-place-ttl", "60000"), ("max-lease", "0")] {
        set(&mut client, name, value);
        assert_eq!(place_ttl(&mut client), value, "{name}");
    }
    let refused = cmd!(client, "CONFIG", "SET", "lock.max-lease", 9, "lock.claim-time", 0);
    assert!(refused.is_error("ERR CONFIG SET failed"), "{refused:?}");
    assert_eq!(place_ttl(&mut client), "0");
    let path = server.module_path();
    server.wait_until_unloaded();
    let load = args!["MODULE", "LOADEX", &path, "CONFIG", "lock.max-lease", 3];
    assert_eq!(client.run(&load), "OK");
    assert_eq!(place_ttl(&mut client), "3");
}

#[test]
fn config_rewrite_says_the_same_by_both_names_of_max_place_ttl() {
    let server = Server::with().config("lock.max-lease 7000").start();
    for (name, value) in [("max-lease", "7000"), ("max-place-ttl", "60000"), ("max-lease", "5")] {
        let mut client = server.client();
        set(&mut client, name, value);
        assert_eq!(cmd!(client, "CONFIG", "REWRITE"), "OK");
        server.restart();
        assert_eq!(place_ttl(&mut server.client()), value, "{name}");
    }
    let server = Server::with().config("lock.max-place-ttl 60000").start();
    assert_eq!(cmd!(server.client(), "CONFIG", "REWRITE"), "OK");
    let file = std::fs::read_to_string(server.file("redis.conf")).unwrap();
    assert!(!file.contains("max-lease"), "{file}");
}

#[test]
fn words_behind_loadmodule_keep_the_module_out_and_the_log_says_where_settings_go() {
    for words in ["max-ttl 600000", "lock.drain yes", "x"] {
        let log = Server::with().module_args(words).fail_to_start();
        let lines: Vec<_> = log.lines().filter(|l| l.contains("> not loaded: ")).collect();
        assert_eq!(lines.len(), 1, "{words}: {log}");
        let first = words.split(' ').next().unwrap();
        for said in [&format!("such as {first:?}"), "lock.max-ttl 60000", "--lock.max-ttl"] {
            assert!(lines[0].contains(said), "{words}: {log}");
        }
    }
}

#[test]
fn a_server_that_has_refused_the_module_for_its_words_takes_it_without_them() {
    let server = Server::start();
    let mut client = server.client();
    let path = server.module_path();
    server.wait_until_unloaded();
    for _ in 0..2 {
        let answer = cmd!(client, "MODULE", "LOAD", &path, "max-ttl", 5);
        assert!(answer.is_error("ERR Error loading"), "{answer:?}");
        assert_eq!(cmd!(client, "CONFIG", "GET", "lock.*").items().len(), 0);
        let answer = cmd!(client, "LOCK.ACQUIRE", "k", "a", LONG);
        assert!(answer.is_error("ERR unknown command"), "{answer:?}");
    }
    assert_eq!(cmd!(client, "MODULE", "LOADEX", &path, "CONFIG", "lock.max-ttl", 50), "OK");
    assert!(cmd!(client, "LOCK.ACQUIRE", "k", "a", 51).is_error("ERR invalid expire"));
    cmd!(client, "LOCK.ACQUIRE", "k", "a", 50).fence();
}

#[test]
fn a_category_for_all_the_commands_lets_a_user_run_them_and_nothing_else() {
    let server = Server::start();
    let version = server.version();
    skip_unless!(version.is_at_least((7, 4), (8, 0)), "modules may have no category there");
    let mut client = server.client();
    let answer = client.run(&args!["ACL", "SETUSER", "u", "on", "nopass", "~*", "-@all", "+@lock"]);
    assert_eq!(answer, "OK");
    let mut user = server.client();
    assert_eq!(cmd!(user, "AUTH", "u", "any"), "OK");
    user.acquire("k", "a");
    assert_eq!(cmd!(user, "LOCK.CHECK", "k", "n"), Value::Nil);
    user.acquire_all(&["x", "y"], "a");
    assert!(cmd!(user, "GET", "k").is_error("NOPERM"));
    if version.is_at_least((8, 0), (8, 1)) {
        let listed = cmd!(client, "ACL", "CAT", "lock");
        assert!(listed.items().iter().any(|name| *name == "lock.mrenew"));
    }
    // A category stays behind when its module goes: it must not stop the next.
    let path = server.module_path();
    server.wait_until_unloaded();
    assert_eq!(cmd!(client, "MODULE", "LOAD", &path), "OK");
    assert_eq!(cmd!(user, "LOCK.CHECK", "k", "n"), Value::Nil);
    user.acquire("after", "a");
}

/// Each way to ask for a hold of so many milliseconds; `held` is held by `a`, `shared` is shared.
fn askings(ttl: i64) -> Vec<Command> {
    vec![
        args!["LOCK.ACQUIRE", "held", "a", ttl],
        args!["LOCK.ACQUIRE", "shared", "a", ttl, "SHARED"],
        args!["LOCK.ACQUIRE", "shared", "b", ttl, "LIMIT", 5],
        args!["LOCK.ACQUIRE", "held", "b", ttl, "BLOCK", 1],
        args!["LOCK.MACQUIRE", 2, "held", "free", "a", ttl],
        args!["LOCK.RENEW", "held", "a", ttl],
        args!["LOCK.MRENEW", 1, "held", "a", ttl],
    ]
}

#[test]
fn a_longer_ttl_than_max_ttl_is_refused_whichever_owner_asks_and_however() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("held", "a");
    client.share("shared", "a");
    let deadlines = |client: &mut Client| {
        ["held", "shared", "free"].map(|key| cmd!(client, "PEXPIRETIME", key).int())
    };
    let before = deadlines(&mut client);
    set(&mut client, "max-ttl", 5000);
    assert_eq!(deadlines(&mut client), before, "what is held stays held");
    for command in askings(5001) {
        let text = String::from_utf8_lossy(&command[0]).to_ascii_lowercase();
        let refusal = format!("ERR invalid expire time in '{text}' command");
        assert!(client.run(&command).is_error(&refusal), "{text}");
        let inside = client.transaction(std::slice::from_ref(&command));
        assert!(inside[0].is_error(&refusal), "{text}: {inside:?}");
        let in_lua = client.run(&in_lua(&command));
        assert!(in_lua.is_error(&refusal), "{text}: {in_lua:?}");
    }
    assert_eq!(deadlines(&mut client), before);
    for command in askings(5000) {
        let answer = client.run(&command);
        assert!(!answer.is_error(""), "{command:?}: {answer:?}");
    }
    set(&mut client, "max-ttl", 0);
    for command in askings(1 << 40) {
        let answer = client.run(&command);
        assert!(!answer.is_error(""), "{command:?}: {answer:?}");
    }
}

#[test]
fn a_new_servers_numbers_are_ahead_of_its_clock_by_fence_lead() {
    let server = Server::with().config("lock.fence-lead 600000").start();
    let ahead = server.fence_ahead_of_clock("k");
    // A start may take seconds on a busy machine, and the clock goes on meanwhile.
    assert!((570_000_000..=600_000_000).contains(&ahead), "{ahead}");
}

#[test]
fn a_promoted_server_is_ahead_by_the_lead_that_was_set_meanwhile() {
    let master = Server::start();
    let replica = master.replica();
    set(&mut replica.client(), "fence-lead", 1_200_000_000);
    replica.promote();
    let ahead = replica.fence_ahead_of_clock("k");
    assert!((1_199_970_000_000..=1_200_000_000_001).contains(&ahead), "{ahead}");
}
