use crate::ask::ask_once;
use crate::beside::Beside;
use crate::known::{Known, lacks_form, lacks_module, lacks_word};
use crate::words::Words;
use crate::{Connection, Error, plain};
use redis::{Cmd, FromRedisValue, RedisResult};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// One lock, and the server that has it. Each thing is said in the way that the server understands: by the module's
/// commands, or by those of any server.
#[derive(Clone)]
pub(crate) struct Client<C> {
    pub(crate) connection: C,
    pub(crate) words: Words,
    pub(crate) known: Arc<Known>,
    /// For what waits for replicas, if there is a way to make connections.
    pub(crate) beside: Option<Arc<Beside>>,
    pub(crate) requires_module: bool,
}

pub(crate) enum Reply {
    /// With the fencing token, if the server has the module.
    Granted(Option<u64>),
    /// Where it waits; zero: nowhere, because it was a try, or there is no waiting at the moment.
    Place(u64),
    /// Others have it, on a server where there is no waiting.
    Taken,
}

impl<C: Connection> Client<C> {
    /// If an earlier request of this owner may have been granted, a server without the module is asked for that, too.
    /// `waits`: as in [`by_module`](Client::by_module).
    pub(crate) async fn acquire(
        &self,
        owner: &[u8],
        ttl: Duration,
        (question, waits): (&Cmd, bool),
        may_be_ours: bool,
    ) -> Result<Reply, Error> {
        let replied: Option<Option<i64>> = match self.by_module(question, waits).await {
            Err(error) => return Err(self.explain(error).await),
            Ok(replied) => replied,
        };
        if let Some(reply) = replied {
            return Ok(match reply {
                Some(fence @ 1..) => Reply::Granted(Some(fence.unsigned_abs())),
                place => Reply::Place(place.unwrap_or(0).unsigned_abs()),
            });
        }
        let key = self.words.first();
        let acquired: bool = self.change(&plain::acquire(key, owner, ttl)).await?;
        let granted =
            acquired || may_be_ours && self.change(&plain::is_ours(key, owner, ttl)).await?;
        Ok(if granted { Reply::Granted(None) } else { Reply::Taken })
    }

    /// An older module calls a word that it does not know a syntax error.
    async fn explain(&self, error: Error) -> Error {
        let (Error::Redis(refused), Some(word)) = (&error, self.words.newer()) else {
            return error;
        };
        if !lacks_word(refused) {
            return error;
        }
        let version = self.known.version(&self.connection).await;
        if version.as_ref().is_some_and(|version| !version.starts_with("1.")) {
            return error;
        }
        Error::OlderModule { word, version }
    }

    /// Whether it was held.
    pub(crate) async fn renew(&self, owner: &[u8], ttl: Duration) -> Result<bool, Error> {
        if let Some(held) = self.by_module(&self.words.renew(owner, ttl), true).await? {
            return Ok(held);
        }
        let forms = plain::renew(self.words.first(), owner, ttl);
        by_any_of(&forms, &self.known.renew, |form| self.change(form)).await
    }

    /// How many of its locks were held.
    pub(crate) async fn release(&self, owner: &[u8]) -> Result<usize, Error> {
        if let Some(held) = self.by_module(&self.words.release(owner), false).await? {
            return Ok(held);
        }
        let forms = plain::release(self.words.first(), owner);
        by_any_of(&forms, &self.known.release, |form| ask_once(&self.connection, form)).await
    }

    pub(crate) async fn guard<T: FromRedisValue>(
        &self,
        owner: &[u8],
        guarded: &Cmd,
    ) -> Result<T, Error> {
        if let Some(reply) = self.by_module(&self.words.guard(owner, guarded), false).await? {
            return Ok(reply);
        }
        let command = plain::guard(self.words.first(), owner, guarded);
        Ok(ask_once(&self.connection, &command).await?)
    }

    /// None if the server has not loaded the module, and this lock can do without. `waits`: for the replicas, if any are
    /// wanted.
    async fn by_module<T: FromRedisValue>(
        &self,
        command: &Cmd,
        waits: bool,
    ) -> Result<Option<T>, Error> {
        let needed_for =
            if self.requires_module { Some("this lock") } else { self.words.need_module_for() };
        if needed_for.is_none() && !self.known.may_have_module() {
            return Ok(None);
        }
        let replied = match (self.words.replicas, &self.beside) {
            (Some(1..), Some(beside)) if waits => beside.ask(command).await,
            _ => ask_once(&self.connection, command).await,
        };
        match replied {
            Err(error) if lacks_module(&error) => {
                if let Some(what) = needed_for {
                    return Err(Error::NeedsModule(what));
                }
                self.known.has_no_module();
                Ok(None)
            }
            Err(error) => Err(error.into()),
            Ok(reply) => {
                self.known.has_module();
                Ok(Some(reply))
            }
        }
    }

    /// By the server's own commands.
    async fn change<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        match (self.words.replicas, &self.beside) {
            (Some(n @ 1..), Some(beside)) => beside.ask_and_wait(command, n).await,
            _ => ask_once(&self.connection, command).await,
        }
    }
}

/// The first of these forms that the server knows; those that it does not know are left out the next time.
async fn by_any_of<'f, T: FromRedisValue, F: Future<Output = RedisResult<T>>>(
    forms: &'f [Cmd],
    unknown: &AtomicUsize,
    ask: impl Fn(&'f Cmd) -> F,
) -> Result<T, Error> {
    let mut number = unknown.load(Ordering::Relaxed);
    loop {
        match ask(&forms[number]).await {
            Err(error) if lacks_form(&error) && number + 1 < forms.len() => {
                number += 1;
                unknown.fetch_max(number, Ordering::Relaxed);
            }
            replied => return Ok(replied?),
        }
    }
}
