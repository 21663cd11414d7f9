//! Whatever changes a lock, no copy of it stays as it was.

use super::copies::Copies;
use crate::support::*;

const KEY: &str = "k";
/// Long enough for a few commands, short enough to be waited for.
const SHORT: u64 = 1000;

/// How an owner may hold a lock of which there is one.
const MODES: [(&str, &[&str]); 3] =
    [("alone", &[]), ("shared", &["SHARED"]), ("limited", &["LIMIT", "1"])];

fn acquire(owner: &str, ttl: u64, mode: &[&str], more: &[&str]) -> Command {
    let mut command = args!["LOCK.ACQUIRE", KEY, owner, ttl];
    command.extend(mode.iter().chain(more).map(|word| word.to_arg()));
    command
}

/// One that waits, and can't share with an owner that holds the lock in this mode.
fn waits(server: &Server, owner: &str, mode: &[&str]) -> Client {
    let mode = if mode == ["SHARED"] { &[][..] } else { mode };
    server.waiter(&acquire(owner, LONG, mode, &["BLOCK", "0"]))
}

/// The same, with a place that is kept for so long.
fn queues(server: &Server, owner: &str, mode: &[&str], lease: u64) -> Command {
    let mode = if mode == ["SHARED"] { &[][..] } else { mode };
    let command = acquire(owner, LONG, mode, &["QUEUE", &lease.to_string()]);
    assert!(server.client().run(&command).int() < 0);
    command
}

/// Returns when this owner holds the lock, in whatever mode.
fn is_held_by(server: &Server, owner: &str) {
    let mut client = server.client();
    eventually(&format!("{owner} holds it"), || {
        let info = cmd!(client, "LOCK.INFO", KEY);
        !info.is_nil() && (info["holders"].items().iter()).any(|one| one["owner"] == owner)
    });
}

fn in_each_mode(test: impl Fn(&Server, &str, &[&str], &mut Client, &mut Copies)) {
    let server = Server::start();
    for (name, mode) in MODES {
        let mut client = server.client();
        let mut copies = Copies::of(&server, KEY);
        test(&server, name, mode, &mut client, &mut copies);
        cmd!(client, "DEL", KEY);
    }
}

#[test]
fn a_copy_follows_what_an_owner_does() {
    in_each_mode(|_, name, mode, client, copies| {
        let said = |what: &str| format!("{name}: {what}");
        copies.follow(&said("a grant"), || {
            client.run(&acquire("a", LONG, mode, &[])).fence();
        });
        copies.follow(&said("a renewal"), || {
            assert_eq!(cmd!(client, "LOCK.RENEW", KEY, "a", 2 * LONG), 1);
        });
        copies.follow(&said("a renewal that shortens"), || {
            assert_eq!(cmd!(client, "LOCK.RENEW", KEY, "a", LONG / 2), 1);
        });
        copies.follow(&said("asking again"), || {
            client.run(&acquire("a", 3 * LONG, mode, &[])).fence();
        });
        copies.follow(&said("a release"), || client.release(KEY, "a"));
        copies.follow(&said("another grant"), || {
            client.run(&acquire("b", LONG, mode, &[])).fence();
        });
        copies.follow(&said("a release by MRELEASE"), || {
            assert_eq!(cmd!(client, "LOCK.MRELEASE", 1, KEY, "b"), 1);
        });
    });
}

#[test]
fn a_copy_follows_those_who_share_a_lock() {
    let server = Server::start();
    let mut client = server.client();
    let mut copies = Copies::of(&server, KEY);
    copies.follow("a share", || {
        client.share(KEY, "a");
    });
    copies.follow("another share", || {
        client.share(KEY, "b");
    });
    copies.follow("a renewal of one share", || {
        assert_eq!(cmd!(client, "LOCK.RENEW", KEY, "a", 10_000), 1);
    });
    copies.follow("one of two lets go, and the other ends sooner", || {
        client.release(KEY, "b");
    });
    client.share(KEY, "b");
    copies.follow("one of two lets go, and the other ends later", || {
        client.release(KEY, "a");
    });
    client.share(KEY, "a");
    client.release(KEY, "b");
    copies.follow("the last takes all of it", || {
        client.acquire(KEY, "a");
    });
    copies.follow("a release", || client.release(KEY, "a"));
    client.share(KEY, "a");
    let short = args!["LOCK.ACQUIRE", KEY, "b", SHORT, "SHARED"];
    copies.follow("a share that will run out", || {
        client.run(&short).fence();
    });
    let mut writer = waits(&server, "w", &[]);
    copies.follow("it has run out, and a client waits", || {
        eventually("it has been removed", || cmd!(client, "ZCARD", KEY) == 2);
    });
    copies.follow("the writer's turn", || {
        client.release(KEY, "a");
        writer.answer().fence();
    });
}

