//! What happens to the server and to its connections while the clients work.

use super::aftermath::assert_all_is_well_at;
use super::clients::locks;
use super::history::Kind;
use super::run::{Plan, run};
use crate::support::*;

/// A server that has on its disk whatever it has answered.
fn durable() -> Server {
    Server::with().config("appendonly yes").config("appendfsync always").start()
}

#[test]
fn no_two_hold_a_lock_on_a_quiet_day() {
    let server = Server::start();
    let history = run(server.address(), Plan::default(), |stage, _| {
        while stage.goes_on() {
            stage.let_work(50);
        }
    });
    assert!(!history.seen.is_empty(), "no queue was watched");
    assert!(!history.written.is_empty(), "nothing was written under a lock");
    assert_all_is_well_at(&server);
}

#[test]
fn no_two_hold_a_lock_while_the_server_is_killed_and_started_again() {
    let server = durable();
    let plan = Plan { unknown: 1, ..Plan::default() };
    run(server.address(), plan, |stage, chance| {
        while stage.goes_on() {
            stage.let_work(250 + chance.below(200));
            stage.tell(Kind::Forgotten, || {
                server.kill_9();
                server.restart();
            });
        }
        stage.let_work(200);
    });
    assert_all_is_well_at(&server);
}

#[test]
fn no_two_hold_a_lock_while_the_server_stands_still_for_longer_than_it_is_held() {
    let server = Server::start();
    let plan = Plan { unknown: 1, is_kept_up: true, ..Plan::default() };
    run(server.address(), plan, |stage, chance| {
        while stage.goes_on() {
            stage.let_work(150 + chance.below(150));
            server.pause();
            stage.let_work(chance.below(2) * 500 + 100);
            server.resume();
        }
        stage.let_work(200);
    });
    assert_all_is_well_at(&server);
}

/// Any one of those who are connected but for ourselves, or one who waits.
fn victim(client: &mut Client, chance: &mut Chance) -> Option<String> {
    let ours = client.id().to_string();
    let only_blocked = chance.one_in(2);
    let list = cmd!(client, "CLIENT", "LIST").text();
    let word = |line: &str, name: &str| -> Option<String> {
        let mut words = line.split_whitespace();
        words.find_map(|word| word.strip_prefix(name).map(str::to_owned))
    };
    let mut ids: Vec<_> = list
        .lines()
        .filter(|line| !only_blocked || word(line, "flags=").is_some_and(|f| f.contains('b')))
        .filter_map(|line| word(line, "id="))
        .filter(|id| *id != ours)
        .collect();
    let some = u64::try_from(ids.len()).unwrap().max(1);
    let one = usize::try_from(chance.below(some)).unwrap();
    (one < ids.len()).then(|| ids.swap_remove(one))
}

#[test]
fn no_two_hold_a_lock_while_clients_are_killed_also_in_the_moment_of_their_grant() {
    let server = Server::start();
    let plan = Plan { unknown: 20, ..Plan::default() };
    run(server.address(), plan, |stage, chance| {
        let mut client = server.client();
        while stage.goes_on() {
            stage.let_work(3);
            let Some(id) = victim(&mut client, chance) else {
                continue;
            };
            if chance.one_in(2) {
                cmd!(client, "CLIENT", "KILL", "ID", id);
                continue;
            }
            // In one turn of the loop the locks go to those who wait, and one of them is killed.
            stage.tell(Kind::Flush, || {
                client.transaction(&[args!["FLUSHALL"], args!["CLIENT", "KILL", "ID", id]])
            });
        }
    });
    assert_all_is_well_at(&server);
}

#[test]
fn no_two_hold_a_lock_while_clients_are_paused() {
    let server = Server::start();
    let plan = Plan { ends_are_prompt: false, is_kept_up: true, ..Plan::default() };
    run(server.address(), plan, |stage, chance| {
        let mut client = server.client();
        while stage.goes_on() {
            stage.let_work(50 + chance.below(100));
            let mode = if chance.one_in(2) { "WRITE" } else { "ALL" };
            cmd!(client, "CLIENT", "PAUSE", 20 + chance.below(150), mode);
            stage.let_work(10 + chance.below(150));
            if chance.one_in(3) {
                cmd!(client, "CLIENT", "UNPAUSE");
            }
        }
    });
    cmd!(server.client(), "CLIENT", "UNPAUSE");
    assert_all_is_well_at(&server);
}

