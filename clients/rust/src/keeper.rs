//! The task behind a hold: it asks for the lock, renews it, and releases it when the hold is dropped.

use crate::ask::{PAUSES, ask, may_pass};
use crate::client::Reply;
use crate::hold::{Order, Stage};
use crate::inbox::Ticket;
use crate::latest::Latest;
use crate::lock::{Patience, REPLIES_TAKE};
use crate::pauses::Pauses;
use crate::term::{FAR, Term, after};
use crate::words::milliseconds;
use crate::{Cause, Connection, Error, Hold, Lock, Loss};
use redis::Cmd;
use std::future::pending;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

type Asker<C> = oneshot::Sender<Result<Hold<C>, Error>>;

pub(crate) async fn keep<C: Connection>(mut request: Request<C>, mut asker: Asker<C>) {
    let granted = match request.acquire(&mut asker).await {
        Ok(granted) => granted,
        Err(refused) => {
            let mut released = Ok(0);
            if request.left {
                released = request.release().await.0;
            }
            _ = asker.send(Err(refused));
            if released.is_err() {
                let lease = request.lock.lease.unwrap_or(LEASE_TOLD);
                let lasts = request.lock.ttl.max(lease);
                request.go_on_releasing(after(Instant::now(), lasts), || true).await;
            }
            return;
        }
    };
    let (orders, received) = mpsc::unbounded_channel();
    let term = Term::new(&request.lock, granted.asked);
    let latest = request.latest();
    latest.granted(granted.fence);
    let (stage, shown) = watch::channel(Stage::Held { ends: term.ends, cause: term.cause() });
    let hold = Hold {
        client: request.lock.client.clone(),
        owner: request.owner.clone(),
        fence: granted.fence,
        latest: latest.clone(),
        asked: granted.asked,
        stage: shown,
        orders,
    };
    _ = asker.send(Ok(hold)); // if its caller has gone, it is dropped: see below
    request.hold(granted, latest, term, received, stage).await;
}

struct Granted {
    fence: Option<u64>,
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
    /// As far as the server has said.
    longest_lease: Duration,
}

impl<C: Connection> Request<C> {
    pub(crate) fn new(lock: Lock<C>, owner: Vec<u8>, patience: Patience) -> Request<C> {
        let ticket = lock.inbox.as_ref().map(|inbox| inbox.ticket());
        Request { lock, owner, patience, ticket, left: false, longest_lease: Duration::MAX }
    }

    fn latest(&self) -> Latest {
        if self.lock.owner.may_hold() {
            let client = &self.lock.client;
            return client.known.grants.of(client.words.names(), &self.owner);
        }
        Latest::of_one_grant()
    }

    async fn acquire(&mut self, asker: &mut Asker<C>) -> Result<Granted, Error> {
        let (mut attempts, mut pauses, mut stood) = (PAUSES.into_iter(), Pauses::default(), 0);
        // Where replicas have to acknowledge its claim, the ttl of a place begins at any time after a reply that was no
        // grant: a short time is taken off the hold, after a long one the same owner asks again, which counts from then on.
        let (mut since, mut confirms) = (None, false);
        loop {
            let is_place = !matches!(self.patience, Patience::Once) && !confirms;
            let (asked, (question, rhythm)) = (Instant::now(), self.question(is_place));
            let begins = *since.get_or_insert(asked);
            // An owner that the caller chose may hold the lock already.
            let may_be_ours = self.left || self.lock.owner.may_hold();
            // Heard out, even if its caller has gone: a release must not overtake it.
            let (client, ttl) = (&self.lock.client, self.lock.ttl);
            let replied =
                client.acquire(&self.owner, ttl, (&question, !is_place), may_be_ours).await;
            let pause = match replied {
                Ok(Reply::Granted(fence)) => {
                    let counts = if is_place && fence.is_some() { begins } else { asked };
                    confirms = is_place && counts.elapsed() > ttl / 8;
                    if !confirms {
                        return Ok(Granted { fence, asked: counts });
                    }
                    self.left = true;
                    continue;
                }
                Ok(reply) => {
                    (since, confirms) = (Some(asked), false);
                    if let Reply::Place(place @ 1..) = reply {
                        self.left = true;
                        if place != stood {
                            (stood, pauses) = (place, Pauses::default());
                        }
                    }
                    if self.is_over() {
                        return Err(Error::Busy);
                    }
                    attempts = PAUSES.into_iter();
                    let pause = match reply {
                        Reply::Taken => pauses.next(self.lock.pause.unwrap_or(WITHOUT_QUEUE)),
                        // The server lets no client wait at the moment, so it tells none either.
                        Reply::Place(0) => pauses.next(self.lock.pause.unwrap_or(IN_QUEUE)),
                        _ => rhythm.unwrap_or_else(|most| pauses.next(most)),
                    };
                    pause.min(self.remaining())
                }
                Err(error) if may_pass(&error) => {
                    self.left = true;
                    attempts.next().ok_or(error)?
                }
                Err(error) if self.shortens_lease(&error) => continue,
                Err(error) => {
                    // What this owner has then is of another request.
                    self.left &= !error.is_about_another_request();
                    self.left |= error.may_have_changed();
                    return Err(error);
                }
            };
            tokio::select! {
                () = asker.closed() => return Err(Error::Busy),
                () = self.told() => {}
                () = sleep(pause) => {}
            }
        }
    }

