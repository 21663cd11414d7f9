//! The task behind a hold: it asks for the lock, renews it, and releases it when nobody has it any more.

use crate::ask::{PAUSES, ask, ask_once, may_pass};
use crate::hold::{Order, Stage};
use crate::inbox::Ticket;
use crate::lock::Patience;
use crate::words::milliseconds;
use crate::{Connection, Error, Hold, Lock};
use redis::{Cmd, RedisResult};
use std::future::pending;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

type Asker<C> = oneshot::Sender<Result<Hold<C>, Error>>;

pub(crate) async fn keep<C: Connection>(mut request: Request<C>, mut asker: Asker<C>) {
    let granted = match request.acquire(&mut asker).await {
        Ok(granted) => granted,
        Err(refused) => {
            if request.left {
                _ = request.release().await;
            }
            _ = asker.send(Err(refused));
            return;
        }
    };
    let (orders, received) = mpsc::unbounded_channel();
    let (stage, shown) = watch::channel(Stage::Held);
    let hold = Hold {
        connection: request.lock.connection.clone(),
        words: request.lock.words.clone(),
        owner: request.owner.clone(),
        fence: granted.fence,
        stage: shown,
        orders,
    };
    _ = asker.send(Ok(hold)); // if nobody waits for it, it is dropped: see below
    request.hold(granted, received, stage).await;
}

struct Granted {
    fence: u64,
    /// When it was asked for, so that the hold ends no earlier than ttl later.
    asked: Instant,
}

/// One request for a lock, and what follows from it.
pub(crate) struct Request<C> {
    lock: Lock<C>,
    owner: Vec<u8>,
    patience: Patience,
    ticket: Option<Ticket>,
    /// Something of it may be left in the server.
    left: bool,
}

impl<C: Connection> Request<C> {
    pub(crate) fn new(lock: Lock<C>, owner: Vec<u8>, patience: Patience) -> Request<C> {
        let ticket = lock.inbox.as_ref().map(|inbox| inbox.ticket());
        Request {
            lock,
            owner,
            patience,
            ticket,
            left: false,
        }
    }

    async fn acquire(&mut self, asker: &mut Asker<C>) -> Result<Granted, Error> {
        let mut pauses = PAUSES.into_iter();
        loop {
            let (asked, (question, rhythm)) = (Instant::now(), self.question());
            // Heard out, even if nobody waits for it any more: a release must not overtake it.
            let replied: RedisResult<Option<i64>> =
                ask_once(&self.lock.connection, &question).await;
            let pause = match replied {
                Ok(Some(fence)) if fence > 0 => {
                    let fence = fence.unsigned_abs();
                    return Ok(Granted { fence, asked });
                }
                Ok(place) => {
                    self.left |= place.is_some();
                    if self.is_over() {
                        return Err(Error::Busy);
                    }
                    pauses = PAUSES.into_iter();
                    rhythm.min(self.remaining())
                }
                Err(error) if may_pass(&error) => {
                    self.left = true;
                    pauses.next().ok_or(error)?
                }
                Err(error) => return Err(error.into()),
            };
            tokio::select! {
                () = asker.closed() => return Err(Error::Busy),
                () = self.told() => {}
                () = sleep(pause) => {}
            }
        }
    }

    /// And when to ask again, if nothing else says so.
    fn question(&self) -> (Cmd, Duration) {
        let lock = &self.lock;
        let mut question = lock.words.acquire(&self.owner, lock.ttl);
        let mut rhythm = lock.lease / 3;
        if matches!(self.patience, Patience::Once) {
            return (question, rhythm);
        }
        question.arg("QUEUE").arg(milliseconds(lock.lease));
        match &self.ticket {
            Some(ticket) if ticket.inbox.is_subscribed() => {
                let channel = ticket.inbox.channel();
                question.arg("NOTIFY").arg(channel).arg(ticket.number);
            }
            _ => rhythm = rhythm.min(lock.pause),
        }
        (question, rhythm)
    }

    async fn told(&self) {
        match &self.ticket {
            Some(ticket) => ticket.told.notified().await,
            None => pending().await,
        }
    }

    fn is_over(&self) -> bool {
        self.remaining().is_zero()
    }

