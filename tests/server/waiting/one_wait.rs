//! One owner, one wait: the same request takes it over, and what becomes of the earlier client does not touch it.

use crate::support::*;

fn block(key: &str, owner: &str) -> Vec<Vec<u8>> {
    args!["LOCK.ACQUIRE", key, owner, LONG, "BLOCK", 0]
}

fn is_replaced(client: &mut Client) -> bool {
    client.answer().is_error("REPLACED a later request of this owner has taken over this wait")
}

#[test]
fn a_client_that_comes_back_has_its_wait_where_it_stood_and_the_earlier_connection_hears_so() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "holder");
    let mut first = server.waiter_for("k", "a");
    let mut behind = server.waiter_for("k", "b");
    let mut again = server.client();
    again.send(&block("k", "a"));
    assert!(is_replaced(&mut first));
    assert_eq!(client.queue("k"), ["a", "b"]);
    // As a place, and with a client again.
    let place = cmd!(client, "LOCK.ACQUIRE", "k", "a", LONG, "QUEUE", 60_000);
    assert_eq!(place, -1);
    assert!(is_replaced(&mut again));
    again.send(&block("k", "a"));
    eventually("it has taken the place over", || client.info("lock")["lock_places"] == "0");
    client.release("k", "holder");
    again.answer().fence();
    client.release("k", "a");
    behind.answer().fence();
}

#[test]
fn whatever_becomes_of_the_earlier_client_in_that_turn_the_wait_goes_on() {
    let server = Server::start();
    let mut client = server.client();
    for fate in ["KILL", "UNBLOCK", "UNBLOCK ERROR"] {
        for before in [true, false] {
            client.acquire("k", "holder");
            let mut first = server.waiter_for("k", "a");
            let id = first.id();
            let befall = match fate {
                "KILL" => args!["CLIENT", "KILL", "ID", id],
                "UNBLOCK" => args!["CLIENT", "UNBLOCK", id],
                _ => args!["CLIENT", "UNBLOCK", id, "ERROR"],
            };
            // The place takes the wait over in the middle of the transaction.
            let place = args!["LOCK.ACQUIRE", "k", "a", LONG, "QUEUE", 60_000];
            let steps = if before { [befall, place] } else { [place, befall] };
            let [one, two] = steps;
            client.pipeline(&[args!["MULTI"], one, two, args!["EXEC"]]);
            assert_eq!(client.queue("k"), ["a"], "{fate}, {before}");
            client.release("k", "holder");
            cmd!(client, "LOCK.ACQUIRE", "k", "a", LONG).fence();
            client.release("k", "a");
            eventually("nothing is left", || {
                client.info("lock_memory")["lock_memory_waiters"] == "0"
            });
        }
    }
}

#[test]
fn hundreds_of_take_overs_leave_nothing_and_the_module_can_be_unloaded() {
    const MANY: usize = 300;
    let server = Server::start();
    let mut client = server.client();
    client.acquire("k", "holder");
    let mut last = server.waiter_for("k", "a");
    let mut clients = Vec::new();
    for _ in 1..MANY {
        let mut next = server.client();
        next.send(&block("k", "a"));
        assert!(is_replaced(&mut last));
        clients.push(std::mem::replace(&mut last, next));
    }
    assert_eq!(client.queue("k"), ["a"]);
    client.release("k", "holder");
    last.answer().fence();
    client.release("k", "a");
    drop((clients, last));
    eventually("nothing is left", || {
        let memory = client.info("lock_memory");
        ["waiters", "queues", "owners", "tasks"]
            .iter()
            .all(|part| memory[&*format!("lock_memory_{part}")] == "0")
    });
    server.wait_until_unloaded();
}

#[test]
fn an_owner_that_waits_reads_for_which_lock_if_it_may_know_that() {
    let server = Server::start();
    let mut client = server.client();
    client.acquire("secret", "holder");
    client.acquire("k", "holder");
    let _waits = server.waiter_for("secret", "a");
    let refused = |name: &str| {
        format!(
            "ONEWAIT this owner already waits for {name}: LOCK.RELEASE it first, or acquire all of them with one LOCK.MACQUIRE"
        )
    };
    assert_eq!(client.run(&block("k", "a")).error(), refused("\"secret\""));
    let queue = args!["LOCK.ACQUIRE", "k", "a", LONG, "QUEUE", 60_000];
    assert_eq!(client.run(&queue).error(), refused("\"secret\""));
    assert!(client.run(&args!["LOCK.ACQUIRE", "k", "a", LONG]).is_nil());
    cmd!(client, "ACL", "SETUSER", "u", "on", "nopass", "+@all", "~k");
    let mut stranger = server.client();
    cmd!(stranger, "AUTH", "u", "any");
    assert_eq!(stranger.run(&block("k", "a")).error(), refused("another lock"));
    client.release("k", "holder");
    cmd!(client, "LOCK.ACQUIRE", "k", "a", LONG).fence();
}
