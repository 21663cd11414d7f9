//! In a cluster the rules for keys apply to both commands.

use super::*;

#[test]
fn in_a_cluster_the_servers_rules_for_keys_apply_to_the_keys_of_both() {
    let cluster = Cluster::start(2);
    let lock = cluster.key_on(0, "lock");
    let same = format!("{{{lock}}}:data");
    let same_too = format!("{{{lock}}}:more");
    let other = cluster.key_beside(0, &lock);
    let far_lock = cluster.key_on(1, "lock");
    let far = format!("{{{far_lock}}}:data");
    let mut client = cluster.client(0);
    client.acquire(&lock, "a");
    cluster.client(1).acquire(&far_lock, "a");
    let moved = format!("MOVED {} 127.0.0.1:{}", cluster.slot_of(&far), cluster.node(1).port());
    let run = |client: &mut Client, key: &str, inner: Command, in_multi: bool| {
        let guard = guarded_by(key, "a", &inner);
        if in_multi {
            let answers = client.pipeline(&[args!["MULTI"], guard, args!["EXEC"]]);
            if answers[1].is_error("") { answers[1].clone() } else { answers[2][0].clone() }
        } else {
            client.run(&guard)
        }
    };
    for in_multi in [false, true] {
        for (key, inner, expected) in [
            (&lock, args!["SET", same, 1], Ok("OK")),
            (&lock, args!["MSET", same, 1, same_too, 2], Ok("OK")),
            (&lock, args!["GET", same], Ok("1")),
            (&lock, args!["PING"], Ok("PONG")),
            (&lock, args!["GET", lock], Ok("a")),
            (&lock, args!["SET", other, 1], Err("CROSSSLOT")),
            (&lock, args!["GET", other], Err("CROSSSLOT")),
            (&lock, args!["DEL", other], Err("CROSSSLOT")),
            (&lock, args!["MSET", same, 9, other, 9], Err("CROSSSLOT")),
            (&lock, args!["MSET", other, 9, same, 9], Err("CROSSSLOT")),
            (&lock, args!["COPY", same, other], Err("CROSSSLOT")),
            (&lock, args!["RENAME", same, other], Err("CROSSSLOT")),
            (&lock, args!["SUNIONSTORE", same, other], Err("CROSSSLOT")),
            (&lock, args!["SORT", "x", "STORE", other], Err("CROSSSLOT")),
            (&lock, args!["SET", far, 1], Err("CROSSSLOT")),
            (&lock, args!["EVAL", "return 1", 1, other], Err("CROSSSLOT")),
            (&far_lock, args!["SET", far, 1], Err(&moved)),
            (&far_lock, args!["PING"], Err(&moved)),
            (&far_lock, args!["SET", same, 1], Err(&moved)),
        ] {
            let case = format!("{key}: {}, in MULTI: {in_multi}", shown(&inner));
            let answer = run(&mut client, key, inner, in_multi);
            match expected {
                Ok(text) => assert_eq!(answer, text, "{case}"),
                Err(code) => assert!(answer.is_error(code), "{case}: {answer:?}"),
            }
        }
    }
    // Nothing has come to stand in a wrong slot, or on a wrong node.
    for (key, count) in [(&lock, 3), (&other, 0), (&far, 0)] {
        let slot = cluster.slot_of(key);
        let counted = cmd!(client, "CLUSTER", "COUNTKEYSINSLOT", slot);
        assert_eq!(counted, count, "{key}");
    }
    assert_eq!(cmd!(client, "DBSIZE"), 3);
    assert_eq!(cmd!(client, "GET", same), "1");
    assert_eq!(cmd!(client, "GET", same_too), "2");
    assert_eq!(cmd!(client, "GET", other), Value::Nil);
    let mut far_client = cluster.client(1);
    assert_eq!(cmd!(far_client, "DBSIZE"), 1);
    let guard = guarded_by(&far_lock, "a", &args!["SET", far, 1]);
    assert_eq!(far_client.run(&guard), "OK");
    assert_eq!(cmd!(far_client, "GET", far), "1");
}

#[test]
fn in_a_cluster_a_script_can_not_reach_into_another_slot_through_it() {
    let cluster = Cluster::start(2);
    let lock = cluster.key_on(0, "lock");
    let same = format!("{{{lock}}}:data");
    let other = cluster.key_beside(0, &lock);
    let far = cluster.key_on(1, "far");
    let mut client = cluster.client(0);
    client.acquire(&lock, "a");
    let script = "return redis.call('LOCK.GUARD', KEYS[1], 'a', 'SET', ARGV[1], 1)";
    assert_eq!(cmd!(client, "EVAL", script, 1, lock, same), "OK");
    for key in [&other, &far] {
        let answer = cmd!(client, "EVAL", script, 1, lock, key);
        assert!(answer.is_error(""), "{key}: {answer:?}");
        let slot = cluster.slot_of(key);
        assert_eq!(cmd!(client, "CLUSTER", "COUNTKEYSINSLOT", slot), 0, "{key}");
    }
    assert_eq!(cmd!(client, "DBSIZE"), 2);
    assert_eq!(cmd!(client, "GET", other), Value::Nil);
    assert_eq!(cmd!(client, "GET", same), "1");
}

#[test]
fn in_a_slot_that_moves_the_server_sends_it_where_all_its_keys_are() {
    let cluster = Cluster::start(2);
    let lock = cluster.key_on(0, "lock");
    let [here, missing] = ["here", "missing"].map(|name| format!("{{{lock}}}:{name}"));
    let mut client = cluster.client(0);
    client.acquire(&lock, "a");
    cmd!(client, "SET", here, 1);
    let slot = cluster.slot_of(&lock);
    cluster.set_importing(slot, 0, 1);
    cluster.set_migrating(slot, 0, 1);
    let incr = |key: &str| guarded_by(&lock, "a", &args!["INCR", key]);
    assert_eq!(client.run(&incr(&here)), 2, "both are still here");
    assert!(client.run(&incr(&missing)).is_error("TRYAGAIN"));
    assert_eq!(cluster.migrate_key(&lock, 0, 1), "OK");
    assert!(client.run(&incr(&here)).is_error("ASK"));
    assert!(client.run(&incr(&missing)).is_error("ASK"));
    let mut target = cluster.client(1);
    let answers = target.pipeline(&[args!["ASKING"], incr(&here)]);
    assert!(answers[1].is_error("TRYAGAIN"), "{answers:?}");
    assert_eq!(cluster.migrate_key(&here, 0, 1), "OK");
    assert!(client.run(&incr(&here)).is_error("ASK"));
    assert!(target.run(&incr(&here)).is_error("MOVED"));
    let answers = target.pipeline(&[args!["ASKING"], incr(&here)]);
    assert_eq!(answers[1], 3);
    cluster.set_slot_owner(slot, 0, 1);
    assert_eq!(target.run(&incr(&here)), 4);
    assert!(client.run(&incr(&here)).is_error("MOVED"));
    assert_eq!(cmd!(client, "DBSIZE"), 0);
    assert_eq!(cmd!(target, "CLUSTER", "COUNTKEYSINSLOT", slot), 2);
}
