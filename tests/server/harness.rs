//! The harness keeps its own promises, with the plain commands of a server without the module.

use crate::support::*;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use std::net::TcpStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

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
