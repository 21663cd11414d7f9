//! Nonsense is refused before anything is sent.

use crate::support::*;
use redis::aio::MultiplexedConnection;
use redis_lock_module::{Error, Inbox, Lock, Locks};
use std::time::Duration;

type Change = fn(Lock<MultiplexedConnection>) -> Lock<MultiplexedConnection>;

const NOTHING: Duration = Duration::ZERO;
const TOO_SHORT: Duration = Duration::from_micros(999);
const TOO_LONG: Duration = Duration::MAX;

const NONSENSE: [(&str, Change); 29] = [
    ("ttl of nothing", |lock| lock.ttl(NOTHING)),
    ("ttl of less than a millisecond", |lock| lock.ttl(TOO_SHORT)),
    ("endless ttl", |lock| lock.ttl(TOO_LONG)),
    ("limit of none", |lock| lock.limit(0)),
    ("limit beyond the server's numbers", |lock| lock.limit(u64::MAX)),
    ("lease of nothing", |lock| lock.lease(NOTHING)),
    ("lease of less than a millisecond", |lock| lock.lease(TOO_SHORT)),
    ("endless lease", |lock| lock.lease(TOO_LONG)),
    ("pause of nothing", |lock| lock.pause(NOTHING)),
    ("pause of less than a millisecond", |lock| lock.pause(TOO_SHORT)),
    ("empty owner", |lock| lock.owner("")),
    ("long owner", |lock| lock.owner([b'x'; 1_025])),
    ("owner of the server's making", |lock| lock.owner("*")),
    ("reserved owner", |lock| lock.owner("@lock:shared")),
    ("empty prefix of owners", |lock| lock.owner_prefix("")),
    ("long prefix of owners", |lock| lock.owner_prefix([b'x'; 988])),
    ("empty channel", |lock| lock.told_by(&Inbox::on(""))),
    ("long channel", |lock| lock.told_by(&Inbox::on("x".repeat(1_025)))),
    ("too many replicas", |lock| lock.replicas(1 << 63)),
    ("group with a colon", |lock| lock.limit(2).fair("ann:ben")),
    ("group without a name", |lock| lock.limit(2).fair("")),
    ("long group", |lock| lock.limit(2).fair([b'x'; 1_000])),
    ("group without a limit", |lock| lock.fair("ann")),
    ("group that shares", |lock| lock.shared().fair("ann")),
    ("share of no group", |lock| lock.limit(2).per(1)),
    ("share of nothing", |lock| lock.limit(2).fair("ann").per(0)),
    ("share beyond the server's numbers", |lock| lock.limit(2).fair("ann").per(u64::MAX)),
    ("nonsense beside sense", |lock| lock.limit(2).ttl(NOTHING)),
    ("nonsense that is required", |lock| lock.require_module().ttl(NOTHING)),
];

const SENSE: [(&str, Change); 11] = [
    ("shortest ttl", |lock| lock.ttl(ms(1))),
    ("broken ttl", |lock| lock.ttl(Duration::from_micros(10_500))),
    ("no renewal", |lock| lock.renew_for(NOTHING)),
    ("endless renewal", |lock| lock.renew_for(TOO_LONG)),
    ("limit of one", |lock| lock.limit(1)),
    ("short prefix of owners", |lock| lock.owner_prefix("*")),
    ("shortest lease", |lock| lock.lease(ms(1))),
    ("endless pause", |lock| lock.pause(TOO_LONG)),
    ("long owner", |lock| lock.owner([0; 1_024])),
    ("long prefix of owners", |lock| lock.owner_prefix([0; 987])),
    ("long channel", |lock| lock.told_by(&Inbox::on("x".repeat(1_024)))),
];

async fn is_refused(what: &str, lock: &Lock<MultiplexedConnection>) {
    let outcomes =
        [lock.try_acquire().await, lock.acquire().await, lock.acquire_within(ms(50)).await];
    for outcome in outcomes {
        assert!(matches!(outcome, Err(Error::Invalid(_))), "{what}: {outcome:?}");
    }
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_before_anything_is_sent() {
    let server = Server::start().await;
    let connection = server.connect().await;
    let () = server.say(&["CONFIG", "RESETSTAT"]).await;
    for (what, change) in NONSENSE {
        is_refused(what, &change(Lock::new(connection.clone(), MARKET))).await;
    }
    let two = Lock::all(connection.clone(), [MARKET, "{market}:other"]).limit(2).fair("ann");
    is_refused("group with several keys", &two).await;
    let no_names: [&str; 0] = [];
    is_refused("no names", &Lock::all(connection.clone(), no_names)).await;
    assert_eq!(server.calls("lock.acquire").await, 0);
    assert_eq!(server.calls("lock.macquire").await, 0);
    for (what, change) in SENSE {
        let acquired = change(Lock::new(connection.clone(), MARKET)).acquire().await;
        _ = acquired.unwrap_or_else(|error| panic!("{what}: {error}")).release().await;
    }
    server.nothing_is_left().await;
}

#[tokio::test]
async fn a_hold_refuses_nonsense_and_goes_on() {
    let server = Server::start().await;
    let hold = server.locks().await.lock(MARKET).acquire().await.unwrap();
    for ttl in [NOTHING, TOO_SHORT, TOO_LONG] {
        assert!(matches!(hold.renew(ttl).await, Err(Error::Invalid(_))));
    }
    let nothing = hold.guard::<()>(&redis::Cmd::new()).await;
    assert!(matches!(nothing, Err(Error::Invalid(_))));
    assert!(!hold.is_lost());
    hold.release().await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_none_is_an_error() {
    assert!(matches!(Locks::connect("no URL").await, Err(Error::Redis(_))));
}

#[test]
fn without_a_runtime_that_is_said_and_it_is_not_called_busy() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(Server::start());
    let market = runtime.block_on(async { Lock::new(server.connect().await, MARKET) });
    let here = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // No runtime at all: nothing is awaited before that is seen.
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut asking = Box::pin(market.try_acquire());
    let std::task::Poll::Ready(outcome) = asking.as_mut().poll(&mut context) else {
        panic!("it waits");
    };
    assert!(matches!(outcome, Err(Error::NoRuntime)), "{outcome:?}");
    // One that ends while a request waits.
    let hold = runtime.block_on(market.acquire()).unwrap();
    let waiting = {
        let _entered = here.enter();
        let mut waiting = Box::pin(market.acquire());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        waiting
    };
    here.block_on(server.wait_for_waiters(1));
    drop(here);
    assert!(matches!(runtime.block_on(waiting), Err(Error::NoRuntime)));
    runtime.block_on(hold.release()).unwrap();
}
