//! A connection that reconnects when it breaks, and finds the master: by Sentinel, or of the lock's slot in a cluster.

use crate::place::Place;
use crate::server::{Trouble, connect, trouble};
use redis::{Cmd, Connection, ProtocolVersion, RedisError, RedisResult, Value, cmd};
use std::time::Duration;

/// The connection to the server that has the lock.
pub struct Link {
    place: Place,
    /// The other nodes of its cluster, in case that one is gone.
    others: Vec<(String, u16)>,
    /// How many connections have broken.
    lost: usize,
    /// The node that a redirect named.
    sent_to: Option<Place>,
    open: Option<Connection>,
    /// None until it is known.
    is_cluster: Option<bool>,
}

/// Why there is no usable reply.
#[derive(Debug, PartialEq)]
pub enum Failure {
    /// A retry may succeed. The request may have been carried out.
    Passing(String),
    /// The server doesn't know our commands.
    NoModule,
    /// A retry would be refused, too.
    Refused(String),
}

/// How many redirects one request follows.
const MOVES: usize = 5;

impl Link {
    /// Not connected yet.
    pub fn to(place: &Place) -> Link {
        Link {
            place: place.clone(),
            others: Vec::new(),
            lost: 0,
            sent_to: None,
            open: None,
            is_cluster: None,
        }
    }

    /// Sends one request. Connecting and each reply may take `patience`.
    pub fn ask(&mut self, command: &Cmd, patience: Duration) -> Result<Value, Failure> {
        let mut asking = false;
        for _ in 0..MOVES {
            if self.open.is_none() {
                self.open = Some(self.connect(patience)?);
                self.learn_nodes();
            }
            let Some(mut connection) = self.open.take() else { continue };
            let reply = question(&mut connection, command, asking, patience);
            let error = match reply {
                Ok(reply) => {
                    if asking {
                        self.sent_to = None;
                    } else {
                        self.open = Some(connection);
                    }
                    return Ok(reply);
                }
                Err(error) => error,
            };
            let Some((host, port)) = error.redirect_node() else {
                let failure = failure(&error);
                match failure {
                    Failure::Passing(_) => self.lose(),
                    _ => self.open = Some(connection),
                }
                return Err(failure);
            };
            let now = self.sent_to.as_ref().unwrap_or(&self.place);
            let host = if host.is_empty() { &now.host } else { host };
            self.sent_to = Some(self.place.at(host, port));
            asking = error.code() == Some("ASK");
        }
        self.lose();
        Err(Failure::Passing("the cluster sends us in circles".to_owned()))
    }

    /// In a cluster, remembers the other nodes in case this one goes. Known ones aren't forgotten.
    pub fn learn_nodes(&mut self) {
        if let Some(connection) = self.open.as_mut()
            && self.is_cluster != Some(false)
        {
            // HELLO needs no permission.
            let hello: Value = cmd("HELLO").query(connection).unwrap_or(Value::Nil);
            let Value::Array(hello) = hello else { return };
            let is_cluster = hello.contains(&Value::BulkString(b"cluster".to_vec()));
            self.is_cluster = Some(is_cluster);
            for node in if is_cluster { nodes(connection) } else { Vec::new() } {
                if !self.others.contains(&node) {
                    self.others.push(node);
                }
            }
        }
    }

    fn connect(&mut self, patience: Duration) -> Result<Connection, Failure> {
        let place = self.sent_to.clone().unwrap_or_else(|| self.first());
        connect(&place, patience, ProtocolVersion::RESP2).map_err(|trouble| match trouble {
            Trouble::Gone(_) => {
                self.lose();
                Failure::Passing(trouble.to_string())
            }
            Trouble::Refused { command: "the connection", .. } => {
                self.lose();
                Failure::Passing(trouble.to_string())
            }
            _ => Failure::Refused(trouble.to_string()),
        })
    }

