//! What is written under a guard, where, and when it is refused.

use super::*;

#[test]
fn full_memory_refuses_what_needs_more_and_nothing_else() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    cmd!(client, "MSET", "x", 1, "y", 1);
    cmd!(client, "RPUSH", "list", 1, 2);
    let in_script = |line| {
        let call = "return redis.call('LOCK.GUARD', 'k', 'a', unpack(ARGV))";
        [args!["EVAL", call, 0], words(line)].concat()
    };
    assert_eq!(cmd!(client, "CONFIG", "SET", "maxmemory", 1), "OK");
    for line in ["SET x 2", "SET new 1", "INCR x", "RPUSH list 3", "HSET h f 1"] {
        let answer = client.run(&guarded(&words(line)));
        assert!(answer.is_error("OOM"), "{line}: {answer:?}");
        let answer = client.run(&in_script(line));
        assert!(answer.is_error("OOM"), "{line}: {answer:?}");
    }
    assert_eq!(client.run(&guarded(&words("GET x"))), "1");
    assert_eq!(client.run(&guarded(&words("LPOP list"))), "1");
    assert_eq!(client.run(&guarded(&words("DEL x"))), 1);
    assert_eq!(client.run(&in_script("GET y")), "1");
    assert_eq!(client.run(&in_script("DEL y")), 1);
    assert_eq!(cmd!(client, "EXISTS", "x", "y", "new", "h"), 0);
    assert_eq!(cmd!(client, "CONFIG", "SET", "maxmemory", 0), "OK");
    assert_eq!(client.run(&guarded(&words("SET x 2"))), "OK");
}

#[test]
fn too_few_replicas_refuse_it() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "a");
    let set = |client: &mut Client, count| {
        let answer = cmd!(client, "CONFIG", "SET", "min-replicas-to-write", count);
        assert_eq!(answer, "OK");
    };
    set(&mut client, 1);
    let before = digest(&server);
    for line in ["SET x 1", "DEL k", "GET x"] {
        let answer = client.run(&guarded(&words(line)));
        assert!(answer.is_error("NOREPLICAS"), "{line}: {answer:?}");
    }
    let script = "return redis.call('LOCK.GUARD', 'k', 'a', 'SET', 'x', 1)";
    assert!(cmd!(client, "EVAL", script, 0).is_error("NOREPLICAS"));
    assert_eq!(digest(&server), before);
    set(&mut client, 0);
    assert_eq!(client.run(&guarded(&words("SET x 1"))), "OK");
}

#[test]
fn a_replica_refuses_it_also_one_that_may_be_written() {
    let server = Server::start();
    server.client().acquire("k", "a");
    let replica = server.replica();
    let mut client = replica.client();
    assert_eq!(client.holder("k"), "a");
    for read_only in ["yes", "no"] {
        cmd!(client, "CONFIG", "SET", "replica-read-only", read_only);
        let before = digest(&replica);
        for line in ["SET x 1", "GET x", "DEL k"] {
            let answer = client.run(&guarded(&words(line)));
            assert!(answer.is_error("READONLY"), "read only: {read_only}: {line}: {answer:?}");
            let answers = client.pipeline(&[args!["MULTI"], guarded(&words(line)), args!["EXEC"]]);
            assert!(
                answers[1].is_error("READONLY") || answers[2][0].is_error("READONLY"),
                "read only: {read_only}: {line}: {answers:?}"
            );
        }
        assert_eq!(digest(&replica), before);
    }
    replica.promote();
    assert_eq!(client.run(&guarded(&words("SET x 1"))), "OK");
}

/// Writes that are told to others in other words than they are said in, and some that are not told.
const WRITES: &str = "
    SET s 1 EX 10000; SET s 2 NX; INCR s; INCRBYFLOAT s 0.5; EXPIRE s 100000; PEXPIRE s 200000000 GT;
    GETEX s EX 100000; GETEX s PERSIST; SET s 5 GET; GETSET s 6; GETDEL s; GET s; SETEX s 100000 1;
    EXPIRE s -1; DEL missing; HSET h f 1; HINCRBYFLOAT h f 1.5; SADD set one; SPOP set; SADD set one;
    SPOP set 5; RPUSH list 1 2 3; LMPOP 2 missing list LEFT COUNT 2; LMOVE list list2 LEFT RIGHT;
    RPOPLPUSH missing list; ZADD z 1 a 2 b; ZPOPMIN z; ZADD z INCR 1.5 b; ZMPOP 1 z MIN; XADD stream * f v;
    XADD stream MAXLEN 1 * f v; XADD stream 9999999999999-1 f v; SETRANGE s 0 abc; SORT missing STORE sorted;
    COPY s s2; RENAME s s3; UNLINK s2 missing; MSETNX a 1 b 2; MSETNX b 3 c 4; SETNX a 2; PFADD hll a;
    GEOADD geo 1 1 m; BITOP NOT bits s3; PING; INCR z";

/// The commands of an append-only file, without what frames them. What depends on the moment is
/// masked: times, and the numbers of stream entries.
fn written(server: &Server, leave_out: &str) -> Vec<String> {
    let mask = |word: &str| match word.split('-').next() {
        Some(digits) if digits.len() == 13 && digits.bytes().all(|b| b.is_ascii_digit()) => {
            "<now>".to_owned()
        }
        _ => word.to_owned(),
    };
    let framing = ["SELECT", "MULTI", "EXEC"];
    server
        .aof_commands()
        .iter()
        .filter(|line| !framing.iter().any(|word| line.starts_with(word)))
        .filter(|line| !line.starts_with(leave_out))
        .map(|line| line.split(' ').map(mask).collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn the_file_and_the_replicas_get_the_command_as_it_gets_there_by_itself() {
    let server = Server::with().append_only().start();
    let plain = Server::with().append_only().without_module().start();
    let replica = server.replica_without_module();
    let (mut client, mut direct) = (server.client(), plain.client());
    client.acquire("k", "a");
    for line in each(WRITES, ';') {
        let command = words(line);
        let (answer, expected) = (client.run(&guarded(&command)), direct.run(&command));
        // Numbers of stream entries hold the time.
        if !line.contains('*') {
            assert_eq!(answer, expected, "{line}");
        }
    }
    // All of it again: at once, and in a script.
    let in_one = |direct: bool| -> Vec<Command> {
        let commands = each(WRITES, ';').map(|line| match direct {
            true => words(line),
            false => guarded(&words(line)),
        });
        let mut all = vec![args!["FLUSHDB"], args!["MULTI"]];
        if !direct {
            all.insert(1, args!["LOCK.ACQUIRE", "k", "a", LONG]);
        }
        all.extend(commands);
        all.push(args!["EXEC"]);
        all
    };
    client.pipeline(&in_one(false));
    direct.pipeline(&in_one(true));
    for line in each(WRITES, ';') {
        client.run(&in_lua(&guarded(&words(line))));
        direct.run(&in_lua(&words(line)));
    }
    assert_eq!(written(&server, "SET k a PXAT"), written(&plain, "SET k a PXAT"));
    let text = server.aof_text().to_lowercase();
    assert!(!text.contains("lock."), "{text}");

    cmd!(client, "DEL", "stream");
    let before = digest(&server);
    replica.wait_until_in_sync_with(&server);
    assert_eq!(digest(&replica), before);
    server.restart_as(Setup::without_module);
    assert_eq!(digest(&server), before);
}
