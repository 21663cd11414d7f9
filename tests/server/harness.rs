//! The harness keeps its own promises, with the plain commands of a server without the module.

use crate::support::*;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

#[test]
fn an_answer_is_kept_as_it_came() {
    let server = Server::without_module();
    let mut client = server.client();
    assert_eq!(cmd!(client, "SET", b"\xff\r\n\0", "v"), "OK");
    assert_eq!(cmd!(client, "GET", b"\xff\r\n\0"), "v");
    assert_eq!(cmd!(client, "INCRBY", "n", 41), 41);
    assert_eq!(cmd!(client, "GET", "none"), Value::Nil);
    assert_eq!(cmd!(client, "BLPOP", "none", 0.01), Value::NilArray);
    assert_eq!(cmd!(client, "MGET", "n", "n"), ["41", "41"]);
    assert!(cmd!(client, "INCR", b"\xff\r\n\0").is_error("ERR value is not an integer"));
    assert_eq!(cmd!(client, "HSET", "h", "field", 7), 1);
    assert_eq!(cmd!(client, "HGETALL", "h")["field"], "7");

    client.hello3();
    assert_eq!(cmd!(client, "GET", "none"), Value::Null);
    let hash = cmd!(client, "HGETALL", "h");
    assert!(matches!(hash, Value::Map(_)), "{hash:?}");
    assert_eq!(hash["field"], "7");
    assert_eq!(hash.field("other"), None);
}

#[test]
fn a_pipeline_is_answered_in_order() {
    let server = Server::without_module();
    let mut client = server.client();
    client.select(3);
    let answers = client.pipeline(&[
        args!["SET", "k", 1],
        args!["INCR", "k"],
        args!["LPUSH", "k", "x"],
        args!["GET", "k"],
    ]);
    assert_eq!(answers[1], 2);
    assert!(answers[2].is_error("WRONGTYPE"));
    assert_eq!(answers[3], "2");
    assert_eq!(cmd!(server.client(), "GET", "k"), Value::Nil);
}

#[test]
fn a_waiter_is_seen_blocked_and_answered_later() {
    let server = Server::without_module();
    let mut waiter = server.waiter(&args!["BLPOP", "list", 0]);
    assert!(waiter.no_answer_yet());
    server.wait_for_blocked_clients(1);

    let pushed = Instant::now();
    cmd!(server.client(), "RPUSH", "list", "x");
    let (answer, arrived) = waiter.timed_answer();
    assert_eq!(answer, ["list", "x"]);
    assert!(arrived > pushed);
    server.wait_for_blocked_clients(0);
}

#[test]
fn a_waiter_can_vanish_in_each_way() {
    let server = Server::without_module();
    server.waiter(&args!["BLPOP", "list", 0]).close();
    server.wait_for_blocked_clients(0);
    server.waiter(&args!["BLPOP", "list", 0]).reset();
    server.wait_for_blocked_clients(0);

    let mut killed = server.waiter(&args!["BLPOP", "list", 0]);
    assert_eq!(cmd!(server.client(), "CLIENT", "KILL", "ID", killed.id()), 1);
    killed.wait_until_closed();
    server.wait_for_blocked_clients(0);
}

#[test]
#[should_panic(expected = "expected to wait, got")]
fn a_waiter_that_is_answered_at_once_fails_the_test() {
    let server = Server::without_module();
    server.client().send_and_block(&["PING"]);
}

#[test]
fn a_server_is_gone_after_its_drop() {
    let server = Server::without_module();
    let (pid, address, dir) = (server.pid(), server.address(), server.file(""));
    assert!(server.is_alive());
    drop(server);
    assert!(!is_running(pid));
    assert!(TcpStream::connect(address).is_err());
    assert!(!dir.exists());
}

#[test]
fn a_paused_server_is_gone_after_a_panic() {
    let mut pid = 0;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let server = Server::without_module();
        pid = server.pid();
        server.pause();
        panic!("as a test that fails");
    }));
    assert!(panicked.is_err());
    assert!(!is_running(pid));
}

#[test]
fn a_server_that_crashed_fails_its_test() {
    let server = Server::without_module();
    let _ = server.client().try_run(&["DEBUG", "SEGFAULT"]);
    eventually("the server has crashed", || !server.is_alive());
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(server)));
    let text = *dropped.unwrap_err().downcast::<String>().unwrap();
    assert!(text.contains("the server crashed"), "{text}");
    assert!(text.contains("BUG REPORT"), "{text}");
}

#[test]
fn a_paused_server_answers_when_it_is_resumed() {
    let server = Server::without_module();
    let mut client = server.client();
    server.pause();
    client.send(&["PING"]);
    assert!(client.no_answer_yet());
    assert!(server.is_alive());
    server.resume();
    assert_eq!(client.answer(), "PONG");
}