    /// The node to try: each in its turn.
    fn first(&self) -> Place {
        match (self.lost % (self.others.len() + 1))
            .checked_sub(1)
            .and_then(|at| self.others.get(at))
        {
            Some((host, port)) => self.place.at(host, *port),
            None => self.place.clone(),
        }
    }

    fn lose(&mut self) {
        (self.sent_to, self.open) = (None, None);
        self.lost += 1;
    }
}

fn question(
    connection: &mut Connection,
    command: &Cmd,
    asking: bool,
    patience: Duration,
) -> RedisResult<Value> {
    connection.set_read_timeout(Some(patience))?;
    connection.set_write_timeout(Some(patience))?;
    if asking {
        let _: Value = cmd("ASKING").query(connection)?;
    }
    command.query(connection)
}

/// Temporary: an outage, a failover, a moving slot, a server that starts, is out of memory or lacks replicas.
fn failure(error: &RedisError) -> Failure {
    let passes = [
        "BUSY",
        "CLUSTERDOWN",
        "LOADING",
        "MASTERDOWN",
        "MISCONF",
        "NOREPLICAS",
        "OOM",
        "READONLY",
        "TRYAGAIN",
        "UNBLOCKED",
    ];
    match error.code() {
        None => Failure::Passing(trouble("the request", error).to_string()),
        Some(code) if passes.contains(&code) => Failure::Passing(said(error)),
        Some("ERR") if lacks_module(error.detail().unwrap_or_default()) => Failure::NoModule,
        Some(_) => Failure::Refused(said(error)),
    }
}

/// As the server has said it.
fn said(error: &RedisError) -> String {
    let (code, detail) = (error.code().unwrap_or_default(), error.detail().unwrap_or_default());
    format!("{code} {detail}").trim_end().to_owned()
}

/// In the words of all servers, also of hosts that refuse modules.
fn lacks_module(said: &str) -> bool {
    let name =
        said.strip_prefix("unknown command").or(said.strip_prefix("Command is not available:"));
    let name = name.map(|name| name.trim_start_matches([' ', '\'', '`', '"']));
    name.and_then(|name| name.get(..5)).is_some_and(|name| name.eq_ignore_ascii_case("LOCK."))
}

/// All nodes of the cluster, as one of them lists them; none if it doesn't.
fn nodes(connection: &mut Connection) -> Vec<(String, u16)> {
    let ranges: Vec<Vec<Value>> = cmd("CLUSTER").arg("SLOTS").query(connection).unwrap_or_default();
    let mut nodes: Vec<(String, u16)> = Vec::new();
    for node in ranges.iter().flat_map(|range| range.iter().skip(2)) {
        let Value::Array(node) = node else { continue };
        let [Value::BulkString(host), Value::Int(port), ..] = node.as_slice() else { continue };
        let (host, port) = (String::from_utf8_lossy(host).into_owned(), u16::try_from(*port));
        if let Ok(port) = port
            && !host.is_empty()
            && !nodes.contains(&(host.clone(), port))
        {
            nodes.push((host, port));
        }
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(line: &str) -> RedisError {
        redis::parse_redis_value(format!("-{line}\r\n").as_bytes())
            .and_then(Value::extract_error)
            .unwrap_err()
    }

    #[test]
    fn what_passes_and_a_missing_module_are_known_by_the_words_of_every_server() {
        for said in [
            "ERR unknown command 'LOCK.ACQUIRE', with args beginning with: 'market' ",
            "ERR unknown command `lock.acquire`, with args beginning with: `market`, ",
            "ERR Command is not available: 'LOCK.ACQUIRE'. See the documentation",
        ] {
            assert_eq!(failure(&error(said)), Failure::NoModule);
        }
        for said in [
            "LOADING",
            "READONLY You can't write against a read only replica.",
            "NOREPLICAS Not enough good replicas to write.",
        ] {
            assert_eq!(failure(&error(said)), Failure::Passing(said.to_owned()));
        }
        let said = "NOPERM User ann has no permissions to run the 'lock.acquire' command";
        assert_eq!(failure(&error(said)), Failure::Refused(said.to_owned()));
    }
}
