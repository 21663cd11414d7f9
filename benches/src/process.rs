//! What the tasks of a process share: one connection for their commands, and a second one on which the process hears
//! messages.

use crate::answer::Answer;
use crate::connection::Connection;
use crate::runtime::{Task, Turnstile, spawn};
use anyhow::Result;
use async_lock::Mutex;
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;

const CHANNEL: &str = "process-12";

/// One command at a time: those of the tasks hardly ever meet.
pub type Shared = Rc<Mutex<Connection>>;

/// A process. Each connection is made when the first task needs it.
pub struct Process {
    address: SocketAddr,
    connection: RefCell<Option<Shared>>,
    messages: RefCell<Option<Rc<Messages>>>,
}

impl Process {
    pub fn new(address: SocketAddr) -> Process {
        Process { address, connection: RefCell::default(), messages: RefCell::default() }
    }

    pub async fn connection(&self) -> Result<Shared> {
        let opened = self.connection.borrow().clone();
        let connection = match opened {
            Some(connection) => connection,
            None => Rc::new(Mutex::new(Connection::open(self.address).await?)),
        };
        self.connection.replace(Some(Rc::clone(&connection)));
        Ok(connection)
    }

    /// For a task that is told by this message of its own.
    pub async fn listener(&self, message: String) -> Result<Listener> {
        let opened = self.messages.borrow().clone();
        let messages = match opened {
            Some(messages) => messages,
            None => Rc::new(Messages::hear(self.address).await?),
        };
        self.messages.replace(Some(Rc::clone(&messages)));
        let told = Rc::new(Turnstile::default());
        let mut tasks = messages.tasks.borrow_mut();
        tasks.insert(message.clone(), Rc::clone(&told));
        drop(tasks);
        Ok(Listener { _messages: messages, message, told })
    }
}

/// The tasks that are told, each by its message.
type Tasks = RefCell<HashMap<String, Rc<Turnstile>>>;

/// Hears the messages, as long as there is a task to be told.
struct Messages {
    tasks: Rc<Tasks>,
    _hears: Task<()>,
}

impl Messages {
    async fn hear(address: SocketAddr) -> Result<Messages> {
        let mut ear = Ear::connect(address, CHANNEL.to_owned()).await?;
        ear.open().await?;
        let tasks = Rc::<Tasks>::default();
        let told = Rc::clone(&tasks);
        let hears = spawn(async move {
            // A task that is told nothing any more asks by itself.
            while let Ok(message) = ear.hear().await {
                let text = message.items().get(2).and_then(|text| text.text().ok());
                let task = text.and_then(|text| told.borrow().get(text).cloned());
                if let Some(task) = task {
                    task.open(1);
                }
            }
        });
        Ok(Messages { tasks, _hears: hears })
    }
}

pub struct Listener {
    _messages: Rc<Messages>,
    message: String,
    told: Rc<Turnstile>,
}

impl Listener {
    /// What a command says to have it told: the channel and the message.
    pub fn address(&self) -> String {
        format!("{CHANNEL} {}", self.message)
    }

    pub async fn told(&self) {
        self.told.pass().await;
    }
}

/// A second connection that hears one channel: one in subscriber mode takes no other commands.
pub struct Ear {
    connection: Connection,
    channel: String,
}

impl Ear {
    pub async fn connect(address: SocketAddr, channel: String) -> Result<Ear> {
        Ok(Ear { connection: Connection::open(address).await?, channel })
    }

    /// Begins to listen: what is published from here on is heard.
    pub async fn open(&mut self) -> Result<()> {
        let subscribe = format!("SUBSCRIBE {}", self.channel);
        self.connection.call(&subscribe).await?;
        Ok(())
    }

    pub async fn hear(&mut self) -> Result<Answer> {
        self.connection.answer().await
    }

    /// Listens no more, and lets go of what was published until then.
    pub async fn close(&mut self) -> Result<()> {
        let unsubscribe = format!("UNSUBSCRIBE {}", self.channel);
        self.connection.push(&unsubscribe);
        self.connection.send().await?;
        loop {
            let said = self.hear().await?;
            if said.items().first() == Some(&Answer::Text(b"unsubscribe".as_slice().into())) {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{block_on, within};
    use crate::server::{Server, With};
    use std::time::Duration;

    #[test]
    fn a_task_is_told_by_its_own_message_and_by_no_other() -> Result<()> {
        block_on(async {
            let server = Server::start(With::Nothing).await?;
            let process = Process::new(server.address());
            let one = process.listener("1".to_owned()).await?;
            let other = process.listener("2".to_owned()).await?;
            let connection = process.connection().await?;
            let mut connection = connection.lock().await;
            let heard = connection.call(&format!("PUBLISH {}", other.address())).await?;
            assert_eq!(heard.number()?, 1);
            other.told().await;
            let told = within(Duration::from_millis(20), one.told()).await;
            assert_eq!(told, None);
            Ok(())
        })
    }
}