    /// And when to ask again, if nothing else says so: or the longest pause, where nothing else will.
    fn question(&self, is_place: bool) -> (Cmd, Result<Duration, Duration>) {
        let lock = &self.lock;
        let mut question = lock.client.words.acquire(&self.owner, lock.ttl);
        if !is_place {
            return (question, Err(IN_QUEUE));
        }
        let ticket = self.ticket.as_ref();
        let ticket = ticket.filter(|ticket| ticket.inbox.is_subscribed());
        let usual = if ticket.is_some() { LEASE_TOLD } else { LEASE };
        let lease = lock.lease.unwrap_or(usual).min(self.longest_lease);
        if let Some(n) = lock.client.words.max_queue {
            question.arg("MAXQUEUE").arg(n);
        }
        question.arg("QUEUE").arg(milliseconds(lease));
        let keeps_place = lease / 3;
        match ticket {
            Some(ticket) => {
                let channel = ticket.inbox.channel();
                question.arg("NOTIFY").arg(channel).arg(ticket.number);
                (question, Ok(keeps_place))
            }
            None => (question, Err(lock.pause.unwrap_or(IN_QUEUE).min(keeps_place))),
        }
    }

    /// To what the server allows, if the error is that the place would be kept for too long.
    fn shortens_lease(&mut self, error: &Error) -> bool {
        let Error::Redis(error) = error else { return false };
        let words = error.detail().and_then(|said| said.strip_prefix("lease must be 1 to "));
        let number = words.and_then(|words| words.split(' ').next()?.parse().ok());
        let longest = number.filter(|number| *number > 0).map(Duration::from_millis);
        let shorter = longest.filter(|longest| *longest < self.longest_lease);
        self.longest_lease = shorter.unwrap_or(self.longest_lease);
        shorter.is_some()
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
        Granted { fence, asked }: Granted,
        latest: Latest,
        mut term: Term,
        mut orders: mpsc::UnboundedReceiver<Order>,
        stage: watch::Sender<Stage>,
    ) {
        self.ticket = None;
        let lost = |cause, at: Instant| {
            let loss = Loss::new(cause, Some(at.duration_since(asked)));
            stage.send_if_modified(|stage| {
                let is_held = matches!(stage, Stage::Held { .. });
                if is_held {
                    *stage = Stage::Lost(loss);
                }
                is_held // what is lost stays lost
            });
        };
        let outcome = || match &*stage.borrow() {
            Stage::Lost(loss) => Err(Error::Lost(loss.clone())),
            _ => Ok(()),
        };
        loop {
            let is_held = outcome().is_ok();
            let order = tokio::select! {
                biased;
                order = orders.recv() => order,
                // What was under way is dropped for an order: a renewal may be said twice, and revives nothing.
                cause = self.renew_until_lost(&mut term, &stage), if is_held => {
                    lost(cause, Instant::now());
                    continue;
                }
                () = latest.comes_after(fence), if is_held => {
                    lost(Cause::Superseded, Instant::now());
                    continue;
                }
            };
            // What the server has then is the later hold.
            let is_superseded = latest.is_later_than(fence);
            if is_superseded {
                lost(Cause::Superseded, Instant::now());
            }
            let is_held = is_held && !is_superseded;
            match order {
                Some(Order::Renew(ttl, reply)) => {
                    if is_held {
                        let asked = Instant::now();
                        let renewed = timeout_at(term.ends, self.renew(ttl)).await;
                        match renewed {
                            Ok(Ok(true)) if prolong(&mut term, after(asked, ttl), &stage) => {}
                            Ok(Ok(true)) => lost(Cause::Unanswered, Instant::now()),
                            Ok(Ok(false)) => lost(Cause::NotOwner, Instant::now()),
                            Ok(Err(error)) => {
                                let ends = after(asked, ttl);
                                // It may have been renewed: the earlier end counts.
                                if error.may_have_changed() && ends < term.ends {
                                    prolong(&mut term, ends, &stage);
                                }
                                _ = reply.send(Err(error));
                                continue;
                            }
                            Err(_) => lost(Cause::Unanswered, Instant::now()),
                        }
                    }
                    _ = reply.send(outcome());
                }
                Some(Order::NotOwner(reply)) => {
                    lost(Cause::NotOwner, Instant::now());
                    _ = reply.send(outcome());
                }
                Some(Order::Release(reply)) if is_superseded => {
                    _ = reply.send(outcome());
                    return;
                }
                None if is_superseded => return,
                Some(Order::Release(reply)) => {
                    let in_time = is_held && Instant::now() < term.ends;
                    // A loss that is known need not wait for a server that does not answer.
                    let limit = if is_held { FAR } else { REPLIES_TAKE };
                    let (released, repeated) = timeout(limit, self.release())
                        .await
                        .unwrap_or_else(|_| (Err(Error::unanswered()), true));
                    match released {
                        // If the reply to the first was lost, the second finds nothing more to release.
                        Ok(0) if repeated && in_time => {}
                        Ok(held) if self.lock.client.words.are_so_many(held) => {}
                        Ok(_) => lost(Cause::NotOwner, Instant::now()),
                        Err(error) => {
                            _ = reply.send(outcome().and(Err(error)));
                            let is_latest = || !latest.is_later_than(fence);
                            return self.go_on_releasing(term.ends, is_latest).await;
                        }
                    }
                    if outcome().is_ok() {
                        stage.send_replace(Stage::Released);
                    }
                    _ = reply.send(outcome());
                    return;
                }
                None => {
                    let released = self.release().await.0;
                    stage.send_replace(Stage::Released);
                    if released.is_err() {
                        let is_latest = || !latest.is_later_than(fence);
                        self.go_on_releasing(term.ends, is_latest).await;
                    }
                    return;
                }
            }
        }
    }

