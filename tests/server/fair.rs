//! LIMIT n FAIR [PER m]: a limit that is fair between tenants.

use crate::support::*;

/// Asks for a share of this pool, in these words.
fn asks(owner: &str, words: &str) -> Command {
    let mut command = args!["LOCK.ACQUIRE", "pool", owner, LONG];
    command.extend(words.split_whitespace().map(|word| word.as_bytes().to_vec()));
    command
}

fn takes(client: &mut Client, owner: &str, words: &str) {
    let reply = client.run(&asks(owner, words));
    assert!(matches!(reply, Value::Int(1..)), "{owner} {words}: {reply:?}");
}

#[test]
fn a_tenant_that_floods_keeps_no_other_waiting() {
    let server = Server::start();
    let mut client = server.client();
    takes(&mut client, "ann:1", "LIMIT 2 FAIR");
    takes(&mut client, "ann:2", "LIMIT 2 FAIR");
    for number in 0..200 {
        let place = client.run(&asks(&format!("ann:w{number}"), "LIMIT 2 FAIR QUEUE 60000"));
        assert_eq!(place, -1 - number);
    }
    let mut ben = server.waiter(&asks("ben:1", "LIMIT 2 FAIR BLOCK 0"));
    client.release("pool", "ann:1");
    assert!(matches!(ben.answer(), Value::Int(1..)));
    assert_eq!(client.sharers("pool"), ["ann:2", "ben:1"]);
}

#[test]
fn no_tenant_has_more_than_its_share() {
    let server = Server::start();
    let mut client = server.client();
    for owner in ["ann:1", "ann:2", "ben:1", "", "cid"] {
        let owner = if owner.is_empty() { ":none" } else { owner };
        takes(&mut client, owner, "LIMIT 9 FAIR PER 2");
    }
    assert!(client.run(&asks("ann:3", "LIMIT 9 FAIR PER 2")).is_nil());
    assert!(client.run(&asks("ann:3", "LIMIT 9 FAIR PER 2 BLOCK 20")).is_nil());
    takes(&mut client, "ann:3", "LIMIT 9 FAIR PER 3");
    assert!(client.run(&asks("ann", "LIMIT 9 FAIR PER 3")).is_nil(), "it is of that group");
}

#[test]
fn fair_needs_a_limit_and_one_key_and_an_owner_of_its_own() {
    let server = Server::start();
    let mut client = server.client();
    for (words, what) in [
        ("FAIR", "ERR syntax error: FAIR needs LIMIT"),
        ("SHARED FAIR", "ERR syntax error: FAIR needs LIMIT"),
        ("LIMIT 2 PER 1", "ERR syntax error: PER needs FAIR"),
        ("LIMIT 2 FAIR PER", "ERR syntax error: PER needs a number"),
        ("LIMIT 2 FAIR FAIR", "ERR syntax error: FAIR is given twice"),
        ("LIMIT 2 FAIR PER 1 PER 1", "ERR syntax error: PER is given twice"),
    ] {
        assert_eq!(client.run(&asks("a", words)), Value::Error(what.to_owned()), "{words}");
    }
    let refused = client.run(&asks("*", "LIMIT 2 FAIR"));
    let what = "ERR syntax error: FAIR needs an owner of the client's own, not *";
    assert_eq!(refused, Value::Error(what.to_owned()));
    for per in ["0", "-1", "1001", "many", "99999999999999999999"] {
        let refused = client.run(&asks("a", &format!("LIMIT 2 FAIR PER {per}")));
        assert!(refused.error().starts_with("ERR value is not an integer or out of range: PER"));
    }
    let all = args!["LOCK.MACQUIRE", 1, "pool", "a", LONG, "LIMIT", 2, "FAIR"];
    let what = "ERR syntax error: FAIR is for one key: use LOCK.ACQUIRE";
    assert_eq!(client.run(&all), Value::Error(what.to_owned()));
    assert_eq!(cmd!(client, "EXISTS", "pool"), 0);
}

#[test]
fn info_shows_the_groups_that_wait_and_which_is_next() {
    let server = Server::start();
    let mut client = server.client();
    for owner in ["ann:1", "ann:2", "ben:1"] {
        takes(&mut client, owner, "LIMIT 3 FAIR");
    }
    assert!(cmd!(client, "LOCK.INFO", "pool").field("groups").is_none());
    client.run(&asks("ann:3", "LIMIT 3 FAIR PER 2 QUEUE 60000"));
    client.run(&asks("ben:2", "LIMIT 3 FAIR QUEUE 60000"));
    client.run(&asks("ben:3", "LIMIT 3 FAIR QUEUE 60000"));
    client.hello3();
    let info = cmd!(client, "LOCK.INFO", "pool");
    let groups = info["groups"].items();
    assert_eq!(groups.len(), 2, "{info:?}");
    for (group, (name, holders, waiters)) in groups.iter().zip([("ben", 1, 2), ("ann", 2, 1)]) {
        assert_eq!(group["group"], name);
        assert_eq!((group["holders"].int(), group["waiters"].int()), (holders, waiters));
    }
    assert_eq!(groups[0]["next"], 1);
    let waiter = &info["waiters"][0];
    assert_eq!(waiter["mode"], "limit");
    assert_eq!((waiter["limit"].int(), waiter["fair"].int(), waiter["per"].int()), (3, 1, 2));
}

