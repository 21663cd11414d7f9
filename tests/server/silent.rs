//! A key that was a lock's has become something else, and goes in a way of which the server says
//! nothing, or at a time at which nothing of ours may run: a waiter has the lock all the
//! same, on a server to which no client says a word.

use crate::support::*;

/// `k` is held, and a client waits for it; then it becomes something else, all in one instant.
fn waiter_while_it_becomes(server: &Server, client: &mut Client, becomes: &[Command]) -> Client {
    client.acquire("k", "a");
    let waiter = server.waiter_for("k", "w");
    let mut all = vec![args!["DEL", "k"]];
    all.extend_from_slice(becomes);
    for answer in client.transaction(&all) {
        assert!(!answer.is_error(""), "{becomes:?}: {answer:?}");
    }
    waiter
}

fn has_command(client: &mut Client, name: &str) -> bool {
    !cmd!(client, "COMMAND", "INFO", name)[0].is_nil()
}

#[test]
fn a_waiter_has_the_lock_when_the_last_field_of_a_hash_runs_out() {
    let server = Server::start();
    let mut client = server.client();
    skip_unless!(has_command(&mut client, "HPEXPIRE"), "fields have no ends");
    let fields = |key: &str, fields: u32| {
        let mut all = Vec::new();
        for field in 0..fields {
            all.push(args!["HSET", key, field, "v"]);
            all.push(args!["HPEXPIRE", key, 60 + 20 * field, "FIELDS", 1, field]);
        }
        all
    };
    let mut ways = vec![fields("k", 1), fields("k", 3), fields("k", 700)];
    let mut renamed = fields("src", 1);
    renamed.push(args!["RENAME", "src", "k"]);
    ways.push(renamed);
    let mut copied = fields("src", 1);
    copied.push(args!["COPY", "src", "k", "REPLACE"]);
    ways.push(copied);
    if has_command(&mut client, "HGETEX") {
        let gives_end = args!["HGETEX", "k", "PX", 80, "FIELDS", 1, "f"];
        ways.push(vec![args!["HSET", "k", "f", "v"], gives_end]);
        ways.push(vec![args!["HSETEX", "k", "PX", 80, "FIELDS", 1, "f", "v"]]);
    }
    for way in ways {
        let mut waiter = waiter_while_it_becomes(&server, &mut client, &way);
        waiter.answer().fence();
        client.release("k", "w");
        cmd!(client, "FLUSHALL");
    }
}

#[test]
fn a_waiter_for_several_has_them_when_the_last_field_of_a_hash_runs_out() {
    let server = Server::start();
    let mut client = server.client();
    skip_unless!(has_command(&mut client, "HPEXPIRE"), "fields have no ends");
    client.acquire("k", "a");
    let mut waiter = server.waiter(&macquire_waiting(&["j", "k", "l"], "w"));
    client.transaction(&[
        args!["DEL", "k"],
        args!["HSET", "k", "f", "v"],
        args!["HPEXPIRE", "k", 80, "FIELDS", 1, "f"],
    ]);
    waiter.answer().fence();
}

#[test]
fn a_waiter_has_the_lock_when_a_key_of_any_type_has_been_emptied() {
    let server = Server::start();
    let mut client = server.client();
    let ways = [
        (args!["VADD", "k", "VALUES", 1, 1, "e"], args!["VREM", "k", "e"]),
        (args!["VADD", "k", "VALUES", 1, 1, "e"], args!["DEL", "k"]),
        (args!["RPUSH", "k", "x"], args!["LPOP", "k"]),
        (args!["RPUSH", "k", "x"], args!["LMOVE", "k", "other", "LEFT", "LEFT"]),
        (args!["SADD", "k", "x"], args!["SPOP", "k"]),
        (args!["SADD", "k", "x"], args!["SMOVE", "k", "other", "x"]),
        (args!["ZADD", "k", 1, "x"], args!["ZPOPMIN", "k"]),
        (args!["HSET", "k", "f", "v"], args!["HDEL", "k", "f"]),
        (args!["HSET", "k", "f", "v"], args!["HGETDEL", "k", "FIELDS", 1, "f"]),
        (args!["HSET", "k", "f", "v"], args!["HPEXPIRE", "k", 0, "FIELDS", 1, "f"]),
        (args!["XADD", "k", "*", "f", "v"], args!["UNLINK", "k"]),
        (args!["XADD", "k", "*", "f", "v"], args!["MOVE", "k", 1]),
        (args!["RPUSH", "k", "x"], args!["RENAME", "k", "other"]),
        (args!["RPUSH", "k", "x"], args!["SORT", "none", "STORE", "k"]),
        (args!["SADD", "k", "x"], args!["SINTERSTORE", "k", "none"]),
        (args!["ZADD", "k", 1, "x"], args!["ZUNIONSTORE", "k", 1, "none"]),
        (args!["SET", "k", ""], args!["GETDEL", "k"]),
        (args!["RPUSH", "k", "x"], args!["PEXPIRE", "k", 20]),
        (args!["RPUSH", "k", "x"], args!["FLUSHDB"]),
        (args!["RPUSH", "k", "x"], args!["SWAPDB", 0, 1]),
    ];
    for (becomes, goes) in ways {
        let name = |command: &Command| String::from_utf8_lossy(&command[0]).into_owned();
        let known = [&becomes, &goes].map(|command| has_command(&mut client, &name(command)));
        if known != [true, true] {
            continue;
        }
        let mut waiter =
            waiter_while_it_becomes(&server, &mut client, std::slice::from_ref(&becomes));
        let answer = client.run(&goes);
        assert!(!answer.is_error(""), "{goes:?}: {answer:?}");
        // No client says anything until then.
        waiter.answer().fence();
        cmd!(client, "SELECT", 0);
        client.release("k", "w");
        cmd!(client, "FLUSHALL");
    }
}
