//! `LOCK.INFO`: who holds a lock, and who waits for it.

use super::*;

#[test]
fn info_names_those_who_share_and_what_each_waiter_waits_for() {
    let server = Server::start();
    let (mut client, mut other) = (server.client(), server.client());
    let first = client.share("k", "a");
    let second = other.permit("k", "b", 2);
    let mut permit = server.permit_waiter_for("k", "p", 2);
    let mut writer = server.waiter_for("k", "w");
    let mut reader = server.reader_for("k", "r");
    for mut asking in [server.client(), server.client3()] {
        let info = cmd!(asking, "LOCK.INFO", "k");
        assert_eq!(info["mode"], "shared");
        assert_eq!(info["count"], 2);
        assert_eq!(info["queue"], 3);
        let holders: BTreeMap<_, _> = (info["holders"].items().iter())
            .map(|holder| (holder["owner"].text(), holder))
            .collect();
        assert_eq!(holders.len(), 2);
        for (owner, fence, id) in [("a", first, client.id()), ("b", second, other.id())] {
            let holder = holders[owner];
            assert_eq!(holder["fence"], fence);
            assert_eq!(holder["client"], id);
            assert!((1..=i64::try_from(LONG).unwrap()).contains(&holder["ttl"].int()));
            assert!((0..60_000).contains(&holder["held"].int()));
        }
        let waiters = info["waiters"].items();
        let expected = [
            ("p", "limit", permit.id()),
            ("w", "exclusive", writer.id()),
            ("r", "shared", reader.id()),
        ];
        assert_eq!(waiters.len(), expected.len());
        for (waiter, (owner, mode, id)) in waiters.iter().zip(expected) {
            assert_eq!(waiter["owner"], owner);
            assert_eq!(waiter["mode"], mode);
            assert_eq!(waiter["client"], id);
            assert!((0..60_000).contains(&waiter["waited"].int()));
            assert_eq!(waiter.field("limit").is_some(), mode == "limit");
        }
        assert_eq!(waiters[0]["limit"], 2);
    }
}

#[test]
fn info_is_a_map_of_maps_in_resp3_and_flat_lists_in_resp2() {
    let server = Server::start();
    let mut client = server.client3();
    client.acquire("k", "a");
    let _waiter = server.permit_waiter_for("k", "w", 5);
    let info = cmd!(client, "LOCK.INFO", "k");
    let names = |value: &Value| match value {
        Value::Map(pairs) => pairs.iter().map(|(name, _)| name.text()).collect::<Vec<_>>(),
        other => panic!("no map: {other:?}"),
    };
    let fields = ["mode", "holders", "count", "waiters", "queue"];
    let of_holder = ["owner", "ttl", "fence", "held", "client", "client-name", "client-addr"];
    let of_waiter = ["owner", "mode", "limit", "waited", "client", "client-name", "client-addr"];
    assert_eq!(names(&info), fields);
    assert_eq!(names(&info["holders"][0]), of_holder);
    assert_eq!(names(&info["waiters"][0]), of_waiter);
    let info = cmd!(server.client(), "LOCK.INFO", "k");
    for (list, names) in
        [(&info, &fields[..]), (&info["holders"][0], &of_holder), (&info["waiters"][0], &of_waiter)]
    {
        let said: Vec<_> = list.items().iter().step_by(2).map(Value::text).collect();
        assert!(matches!(list, Value::Array(_)));
        assert_eq!(said, names);
        assert_eq!(list.items().len(), 2 * names.len());
    }
}

