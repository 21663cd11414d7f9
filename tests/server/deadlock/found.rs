//! What is a deadlock, and what only looks like one.

use super::{assert_refused, refused, take, waiting};
use crate::support::*;

#[test]
fn two_owners_and_two_locks() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("x", "ann");
    client.acquire("y", "ben");
    let mut ann = server.waiter_for("y", "ann");
    assert_refused(
        &mut client,
        &waiting("x", "ben", ""),
        r#""ben" waits for "x", held by "ann"; "ann" waits for "y", held by "ben""#,
    );
    // Whoever is refused waits for nothing and holds what it held.
    assert_eq!(client.holders(&["x", "y"]), ["ann", "ben"]);
    assert_eq!(client.queue("x"), [""; 0]);
    assert!(ann.still_waits());
    client.release("y", "ben");
    ann.answer().fence();
    let mut ben = server.waiter_for("x", "ben");
    client.release_all(&["x", "y"], "ann");
    ben.answer().fence();
}

#[test]
fn however_long_one_would_wait_it_is_refused_at_once() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("x", "ann");
    client.acquire("y", "ben");
    let _ann = server.waiter_for("y", "ann");
    for block in [1, 50, 600_000] {
        let command = args!["LOCK.ACQUIRE", "x", "ben", LONG, "BLOCK", block];
        refused(&mut client, &command);
        let several = args!["LOCK.MACQUIRE", 2, "z", "x", "ben", LONG, "BLOCK", block];
        refused(&mut client, &several);
    }
    assert_eq!(cmd!(client, "EXISTS", "z"), 0);
    assert_eq!(client.queue("z"), [""; 0]);
}

#[test]
fn a_deadlock_of_any_length_is_found_and_eight_of_it_are_named() {
    let server = Server::start();
    let mut client = server.client();
    for length in [2, 3, 8, 9, 12, 40] {
        cmd!(client, "FLUSHALL");
        for number in 0..length {
            client.acquire(format!("k{number}"), format!("o{number}"));
        }
        // Each waits for the lock of the next one; the last one would close the deadlock.
        let mut waiters: Vec<_> = (0..length - 1)
            .map(|number| server.waiter_for(format!("k{}", number + 1), format!("o{number}")))
            .collect();
        let last = length - 1;
        let words = refused(&mut client, &waiting("k0", format!("o{last}"), ""));
        let link = |number: usize| {
            let next = (number + 1) % length;
            format!(r#""o{number}" waits for "k{next}", held by "o{next}""#)
        };
        let mut links: Vec<String> = (0..length)
            .map(|step| link((last + step) % length))
            .collect();
        if length > 8 {
            // The seventh names the eighth owner.
            links.truncate(7);
            links.push(format!("and {} more", length - 8));
        }
        assert_eq!(words, links.join("; "), "{length}");
        assert!(waiters.iter_mut().all(Client::still_waits), "{length}");
        // Without the last one it is a line, and lines end.
        client.release(format!("k{last}"), format!("o{last}"));
        for number in (0..last).rev() {
            waiters[number].answer().fence();
            let owner = format!("o{number}");
            client.release_all(&[format!("k{number}"), format!("k{}", number + 1)], owner);
        }
        assert_eq!(cmd!(client, "DBSIZE"), 0);
    }
}

#[test]
fn a_deadlock_may_go_through_several_databases() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "ann");
    client.select(7);
    client.acquire("k", "ben");
    let _ann = server.waiter_in(7, &waiting("k", "ann", ""));
    client.select(0);
    let words = refused(&mut client, &waiting("k", "ben", ""));
    // Valkey 9.1 knows rights for databases, so the keys of others are not named there.
    let knows_databases =
        server.version().is_valkey() && server.version().is_at_least((0, 0), (9, 1));
    let elsewhere = if knows_databases {
        "(another key)"
    } else {
        r#""k""#
    };
    assert_eq!(
        words,
        format!(
            r#""ben" waits for "k", held by "ann"; "ann" waits for {elsewhere}, held by "ben""#
        )
    );
    // The same name elsewhere is another lock.
    client.select(3);
    client.acquire("k", "cid");
    client.select(0);
    let mut cid = server.waiter_for("k", "cid");
    client.select(3);
    let words = refused(&mut client, &waiting("k", "ben", ""));
    assert!(
        words.starts_with(r#""ben" waits for "k", held by "cid"; "cid" waits"#),
        "{words}"
    );
    client.select(5);
    client.acquire("k", "dan");
    let mut ben = server.waiter_in(5, &waiting("k", "ben", ""));
    assert!(cid.still_waits());
    client.release("k", "dan");
    ben.answer().fence();
}

