//! What the tasks of a process share: one connection for their commands, and a second one on which
//! it hears messages.
//!
//! So it is with ioredis, node-redis, Lettuce, redis-rs' multiplexed connection and many others.

mod messages;
mod multiplexed;

use anyhow::Result;
pub use messages::Listener;
use messages::Messages;
pub use multiplexed::Caller;
use multiplexed::Multiplexed;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;

/// A process. Each connection is made when the first task needs it.
#[derive(Debug)]
pub struct Process {
    address: SocketAddr,
    multiplexed: RefCell<Option<Rc<Multiplexed>>>,
    messages: RefCell<Option<Rc<Messages>>>,
}

impl Process {
    /// One that has yet to connect.
    pub fn new(address: SocketAddr) -> Process {
        Process {
            address,
            multiplexed: RefCell::default(),
            messages: RefCell::default(),
        }
    }

    /// For a task that sends commands.
    pub async fn caller(&self) -> Result<Caller> {
        let opened = self.multiplexed.borrow().clone();
        let multiplexed = match opened {
            Some(multiplexed) => multiplexed,
            None => Rc::new(Multiplexed::open(self.address).await?),
        };
        self.multiplexed.replace(Some(Rc::clone(&multiplexed)));
        Ok(Caller::of(multiplexed))
    }

    /// For a task that is told by this message of its own.
    pub async fn listener(&self, message: Vec<u8>) -> Result<Listener> {
        let opened = self.messages.borrow().clone();
        let messages = match opened {
            Some(messages) => messages,
            None => Rc::new(Messages::open(self.address).await?),
        };
        self.messages.replace(Some(Rc::clone(&messages)));
        Ok(Listener::of(messages, message))
    }
}
