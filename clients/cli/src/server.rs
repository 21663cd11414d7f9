//! Requests to the server, and what went wrong if there is no reply.

use crate::lock::Lock;
use crate::place::{Place, Sentinels};
use redis::{
    Client, Connection, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion,
    RedisConnectionInfo,
};
use redis::{
    ClientTlsConfig, Cmd, ErrorKind, RedisError, RedisResult, TlsCertificates, Value, cmd, pipe,
};
use std::fmt::{Display, Formatter};
use std::fs;
use std::ops::RangeInclusive;
use std::time::Duration;

/// How long to wait for a connection, and for a reply.
const PATIENCE: Duration = Duration::from_secs(5);

/// The server, or in tests something that plays it.
pub trait Asked {
    /// `INFO` of the sections that the page shows.
    fn info(&mut self) -> Result<String, Trouble>;

    /// A page of `LOCK.SCAN` of about so many keys: the next cursor, and names.
    fn scan(&mut self, cursor: &str, keys: usize) -> Result<(String, Vec<Vec<u8>>), Trouble>;

    /// `LOCK.INFO` of each of them, in one pipeline.
    fn look(&mut self, names: &[Vec<u8>]) -> Result<Vec<Look>, Trouble>;
}

/// What one `LOCK.INFO` has brought.
#[derive(Clone, Debug, PartialEq)]
pub enum Look {
    /// It is held or waited for.
    Lock(Lock),
    /// No client holds it, or it is no lock any more.
    Free,
    /// The user may not read this key.
    Hidden,
}

/// Why there is nothing to show.
#[derive(Clone, Debug, PartialEq)]
pub enum Trouble {
    /// There is no connection, or none any more.
    Gone(String),
    /// The server doesn't know our commands.
    NoModule,
    /// The user may not run a command.
    NoRight { command: &'static str, said: String },
    /// Another error.
    Refused { command: &'static str, said: String },
}

impl Display for Trouble {
    fn fmt(&self, to: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Trouble::Gone(why) => write!(to, "no connection to the server: {why}"),
            Trouble::NoModule => write!(
                to,
                "this server has no module redis-lock: it must be loaded (loadmodule /path/to/libredis_lock.so)"
            ),
            Trouble::NoRight { command, said } => write!(
                to,
                "this user may not run {command} ({said}). What this takes: \
                 ACL SETUSER <user> +info +lock.scan +lock.info, in a cluster +cluster|slots, and %R~* for the keys"
            ),
            Trouble::Refused { command, said } => {
                write!(to, "the server refuses {command}: {said}")
            }
        }
    }
}

/// A connection.
pub struct Server {
    connection: Connection,
    all: bool,
}

impl Server {
    /// Connects, logs in and chooses the database. The scan goes by `all` strings that expire, or by locks alone.
    pub fn connect(place: &Place, all: bool) -> Result<Server, Trouble> {
        // In RESP3 a map is no list.
        let connection = connect(place, PATIENCE, ProtocolVersion::RESP3)?;
        Ok(Server { connection, all })
    }