#[test]
fn a_copy_follows_a_handoff_to_a_blocked_client() {
    in_each_mode(|server, name, mode, client, copies| {
        let said = |what: &str| format!("{name}: {what}");
        client.run(&acquire("a", LONG, mode, &[])).fence();
        let mut waiter = waits(server, "b", mode);
        copies.follow(&said("a release"), || {
            client.release(KEY, "a");
            waiter.answer().fence();
        });
        let mut waiter = waits(server, "c", mode);
        copies.follow(&said("a DEL"), || {
            assert_eq!(cmd!(client, "DEL", KEY), 1);
            waiter.answer().fence();
        });
        let mut waiter = waits(server, "d", mode);
        copies.follow(&said("a BREAK"), || {
            assert_eq!(cmd!(client, "LOCK.BREAK", KEY), 1);
            waiter.answer().fence();
        });
        let mut waiter = waits(server, "e", mode);
        copies.follow(&said("an end that comes sooner"), || {
            assert_eq!(cmd!(client, "LOCK.RENEW", KEY, "d", SHORT), 1);
        });
        copies.follow(&said("an expiry"), || {
            waiter.answer().fence();
        });
        let mut waiter = waits(server, "f", mode);
        copies.follow(&said("a FLUSHALL"), || {
            assert_eq!(cmd!(client, "FLUSHALL"), "OK");
            waiter.answer().fence();
        });
    });
}

#[test]
fn a_copy_follows_a_handoff_to_a_place() {
    in_each_mode(|server, name, mode, client, copies| {
        let said = |what: &str| format!("{name}: {what}");
        client.run(&acquire("a", LONG, mode, &[])).fence();
        let asks = queues(server, "b", mode, 60_000);
        copies.follow(&said("its turn"), || {
            client.release(KEY, "a");
            is_held_by(server, "b");
        });
        copies.follow(&said("it is claimed"), || {
            client.run(&asks).fence();
        });
        queues(server, "c", mode, SHORT);
        queues(server, "d", mode, 60_000);
        copies.follow(&said("the turn of one who does not come"), || {
            client.release(KEY, "b");
            is_held_by(server, "c");
        });
        copies.follow(&said("it runs out, and the next has its turn"), || {
            is_held_by(server, "d");
        });
        copies.follow(&said("it is claimed by a renewal"), || {
            assert_eq!(cmd!(client, "LOCK.RENEW", KEY, "d", LONG), 1);
        });
        queues(server, "e", mode, SHORT);
        copies.follow(&said("the turn of the last, who does not come"), || {
            client.release(KEY, "d");
            is_held_by(server, "e");
        });
        copies.see_it_go(&said("it runs out, and none is left"));
    });
}

#[test]
fn a_copy_follows_an_expiry_that_no_command_looks_at() {
    in_each_mode(|_, name, mode, client, copies| {
        copies.follow(&format!("{name}: a grant"), || {
            client.run(&acquire("a", SHORT, mode, &[])).fence();
        });
        copies.see_it_go(&format!("{name}: an expiry"));
    });
}

#[test]
fn a_copy_follows_the_end_of_a_connection() {
    in_each_mode(|server, name, mode, client, copies| {
        let said = |what: &str| format!("{name}: {what}");
        let mut tied = server.client();
        copies.follow(&said("a grant that is tied to a connection"), || {
            tied.run(&acquire("a", LONG, mode, &["SESSION"])).fence();
        });
        let mut waiter = waits(server, "b", mode);
        copies.follow(&said("the connection closes, and a client waits"), || {
            tied.close();
            waiter.answer().fence();
        });
        client.release(KEY, "b");
        let mut tied = server.client();
        copies.follow(&said("another"), || {
            tied.run(&acquire("c", LONG, mode, &["SESSION"])).fence();
        });
        tied.close();
        copies.see_it_go(&said("the connection closes, and none waits"));
    });
}

