//! Rights that are taken away while a client waits.

use crate::support::*;

/// A user that may do everything, and who is `name`.
fn allow(client: &mut Client, name: &str) {
    let rules = "reset on nopass ~* &* +@all +lock.acquire +lock.macquire +lock.release";
    assert_eq!(client.run(&words(&format!("ACL SETUSER {name} {rules}"))), "OK");
}

/// A client of this user, which waits in this command.
fn waiter_of(server: &Server, user: &str, command: &Command) -> Client {
    let mut client = server.client();
    assert_eq!(cmd!(client, "AUTH", user, "any"), "OK");
    client.send_and_block(command);
    client
}

fn change(client: &mut Client, user: &str, rules: &[&str]) {
    let mut set = args!["ACL", "SETUSER", user];
    set.extend(rules.iter().map(|rule| rule.to_arg()));
    assert_eq!(client.run(&set), "OK", "{rules:?}");
}

fn acquire() -> Command {
    args!["LOCK.ACQUIRE", "k", "w", LONG, "BLOCK", 0]
}

fn macquire() -> Command {
    args!["LOCK.MACQUIRE", 2, "k", "j", "w", LONG, "BLOCK", 0]
}

const NO_COMMAND: &str = "NOPERM User eve has no permissions to run the '{}' command";
const NO_KEY: &str = "NOPERM No permissions to access a key";

#[test]
fn a_waiter_whose_rights_were_taken_away_is_told_so_and_the_next_has_the_lock() {
    let server = Server::start();
    let mut client = server.client();
    for (command, name) in [(acquire(), "lock.acquire"), (macquire(), "lock.macquire")] {
        let no_command = NO_COMMAND.replace("{}", name);
        let without_it = format!("-{name}");
        for (rules, error) in [
            (&["-@all"][..], &*no_command),
            (&[&*without_it], &no_command),
            (&["resetkeys"], NO_KEY),
            (&["resetkeys", "~other"], NO_KEY),
            (&["resetkeys", "%R~*"], NO_KEY),
        ] {
            for expires in [false, true] {
                let case = format!("{name}, {rules:?}, expires: {expires}");
                allow(&mut client, "eve");
                client.acquire("k", "a");
                let mut waiter = waiter_of(&server, "eve", &command);
                let mut next = server.waiter_for("k", "next");
                change(&mut client, "eve", rules);
                assert!(waiter.still_waits(), "{case}");
                if expires {
                    cmd!(client, "PEXPIRE", "k", 1);
                } else {
                    client.release("k", "a");
                }
                let told = waiter.answer();
                assert_eq!(told, Value::Error(error.to_owned()), "{case}");
                next.answer().fence();
                assert_eq!(client.holder("k"), "next", "{case}");
                client.release("k", "next");
                assert_eq!(cmd!(client, "EXISTS", "k", "j"), 0, "{case}");
            }
        }
    }
}

#[test]
fn a_waiter_that_still_has_the_right_by_a_selector_is_granted_the_lock() {
    let server = Server::start();
    let mut client = server.client();
    for command in [acquire(), macquire()] {
        for rules in [
            &["resetkeys", "~k", "~j"][..],
            &["-@all", "(+lock.acquire +lock.macquire ~k ~j)"],
            &["off"],
        ] {
            allow(&mut client, "eve");
            client.acquire("k", "a");
            let mut waiter = waiter_of(&server, "eve", &command);
            change(&mut client, "eve", rules);
            client.release("k", "a");
            waiter.answer().fence();
            cmd!(client, "LOCK.MRELEASE", 2, "k", "j", "w");
        }
    }
}

/// A server that keeps users out of databases asks for that when they enter one.
#[test]
fn a_waiter_in_another_database_is_granted_the_lock_where_its_user_may_be() {
    let server = Server::start();
    let mut client = server.client();
    let of_databases = server.version().is_valkey() && server.version().is_at_least((0, 0), (9, 1));
    client.select(3);
    allow(&mut client, "eve");
    if of_databases {
        change(&mut client, "eve", &["resetdbs", "db=3"]);
    }
    let waits = |client: &mut Client| {
        client.acquire("k", "a");
        let mut waiter = server.client();
        assert_eq!(cmd!(waiter, "AUTH", "eve", "any"), "OK");
        waiter.select(3);
        waiter.send_and_block(&acquire());
        waiter
    };
    let mut waiter = waits(&mut client);
    client.release("k", "a");
    waiter.answer().fence();
    client.release("k", "w");
    if of_databases {
        let mut waiter = waits(&mut client);
        change(&mut client, "eve", &["resetdbs", "db=0"]);
        client.release("k", "a");
        let error = "NOPERM No permissions to access database";
        assert_eq!(waiter.answer(), Value::Error(error.to_owned()));
    }
}

#[test]
fn a_waiter_of_a_deleted_user_passes_the_lock_on() {
    let server = Server::start();
    let mut client = server.client();
    allow(&mut client, "eve");
    client.acquire("k", "a");
    let mut waiter = waiter_of(&server, "eve", &acquire());
    let mut next = server.waiter_for("k", "next");
    client.transaction(&[args!["ACL", "DELUSER", "eve"], args!["LOCK.RELEASE", "k", "a"]]);
    eventually("its connection is closed", || waiter.try_answer().is_err());
    next.answer().fence();
    assert_eq!(client.holder("k"), "next");
}

/// Where it would crash the server, or be refused without a reason.
#[test]
fn the_module_stays_while_the_rules_of_a_user_name_one_of_its_commands() {
    let server = Server::start();
    skip_unless!(server.version().is_at_least((7, 2), (0, 0)), "it unloads there without harm");
    // Valkey 9.1 refuses it itself.
    let asks_the_module = !server.version().is_at_least((99, 0), (9, 1));
    let mut client = server.client();
    client.acquire("k", "a");
    for (rule, without) in [
        ("+lock.acquire", "-@all"),
        ("-LOCK.BREAK", "+@all"),
        ("(+lock.check ~k)", "clearselectors"),
    ] {
        change(&mut client, "eve", &[rule]);
        assert!(cmd!(client, "MODULE", "UNLOAD", "lock").is_error("ERR"), "{rule}");
        let log = server.log();
        assert!(!asks_the_module || log.contains("the ACL rules of the user \"eve\" name"));
        change(&mut client, "eve", &[without]);
    }
    change(&mut client, "eve", &["~lock.*", "+@write", "+get"]);
    assert_eq!(cmd!(client, "MODULE", "UNLOAD", "lock"), "OK");
    assert_eq!(cmd!(client, "GET", "k"), "a");
}