#[test]
fn no_two_hold_a_lock_while_everything_is_flushed_again_and_again() {
    let server = Server::start();
    run(server.address(), Plan::default(), |stage, chance| {
        let mut client = server.client();
        while stage.goes_on() {
            stage.let_work(10 + chance.below(40));
            stage.tell(Kind::Flush, || cmd!(client, "FLUSHALL"));
        }
    });
    assert_all_is_well_at(&server);
}

#[test]
fn no_two_hold_a_lock_while_memory_is_full() {
    let server = Server::start();
    let plan = Plan { refused: 20, is_kept_up: true, ..Plan::default() };
    run(server.address(), plan, |stage, chance| {
        let mut client = server.client();
        while stage.goes_on() {
            stage.let_work(20 + chance.below(60));
            cmd!(client, "CONFIG", "SET", "maxmemory", 1);
            stage.let_work(20 + chance.below(40));
            cmd!(client, "CONFIG", "SET", "maxmemory", 0);
        }
    });
    assert_all_is_well_at(&server);
}

#[test]
fn no_two_hold_a_lock_while_replicas_are_missing() {
    let server = Server::start();
    let plan = Plan { refused: 20, is_kept_up: true, ends_are_prompt: false, ..Plan::default() };
    run(server.address(), plan, |stage, chance| {
        let mut client = server.client();
        while stage.goes_on() {
            stage.let_work(20 + chance.below(60));
            cmd!(client, "CONFIG", "SET", "min-replicas-to-write", 1);
            stage.let_work(20 + chance.below(40));
            cmd!(client, "CONFIG", "SET", "min-replicas-to-write", 0);
        }
    });
    assert_all_is_well_at(&server);
}

/// A server that could not write its snapshot refuses writes until it can.
#[test]
fn no_two_hold_a_lock_while_the_disk_fails() {
    let server = Server::with().with_disk_that_fails().start();
    let plan = Plan { refused: 20, is_kept_up: true, ends_are_prompt: false, ..Plan::default() };
    run(server.address(), plan, |stage, chance| {
        while stage.goes_on() {
            stage.let_work(150 + chance.below(150));
            server.break_disk();
            stage.let_work(20 + chance.below(40));
            server.mend_disk();
        }
    });
    assert_all_is_well_at(&server);
}

/// It calls LOCK commands and others from within notifications of ours, and from its threads, and deletes locks.
#[test]
fn no_two_hold_a_lock_while_another_module_listens_and_writes() {
    let server = Server::with().with_neighbour().start();
    let keys: Vec<_> = locks().collect();
    run(server.address(), Plan::default(), |stage, chance| {
        let mut client = server.client();
        let events = ["lock.acquire", "lock.release", "lock.renew", "set", "del", "zadd"];
        while stage.goes_on() {
            let key = keys[usize::try_from(chance.below(3)).unwrap()];
            let command = match chance.below(4) {
                0 => args!["LOCK.CHECK", key, "n"],
                1 => args!["LOCK.ACQUIRE", "{h}n", "n", 20, "SHARED"],
                2 => args!["LOCK.RELEASE", "{h}n", "n"],
                _ => args!["SET", "{h}n", "n", "PX", 5],
            };
            let when = args!["NEIGHBOUR.WHEN", chance.of(events), key];
            assert_eq!(client.run(&[when, command].concat()), "OK");
            stage.let_work(5 + chance.below(20));
            if chance.one_in(3) {
                let delete = args!["NEIGHBOUR.THREAD", "DEL", key];
                stage.tell(Kind::Break { key }, || client.run(&delete));
            }
        }
        cmd!(client, "NEIGHBOUR.WHEN");
        cmd!(client, "DEL", "{h}n");
    });
    assert_all_is_well_at(&server);
}

/// By steps as VMs that are resumed, and administrators, make them. The clients' clock, by which they are
/// judged, goes on.
fn steps_of_the_clock(server: &Server, plan: Plan) {
    run(server.address(), plan, |stage, chance| {
        while stage.goes_on() {
            stage.let_work(5 + chance.below(60));
            let step = chance.of([50, 200, 1000, 60_000]);
            server.step_clock_unseen(chance.of([step, -step]));
        }
        stage.let_work(200);
    });
    assert_all_is_well_at(server);
}

#[test]
fn no_two_hold_a_lock_while_the_clock_is_stepped() {
    let server = Server::with().with_steps().start();
    steps_of_the_clock(&server, Plan::default());
}

#[test]
fn no_two_hold_a_lock_while_the_clock_is_stepped_and_most_wait_by_asking() {
    let server = Server::with().with_steps().start();
    let plan = Plan { clients: 12, queueing: 75, places: 100, ..Plan::default() };
    steps_of_the_clock(&server, plan);
}
