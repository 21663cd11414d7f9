use crate::client::Client;
use crate::latest::Latest;
use crate::{Cause, Connection, Error, Loss, options};
use redis::{Cmd, FromRedisValue};
use std::fmt;
use std::future::{Future, pending, poll_fn};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

/// A lock that is held. It is renewed while it lives, and released when it is dropped.
///
/// A drop can't say that the lock was lost before, and a runtime that ends at once sends nothing any more: call
/// [`release`](Hold::release) where there is a way to.
#[must_use = "a hold that is dropped is released"]
pub struct Hold<C> {
    pub(crate) client: Client<C>,
    pub(crate) owner: Vec<u8>,
    pub(crate) fence: Option<u64>,
    pub(crate) latest: Latest,
    pub(crate) asked: Instant,
    pub(crate) stage: watch::Receiver<Stage>,
    /// When this is dropped the keeper releases.
    pub(crate) orders: mpsc::UnboundedSender<Order>,
}

#[derive(Clone, PartialEq)]
pub(crate) enum Stage {
    /// Until then, as far as is known, and why it will have been lost then.
    Held {
        ends: Instant,
        cause: Cause,
    },
    Lost(Loss),
    Released,
}

/// What the keeper of a hold is told.
pub(crate) enum Order {
    Renew(Duration, oneshot::Sender<Result<(), Error>>),
    Release(oneshot::Sender<Result<(), Error>>),
    /// The server said so: and how it is known from then on.
    NotOwner(oneshot::Sender<Result<(), Error>>),
}

impl<C: Connection> Hold<C> {
    /// The fencing token, for what is not in the server: it is larger than those of all earlier grants.
    ///
    /// None if the lock was acquired on a server without the module, which counts no grants. Where the number is
    /// needed, [require the module](crate::Lock::require_module): then there always is one.
    pub fn fence(&self) -> Option<u64> {
        self.fence
    }

    /// The owner, as `LOCK.INFO` shows it.
    pub fn owner(&self) -> &[u8] {
        &self.owner
    }

    /// Comes when the hold is found to be lost; never, if it is released. It may be moved into any task.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + 'static + use<C> {
        let mut stage = self.stage.clone();
        async move {
            let ended = stage.wait_for(|stage| !matches!(stage, Stage::Held { .. })).await;
            let released = ended.is_ok_and(|stage| *stage == Stage::Released);
            if released {
                pending().await
            }
            // Or the task that keeps it has ended: then it is lost, too.
        }
    }

    /// Whether it is known to be lost. Right after a pause of the whole process, too: it is compared with the clock.
    pub fn is_lost(&self) -> bool {
        self.loss().is_some()
    }

    /// How it was lost, if that is known.
    pub fn loss(&self) -> Option<Loss> {
        let stage = self.stage.borrow();
        let now = Instant::now(); // the keeper can't prolong it meanwhile
        match &*stage {
            Stage::Lost(loss) => Some(loss.clone()),
            Stage::Held { ends, cause } if now >= *ends => {
                Some(Loss::new(*cause, Some(now.duration_since(self.asked))))
            }
            Stage::Held { .. } if self.latest.is_later_than(self.fence) => {
                Some(Loss::new(Cause::Superseded, Some(now.duration_since(self.asked))))
            }
            _ if self.orders.is_closed() => Some(Loss::new(Cause::Unattended, None)),
            _ => None,
        }
    }

    /// Does the work while the lock is held. If it is lost the work is dropped at its next `await`.
    pub async fn while_held<T>(&self, work: impl Future<Output = T>) -> Result<T, Error> {
        // At each step of the work, since its keeper may not have run since a pause of the process.
        let has_ended = poll_fn(|_| if self.is_lost() { Poll::Ready(()) } else { Poll::Pending });
        tokio::select! {
            biased;
            () = has_ended => Err(self.loss_error()),
            () = self.lost() => Err(self.loss_error()),
            done = work => Ok(done),
        }
    }

    /// Runs a command in the very instant in which the server sees that the lock is held, or not at all
    /// ([`Error::Lost`]). Of several locks, by the first.
    ///
    /// The server compares the owner, and not the fencing token. So nothing is sent for a hold that is known to be
    /// [lost](Hold::is_lost).
    ///
    /// It is sent once. Only a `ClusterConnection` sends any command again when a connection breaks: if the command
    /// must not run twice, build that with `retries(0)`.
    ///
    /// On a server without the module a script does the same. There the reply has the form that it has in RESP2, and a
    /// command may have some 7,000 words.
    pub async fn guard<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, Error> {
        options::refuse(command.args_iter().len() == 0, "there is no command to guard")?;
        if let Some(loss) = self.loss() {
            return Err(Error::Lost(loss));
        }
        match self.client.guard(&self.owner, command).await {
            Err(Error::Lost(_)) => {
                _ = self.order(Order::NotOwner).await;
                Err(self.loss_error())
            }
            replied => replied,
        }
    }

    /// Lets the hold last for so long from now on. In the background it goes on being renewed by the ttl that it was
    /// acquired with, if at all.
    pub async fn renew(&self, ttl: Duration) -> Result<(), Error> {
        options::ttl(ttl)?;
        self.order(|reply| Order::Renew(ttl, reply)).await
    }

    /// Releases the lock, and says whether it was held until now. If it is dropped on the way it is done all the same.
    pub async fn release(self) -> Result<(), Error> {
        self.order(Order::Release).await
    }

    async fn order(
        &self,
        order: impl FnOnce(oneshot::Sender<Result<(), Error>>) -> Order,
    ) -> Result<(), Error> {
        let (reply, replied) = oneshot::channel();
        _ = self.orders.send(order(reply)); // if its task has ended, no reply comes
        replied.await.unwrap_or_else(|_| Err(self.loss_error()))
    }

    fn loss_error(&self) -> Error {
        let loss = self.loss();
        Error::Lost(loss.unwrap_or(Loss::new(Cause::Unattended, None)))
    }
}

impl<C> fmt::Debug for Hold<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("owner", &String::from_utf8_lossy(&self.owner))
            .field("fence", &self.fence)
            .finish_non_exhaustive()
    }
}
