//! Very many connections, holds and waiters.

use super::*;

/// As much as is sent at a time.
const AT_ONCE: usize = 50;
/// Longer than anything here lasts.
pub const TTL: u64 = 3_600_000;
/// What one command may name.
pub const MOST_KEYS: usize = 64;

pub struct Crowd {
    connections: Vec<Connection>,
}

impl Crowd {
    /// So many that each have sent a command, and have not had the reply.
    pub async fn that_sends(
        server: &Server,
        number: usize,
        command: impl Fn(usize) -> String,
    ) -> Result<Crowd> {
        let mut connections = Vec::with_capacity(number);
        for member in 0..number {
            let mut connection = Connection::open(server.address()).await?;
            connection.push(&command(member));
            connection.send().await?;
            connections.push(connection);
        }
        Ok(Crowd { connections })
    }

    /// The same, and all of them wait.
    pub async fn that_waits(
        server: &Server,
        number: usize,
        command: impl Fn(usize) -> String,
    ) -> Result<Crowd> {
        let connection = &mut server.connect().await?;
        let before = connection.field("clients", "blocked_clients").await?;
        let crowd = Crowd::that_sends(server, number, command).await?;
        End::Blocked(before + number).wait(connection).await?;
        Ok(crowd)
    }

    /// The same, and all of them have had their reply.
    pub async fn with_replies(
        server: &Server,
        number: usize,
        command: impl Fn(usize) -> String,
    ) -> Result<Crowd> {
        let mut crowd = Crowd::that_sends(server, number, command).await?;
        crowd.replies().await?;
        Ok(crowd)
    }

    pub async fn send(&mut self, command: impl Fn(usize) -> String) -> Result<()> {
        for (member, connection) in self.connections.iter_mut().enumerate() {
            connection.push(&command(member));
            connection.send().await?;
        }
        Ok(())
    }

    pub async fn replies(&mut self) -> Result<()> {
        for connection in &mut self.connections {
            connection.answer().await?;
        }
        Ok(())
    }
}

/// Commands one after the other on one connection, fifty in flight. An error is one of ours.
pub async fn pipeline(
    connection: &mut Connection,
    number: usize,
    command: impl Fn(usize) -> String,
) -> Result<()> {
    for first in (0..number).step_by(AT_ONCE) {
        let some = first..number.min(first + AT_ONCE);
        let sent = some.len();
        for which in some {
            connection.push(&command(which));
        }
        connection.last_of(sent).await?;
    }
    Ok(())
}

/// Each of so many locks is held by a single owner.
pub async fn hold(server: &Server, number: usize, prefix: &str, owner: &str) -> Result<()> {
    let connection = &mut server.connect().await?;
    pipeline(connection, number, |which| format!("LOCK.ACQUIRE {prefix}{which} {owner} {TTL}"))
        .await
}

/// The words that name so many keys in a command for many.
pub fn keys(prefix: &str, from: usize, number: usize) -> String {
    let mut words = number.to_string();
    for which in from..from + number {
        words += &format!(" {prefix}{which}");
    }
    words
}

/// What the server's own clients say who wait for as many keys.
pub fn pop(from: usize, number: usize) -> String {
    format!("BLMPOP 0 {} LEFT", keys("list:", from, number))
}
