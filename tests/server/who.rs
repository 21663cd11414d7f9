//! Who it is: the connection that LOCK.INFO and LOCK.LOG show.

use crate::support::*;

/// Redis before 7.0.3 does not tell modules the names of connections.
fn tells_names(server: &Server) -> bool {
    let version = cmd!(server.client(), "INFO", "server").text();
    let version = version.lines().find_map(|line| line.strip_prefix("redis_version:"));
    !matches!(version.map(str::trim), Some("7.0.0" | "7.0.1" | "7.0.2"))
}

fn local_address(client: &mut Client) -> String {
    let id = client.id();
    let listed = cmd!(client, "CLIENT", "LIST", "ID", id).text();
    let addr = listed.split(' ').find_map(|word| word.strip_prefix("addr="));
    addr.expect("its address").to_owned()
}

#[test]
fn info_shows_the_name_and_the_address_of_those_who_hold_and_wait() {
    let server = Server::start();
    skip_unless!(tells_names(&server), "modules are not told names here");
    for mut reader in [server.client(), server.client3()] {
        let (mut holder, mut place) = (server.client(), server.client());
        cmd!(holder, "CLIENT", "SETNAME", "shop@web-3");
        cmd!(place, "CLIENT", "SETNAME", "poller@web-4");
        holder.acquire("k", "a");
        let mut waiter = server.waiter_for("k", "w");
        cmd!(place, "LOCK.ACQUIRE", "k", "p", LONG, "QUEUE", 60_000);
        let info = cmd!(reader, "LOCK.INFO", "k");
        let held = &info["holders"][0];
        assert_eq!(held["client"], holder.id());
        assert_eq!(held["client-name"], "shop@web-3");
        assert_eq!(held["client-addr"], &*local_address(&mut holder));
        assert!(info["waiters"][0]["client-name"].is_nil());
        let id = waiter.id();
        let listed = cmd!(reader, "CLIENT", "LIST", "ID", id).text();
        let addr = info["waiters"][0]["client-addr"].text();
        assert!(listed.contains(&format!(" addr={addr} ")), "{listed}");
        assert_eq!(info["waiters"][1]["client-name"], "poller@web-4");
        cmd!(reader, "LOCK.RELEASE", "k", "p");
        holder.release("k", "a");
        waiter.answer().fence();
        reader.release("k", "w");
    }
}

#[test]
fn a_connection_is_shown_by_the_name_that_it_has_now_and_by_none_when_it_is_gone() {
    let server = Server::start();
    skip_unless!(tells_names(&server), "modules are not told names here");
    let (mut client, mut holder) = (server.client(), server.client());
    holder.acquire("k", "a");
    assert!(cmd!(client, "LOCK.INFO", "k")["holders"][0]["client-name"].is_nil());
    cmd!(holder, "CLIENT", "SETNAME", "late");
    assert_eq!(cmd!(client, "LOCK.INFO", "k")["holders"][0]["client-name"], "late");
    cmd!(holder, "CLIENT", "SETNAME", "");
    assert!(cmd!(client, "LOCK.INFO", "k")["holders"][0]["client-name"].is_nil());
    holder.close();
    eventually("it is not shown any more", || {
        let info = cmd!(client, "LOCK.INFO", "k");
        let held = &info["holders"][0];
        held["client"].is_nil() && held["client-name"].is_nil() && held["client-addr"].is_nil()
    });
}

#[test]
fn the_log_shows_the_connection_that_asked_last_and_its_number_when_it_is_gone() {
    let server = Server::start();
    skip_unless!(tells_names(&server), "modules are not told names here");
    let (mut client, mut first, mut last) = (server.client(), server.client(), server.client());
    cmd!(last, "CLIENT", "SETNAME", "shop@web-3");
    first.acquire("k", "a");
    last.acquire("k", "a");
    cmd!(client, "LOCK.BREAK", "k");
    let loss = cmd!(client, "LOCK.LOG")[0].clone();
    assert_eq!(loss["client"], last.id());
    assert_eq!(loss["client-name"], "shop@web-3");
    assert_eq!(loss["client-addr"], &*local_address(&mut last));
    let id = last.id();
    last.close();
    eventually("its name is not shown any more", || {
        let loss = cmd!(client, "LOCK.LOG")[0].clone();
        loss["client"] == id && loss["client-name"].is_nil() && loss["client-addr"].is_nil()
    });
}

#[test]
fn of_a_hold_that_others_have_written_no_connection_is_known() {
    let server = Server::start();
    let mut client = server.client();
    cmd!(client, "SET", "k", "a", "PX", LONG);
    let info = cmd!(client, "LOCK.INFO", "k");
    for field in ["client", "client-name", "client-addr"] {
        assert!(info["holders"][0][field].is_nil(), "{field}: {info:?}");
    }
}

/// Valkey 9.1 finds the script that asks by its number, and crashes when it is asked for its address.
#[test]
fn a_script_may_ask_about_what_a_script_holds_and_waits_for() {
    let server = Server::start();
    let mut client = server.client();
    let acquire = "return redis.call('LOCK.ACQUIRE', KEYS[1], ARGV[1], ARGV[2], 'QUEUE', ARGV[2])";
    cmd!(client, "EVAL", acquire, 1, "k", "a", 10_000).fence();
    assert_eq!(cmd!(client, "EVAL", acquire, 1, "k", "b", 10_000), -1);
    let info = cmd!(client, "EVAL", "return redis.call('LOCK.INFO', KEYS[1])", 1, "k");
    for (list, owner) in [("holders", "a"), ("waiters", "b")] {
        let one = &info[list][0];
        assert_eq!(one["owner"], owner, "{info:?}");
        for field in ["client", "client-name", "client-addr"] {
            assert!(one[field].is_nil(), "{field}: {info:?}");
        }
    }
}