    /// Any command.
    pub fn ask(&mut self, command: &'static str, question: &Cmd) -> Result<Value, Trouble> {
        question.query(&mut self.connection).map_err(|error| trouble(command, &error))
    }
}

impl Server {
    /// `LOCK.INFO` of each of them, in one pipeline.
    pub fn infos(&mut self, names: &[Vec<u8>]) -> Result<Vec<RedisResult<Value>>, Trouble> {
        let mut questions = pipe();
        for name in names {
            questions.cmd("LOCK.INFO").arg(name);
        }
        let replies = questions.ignore_errors().query(&mut self.connection);
        replies.map_err(|error| trouble("LOCK.INFO", &error))
    }
}

/// Connects, logs in and chooses the database. Each step, and each reply later, may take `patience`.
pub fn connect(
    place: &Place,
    patience: Duration,
    protocol: ProtocolVersion,
) -> Result<Connection, Trouble> {
    if let Some(sentinels) = &place.sentinels {
        let (host, port) = master_by(sentinels, place, patience)?;
        return connect(&place.at(&host, port), patience, protocol);
    }
    let gone = |error: RedisError| {
        // As an answer to AUTH, and to HELLO.
        let is_login = error.kind() == ErrorKind::AuthenticationFailed;
        if is_login || error.code() == Some("WRONGPASS") {
            return Trouble::Refused {
                command: "AUTH",
                said: "wrong user or password (--url, --user, --pass or REDISCLI_AUTH)".to_owned(),
            };
        }
        trouble("the connection", &error)
    };
    let address = address(place, protocol).map_err(gone)?;
    let client = match place.tls {
        true => Client::build_with_tls(address, certificates(place)?),
        false => Client::open(address),
    };
    let client = client.map_err(gone)?;
    let connection = client.get_connection_with_timeout(patience).map_err(gone)?;
    connection.set_read_timeout(Some(patience)).map_err(gone)?;
    connection.set_write_timeout(Some(patience)).map_err(gone)?;
    Ok(connection)
}

/// The master's address, from the first Sentinel that knows it.
fn master_by(
    sentinels: &Sentinels,
    place: &Place,
    patience: Duration,
) -> Result<(String, u16), Trouble> {
    let mut why = format!("no Sentinel knows the master {}", sentinels.master);
    for (host, port) in &sentinels.at {
        let mut sentinel = Place { db: 0, ..place.at(host, *port) };
        // Most Sentinels have no password. If one has, it is that of the servers.
        let login = (sentinel.user.take(), sentinel.password.take());
        let ask = |sentinel: &Place| {
            let mut connection = connect(sentinel, patience, ProtocolVersion::RESP2)?;
            let mut question = cmd("SENTINEL");
            question.arg("GET-MASTER-ADDR-BY-NAME").arg(&sentinels.master);
            let found: RedisResult<Option<(String, u16)>> = question.query(&mut connection);
            found.map_err(|error| trouble("SENTINEL", &error))
        };
        let mut found = ask(&sentinel);
        if matches!(&found, Err(Trouble::Refused { said, .. }) if said.starts_with("NOAUTH")) {
            (sentinel.user, sentinel.password) = login;
            found = ask(&sentinel);
        }
        match found {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => {}
            Err(trouble) => why = format!("the Sentinel {host}:{port}: {trouble}"),
        }
    }
    Err(Trouble::Gone(why))
}

fn address(place: &Place, protocol: ProtocolVersion) -> RedisResult<ConnectionInfo> {
    let mut login = RedisConnectionInfo::default().set_db(place.db).set_skip_set_lib_name();
    login = login.set_protocol(protocol);
    if let Some(user) = &place.user {
        login = login.set_username(user);
    }
    if let Some(password) = &place.password {
        login = login.set_password(password);
    }
    let address = match &place.socket {
        Some(path) => ConnectionAddr::Unix(path.into()),
        None if place.tls => ConnectionAddr::TcpTls {
            host: place.host.clone(),
            port: place.port,
            insecure: place.insecure,
            tls_params: None,
        },
        None => ConnectionAddr::Tcp(place.host.clone(), place.port),
    };
    Ok(address.into_connection_info()?.set_redis_settings(login))
}

/// The files that are named.
fn certificates(place: &Place) -> Result<TlsCertificates, Trouble> {
    // It fails if there is one already.
    _ = rustls::crypto::ring::default_provider().install_default();
    let read = |file: &String| {
        fs::read(file).map_err(|error| Trouble::Gone(format!("can't read {file}: {error}")))
    };
    let pair = place.certificate.as_ref().zip(place.key.as_ref());
    let client_tls = match pair {
        Some((certificate, key)) => {
            Some(ClientTlsConfig { client_cert: read(certificate)?, client_key: read(key)? })
        }
        None => None,
    };
    let root_cert = place.ca.as_ref().map(read).transpose()?;
    Ok(TlsCertificates { client_tls, root_cert })
}

impl Server {
    /// Where the masters of its cluster are, each with its slots. None if it is in no cluster.
    pub fn masters(&mut self) -> Result<Option<Vec<Master>>, Trouble> {
        let slots: Value = match cmd("CLUSTER").arg("SLOTS").query(&mut self.connection) {
            Ok(slots) => slots,
            Err(error) if error.code() == Some("ERR") => return Ok(None),
            Err(error) => return Err(trouble("CLUSTER SLOTS", &error)),
        };
        Ok(Some(masters_of(&slots)))
    }
}

/// A master of a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Master {
    /// Empty where it is the node that was asked.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Its ranges of slots.
    pub slots: Vec<RangeInclusive<u16>>,
}

