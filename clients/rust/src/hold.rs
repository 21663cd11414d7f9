use crate::ask::ask_once;
use crate::words::Words;
use crate::{Connection, Error};
use redis::{Cmd, FromRedisValue, RedisResult};
use std::fmt;
use std::future::{Future, pending};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};

/// A lock that is held. It is renewed while it lives, and released when it is dropped.
///
/// A drop can tell nobody that the lock was lost before, and a runtime that ends at once sends nothing any more: call
/// [`release`](Hold::release) where there is a way to.
#[must_use = "a hold that is dropped is released"]
pub struct Hold<C> {
    pub(crate) connection: C,
    pub(crate) words: Words,
    pub(crate) owner: Vec<u8>,
    pub(crate) fence: u64,
    pub(crate) stage: watch::Receiver<Stage>,
    /// When this is dropped the keeper releases.
    pub(crate) orders: mpsc::UnboundedSender<Order>,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Stage {
    Held,
    Lost,
    Released,
}

/// What the keeper of a hold is told.
pub(crate) enum Order {
    Renew(Duration, oneshot::Sender<RedisResult<bool>>),
    Release(oneshot::Sender<RedisResult<bool>>),
    Lost,
}

impl<C: Connection> Hold<C> {
    /// The fencing number, for what is not in the server: it is larger than those of all earlier grants.
    pub fn fence(&self) -> u64 {
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
            let ended = stage.wait_for(|stage| *stage != Stage::Held).await;
            let released = ended.is_ok_and(|stage| *stage == Stage::Released);
            if released {
                pending().await
            }
            // Or nobody keeps it any more: then it is lost, too.
        }
    }

    /// Whether it is known to be lost.
    pub fn is_lost(&self) -> bool {
        *self.stage.borrow() == Stage::Lost || self.orders.is_closed()
    }

    /// Does the work while the lock is held. If it is lost the work is dropped at its next `await`.
    pub async fn while_held<T>(&self, work: impl Future<Output = T>) -> Result<T, Error> {
        tokio::select! {
            biased;
            () = self.lost() => Err(Error::Lost),
            done = work => Ok(done),
        }
    }

    /// Runs a command in the very instant in which the server sees that the lock is held, or not at all
    /// ([`Error::Lost`]). Of several locks, by the first. It is not sent again if the connection breaks.
    pub async fn guard<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, Error> {
        let command = self.words.guard(&self.owner, command);
        let replied = ask_once(&self.connection, &command).await;
        replied.map_err(Error::from).inspect_err(|error| {
            if matches!(error, Error::Lost) {
                _ = self.orders.send(Order::Lost);
            }
        })
    }

    /// Lets the hold last for so long from now on. In the background it goes on being renewed by the ttl that it was
    /// acquired with, if at all.
    pub async fn renew(&self, ttl: Duration) -> Result<(), Error> {
        self.order(|reply| Order::Renew(ttl, reply)).await
    }

    /// Releases the lock, and says whether it was held until now. If it is dropped on the way it is done all the same.
    pub async fn release(self) -> Result<(), Error> {
        self.order(Order::Release).await
    }

    async fn order(
        &self,
        order: impl FnOnce(oneshot::Sender<RedisResult<bool>>) -> Order,
    ) -> Result<(), Error> {
        let (reply, replied) = oneshot::channel();
        _ = self.orders.send(order(reply)); // if nobody is there any more, nobody replies
        match replied.await {
            Ok(Ok(true)) => Ok(()),
            Ok(Ok(false)) | Err(_) => Err(Error::Lost),
            Ok(Err(error)) => Err(error.into()),
        }
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