/// Who holds the pool, as `LOCK.INFO` shows it.
fn holders(client: &mut Client) -> Vec<String> {
    client.sharers("pool")
}

/// No more hold the pool than its limit of 4 admits, and no more of a tenant than 2.
#[track_caller]
fn assert_within_limits(holders: &[String], after: &str) {
    assert!(holders.len() <= 4, "{holders:?} after {after}");
    for tenant in ["ann:", "ben:", "cid:"] {
        let of_tenant = holders.iter().filter(|owner| owner.starts_with(tenant)).count();
        assert!(of_tenant <= 2, "{holders:?} after {after}");
    }
}

#[test]
fn whatever_befalls_clients_clock_and_master_no_tenant_has_more_than_its_share() {
    let master = Server::with().with_steps().start();
    let replica = master.replica();
    let mut client = master.client();
    let mut chance = Chance::new(20_261_127);
    let mut waiting: Vec<Client> = Vec::new();
    let fair = "LIMIT 4 FAIR PER 2";
    for number in 0..400 {
        let tenant = chance.of(["ann", "ann", "ann", "ben", "cid"]);
        let owner = format!("{tenant}:{number}");
        let held = holders(&mut client);
        let holder = held.get(usize::try_from(chance.below(4)).unwrap());
        let after = match (chance.below(12), holder) {
            (0..4, _) => {
                let mut waiter = master.client();
                let ttl = if chance.one_in(3) { 30 } else { LONG };
                let mut command = args!["LOCK.ACQUIRE", "pool", owner, ttl, "BLOCK", 0];
                command.extend(words(fair));
                waiter.send(&command);
                waiting.push(waiter);
                "an ACQUIRE"
            }
            (4, _) if !waiting.is_empty() => {
                let at = usize::try_from(chance.below(waiting.len() as u64)).unwrap();
                waiting.swap_remove(at).reset();
                "a client's end"
            }
            (5, Some(holder)) => {
                cmd!(client, "ZREM", "pool", holder);
                "ZREM"
            }
            (6, Some(_)) if held.len() < 4 && chance.one_in(2) => {
                // Another client takes a share that the limits would admit.
                let is_full = |tenant: &str| {
                    held.iter().filter(|owner| owner.starts_with(tenant)).count() >= 2
                };
                let has_waiters = cmd!(client, "LOCK.INFO", "pool")["queue"].int() > 0;
                if !is_full(tenant) && !has_waiters {
                    let end = master.wall_clock() + 60_000;
                    cmd!(client, "ZADD", "pool", end, owner);
                    cmd!(client, "PEXPIREAT", "pool", end);
                }
                "ZADD"
            }
            (7, _) if chance.one_in(8) => {
                master.step_clock(chance.of([-60_000, 60_000]));
                "a step of the clock"
            }
            (8, _) => {
                let reply = client.run(&asks(&owner, fair));
                assert!(!reply.is_error(""), "{reply:?}");
                "a try"
            }
            (_, Some(holder)) => {
                cmd!(client, "LOCK.RELEASE", "pool", holder);
                "a RELEASE"
            }
            (_, None) => "nothing",
        };
        assert_within_limits(&holders(&mut client), after);
    }
    // The holders still say of which tenants they are when another node takes over.
    drop(waiting);
    eventually("nothing waits", || {
        cmd!(client, "DEL", "pool");
        cmd!(client, "LOCK.INFO", "pool").is_nil()
    });
    for owner in ["ann:1", "ann:2", "ben:1"] {
        takes(&mut client, owner, fair);
    }
    replica.wait_until_in_sync_with(&master);
    replica.promote();
    let mut client = replica.client();
    assert!(client.run(&asks("ann:3", fair)).is_nil());
    let mut ann = replica.waiter(&{
        let mut command = asks("ann:3", fair);
        command.extend(args!["BLOCK", 0]);
        command
    });
    takes(&mut client, "ben:2", fair);
    assert!(ann.still_waits());
    client.release("pool", "ann:1");
    ann.answer().fence();
    assert_within_limits(&holders(&mut client), "a failover");
}