/// What `CLUSTER SLOTS` says: first, last, the master, and its replicas.
fn masters_of(slots: &Value) -> Vec<Master> {
    let mut masters: Vec<Master> = Vec::new();
    let Value::Array(ranges) = slots else {
        return masters;
    };
    for range in ranges {
        let Value::Array(range) = range else { continue };
        let [first, last, Value::Array(master), ..] = range.as_slice() else {
            continue;
        };
        let [host, port, ..] = master.as_slice() else {
            continue;
        };
        let number = |value: &Value| match value {
            Value::Int(number) => u16::try_from(*number).ok(),
            _ => None,
        };
        let host = match host {
            Value::BulkString(host) => String::from_utf8_lossy(host).into_owned(),
            _ => String::new(),
        };
        if let (Some(first), Some(last), Some(port)) = (number(first), number(last), number(port)) {
            let known = (masters.iter_mut()).find(|one| (&one.host, one.port) == (&host, port));
            match known {
                Some(known) => known.slots.push(first..=last),
                None => masters.push(Master { host, port, slots: vec![first..=last] }),
            }
        }
    }
    masters
}

impl Asked for Server {
    fn info(&mut self) -> Result<String, Trouble> {
        let mut question = cmd("INFO");
        question.arg(&["server", "replication", "lock"]);
        question.query(&mut self.connection).map_err(|error| trouble("INFO", &error))
    }

    fn scan(&mut self, cursor: &str, keys: usize) -> Result<(String, Vec<Vec<u8>>), Trouble> {
        let mut question = cmd("LOCK.SCAN");
        question.arg(cursor).arg("COUNT").arg(keys);
        if self.all {
            question.arg("ALL");
        }
        question.query(&mut self.connection).map_err(|error| trouble("LOCK.SCAN", &error))
    }

    fn look(&mut self, names: &[Vec<u8>]) -> Result<Vec<Look>, Trouble> {
        self.infos(names)?.into_iter().map(seen).collect()
    }
}

fn seen(reply: RedisResult<Value>) -> Result<Look, Trouble> {
    match reply {
        Ok(reply) => Ok(Lock::read(&reply).map_or(Look::Free, Look::Lock)),
        Err(error) if is_about_a_key(&error) => Ok(Look::Hidden),
        Err(error) => match trouble("LOCK.INFO", &error) {
            // Of this key: it is no lock any more, or its slot is leaving.
            Trouble::Refused { .. } => Ok(Look::Free),
            trouble => Err(trouble),
        },
    }
}

/// Servers say of a command that the user may not run it, and of a key something without that word's name in quotes.
fn is_about_a_key(error: &RedisError) -> bool {
    error.code() == Some("NOPERM") && !error.detail().unwrap_or_default().contains("'lock.info'")
}

pub fn trouble(command: &'static str, error: &RedisError) -> Trouble {
    let Some(code) = error.code() else {
        return Trouble::Gone(if error.is_timeout() {
            format!("no reply within {} s", PATIENCE.as_secs())
        } else {
            error.to_string()
        });
    };
    let detail = error.detail().unwrap_or_default();
    let said = format!("{code} {detail}");
    match code {
        "NOPERM" => Trouble::NoRight { command, said },
        "ERR" if detail.starts_with("unknown command") => Trouble::NoModule,
        _ => Trouble::Refused { command, said },
    }
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
    fn a_server_without_the_module_and_a_missing_right_are_told_apart() {
        let unknown = error("ERR unknown command 'LOCK.SCAN', with args beginning with: '0' ");
        assert_eq!(trouble("LOCK.SCAN", &unknown), Trouble::NoModule);
        let denied = error("NOPERM User ann has no permissions to run the 'lock.scan' command");
        let said = trouble("LOCK.SCAN", &denied).to_string();
        assert!(said.starts_with("this user may not run LOCK.SCAN (NOPERM User ann"), "{said}");
        let loading = trouble("INFO", &error("LOADING Redis is loading the dataset in memory"));
        assert_eq!(
            loading.to_string(),
            "the server refuses INFO: LOADING Redis is loading the dataset in memory"
        );
    }

    #[test]
    fn a_key_that_may_not_be_read_hides_one_lock_and_a_command_that_may_not_be_run_all() {
        for key in [
            "No permissions to access a key",
            "this user has no permissions to access one of the keys used as arguments",
        ] {
            assert_eq!(seen(Err(error(&format!("NOPERM {key}")))), Ok(Look::Hidden));
        }
        let command = "NOPERM this user has no permissions to run the 'lock.info' command";
        assert!(matches!(seen(Err(error(command))), Err(Trouble::NoRight { .. })));
    }

    #[test]
    fn a_key_that_is_no_lock_any_more_is_free() {
        assert_eq!(seen(Err(error("WRONGTYPE the key is no lock"))), Ok(Look::Free));
        assert_eq!(seen(Ok(Value::Nil)), Ok(Look::Free));
    }
}
