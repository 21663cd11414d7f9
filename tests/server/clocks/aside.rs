//! Steps while the server does something else: it rewrites its file, it is one of several, others keep
//! copies.

use super::*;
use std::thread;

#[test]
fn a_step_while_the_append_only_file_is_rewritten_ends_no_hold() {
    for step in [MINUTE, -HOUR] {
        let server = Server::with()
            .with_steps()
            .append_only()
            // A rewrite of a few keys, in some hundred milliseconds.
            .config("rdb-key-save-delay 20000")
            .start();
        let mut client = server.client();
        let holds = hold_in_all_ways(&server, &mut client, WHILE);
        for number in 0..60 {
            cmd!(client, "SET", format!("filler{number}"), "x");
        }
        assert!(!cmd!(client, "BGREWRITEAOF").is_error(""));
        let is_rewritten = || server.info("aof_rewrite_in_progress") == "0";
        assert!(!is_rewritten());
        server.step_clock(step);
        // Half of the owners come while it is rewritten, the others when it is done.
        let renew = |client: &mut Client, hold: &Hold| {
            let mut renew = counted("LOCK.MRENEW", &hold.way.keys());
            renew.extend(args!["a", WHILE]);
            let (term, reply) = Term::of(WHILE, || client.run(&renew));
            assert_eq!(reply, 1, "{step}, {:?}", hold.way);
            hold.assert_is_back("rewritten", client, &term);
        };
        let (now, then) = holds.split_at(5);
        now.iter().for_each(|hold| renew(&mut client, hold));
        eventually("it is rewritten", is_rewritten);
        then.iter().for_each(|hold| renew(&mut client, hold));
        let reading = |client: &mut Client| {
            let keys = holds.iter().flat_map(|hold| hold.way.keys());
            keys.flat_map(|key| [args!["DUMP", key], args!["PEXPIRETIME", key]])
                .map(|command| client.run(&command))
                .collect::<Vec<_>>()
        };
        let there = reading(&mut client);
        server.kill_9();
        server.restart();
        assert_eq!(there, reading(&mut server.client()), "{step}");
    }
}

#[test]
fn in_a_cluster_no_step_of_a_nodes_clock_ends_or_prolongs_a_hold() {
    let cluster =
        Cluster::with(3, |setup| setup.with_steps().config("cluster-node-timeout 1000000000"));
    for step in [MINUTE, DAY, -HOUR, -SECOND] {
        let mut holds = Vec::new();
        let mut waiters = Vec::new();
        for index in 0..3 {
            let key = cluster.key_on(index, "key");
            let (one, other) = (format!("{{{key}}}1"), format!("{{{key}}}2"));
            let mut client = cluster.client(index);
            let (short, fence) = Term::of(600, || client.run(&ask(&key, "a", 600, &[])).fence());
            let many = counted("LOCK.MACQUIRE", &[&one, &other]);
            let many = [many, args!["a", WHILE]].concat();
            let (long, number) = Term::of(WHILE, || client.run(&many).fence());
            waiters.push(cluster.node(index).waiter_for(&key, "w"));
            holds.push((index, key, [one, other], short, fence, long, number));
        }
        cluster.nodes().iter().for_each(|node| node.step_clock(step));
        for (index, _, keys, _, _, long, number) in &holds {
            let mut client = cluster.client(*index);
            let case = format!("{step} ms, node {index}");
            let tried = client.run(&ask(&keys[0], "n", LONG, &[]));
            assert!(tried.is_nil(), "{case}: {tried:?}");
            let again = counted("LOCK.MACQUIRE", keys);
            assert_eq!(client.run(&[again, args!["a", 1]].concat()), *number, "{case}");
            for key in keys {
                assert_eq!(client.holder(key), "a", "{case}");
                long.assert_left(&case, || cmd!(client, "PTTL", key));
            }
            client.release_all(keys, "a");
        }
        for ((index, key, _, short, fence, ..), (reply, at)) in
            holds.iter().zip(replies(&mut waiters))
        {
            let case = format!("{step} ms, node {index}");
            assert!(reply.fence() > *fence, "{case}");
            short.assert_ends_at(&case, at);
            cluster.client(*index).release(key, "w");
        }
    }
}

/// The files have the time at which they were written last.
#[test]
fn fencing_numbers_rise_over_a_restart_with_a_clock_that_was_set_back() {
    for append_only in [true, false] {
        let setup = Server::with().with_steps();
        let setup = if append_only { setup.append_only() } else { setup };
        let server = setup.start();
        let mut client = server.client();
        let before = client.acquire("k", "a");
        client.release("k", "a");
        if !append_only {
            assert_eq!(cmd!(client, "SAVE"), "OK");
        }
        server.step_clock(-HOUR);
        server.restart();
        let mut client = server.client();
        let after = client.acquire("k", "b");
        assert!(after > before, "{after} after {before}, {append_only}");
        client.release("k", "b");
    }
}

/// The server looks at the clock as a command begins. Until it has seen a step, its keys expire by the time before it.
#[test]
fn a_command_in_the_moment_of_a_step_finds_what_is_held_and_keeps_what_it_is_granted() {
    let server = stepped();
    let is_told = !server.version().is_valkey() || !server.version().is_at_least((0, 0), (9, 0));
    skip_unless!(
        is_told,
        "keys expire by a time up to a millisecond older than the one that INFO tells"
    );
    let both = ["{h}k", "{h}l"];
    let mut acquire = counted("LOCK.MACQUIRE", &both);
    acquire.extend(args!["a", LONG]);
    let mut release = counted("LOCK.MRELEASE", &both);
    release.extend(args!["a"]);
    let unit = [
        acquire,
        args!["LOCK.CHECK", both[0], "a"],
        release,
        ask("s", "a", LONG, &["SHARED"]),
        args!["LOCK.CHECK", "s", "a"],
        args!["LOCK.RELEASE", "s", "a"],
    ];
    let batch: Vec<Command> = (0..100).flat_map(|_| unit.clone()).collect();
    let mut client = server.client();
    let worker = thread::spawn(move || {
        for _ in 0..100 {
            for (command, reply) in batch.iter().zip(client.pipeline(&batch)) {
                assert!(
                    matches!(reply, Value::Int(1..)),
                    "{}: {reply:?}",
                    command[0].escape_ascii()
                );
            }
        }
    });
    let mut step = HOUR;
    while !worker.is_finished() {
        server.step_clock_unseen(step);
        step = -step;
        thread::sleep(ms(4));
    }
    worker.join().expect("every reply is right");
    assert_eq!(cmd!(server.client(), "DBSIZE"), 0);
}