#[test]
fn a_copy_follows_a_grant_that_no_client_heard_of() {
    in_each_mode(|server, name, mode, client, copies| {
        client.run(&acquire("a", LONG, mode, &[])).fence();
        let mut dies = waits(server, "b", mode);
        let mut lives = waits(server, "c", mode);
        copies.follow(&format!("{name}: it goes to the next"), || {
            let kill = args!["CLIENT", "KILL", "ID", dies.id()];
            let release = args!["LOCK.RELEASE", KEY, "a"];
            assert_eq!(client.transaction(&[release, kill])[0], 1);
            lives.answer().fence();
        });
        let mut dies = waits(server, "d", mode);
        let kill = args!["CLIENT", "KILL", "ID", dies.id()];
        let release = args!["LOCK.RELEASE", KEY, "c"];
        assert_eq!(client.transaction(&[release, kill])[0], 1);
        copies.see_it_go(&format!("{name}: none is left"));
    });
}

#[test]
fn a_copy_follows_a_script_and_a_transaction() {
    in_each_mode(|server, name, mode, client, copies| {
        let said = |what: &str| format!("{name}: {what}");
        copies.follow(&said("a grant in a script"), || {
            client.run(&in_lua(&acquire("a", LONG, mode, &[]))).fence();
        });
        let mut waiter = waits(server, "b", mode);
        copies.follow(&said("a handoff in a script"), || {
            let release = args!["LOCK.RELEASE", KEY, "a"];
            assert_eq!(client.run(&in_lua(&release)), 1);
            waiter.answer().fence();
        });
        let mut waiter = waits(server, "c", mode);
        copies.follow(&said("a handoff in a transaction"), || {
            client.transaction(&[args!["LOCK.RELEASE", KEY, "b"]]);
            waiter.answer().fence();
        });
        copies.follow(&said("a release in a transaction"), || {
            client.transaction(&[args!["LOCK.RELEASE", KEY, "c"]]);
        });
    });
}

#[test]
fn whose_own_reading_finds_that_a_hold_has_run_out_is_told_of_whom_the_lock_goes_to() {
    let server = Server::with().config("enable-debug-command local").start();
    for how in [&["ON"][..], &["ON", "BCAST"]] {
        let mut client = server.client();
        let mut cache = server.client3();
        let mut tracking = args!["CLIENT", "TRACKING"];
        tracking.extend(how.iter().map(|word| word.to_arg()));
        assert_eq!(cache.run(&tracking), "OK");
        client.run(&acquire("a", SHORT, &[], &[])).fence();
        let mut waiter = waits(&server, "b", &[]);
        // The server sleeps past the end of the hold, and the reading comes before all timers.
        cache.send_pipeline(&[args!["DEBUG", "SLEEP", "0.5"], args!["GET", KEY]]);
        assert_eq!(reply(&mut cache), "OK");
        let mut holder = reply(&mut cache);
        while holder != "b" {
            let told = cache.answer();
            assert!(matches!(told, Value::Push(_)), "{how:?}: {told:?}");
            cache.send(&["GET", KEY]);
            holder = reply(&mut cache);
        }
        waiter.answer().fence();
        client.release(KEY, "b");
    }
}

/// The next answer that is one.
fn reply(client: &mut Client) -> Value {
    loop {
        match client.answer() {
            Value::Push(_) => {}
            reply => return reply,
        }
    }
}

/// It went too early, by the wall clock alone.
#[test]
fn a_copy_follows_a_lock_that_is_written_again_after_a_step_of_the_clock() {
    let server = Server::with().with_steps().start();
    let mut client = server.client();
    for (name, mode) in MODES {
        for way in ["RENEW", "ACQUIRE"] {
            let mut copies = Copies::of(&server, KEY);
            let said = |what: &str| format!("{name}, {way}: {what}");
            copies.follow(&said("a grant"), || {
                client.run(&acquire("a", 15_000, mode, &[])).fence();
            });
            copies.follow(&said("a step"), || {
                server.step_clock(60_000);
                eventually("the key is back", || cmd!(client, "EXISTS", KEY) == 1);
            });
            copies.follow(&said("its owner is back"), || {
                let reply = match way {
                    "RENEW" => cmd!(client, "LOCK.RENEW", KEY, "a", 15_000),
                    _ => client.run(&acquire("a", 20_000, mode, &[])),
                };
                assert!(reply.int() > 0, "{way}: {reply:?}");
            });
            copies.follow(&said("a release"), || client.release(KEY, "a"));
        }
    }
}