    async fn renew_until_lost(&self, term: &mut Term, stage: &watch::Sender<Stage>) -> Cause {
        loop {
            let (ends, due) = (term.ends, term.due());
            let renewed = timeout_at(ends, async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => pending().await,
                }
                let asked = Instant::now();
                (asked, self.lock.client.renew(&self.owner, self.lock.ttl).await)
            });
            match renewed.await {
                Ok((asked, Ok(true))) if prolong(term, after(asked, self.lock.ttl), stage) => {}
                // There was no answer, or the server does not want to: soon again, until the end.
                Ok((asked, Err(_))) => term.not_before = after(asked, self.lock.ttl / 10),
                Ok((_, Ok(false))) => return Cause::NotOwner,
                Ok((_, Ok(true))) | Err(_) => return term.cause(),
            }
        }
    }

    async fn renew(&self, ttl: Duration) -> Result<bool, Error> {
        ask(|| self.lock.client.renew(&self.owner, ttl)).await.0
    }

    /// How many were held, and whether it was said more than once.
    async fn release(&self) -> (Result<usize, Error>, bool) {
        ask(|| self.lock.client.release(&self.owner)).await
    }

    /// Its caller has gone, but the lock is not free before this or `end`.
    async fn go_on_releasing(&self, end: Instant, is_ours: impl Fn() -> bool) {
        while Instant::now() < end {
            sleep(RELEASE_AGAIN).await;
            if !is_ours() {
                return;
            }
            match self.lock.client.release(&self.owner).await {
                Err(error) if may_pass(&error) => {}
                _ => return,
            }
        }
    }
}

/// Not if it was over before that was known: its holder may have seen that it is lost.
fn prolong(term: &mut Term, ends: Instant, stage: &watch::Sender<Stage>) -> bool {
    let mut in_time = false;
    stage.send_if_modified(|stage| {
        in_time = Instant::now() < term.ends;
        if in_time {
            term.ends = ends;
            *stage = Stage::Held { ends, cause: term.cause() };
        }
        false // those who wait for the loss need not hear of it
    });
    in_time
}

/// How long places are kept. One that is not asked for any more costs the others little where the server finds out that
/// its message is not heard.
const LEASE: Duration = Duration::from_secs(3);
const LEASE_TOLD: Duration = Duration::from_secs(15);

/// The longest pauses between two questions.
const IN_QUEUE: Duration = Duration::from_millis(100);
const WITHOUT_QUEUE: Duration = Duration::from_secs(1);

const RELEASE_AGAIN: Duration = Duration::from_secs(2);