#[test]
fn a_killed_server_starts_again_on_its_data_and_port() {
    let server = Server::with().without_module().append_only().start();
    let port = server.port();
    assert_eq!(cmd!(server.client(), "SET", "k", "v"), "OK");
    server.kill_9();
    assert!(!server.is_alive());
    server.restart();
    assert_eq!(server.port(), port);
    assert_eq!(cmd!(server.client(), "GET", "k"), "v");

    server.restart_as(|setup| setup.config("maxclients 77"));
    assert_eq!(cmd!(server.client(), "GET", "k"), "v");
    assert_eq!(cmd!(server.client(), "CONFIG", "GET", "maxclients")["maxclients"], "77");

    server.shutdown_nosave();
    let heir = Server::with().without_module().append_only().data_of(&server).start();
    assert_eq!(cmd!(heir.client(), "GET", "k"), "v");
}

/// The time by the server's own `TIME`, in milliseconds.
fn time_by(client: &mut Client) -> i64 {
    let time = cmd!(client, "TIME");
    let [seconds, micros] = [0, 1].map(|part| time[part].text().parse::<i64>().unwrap());
    seconds * 1000 + micros / 1000
}

#[test]
fn the_wall_clock_of_a_server_can_be_stepped_and_its_monotonic_clock_goes_on() {
    const DAY: i64 = 86_400_000;
    let server = Server::with().without_module().with_steps().start();
    let mut client = server.client();
    for step in [50, 1000, DAY, -2 * DAY, -1000, DAY, 60_000, -60_000] {
        let case = format!("by {step} ms");
        // Not by EX: on some servers the first expiry after a step is reckoned from the time before.
        let deadline = server.wall_clock() + 3 * DAY;
        assert_eq!(cmd!(client, "SET", "k", "v", "PXAT", deadline), "OK");
        let (began, left, time) =
            (Instant::now(), cmd!(client, "PTTL", "k").int(), time_by(&mut client));
        server.step_clock(step);
        cmd!(client, "DEBUG", "SLEEP", 0.05);
        let stepped = time_by(&mut client) - time;
        let left = left - cmd!(client, "PTTL", "k").int();
        let passed = i64::try_from(began.elapsed().as_millis()).unwrap();
        for seen in [stepped, left] {
            let by_itself = seen - step;
            assert!((0..=passed + 2).contains(&by_itself), "{case}: {seen} in {passed}");
        }
        assert!((time_by(&mut client) - server.wall_clock()).abs() < 1000, "{case}");
        eventually("the server's own loop has noticed it", || {
            let now: i64 = server.info("server_time_usec").parse().unwrap();
            (now / 1000 - server.wall_clock()).abs() < 1000
        });
    }
    // The server's own timers go by the monotonic clock: they go on after a step back, and so do expiries.
    cmd!(client, "SET", "k", "v", "PXAT", server.wall_clock() + 500);
    server.step_clock(-DAY);
    cmd!(client, "SET", "other", "v", "PXAT", server.wall_clock() + 100);
    eventually("what no command looks at has expired", || cmd!(client, "DBSIZE") == 1);
    server.step_clock(DAY);
    eventually("and so has the other", || cmd!(client, "DBSIZE") == 0);
    server.step_clock(DAY);
    // One that is started again goes on with its clock.
    server.restart();
    assert!((time_by(&mut server.client()) - server.wall_clock()).abs() < 1000);
}

#[test]
fn the_modules_wall_clock_is_stepped_with_its_servers() {
    const DAY: i64 = 86_400_000;
    let at_the_clock = |setup: Setup| setup.config("lock.fence-lead 0");
    let server = at_the_clock(Server::with().with_steps()).start();
    for step in [DAY, DAY, 60_000] {
        server.step_clock(step);
        let ahead = server.fence_ahead_of_clock("k");
        assert!((-1_000_000..10_000_000).contains(&ahead), "{step}: {ahead}");
    }
    server.step_clock(-DAY);
    let ahead = server.fence_ahead_of_clock("k");
    assert!((DAY * 999..DAY * 1001).contains(&ahead), "{ahead}");
}

#[test]
fn replicas_and_nodes_of_a_cluster_stay_linked_when_their_clocks_are_stepped() {
    const DAY: i64 = 86_400_000;
    let plain = || Setup::new().without_module().with_steps();
    let master = plain().start();
    let replica = master.replica_with(plain());
    let mut cluster = Cluster::with(3, |setup| setup.without_module().with_steps());
    let key = cluster.key_on(0, "key");
    let copy = cluster.add_replica_of(0, plain());
    for step in [60_000, DAY, -2 * DAY] {
        for server in [&master, &replica].into_iter().chain(cluster.nodes()) {
            server.step_clock(step);
        }
        assert_eq!(cmd!(cluster.client(0), "SET", &key, step), "OK");
        // Once a second at least each of them looks who has not been heard of for too long.
        master.let_pass(1200);
        cmd!(master.client(), "SET", "k", step);
        replica.wait_until_in_sync_with(&master);
        assert_eq!(cmd!(replica.client(), "GET", "k"), step.to_string());
        cluster.wait_until_ok();
        assert_eq!(cmd!(cluster.client(0), "SET", &key, step), "OK");
        cluster.node(copy).wait_until_in_sync_with(cluster.node(0));
    }
    for server in [&master, cluster.node(0)] {
        assert_eq!(server.info("sync_full"), "1");
        assert_eq!(server.info("sync_partial_ok"), "0");
    }
}

