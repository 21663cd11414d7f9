//! One command or one event, and the server's longest turn while it happens.

use crate::answer::Answer;
use crate::connection::Connection;
use crate::pinger::{Gap, INTERVAL, Pinger};
use crate::runtime::sleep;
use crate::server::Server;
use anyhow::{Result, bail};
use std::future::Future;
use std::time::{Duration, Instant};

/// The server has nothing to do for so long before.
const BEFORE: Duration = Duration::from_millis(20);
/// What a command leaves to timers comes within so much after it.
const AFTER: Duration = Duration::from_millis(150);
/// Between two looks whether it is over. The looks must not be what holds up the server.
const BETWEEN: Duration = Duration::from_millis(2);
/// Longer than anything here lasts.
const PATIENCE: Duration = Duration::from_secs(60);
/// These are replies like any other: here the module refuses what would be too much.
const REFUSALS: [&str; 3] = ["QUEUEFULL", "TOOCOMPLEX", "DEADLOCK"];

#[derive(Debug, Clone, Copy, Default)]
pub struct Seen {
    /// The one command as its caller sees it; the longest, if there were several. None where that is
    /// a wait, or where there is no one command.
    pub call: Option<Duration>,
    /// What it has cost of the server's CPU: its caller may be late to see its end.
    pub cpu: Duration,
    /// The longest gap of another connection's PING.
    pub gap: Gap,
}

impl Seen {
    /// Of what is no one command.
    pub fn of_gap(gap: Gap) -> Seen {
        Seen { gap, ..Seen::default() }
    }

    /// The server's longest turn, in seconds. One that has begun between two PINGs is longer than the
    /// gap, by the time between them at most; and never longer than the command took.
    pub fn turn(&self) -> f64 {
        let gap = self.gap.servers_own();
        let turn = match self.call {
            Some(call) => gap.max(call.min(self.cpu).min(gap + INTERVAL)),
            None => gap,
        };
        turn.as_secs_f64()
    }

    /// The same, where the command's time is that of a wait.
    pub fn without_call(self) -> Seen {
        Seen { call: None, ..self }
    }

    /// The shorter one of two: of what the server alone does, the noise of the machine left out.
    pub fn or_shorter(self, other: Seen) -> Seen {
        if other.turn() < self.turn() { other } else { self }
    }

    pub fn or_longer(self, other: Seen) -> Seen {
        if other.turn() > self.turn() { other } else { self }
    }
}

#[derive(Debug, Clone, Copy)]
pub enum End {
    Reply,
    /// When the database has so many keys.
    Keys(usize),
    /// When so many connections are blocked.
    Blocked(usize),
    /// When there are at most so many connections.
    Connections(usize),
}

impl End {
    pub async fn wait(self, connection: &mut Connection) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !self.has_come(connection).await? {
            if Instant::now() > deadline {
                bail!("after a minute there was still no {self:?}");
            }
            sleep(BETWEEN).await;
        }
        Ok(())
    }

    async fn has_come(self, connection: &mut Connection) -> Result<bool> {
        Ok(match self {
            End::Reply => true,
            End::Keys(keys) => connection.call("DBSIZE").await?.number()? == i64::try_from(keys)?,
            End::Blocked(clients) => {
                connection.field("clients", "blocked_clients").await? == clients
            }
            End::Connections(most) => {
                connection.field("clients", "connected_clients").await? <= most
            }
        })
    }
}

/// The command, until it is over.
pub async fn of_command(server: &Server, command: &str, end: End) -> Result<Seen> {
    of_commands(server, &[command.to_owned()], end).await
}

/// Commands that are sent together.
pub async fn of_commands(server: &Server, commands: &[String], end: End) -> Result<Seen> {
    let mut connection = Connection::open(server.address()).await?;
    let ((call, cpu), gap) = beside_pings(server, async {
        for command in commands {
            connection.push(command);
        }
        let (began, cpu) = (Instant::now(), server.cpu()?);
        connection.send().await?;
        for _ in commands {
            let answer = connection.any_answer().await?;
            refuse_trouble(answer)?;
        }
        let took = (began.elapsed(), used_since(server, cpu)?);
        end.wait(&mut connection).await?;
        Ok(took)
    })
    .await?;
    let call = Some(call);
    Ok(Seen { call, cpu, gap })
}

/// The same command so many times, one after the other: the longest of all.
pub async fn of_repeated(server: &Server, command: &str, times: usize) -> Result<Seen> {
    let mut connection = Connection::open(server.address()).await?;
    let ((call, cpu), gap) = beside_pings(server, async {
        let mut longest = (Duration::ZERO, Duration::ZERO);
        for _ in 0..times {
            let (began, cpu) = (Instant::now(), server.cpu()?);
            connection.push(command);
            connection.send().await?;
            refuse_trouble(connection.any_answer().await?)?;
            let took = (began.elapsed(), used_since(server, cpu)?);
            longest = (longest.0.max(took.0), longest.1.max(took.1));
            sleep(INTERVAL).await;
        }
        Ok(longest)
    })
    .await?;
    let call = Some(call);
    Ok(Seen { call, cpu, gap })
}

pub async fn of_event(server: &Server, event: impl Future<Output = Result<()>>) -> Result<Seen> {
    let ((), gap) = beside_pings(server, event).await?;
    Ok(Seen::of_gap(gap))
}

async fn beside_pings<T>(
    server: &Server,
    event: impl Future<Output = Result<T>>,
) -> Result<(T, Gap)> {
    let pinger = Pinger::start(server)?;
    sleep(BEFORE).await;
    let outcome = event.await?;
    sleep(AFTER).await;
    Ok((outcome, pinger.stop()?))
}

fn used_since(server: &Server, before: f64) -> Result<Duration> {
    Ok(Duration::from_secs_f64((server.cpu()? - before).max(0.0)))
}

fn refuse_trouble(answer: Answer) -> Result<()> {
    match answer {
        Answer::Error(text) if !REFUSALS.iter().any(|word| text.starts_with(word)) => {
            bail!("the server replied: {text}")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(call: Option<u64>, cpu: u64, gap: u64) -> Seen {
        Seen {
            call: call.map(Duration::from_micros),
            cpu: Duration::from_micros(cpu),
            gap: Gap { seen: Duration::from_micros(gap), kept_off: Duration::ZERO },
        }
    }

    #[test]
    fn a_turn_is_as_long_as_the_gap_and_the_command_together_tell() {
        let turn = |call, cpu, gap| (seen(call, cpu, gap).turn() * 1e6).round();
        // It began between two PINGs.
        assert_eq!(turn(Some(1_700), 1_700, 900), 1_700.0);
        // It was the client that took so long.
        assert_eq!(turn(Some(9_000), 300, 200), 300.0);
        assert_eq!(turn(Some(9_000), 9_000, 200), 1_200.0);
        // The longest turn was another one than the command's.
        assert_eq!(turn(Some(100), 100, 6_000), 6_000.0);
        assert_eq!(turn(None, 0, 900), 900.0);
    }

    #[test]
    fn a_refusal_is_a_reply_and_any_other_error_is_trouble() {
        let answer = |text: &str| refuse_trouble(Answer::Error(text.into()));
        assert!(answer("QUEUEFULL enough").is_ok());
        assert!(answer("ERR syntax error").is_err());
        assert!(refuse_trouble(Answer::Nil).is_ok());
    }
}
