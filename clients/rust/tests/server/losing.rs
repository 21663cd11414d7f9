use crate::support::*;
use redis::cmd;
use redis_lock_module::{Cause, Error, Lock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tokio::time::{sleep, timeout};

#[tokio::test]
async fn a_lost_lock_cancels_the_work() {
    let server = Server::start().await;
    let market = Lock::new(server.connect().await, MARKET).ttl(ms(300));
    let ways: [&[&str]; 3] =
        [&["LOCK.BREAK", MARKET], &["DEL", MARKET], &["SET", MARKET, "another owner", "PX", "500"]];
    for way in ways {
        let hold = market.acquire().await.unwrap();
        let (went_on, watched) = (Arc::new(AtomicBool::new(false)), hold.lost());
        let goes_on = went_on.clone();
        let work = async move {
            sleep(ms(20_000)).await;
            goes_on.store(true, Ordering::Relaxed);
        };
        let operator = async {
            sleep(ms(50)).await;
            let _: redis::Value = server.say(way).await;
        };
        let began = Instant::now();
        let (done, ()) = tokio::join!(hold.while_held(work), operator);
        assert!(matches!(done, Err(Error::Lost(_))) && began.elapsed() < ms(2_000));
        timeout(ms(10), watched).await.unwrap();
        assert!(!went_on.load(Ordering::Relaxed) && hold.is_lost());
        assert!(matches!(hold.release().await, Err(Error::Lost(_))));
        let _: usize = server.say(&["DEL", MARKET]).await;
    }
    let hold = market.acquire().await.unwrap();
    assert_eq!(hold.while_held(async { 5 }).await.unwrap(), 5);
}

#[tokio::test]
async fn a_released_hold_is_not_lost() {
    let server = Server::start().await;
    let hold = Lock::new(server.connect().await, MARKET).acquire().await.unwrap();
    let lost = hold.lost();
    hold.release().await.unwrap();
    assert!(timeout(ms(200), lost).await.is_err());
}

#[tokio::test]
async fn a_lost_hold_says_when_and_why() {
    let server = Server::start().await;
    let market = Lock::new(server.connect().await, MARKET).ttl(ms(300));
    let says = async |cause, word: &str, hold: redis_lock_module::Hold<_>, least: u64| {
        timeout(ms(10_000), hold.lost()).await.unwrap();
        let loss = hold.loss().unwrap();
        assert_eq!(loss.cause(), cause);
        assert!(loss.after().unwrap() >= ms(least), "{loss}");
        let Err(error @ Error::Lost(_)) = hold.release().await else {
            panic!("it was not lost");
        };
        let said = error.to_string();
        assert!(said.contains("lost while held") && said.contains(word), "{said}");
        assert!(said.contains(&format!("{:.1?}", loss.after().unwrap())), "{said}");
    };
    let hold = market.acquire().await.unwrap();
    let _: usize = server.say(&["LOCK.BREAK", MARKET]).await;
    says(Cause::NotOwner, "does not hold it", hold, 50).await;
    let hold = market.clone().renew_for(ms(0)).acquire().await.unwrap();
    says(Cause::Capped, "no longer", hold, 300).await;
    let hold = market.acquire().await.unwrap();
    let () = server.say(&["CLIENT", "PAUSE", "1500"]).await;
    says(Cause::Unanswered, "no renewal was answered", hold, 300).await;
    server.nothing_is_left().await;
}

/// The server still has it, but the work was told that it is lost.
#[tokio::test]
async fn a_hold_that_was_found_to_be_lost_is_lost_although_its_release_comes_in_time() {
    let server = Server::start().await;
    let market = Lock::new(server.connect().await, MARKET).ttl(ms(60_000));
    let hold = market.acquire().await.unwrap();
    let _: usize = server.say(&["DEL", MARKET]).await;
    assert!(hold.guard::<()>(&cmd("PING")).await.is_err());
    let owner = String::from_utf8(hold.owner().to_vec()).unwrap();
    let _: u64 = server.say(&["LOCK.ACQUIRE", MARKET, &owner, "60000"]).await;
    assert!(matches!(hold.release().await, Err(Error::Lost(_))));
    server.nothing_is_left().await;
}

/// The keeper of the hold is a task of this very thread, and has not run since.
#[tokio::test]
async fn after_a_pause_of_the_whole_process_the_first_look_says_that_the_hold_is_lost() {
    let server = Server::start().await;
    let market = Lock::new(server.connect().await, MARKET).ttl(ms(300));
    for renewed in [false, true] {
        let hold = market.acquire().await.unwrap();
        if renewed {
            let () = server.say(&["CONFIG", "RESETSTAT"]).await;
            eventually("it is renewed", async || server.calls("lock.renew").await > 0).await;
        }
        let owner = String::from_utf8(hold.owner().to_vec()).unwrap();
        std::thread::sleep(ms(400));
        assert!(hold.is_lost());
        let loss = hold.loss().unwrap();
        assert!(loss.cause() == Cause::Unanswered && loss.after().unwrap() >= ms(400), "{loss}");
        // The server compares the owner, and would let it pass.
        let () = server.say(&["SET", MARKET, &owner, "PX", "60000"]).await;
        let outcome = hold.guard::<()>(cmd("SET").arg("{market}:price").arg(5)).await;
        assert!(matches!(outcome, Err(Error::Lost(_))), "{outcome:?}");
        assert!(matches!(hold.release().await, Err(Error::Lost(_))));
        assert_eq!(server.say::<usize>(&["EXISTS", "{market}:price"]).await, 0);
        server.nothing_is_left().await;
    }
}

#[tokio::test]
async fn what_was_found_to_be_lost_is_not_revived_by_a_reply_that_was_under_way() {
    let server = Server::start().await;
    let market = Lock::new(server.connect().await, MARKET).ttl(ms(150));
    for round in 0..20 {
        let hold = market.acquire().await.unwrap();
        sleep(ms(50)).await; // here it is renewed, a little earlier or later
        std::thread::sleep(ms(100 + round));
        if hold.is_lost() {
            timeout(ms(10_000), hold.lost()).await.unwrap();
            assert!(matches!(hold.release().await, Err(Error::Lost(_))));
        }
    }
    server.nothing_is_left().await;
}

#[tokio::test]
async fn work_does_not_go_on_after_a_pause_in_which_the_hold_has_ended() {
    let server = Server::start().await;
    let market = Lock::new(server.connect().await, MARKET).ttl(ms(300));
    let hold = market.acquire().await.unwrap();
    let mut went_on = false;
    let work = async {
        std::thread::sleep(ms(400));
        tokio::task::yield_now().await;
        went_on = true;
    };
    assert!(matches!(hold.while_held(work).await, Err(Error::Lost(_))));
    assert!(!went_on);
}