    fn remaining(&self) -> Duration {
        match self.patience {
            Patience::Once => Duration::ZERO,
            Patience::Until(end) => end.saturating_duration_since(Instant::now()),
            Patience::Endless => Duration::MAX,
        }
    }

    async fn hold(
        mut self,
        granted: Granted,
        mut orders: mpsc::UnboundedReceiver<Order>,
        stage: watch::Sender<Stage>,
    ) {
        self.ticket = None;
        let mut term = Term::new(&self.lock, granted.asked);
        loop {
            let order = tokio::select! {
                biased;
                order = orders.recv() => order,
                // What was under way is dropped for an order: a renewal may be said twice, and revives nothing.
                () = self.renew_until_lost(&mut term), if *stage.borrow() == Stage::Held => Some(Order::Lost),
            };
            match order {
                Some(Order::Renew(_, reply)) if *stage.borrow() == Stage::Lost => {
                    _ = reply.send(Ok(false)); // what is lost stays lost
                }
                Some(Order::Renew(ttl, reply)) => {
                    let asked = Instant::now();
                    let renewed = timeout_at(term.ends, self.renew(ttl)).await;
                    let renewed = renewed.unwrap_or(Ok(false));
                    match renewed {
                        Ok(true) => term.ends = after(asked, ttl),
                        Ok(false) => _ = stage.send_replace(Stage::Lost),
                        Err(_) => {}
                    }
                    _ = reply.send(renewed);
                }
                Some(Order::Lost) => _ = stage.send_replace(Stage::Lost),
                Some(Order::Release(reply)) => {
                    let released = self.release().await;
                    if let Ok(held) = released {
                        stage.send_replace(if held { Stage::Released } else { Stage::Lost });
                    }
                    _ = reply.send(released);
                    return;
                }
                None => {
                    _ = self.release().await;
                    stage.send_replace(Stage::Released);
                    return;
                }
            }
        }
    }

    async fn renew_until_lost(&self, term: &mut Term) {
        loop {
            let (ends, due) = (term.ends, term.due());
            let renewed = timeout_at(ends, async {
                sleep_until(due).await;
                let asked = Instant::now();
                (asked, self.renew_once(self.lock.ttl).await)
            });
            match renewed.await {
                Ok((asked, Ok(true))) => term.ends = after(asked, self.lock.ttl),
                // Nobody answered, or the server does not want to: soon again, until the end.
                Ok((asked, Err(_))) => term.not_before = after(asked, self.lock.ttl / 10),
                Ok((_, Ok(false))) | Err(_) => return,
            }
        }
    }

    async fn renew_once(&self, ttl: Duration) -> RedisResult<bool> {
        ask_once(
            &self.lock.connection,
            &self.lock.words.renew(&self.owner, ttl),
        )
        .await
    }

    async fn renew(&self, ttl: Duration) -> RedisResult<bool> {
        ask(
            &self.lock.connection,
            &self.lock.words.renew(&self.owner, ttl),
        )
        .await
    }

    async fn release(&self) -> RedisResult<bool> {
        let reply = ask(&self.lock.connection, &self.lock.words.release(&self.owner)).await?;
        Ok(self.lock.words.all_were_released(reply))
    }
}

/// Until when a hold lasts, as far as this process knows, and when it has to be renewed.
struct Term {
    ttl: Duration,
    ends: Instant,
    renews_until: Instant,
    not_before: Instant,
}

impl Term {
    fn new<C>(lock: &Lock<C>, asked: Instant) -> Term {
        Term {
            ttl: lock.ttl,
            ends: after(asked, lock.ttl),
            renews_until: after(asked, lock.renew_for),
            not_before: asked,
        }
    }

    /// With two thirds of the ttl left; never beyond the cap.
    fn due(&self) -> Instant {
        let third = self.ends.checked_sub(self.ttl.saturating_mul(2) / 3);
        let due = third.unwrap_or(self.not_before).max(self.not_before);
        if due < self.renews_until {
            due
        } else {
            after(self.ends, FAR) // the hold ends first
        }
    }
}

/// Farther than any timer needs to be set.
const FAR: Duration = Duration::from_secs(86_400 * 365 * 30);

fn after(from: Instant, duration: Duration) -> Instant {
    from + duration.min(FAR)
}
