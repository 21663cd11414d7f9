//! Who may have a message published, and by whose rights a place is served.

use super::*;

const NO_PUBLISH: &str = "NOPERM User eve has no permissions to run the 'publish' command";
const NO_CHANNEL: &str = "NOPERM No permissions to access a channel";

/// Sets this user's rights; a name alone would leave it what it has.
#[track_caller]
fn set_user(client: &mut Client, name: &str, rules: &str) {
    let mut set = args!["ACL", "SETUSER", name, "reset", "on", "nopass"];
    set.extend(rules.split_whitespace().map(|rule| rule.to_arg()));
    assert_eq!(client.run(&set), "OK", "{rules}");
}

fn client_of(server: &Server, user: &str) -> Client {
    let mut client = server.client();
    assert_eq!(cmd!(client, "AUTH", user, "any"), "OK");
    client
}

fn macquire_notified(owner: &str) -> Command {
    args!["LOCK.MACQUIRE", 2, "k", "j", owner, LONG, "QUEUE", LEASE, "NOTIFY", "ch", "m"]
}

#[test]
fn a_message_takes_the_rights_that_publishing_it_would_take() {
    let server = Server::start();
    let mut admin = server.client();
    const ALL: &str = "+lock.acquire +lock.macquire +lock.mrelease +eval +multi +exec";
    for (rules, error) in [
        ("~* &*", Some(NO_PUBLISH)),
        ("~* &ch", Some(NO_PUBLISH)),
        ("~* +publish resetchannels", Some(NO_CHANNEL)),
        ("~* +publish resetchannels &other", Some(NO_CHANNEL)),
        ("~* +publish &*", None),
        ("~* +publish resetchannels &ch", None),
        ("~* +publish resetchannels &c?", None),
    ] {
        set_user(&mut admin, "eve", &format!("{ALL} {rules}"));
        let mut eve = client_of(&server, "eve");
        for command in [notified("k", "a", "ch", "m"), macquire_notified("a")] {
            let answers = [
                eve.run(&command),
                eve.run(&in_lua(&command)),
                eve.transaction(std::slice::from_ref(&command)).remove(0),
            ];
            for answer in answers {
                match error {
                    Some(error) => assert!(answer.is_error(error), "{rules}: {answer:?}"),
                    None => _ = answer.fence(),
                }
            }
            let exist = cmd!(admin, "EXISTS", "k", "j");
            assert_eq!(exist == 0, error.is_some(), "{rules}");
            cmd!(eve, "LOCK.MRELEASE", 2, "k", "j", "a");
        }
        // Without a message no right to a channel is asked for.
        eve.run(&queue("k", "a")).fence();
        cmd!(eve, "LOCK.MRELEASE", 1, "k", "a");
    }
}

#[test]
fn rights_by_a_selector_count_together_as_they_do_for_publish() {
    let server = Server::start();
    let mut admin = server.client();
    for (rules, error) in
        [("resetchannels (+publish &ch)", None), ("resetchannels +publish (&ch)", Some(NO_PUBLISH))]
    {
        set_user(&mut admin, "eve", &format!("~* +lock.acquire {rules}"));
        let mut eve = client_of(&server, "eve");
        let published = cmd!(eve, "PUBLISH", "ch", "m");
        assert_eq!(published.is_error("NOPERM"), error.is_some(), "{rules}");
        let answer = eve.run(&notified("k", "a", "ch", "m"));
        match error {
            Some(_) => assert!(answer.is_error("NOPERM"), "{rules}: {answer:?}"),
            None => _ = answer.fence(),
        }
    }
}

/// Valkey from 9.1 on keeps users to databases; a channel is in none.
#[test]
fn a_user_that_is_kept_to_a_database_may_have_a_message_published() {
    let server = Server::start();
    let has_them = server.version().is_valkey() && server.version().is_at_least((0, 0), (9, 1));
    skip_unless!(has_them, "it has no rights to databases");
    let mut admin = server.client();
    set_user(&mut admin, "eve", "~* &* +@all +lock.acquire resetdbs db=3");
    let mut eve = client_of(&server, "eve");
    eve.select(3);
    let published = cmd!(eve, "PUBLISH", "ch", "m");
    assert_eq!(published, 0);
    eve.run(&notified("k", "a", "ch", "m")).fence();
}

#[test]
fn in_a_cluster_the_channel_is_in_the_slot_of_the_keys() {
    let cluster = Cluster::start(1);
    let mut client = cluster.client(0);
    for channel in ["ch", "{k}x", "{j}:ch"] {
        let answer = client.run(&notified("{m}k", "a", channel, "m"));
        assert!(answer.is_error("CROSSSLOT"), "{channel}: {answer:?}");
    }
    assert_eq!(cmd!(client, "EXISTS", "{m}k"), 0);
    client.run(&notified("{m}k", "a", "{m}:ch", "m")).fence();
    client.run(&notified("k", "a", "k", "m")).fence();
    let mut both = args!["LOCK.MACQUIRE", 2, "{n}k", "{n}j", "a", LONG, "QUEUE", LEASE];
    both.extend(args!["NOTIFY", "ch", "m"]);
    assert!(client.run(&both).is_error("CROSSSLOT"));
}

#[test]
fn in_a_cluster_a_message_takes_the_rights_to_spublish() {
    let cluster = Cluster::start(1);
    let mut admin = cluster.client(0);
    for (rules, error) in [
        ("+publish &*", Some("NOPERM User eve has no permissions to run the 'spublish' command")),
        ("+spublish resetchannels &other", Some(NO_CHANNEL)),
        ("+spublish resetchannels &k*", None),
    ] {
        set_user(&mut admin, "eve", &format!("~* +lock.acquire +lock.release {rules}"));
        let mut eve = client_of(cluster.node(0), "eve");
        let answer = eve.run(&notified("k", "a", "k", "m"));
        match error {
            Some(error) => assert!(answer.is_error(error), "{rules}: {answer:?}"),
            None => _ = answer.fence(),
        }
    }
}

/// Servers have no user for what a module calls, and crash when they are asked for its name.
#[test]
fn a_call_of_another_modules_has_no_user_and_is_served_wherever_it_is_made() {
    let server = Server::with().with_neighbour().start();
    let mut client = server.client();
    let by_neighbour = |command: Command| [args!["NEIGHBOUR.CALL"], command].concat();
    client.acquire("k", "a");
    client.acquire("j", "b");
    assert_eq!(client.run(&queue("k", "b")), -1);
    // It would wait for itself, and its caller is asked for rights to what the error names.
    let refused = by_neighbour(notified("j", "a", "ch", "m"));
    let placed = by_neighbour(notified("k", "c", "ch", "m"));
    for (command, is_placed) in [(refused, false), (placed, true)] {
        let answers = [
            client.run(&command),
            client.run(&in_lua(&command)),
            client.transaction(std::slice::from_ref(&command)).remove(0),
            client.transaction(&[in_lua(&command)]).remove(0),
        ];
        for answer in answers {
            match is_placed {
                true => assert_eq!(answer, -2),
                false => assert!(answer.is_error("DEADLOCK"), "{answer:?}"),
            }
        }
    }
}