/// Every way to hold a lock, and every way to wait for it, that exclude each other.
#[test]
fn a_deadlock_may_go_through_requests_of_all_kinds() {
    let server = Server::start();
    let mut client = server.client();
    let holds = ["", "SHARED", "LIMIT 1"];
    let waits = ["", "SHARED", "LIMIT 1"];
    for x_held in holds {
        for y_held in holds {
            for ann_waits in waits {
                for ben_waits in waits {
                    let excludes = |held: &str, wants: &str| match (held, wants) {
                        ("", _) | (_, "") => true,
                        // A permit is one of one: any hold beside it is one too many.
                        (_, limit) => limit == "LIMIT 1",
                    };
                    if !excludes(y_held, ann_waits) || !excludes(x_held, ben_waits) {
                        continue;
                    }
                    let case = format!("{x_held:?} {y_held:?} {ann_waits:?} {ben_waits:?}");
                    cmd!(client, "FLUSHALL");
                    take(&mut client, "x", "ann", x_held);
                    take(&mut client, "y", "ben", y_held);
                    let mut ann = server.waiter(&waiting("y", "ann", ann_waits));
                    let words = refused(&mut client, &waiting("x", "ben", ben_waits));
                    assert_eq!(
                        words,
                        r#""ben" waits for "x", held by "ann"; "ann" waits for "y", held by "ben""#,
                        "{case}"
                    );
                    assert!(ann.still_waits(), "{case}");
                    client.release("y", "ben");
                    ann.answer().fence();
                }
            }
        }
    }
}

#[test]
fn a_deadlock_may_go_through_requests_for_several_locks() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire_all(&["a", "b"], "ann");
    client.acquire_all(&["c", "d"], "ben");
    let mut ann = server.waiter_for_all(&["x", "d", "y"], "ann");
    assert_refused(
        &mut client,
        &macquire_waiting(&["z", "b"], "ben"),
        r#""ben" waits for "b", held by "ann"; "ann" waits for "d", held by "ben""#,
    );
    // Behind it at a lock that is free: it comes first, and waits for `d`.
    assert_refused(
        &mut client,
        &waiting("x", "ben", ""),
        r#""ben" waits for "x", behind "ann"; "ann" waits for "d", held by "ben""#,
    );
    assert_refused(
        &mut client,
        &macquire_waiting(&["z", "y"], "ben"),
        r#""ben" waits for "y", behind "ann"; "ann" waits for "d", held by "ben""#,
    );
    for key in ["x", "y", "z", "b"] {
        let queue = client.queue(key);
        assert!(queue.is_empty() || queue == ["ann"], "{key}: {queue:?}");
    }
    client.release("d", "ben");
    ann.answer().fence();
}

/// H holds a; M waits for a and b; L holds y and waits for b, behind M; H asks for y.
#[test]
fn a_deadlock_may_go_through_one_who_only_comes_first() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("a", "H");
    client.acquire("y", "L");
    let mut m = server.waiter_for_all(&["a", "b"], "M");
    let mut l = server.waiter_for("b", "L");
    assert_refused(
        &mut client,
        &waiting("y", "H", ""),
        r#""H" waits for "y", held by "L"; "L" waits for "b", behind "M"; "M" waits for "a", held by "H""#,
    );
    client.release("a", "H");
    m.answer().fence();
    client.release_all(&["a", "b"], "M");
    l.answer().fence();
    let mut h = server.waiter_for("y", "H");
    client.release("y", "L");
    h.answer().fence();
}