#[test]
fn info_lists_the_first_128_or_as_many_as_are_asked_for_and_counts_all() {
    let server = Server::start();
    let mut client = server.client();
    const ALL: usize = 140;
    for n in 0..ALL {
        client.share("k", format!("r{n}"));
    }
    let waiters: Vec<_> = (0..ALL)
        .map(|n| {
            let mut waiter = server.client();
            waiter.send(&args!["LOCK.ACQUIRE", "k", format!("w{n}"), LONG, "BLOCK", 0]);
            // In this order: the next one asks when this one is in the queue.
            let mut client = server.client();
            eventually("it is in the queue", || {
                cmd!(client, "LOCK.INFO", "k")["queue"].int() == i64::try_from(n).unwrap() + 1
            });
            waiter
        })
        .collect();
    let info = cmd!(client, "LOCK.INFO", "k");
    assert_eq!(info["count"], i64::try_from(ALL).unwrap());
    assert_eq!(info["queue"], i64::try_from(waiters.len()).unwrap());
    let owners = |list: &str| -> Vec<_> {
        (info[list].items().iter()).map(|one| one["owner"].text()).collect()
    };
    let holders: BTreeSet<_> = owners("holders").into_iter().collect();
    assert_eq!(holders.len(), 128);
    assert!(holders.iter().all(|owner| owner.starts_with('r')));
    let expected: Vec<_> = (0..128).map(|n| format!("w{n}")).collect();
    assert_eq!(owners("waiters"), expected);
    for (count, listed) in [("0", 0), ("3", 3), ("139", 139), ("1000000", ALL)] {
        let info = cmd!(client, "LOCK.INFO", "k", "count", count);
        assert_eq!(info["holders"].items().len(), listed);
        assert_eq!(info["waiters"].items().len(), listed);
        assert_eq!(info["count"], i64::try_from(ALL).unwrap());
        assert_eq!(info["queue"], i64::try_from(ALL).unwrap());
    }
}

#[test]
fn the_count_of_info_is_a_whole_number_and_nothing_follows_it() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let syntax = |what: &str| format!("ERR syntax error: {what}");
    let range = |said: &str| {
        format!(
            "ERR value is not an integer or out of range: COUNT must be 0 or more, not {said:?}"
        )
    };
    for (words, error) in [
        (args!["COUNT"], syntax("COUNT needs a number")),
        (args!["COUNT", "1", "COUNT"], syntax("COUNT is given twice")),
        (args!["NUMBER", "1"], syntax("there is no option \"NUMBER\"")),
        (args!["FULL"], syntax("there is no option \"FULL\"")),
        (args!["COUNT", "1", "FULL"], syntax("there is no option \"FULL\"")),
        (args!["COUNT", "-1"], range("-1")),
        (args!["COUNT", "1.5"], range("1.5")),
        (args!["COUNT", "99999999999999999999"], range("99999999999999999999")),
    ] {
        let refused = client.run(&[args!["LOCK.INFO", "k"], words].concat());
        assert_eq!(refused, Value::Error(error));
    }
}

#[test]
fn a_connection_that_is_gone_is_not_named() {
    let server = Server::start();
    let mut client = server.client();
    let mut holder = server.client();
    holder.acquire("k", "a");
    assert_eq!(cmd!(client, "LOCK.INFO", "k")["holders"][0]["client"], holder.id());
    holder.close();
    eventually("the connection is not named any more", || {
        cmd!(client, "LOCK.INFO", "k")["holders"][0]["client"].is_nil()
    });
    let info = cmd!(client, "LOCK.INFO", "k");
    assert!(!info["holders"][0]["fence"].is_nil(), "{info:?}");
    assert!(!info["holders"][0]["held"].is_nil(), "{info:?}");
    client.acquire("k", "a");
    assert_eq!(
        cmd!(client, "LOCK.INFO", "k")["holders"][0]["client"],
        client.id(),
        "who retries is the one to ask"
    );
}

#[test]
fn a_hold_that_a_script_took_names_no_connection() {
    let server = Server::start();
    let mut client = server.client();
    let script = "return redis.call('LOCK.ACQUIRE', KEYS[1], ARGV[1], ARGV[2])";
    cmd!(client, "EVAL", script, 1, "k", "a", LONG).fence();
    let info = cmd!(client, "LOCK.INFO", "k");
    assert!(info["holders"][0]["client"].is_nil(), "{info:?}");
    assert!(!info["holders"][0]["fence"].is_nil(), "{info:?}");
}
