//! A server, and names of locks that are its own: in a cluster a lock belongs to one master.

use super::{OWNER, TTL};
use crate::connection::Connection;
use crate::runtime::sleep;
use crate::server::{Server, With};
use crate::stalls::crowd::pipeline;
use crate::stalls::seen::call;
use anyhow::{Result, ensure};
use std::time::{Duration, Instant};

const SLOTS: usize = 16_384;
/// Pairs come and go on these, beside all the others.
const PROBES: usize = 1_000;
const PATIENCE: Duration = Duration::from_secs(30);
/// One of them.
#[derive(Debug)]
pub struct Shard {
    /// The server.
    pub server: Server,
    /// Where the memory that it used when it was empty is kept.
    pub empty: f64,
    /// Which it is, of how many in the cluster.
    of: Option<(usize, usize)>,
}

impl Shard {
    /// A server that is in no cluster.
    pub async fn alone(with: With) -> Result<Shard> {
        Shard::begin(Server::start(with).await?, with, None).await
    }

    /// The masters of a cluster, with as many slots each.
    pub async fn cluster(masters: usize) -> Result<Vec<Shard>> {
        let lines = "cluster-enabled yes\ncluster-node-timeout 5000\n";
        let mut servers = Vec::new();
        for _ in 0..masters {
            servers.push(Server::start_as(With::Module, lines).await?);
        }
        let first = servers.first().map(Server::address);
        for (number, server) in servers.iter().enumerate() {
            let connection = &mut server.control().await?.connection;
            let (from, to) = slots_of(number, masters);
            let commands = [
                format!("CLUSTER SET-CONFIG-EPOCH {}", number + 1),
                format!("CLUSTER ADDSLOTSRANGE {from} {}", to - 1),
            ];
            for command in commands {
                call(connection, &command).await?;
            }
            if let Some(first) = first.filter(|_| number > 0) {
                let meet = format!("CLUSTER MEET {} {}", first.ip(), first.port());
                call(connection, &meet).await?;
            }
        }
        let mut shards = Vec::new();
        for (number, server) in servers.into_iter().enumerate() {
            until_it_serves(&server).await?;
            shards.push(Shard::begin(server, With::Module, Some((number, masters))).await?);
        }
        Ok(shards)
    }

    async fn begin(server: Server, with: With, of: Option<(usize, usize)>) -> Result<Shard> {
        server.control().await?.lift_limits(with).await?;
        let empty = server.memory().await?;
        Ok(Shard { server, empty, of })
    }

    /// So many names of locks that are this server's, beginning with this one.
    pub fn names(&self, prefix: &str, from: usize, number: usize) -> Vec<String> {
        let own = |name: &String| {
            self.of.is_none_or(|(number, all)| {
                let (first, end) = slots_of(number, all);
                (first..end).contains(&slot(name.as_bytes()))
            })
        };
        let names = (0..).map(|which| format!("{prefix}{which}")).filter(own);
        names.skip(from).take(number).collect()
    }

    /// What pairs are measured on.
    pub fn probes(&self) -> Vec<String> {
        self.names("probe:", 0, PROBES)
    }

    /// Bytes for each of so many, beyond those that were used before.
    pub async fn bytes_each(&self, before: f64, number: usize) -> Result<Option<f64>> {
        let now = self.server.memory().await?;
        Ok((number >= 10_000).then(|| (now - before) / number as f64))
    }

    /// A connection for commands.
    pub async fn connection(&self) -> Result<Connection> {
        Connection::open(self.server.address()).await
    }

    /// These are held from now on.
    pub async fn hold(&self, names: &[String]) -> Result<()> {
        self.all(names, |name| format!("LOCK.ACQUIRE {name} {OWNER} {TTL}"))
            .await
    }

    /// One command for each name, fifty in flight.
    pub async fn all(&self, names: &[String], command: impl Fn(&str) -> String) -> Result<()> {
        for_all(&mut self.connection().await?, names, command).await
    }
}

/// The same over a connection that stays: the end of one costs the server some work too, later.
pub async fn for_all(
    connection: &mut Connection,
    names: &[String],
    command: impl Fn(&str) -> String,
) -> Result<()> {
    let of = |which: usize| names.get(which).map_or(String::new(), |name| command(name));
    pipeline(connection, names.len(), of).await
}

fn slots_of(number: usize, all: usize) -> (usize, usize) {
    (SLOTS * number / all, SLOTS * (number + 1) / all)
}

async fn until_it_serves(server: &Server) -> Result<()> {
    let connection = &mut server.control().await?.connection;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let info = call(connection, "CLUSTER INFO").await?;
        if info.text()?.contains("cluster_state:ok") {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "the cluster does not come up");
        sleep(Duration::from_millis(20)).await;
    }
}

/// The slot of a name without braces: CRC-16 of the kind called XMODEM.
fn slot(name: &[u8]) -> usize {
    let crc = name.iter().fold(0_u16, |crc, &byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            let shifted = crc << 1;
            if crc & 0x8000 == 0 {
                shifted
            } else {
                shifted ^ 0x1021
            }
        })
    });
    usize::from(crc) % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_the_slot_that_a_cluster_gives_it() {
        // Both as CLUSTER KEYSLOT says.
        assert_eq!(slot(b"123456789"), 12_739);
        assert_eq!(slot(b"foo"), 12_182);
        assert_eq!((slots_of(0, 3).0, slots_of(2, 3).1), (0, SLOTS));
    }
}
