//! MAXQUEUE: clients that would rather be refused than wait behind many.

use crate::support::*;

fn behind(most: impl Arg, waiting: &[&str]) -> Command {
    let mut command = args!["LOCK.ACQUIRE", "k", "w9", LONG];
    command.extend(waiting.iter().map(|word| word.as_bytes().to_vec()));
    command.extend(args!["MAXQUEUE", most]);
    command
}

#[test]
fn a_request_that_would_wait_behind_too_many_gets_how_many_wait() {
    for in_resp3 in [false, true] {
        let server = Server::start();
        let mut client = server.client();
        if in_resp3 {
            client.hello3();
        }
        client.acquire("k", "a");
        let _first = server.waiter_for("k", "w1");
        let _second = server.reader_for("k", "w2");
        let full = "QUEUEFULL 2 waiting in the queue, and MAXQUEUE is 2";
        for waiting in [
            &["BLOCK", "0"][..],
            &["QUEUE", "1000"],
            &["QUEUE", "1000", "NOTIFY", "ch", "7"],
            &["BLOCK", "0", "SHARED"],
            &["LIMIT", "9", "BLOCK", "5", "SESSION"],
        ] {
            let refused = client.run(&behind(2, waiting));
            assert_eq!(refused, Value::Error(full.to_owned()), "{waiting:?}");
        }
        let all = args!["LOCK.MACQUIRE", 2, "free", "k", "w9", LONG, "BLOCK", 0, "MAXQUEUE", 2];
        assert_eq!(client.run(&all), Value::Error(full.to_owned()));
        assert!(client.holder("free").is_nil());
        // It has not joined, so one that lets three be before it has two before it.
        assert_eq!(client.run(&behind(3, &["QUEUE", "1000"])), -3);
        // To poll is not to join.
        assert_eq!(client.run(&behind(0, &["QUEUE", "1000"])), -3);
    }
}

#[test]
fn a_request_that_need_not_wait_is_granted_however_few_may_be_before_it() {
    let server = Server::start();
    let mut client = server.client();
    let fence = client.run(&behind(0, &["BLOCK", "0"])).fence();
    let _waiter = server.waiter_for("k", "w1");
    assert_eq!(client.run(&behind(0, &["BLOCK", "0"])), fence);
    assert_eq!(client.run(&behind(0, &["QUEUE", "1000"])), fence);
}

#[test]
fn where_nothing_waits_a_request_gets_nil_as_ever() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let _waiter = server.waiter_for("k", "w1");
    let inside = client.transaction(&[behind(1, &["BLOCK", "0"]), behind(1, &["QUEUE", "1000"])]);
    assert_eq!(inside[0], Value::Nil);
    assert!(inside[1].is_error("QUEUEFULL 1 waiting"), "{inside:?}");
    let script =
        "return redis.call('LOCK.ACQUIRE', KEYS[1], 'w9', 1000, 'BLOCK', 0, 'MAXQUEUE', 1)";
    assert_eq!(cmd!(client, "EVAL", script, 1, "k"), Value::Nil);
}

#[test]
fn a_server_counts_these_errors_as_it_counts_others() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    assert!(client.run(&behind(0, &["BLOCK", "0"])).is_error("QUEUEFULL 0"));
    assert_eq!(client.info("errorstats")["errorstat_QUEUEFULL"], "count=1");
}

#[test]
fn maxqueue_is_a_whole_number_and_comes_with_a_wait() {
    let server = Server::start();
    let mut client = server.client();
    for wrong in ["-1", "1.5", "", "9223372036854775808"] {
        let refused = client.run(&behind(wrong, &["BLOCK", "0"]));
        let error = format!(
            "ERR value is not an integer or out of range: MAXQUEUE must be 0 or more, not {wrong:?}"
        );
        assert_eq!(refused, Value::Error(error));
    }
    assert!(client.run(&behind(1, &[])).is_error("ERR syntax error"));
    assert!(client.run(&behind(1, &["MAXQUEUE", "1", "BLOCK", "0"])).is_error("ERR syntax error"));
    assert!(client.holder("k").is_nil());
}

#[test]
fn in_a_cluster_the_keys_of_one_slot_have_queues_of_their_own() {
    let cluster = Cluster::start(3);
    let node = cluster.node_of("{q}a");
    let mut client = node.client();
    client.acquire_all(&["{q}a", "{q}b"], "a");
    let _waiter = node.waiter_for("{q}b", "w1");
    let ask = |most| {
        args!["LOCK.MACQUIRE", 2, "{q}a", "{q}b", "w9", LONG, "QUEUE", 1000, "MAXQUEUE", most]
    };
    assert!(client.run(&ask(1)).is_error("QUEUEFULL 1 waiting"));
    assert_eq!(client.run(&ask(2)), -2);
}
