//! A connection that many tasks share: what they say in one turn of the loop leaves together, and
//! replies come in the order of the commands.

use crate::answer::Answer;
use crate::connection::{Connection, encode};
use crate::runtime::{Turnstile, spawn};
use anyhow::{Context, Result, bail};
use async_task::Task;
use futures_lite::future;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::mem;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// The connection. It is closed when the last task has gone.
#[derive(Debug)]
pub struct Multiplexed {
    calls: Rc<Calls>,
    _driver: Task<()>,
}

impl Multiplexed {
    /// Connects.
    pub async fn open(address: SocketAddr) -> Result<Multiplexed> {
        let connection = Connection::open(address).await?;
        let calls = Rc::new(Calls::default());
        let served = Rc::clone(&calls);
        let driver = spawn(async move {
            if let Err(error) = serve(connection, &served).await {
                served.fail(&format!(
                    "the shared connection is of no more use: {error:#}"
                ));
            }
        });
        Ok(Multiplexed {
            calls,
            _driver: driver,
        })
    }
}

async fn serve(mut connection: Connection, calls: &Calls) -> Result<()> {
    loop {
        let replied = async { connection.any_answer().await.map(Some) };
        let called = async {
            calls.made().await;
            Ok(None)
        };
        match future::or(replied, called).await? {
            Some(reply) => calls.reply(reply)?,
            None => {
                connection.push_encoded(&calls.unsent.take());
                connection.send().await?;
            }
        }
    }
}

/// The commands that wait to be sent, and the tasks that wait for replies.
#[derive(Debug, Default)]
struct Calls {
    unsent: RefCell<Vec<u8>>,
    sender: RefCell<Option<Waker>>,
    callers: RefCell<VecDeque<Rc<Slot>>>,
    trouble: RefCell<Option<Box<str>>>,
}

/// Where a task finds its reply.
#[derive(Debug, Default)]
struct Slot {
    reply: RefCell<Option<Answer>>,
    arrived: Turnstile,
}

impl Slot {
    fn fill(&self, reply: Answer) {
        self.reply.replace(Some(reply));
        self.arrived.open(1);
    }
}

impl Calls {
    fn make(&self, words: &[&[u8]], caller: &Rc<Slot>) -> Result<()> {
        if let Some(trouble) = &*self.trouble.borrow() {
            bail!("{trouble}");
        }
        encode(&mut self.unsent.borrow_mut(), words);
        self.callers.borrow_mut().push_back(Rc::clone(caller));
        if let Some(sender) = self.sender.take() {
            sender.wake();
        }
        Ok(())
    }

    /// Waits until there is something to send.
    async fn made(&self) {
        future::poll_fn(|context| {
            if !self.unsent.borrow().is_empty() {
                return Poll::Ready(());
            }
            self.sender.replace(Some(context.waker().clone()));
            Poll::Pending
        })
        .await;
    }

    fn reply(&self, reply: Answer) -> Result<()> {
        let caller = self.callers.borrow_mut().pop_front();
        caller
            .context("a reply came that nobody had asked for")?
            .fill(reply);
        Ok(())
    }

    fn fail(&self, trouble: &str) {
        self.trouble.replace(Some(trouble.into()));
        for caller in mem::take(&mut *self.callers.borrow_mut()) {
            caller.fill(Answer::Error(trouble.into()));
        }
    }
}

/// One task. It has one command on its way at a time.
#[derive(Debug)]
pub struct Caller {
    multiplexed: Rc<Multiplexed>,
    slot: Rc<Slot>,
    commands: u64,
}

impl Caller {
    /// One more of this connection.
    pub fn of(multiplexed: Rc<Multiplexed>) -> Caller {
        Caller {
            multiplexed,
            slot: Rc::default(),
            commands: 0,
        }
    }

    /// Sends a command and waits for its reply; an error of the server's is one of ours.
    pub async fn call(&mut self, words: &[&[u8]]) -> Result<Answer> {
        self.commands += 1;
        self.multiplexed.calls.make(words, &self.slot)?;
        self.slot.arrived.pass().await;
        match self.slot.reply.take() {
            Some(Answer::Error(text)) => bail!("the server answered: {text}"),
            reply => reply.context("a reply is missing"),
        }
    }

    /// How many commands this task has sent.
    pub fn commands(&self) -> u64 {
        self.commands
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Process;
    use crate::runtime::block_on;
    use crate::server::{Server, With};

    #[test]
    fn each_task_has_the_reply_to_its_own_command() -> Result<()> {
        block_on(async {
            let server = Server::start(With::Nothing).await?;
            let process = Process::new(server.address());
            let mut tasks = Vec::new();
            for task in 0..100 {
                let mut caller = process.caller().await?;
                tasks.push(spawn(async move {
                    let text = task.to_string();
                    let reply = caller.call(&[b"ECHO", text.as_bytes()]).await;
                    reply?.number()
                }));
            }
            for (task, reply) in tasks.into_iter().enumerate() {
                assert_eq!(reply.await?, i64::try_from(task)?);
            }
            let clients = server.control().await?.info().await?;
            assert_eq!(clients.number("connected_clients")?, 2);
            Ok(())
        })?
    }

    #[test]
    fn who_waits_for_a_reply_hears_that_the_connection_has_gone() -> Result<()> {
        block_on(async {
            let server = Server::start(With::Nothing).await?;
            let mut caller = Process::new(server.address()).caller().await?;
            let words: [&[u8]; 3] = [b"BLPOP", b"nothing", b"0"];
            let waits = spawn(async move { (caller.call(&words).await, caller) });
            let mut control = server.control().await?;
            control
                .wait_for("blocked_clients", |some| some == 1)
                .await?;
            let kill: [&[u8]; 4] = [b"CLIENT", b"KILL", b"TYPE", b"normal"];
            control.connection.call(&kill).await?;
            let (reply, mut caller) = waits.await;
            assert!(reply.is_err());
            assert!(caller.call(&[b"PING"]).await.is_err());
            Ok(())
        })?
    }
}
