//! A second connection that hears: one in subscriber mode takes no other commands.

use crate::answer::Answer;
use crate::connection::Connection;
use anyhow::Result;
use std::net::SocketAddr;

/// Listens to one channel, now and then.
#[derive(Debug)]
pub struct Ear {
    connection: Connection,
    channel: Vec<u8>,
}

impl Ear {
    /// Connects one.
    pub async fn connect(address: SocketAddr, channel: String) -> Result<Ear> {
        Ok(Ear {
            connection: Connection::open(address).await?,
            channel: channel.into_bytes(),
        })
    }

    /// Begins to listen: what is published from here on is heard.
    pub async fn open(&mut self) -> Result<()> {
        let words: [&[u8]; 2] = [b"SUBSCRIBE", &self.channel];
        self.connection.call(&words).await?;
        Ok(())
    }

    /// The next that is said.
    pub async fn hear(&mut self) -> Result<Answer> {
        self.connection.answer().await
    }

    /// Listens no more. What was said until then concerns nobody.
    pub async fn close(&mut self) -> Result<()> {
        self.connection.push(&[b"UNSUBSCRIBE", &self.channel]);
        self.connection.send().await?;
        loop {
            let said = self.hear().await?;
            if said.items().first() == Some(&Answer::Text(b"unsubscribe".as_slice().into())) {
                return Ok(());
            }
        }
    }

    /// How many commands it has sent.
    pub fn commands(&self) -> u64 {
        self.connection.commands()
    }
}