#[test]
fn the_append_only_file_can_be_read() {
    let server = Server::with().without_module().append_only().start();
    let mut client = server.client();
    cmd!(client, "SET", "k", "v", "PXAT", 4_000_000_000_000_i64);
    assert!(server.aof_text().contains("4000000000000"));
    assert_eq!(server.aof_commands(), ["SELECT 0", "SET k v PXAT 4000000000000"]);
    let answer = cmd!(client, "BGREWRITEAOF");
    assert!(!answer.is_error(""), "{answer:?}");
    eventually("the rewrite is over", || {
        server.info("aof_rewrite_in_progress") == "0"
            && server.info("aof_last_bgrewrite_status") == "ok"
            && server.aof_commands().iter().any(|line| line.starts_with("PEXPIREAT"))
    });
}

#[test]
fn a_failed_start_shows_the_log() {
    let log = Server::with().without_module().config("maxmemory nonsense").fail_to_start();
    assert!(log.contains("maxmemory nonsense"), "{log}");
}

#[test]
fn a_start_on_a_taken_port_is_seen_and_another_port_is_tried() {
    let first = Server::without_module();
    let log = Server::with().without_module().port(first.port()).fail_to_start();
    assert!(log.contains("Address already in use"), "{log}");
    assert_ne!(Server::without_module().port(), first.port());
}

#[test]
fn a_replica_syncs_and_is_promoted() {
    let master = Server::without_module();
    let mut client = master.client();
    cmd!(client, "SET", "before", 1);
    let replica = master.replica_without_module();
    assert_eq!(replica.role(), Role::Replica);
    cmd!(client, "SET", "after", 2);
    replica.wait_until_in_sync_with(&master);
    let both = cmd!(replica.client(), "MGET", "before", "after");
    assert_eq!(both, ["1", "2"]);

    replica.promote();
    replica.wait_for_role(Role::Master);
    master.follow(&replica);
    master.wait_for_role(Role::Replica);
    master.wait_until_in_sync_with(&replica);
}

#[test]
fn a_cluster_of_two_sends_clients_to_the_right_node() {
    let cluster = Cluster::with(2, Setup::without_module);
    let key = cluster.key_on(1, "key");
    let slot = cluster.slot_of(&key);
    assert_eq!(cmd!(cluster.client(1), "SET", &key, "v"), "OK");
    let answer = cmd!(cluster.client(0), "GET", &key);
    let port = cluster.node(1).port();
    assert_eq!(answer.error(), format!("MOVED {slot} 127.0.0.1:{port}"));

    cluster.set_importing(slot, 1, 0);
    cluster.set_migrating(slot, 1, 0);
    assert_eq!(cmd!(cluster.client(1), "GET", &key), "v");
    assert_eq!(cluster.migrate_key(&key, 1, 0), "OK");
    assert!(cmd!(cluster.client(1), "GET", &key).is_error("ASK"));
    cluster.set_slot_owner(slot, 1, 0);
    assert_eq!(cluster.index_of(&key), 0);
    assert_eq!(cmd!(cluster.client(0), "GET", &key), "v");
    assert!(cmd!(cluster.client(1), "GET", &key).is_error("MOVED"));

    cluster.move_slot_of(&key, 1);
    assert_eq!(cmd!(cluster.node_of(&key).client(), "GET", &key), "v");
    assert_eq!(cluster.index_of(&key), 1);
}

#[test]
fn a_cluster_replica_takes_over() {
    let mut cluster = Cluster::with(2, Setup::without_module);
    let key = cluster.key_on(0, "key");
    cmd!(cluster.client(0), "SET", &key, "v");
    let heir = cluster.add_replica_of(0, Setup::new().without_module());
    assert_eq!(cmd!(cluster.client(heir), "CLUSTER", "FAILOVER"), "OK");
    cluster.node(heir).wait_for_role(Role::Master);
    cluster.node(0).wait_for_role(Role::Replica);
    cluster.wait_until_ok();
    assert_eq!(cluster.index_of(&key), heir);
    assert_eq!(cmd!(cluster.client(heir), "GET", &key), "v");
}

#[test]
fn versions_are_told_apart() {
    let server = Server::without_module();
    let version = server.version();
    assert!(version.is_at_least((7, 0), (7, 2)), "{version:?}");
    assert!(!version.is_at_least((99, 0), (99, 0)), "{version:?}");
    assert_eq!(version.is_valkey(), version.kind == Kind::Valkey);
}

#[test]
fn a_test_that_can_run_is_not_skipped() {
    let mut has_run = false;
    let mut test = || {
        skip_unless!(true, "never");
        has_run = true;
    };
    test();
    assert!(has_run);
}

fn is_running(pid: u32) -> bool {
    kill(Pid::from_raw(pid.try_into().unwrap()), None).is_ok()
}