/// A reader does not overtake a writer, so it waits for those that the writer waits for.
#[test]
fn a_reader_behind_a_writer_waits_for_the_readers_before_it() {
    let server = Server::start();
    let mut client = server.client();
    take(&mut client, "x", "ann", "SHARED");
    client.acquire("y", "ben");
    let mut writer = server.waiter_for("x", "writer");
    let mut ann = server.waiter_for("y", "ann");
    let words = refused(&mut client, &waiting("x", "ben", "SHARED"));
    assert!(words.starts_with(r#""ben" waits for "x", "#), "{words}");
    assert!(
        words.contains(r#""ann" waits for "y", held by "ben""#),
        "{words}"
    );
    // Without the writer it could have shared the lock at once.
    assert_eq!(cmd!(client, "CLIENT", "UNBLOCK", writer.id()), 1);
    assert!(writer.answer().is_nil());
    take(&mut client, "x", "ben", "SHARED BLOCK 0");
    client.release("y", "ben");
    ann.answer().fence();
}

#[test]
fn of_two_who_share_a_lock_and_both_want_it_alone_the_second_is_refused() {
    let server = Server::start();
    let mut client = server.client();
    for share in ["SHARED", "LIMIT 2"] {
        take(&mut client, "x", "ann", share);
        take(&mut client, "x", "ben", share);
        let mut ann = server.waiter_for("x", "ann");
        assert_refused(
            &mut client,
            &waiting("x", "ben", ""),
            r#""ben" waits for "x", held by "ann"; "ann" waits for "x", held by "ben""#,
        );
        // Its share stays what it was.
        assert!(cmd!(client, "LOCK.CHECK", "x", "ben").int() > 0);
        client.release("x", "ben");
        ann.answer().fence();
        assert_eq!(client.holder("x"), "ann");
        client.release("x", "ann");
    }
}

/// One of the two lets go sooner or later, and then there is a permit.
#[test]
fn a_wait_for_one_of_two_permits_is_no_deadlock_while_one_of_their_holders_is_free_to_go() {
    let server = Server::start();
    let mut client = server.client();
    let permit = "LIMIT 2";
    take(&mut client, "x", "ann", permit);
    take(&mut client, "x", "ben", permit);
    client.acquire("y", "cid");
    let mut cid = server.waiter(&waiting("x", "cid", permit));
    let mut ann = server.waiter_for("y", "ann");
    // When ben waits for cid too, nobody is left to let go.
    let words = refused(&mut client, &waiting("y", "ben", ""));
    assert!(
        words.contains(r#""cid" waits for "x", held by "#),
        "{words}"
    );
    assert_eq!(client.queue("y"), ["ann"]);
    client.release("x", "ben");
    cid.answer().fence();
    client.release("y", "cid");
    ann.answer().fence();
}

#[test]
fn of_three_permits_all_must_be_stuck() {
    let server = Server::start();
    let mut client = server.client();
    for owner in ["a", "b", "c"] {
        take(&mut client, "x", owner, "LIMIT 3");
    }
    client.acquire("y", "d");
    let mut d = server.waiter(&waiting("x", "d", "LIMIT 3"));
    let mut a = server.waiter_for("y", "a");
    let mut b = server.waiter_for("y", "b");
    refused(&mut client, &waiting("y", "c", ""));
    // One who waits for nobody but an outsider goes sooner or later.
    client.acquire("z", "outsider");
    let mut c = server.waiter_for("z", "c");
    assert!(d.still_waits());
    // But the outsider must not wait for one of them now.
    refused(&mut client, &waiting("y", "outsider", ""));
    client.release("z", "outsider");
    c.answer().fence();
    client.release("x", "c");
    d.answer().fence();
    client.release("y", "d");
    a.answer().fence();
    client.release("y", "a");
    b.answer().fence();
}

/// Of a higher limit more may hold it than of a lower one: for that more have to go.
#[test]
fn a_lower_limit_waits_for_more_of_the_holders() {
    let server = Server::start();
    let mut client = server.client();
    for owner in ["a", "b", "c"] {
        take(&mut client, "x", owner, "LIMIT 3");
    }
    client.acquire("y", "d");
    // Two of the three have to go: with one of them stuck that can be.
    let mut d = server.waiter(&waiting("x", "d", "LIMIT 2"));
    let mut a = server.waiter_for("y", "a");
    refused(&mut client, &waiting("y", "b", ""));
    client.release("x", "b");
    assert!(d.still_waits());
    client.release("x", "c");
    d.answer().fence();
    client.release("y", "d");
    a.answer().fence();
}

#[test]
fn long_lines_and_trees_are_no_deadlocks() {
    let server = Server::start();
    let mut client = server.client();
    // A line of locks, each of whose holders waits for the next.
    for number in 0..100 {
        client.acquire(format!("k{number}"), format!("o{number}"));
    }
    let mut line: Vec<_> = (0..99)
        .map(|number| server.waiter_for(format!("k{}", number + 1), format!("o{number}")))
        .collect();
    let words = refused(&mut client, &waiting("k0", "o99", ""));
    assert!(words.ends_with("and 92 more"), "{words}");
    // Many who wait for several of them.
    let wishes = |number: usize| [number, number + 40, 99].map(|number| format!("k{number}"));
    let mut crowd: Vec<_> = (0..50)
        .map(|number| server.waiter_for_all(&wishes(number), format!("c{number}")))
        .collect();
    // The other end asks for what nobody of the line holds, and for what its own holder waits for.
    client.acquire("free", "o99");
    assert_eq!(cmd!(client, "LOCK.ACQUIRE", "free", "c0", LONG), Value::Nil);
    refused(&mut client, &waiting("k0", "o99", ""));
    refused(&mut client, &waiting("k98", "o99", ""));
    client.release_all(&["k99", "free"], "o99");
    for number in (0..99).rev() {
        line[number].answer().fence();
        let keys = [format!("k{number}"), format!("k{}", number + 1)];
        client.release_all(&keys, format!("o{number}"));
    }
    for (number, waiter) in crowd.iter_mut().enumerate() {
        waiter.answer().fence();
        client.release_all(&wishes(number), format!("c{number}"));
    }
    assert_eq!(cmd!(client, "DBSIZE"), 0);
}

#[test]
fn a_try_is_busy_and_never_a_deadlock() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("x", "ann");
    client.acquire("y", "ben");
    take(&mut client, "s", "ben", "SHARED");
    take(&mut client, "s", "ann", "SHARED");
    let _ann = server.waiter_for("y", "ann");
    let tries = [
        args!["LOCK.ACQUIRE", "x", "ben", LONG],
        args!["LOCK.ACQUIRE", "x", "ben", LONG, "SHARED"],
        args!["LOCK.ACQUIRE", "x", "ben", LONG, "LIMIT", 3],
        args!["LOCK.ACQUIRE", "s", "ben", LONG],
        macquire(&["x", "z"], "ben"),
    ];
    for command in &tries {
        assert_eq!(client.run(command), Value::Nil, "{command:?}");
    }
    // Where nobody can wait every request is a try.
    let waits = tries.map(|command| [command, args!["BLOCK", 0]].concat());
    assert!(client.transaction(&waits).iter().all(Value::is_nil));
    let script = "return redis.call(unpack(ARGV))";
    for command in &waits {
        let answer = client.run(&[args!["EVAL", script, 0], command.clone()].concat());
        assert_eq!(answer, Value::Nil, "{command:?}");
    }
    for command in &waits {
        refused(&mut client, command);
    }
}

#[test]
fn asking_again_for_what_one_holds_is_never_a_deadlock() {
    let server = Server::start();
    let mut client = server.client();
    let fence = client.acquire_all(&["x", "x2"], "ann");
    client.acquire("y", "ben");
    let mut ben = server.waiter_for("x", "ben");
    for command in [
        waiting("x", "ann", ""),
        waiting("x2", "ann", "SHARED"),
        macquire_waiting(&["x", "x2"], "ann"),
    ] {
        assert_eq!(client.run(&command), fence);
    }
    refused(&mut client, &waiting("y", "ann", ""));
    assert!(ben.still_waits());
}

/// It is one piece of work: what it waits for by one connection does not wait for another of its.
#[test]
fn several_waits_of_one_owner_are_no_deadlock() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("x", "ann");
    client.acquire("y", "ben");
    let mut waits = [
        server.waiter_for("y", "ann"),
        server.waiter_for("y", "ann"),
        server.waiter_for_all(&["x", "y"], "ann"),
        server.waiter_for_all(&["z", "y"], "ann"),
        server.waiter_for("z", "ann"),
    ];
    refused(&mut client, &waiting("x", "ben", ""));
    refused(&mut client, &waiting("z", "ben", ""));
    client.release("y", "ben");
    for wait in &mut waits {
        wait.answer().fence();
    }
}

/// A share that is to become more stands before everybody, also before those who came first.
#[test]
fn those_who_came_before_an_upgrade_wait_for_it_too() {
    let server = Server::start();
    let mut client = server.client();
    take(&mut client, "x", "ann", "SHARED");
    take(&mut client, "x", "ben", "SHARED");
    client.acquire("y", "cid");
    let mut cid = server.waiter_for("x", "cid");
    let mut ann = server.waiter_for("x", "ann");
    // cid waits for both; so neither may wait for cid.
    refused(&mut client, &waiting("y", "ben", ""));
    client.release("x", "ben");
    ann.answer().fence();
    assert!(cid.still_waits());
    refused(&mut client, &waiting("y", "ann", ""));
    client.release("x", "ann");
    cid.answer().fence();
}

#[test]
fn in_a_cluster_a_deadlock_over_two_slots_of_one_node_is_found() {
    let cluster = Cluster::start(2);
    let mut client = cluster.client(0);
    let x = cluster.key_on(0, "x");
    let y = (0..)
        .map(|number| cluster.key_on(0, &format!("y{number}-")))
        .find(|key| cluster.slot_of(key) != cluster.slot_of(&x))
        .unwrap();
    client.acquire(&x, "ann");
    client.acquire(&y, "ben");
    let mut ann = cluster.node(0).waiter_for(&y, "ann");
    assert_refused(
        &mut client,
        &waiting(&x, "ben", ""),
        &format!(r#""ben" waits for "{x}", held by "ann"; "ann" waits for "{y}", held by "ben""#),
    );
    // The server lives on, and knows both keys as before.
    cluster.node(0).let_pass(1_500);
    assert_eq!(client.holders(&[&x]), ["ann"]);
    assert_eq!(client.holders(&[&y]), ["ben"]);
    client.release(&y, "ben");
    ann.answer().fence();
}
