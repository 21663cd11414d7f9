//! Messages on one channel, each for the task whose message it is.

use crate::runtime::{Turnstile, spawn};
use crate::ways::ear::Ear;
use anyhow::Result;
use async_task::Task;
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;

/// The channel of the process.
const CHANNEL: &str = "process-12";

/// Each by its message.
type Tasks = RefCell<HashMap<Box<[u8]>, Rc<Turnstile>>>;

/// Hears them, as long as there is a task to be told.
#[derive(Debug)]
pub struct Messages {
    tasks: Rc<Tasks>,
    _ear: Task<()>,
}

impl Messages {
    /// Subscribes.
    pub async fn open(address: SocketAddr) -> Result<Messages> {
        let mut ear = Ear::connect(address, CHANNEL.to_owned()).await?;
        ear.open().await?;
        let tasks = Rc::new(Tasks::default());
        let told = Rc::clone(&tasks);
        let ear = spawn(async move {
            // Whoever is told nothing any more asks by itself.
            while let Ok(message) = ear.hear().await {
                let text = message.items().get(2).and_then(|text| text.text().ok());
                if let Some(task) =
                    text.and_then(|text| told.borrow().get(text.as_bytes()).cloned())
                {
                    task.open(1);
                }
            }
        });
        Ok(Messages { tasks, _ear: ear })
    }
}

/// One task.
#[derive(Debug)]
pub struct Listener {
    _messages: Rc<Messages>,
    message: Vec<u8>,
    told: Rc<Turnstile>,
}

impl Listener {
    /// The task of this message.
    pub fn of(messages: Rc<Messages>, message: Vec<u8>) -> Listener {
        let told = Rc::new(Turnstile::default());
        let mut tasks = messages.tasks.borrow_mut();
        tasks.insert(message.as_slice().into(), Rc::clone(&told));
        drop(tasks);
        Listener {
            _messages: messages,
            message,
            told,
        }
    }

    /// What a command says to have it told: the channel and the message.
    pub fn address(&self) -> [&[u8]; 2] {
        [CHANNEL.as_bytes(), &self.message]
    }

    /// Waits for the message.
    pub async fn told(&self) {
        self.told.pass().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::Process;
    use crate::runtime::{block_on, within};
    use crate::server::{Server, With};
    use std::time::Duration;

    #[test]
    fn a_task_is_told_by_its_own_message_and_by_no_other() -> Result<()> {
        block_on(async {
            let server = Server::start(With::Nothing).await?;
            let process = Process::new(server.address());
            let one = process.listener(b"1".to_vec()).await?;
            let other = process.listener(b"2".to_vec()).await?;
            let [channel, message] = other.address();
            let mut connection = server.control().await?.connection;
            let heard = connection.call(&[b"PUBLISH", channel, message]).await?;
            assert_eq!(heard.number()?, 1);
            other.told().await;
            let told = within(Duration::from_millis(20), one.told()).await;
            assert_eq!(told, None);
            Ok(())
        })?
    }
}
