//! Sentinels: servers that watch a master, and make its replica one when enough of them miss it.

use super::client::Client;
use super::command::cmd;
use super::port::free_port;
use super::process::Process;
use super::program;
use super::server::Server;
use super::wait::{eventually, in_time};
use std::fs;
use std::net::Ipv4Addr;
use tempfile::TempDir;

/// What they call the master.
const NAME: &str = "lock";

#[derive(Debug)]
pub struct Sentinels {
    all: Vec<Sentinel>,
}

#[derive(Debug)]
struct Sentinel {
    port: u16,
    _process: Process,
    _dir: TempDir,
}

impl Sentinels {
    /// Three of them, of whom two have to agree. Returns when they know each other, and the replica.
    #[track_caller]
    pub fn over(master: &Server) -> Sentinels {
        Sentinels::watching(master.port(), 1)
    }

    /// Watching the master that is to be found at this port, with so many replicas.
    #[track_caller]
    pub fn watching(port: u16, count: usize) -> Sentinels {
        let all = (0..3).map(|_| Sentinel::start(port)).collect();
        let sentinels = Sentinels { all };
        for sentinel in &sentinels.all {
            let mut client = sentinel.client();
            let is_ready = || {
                let quorum = cmd!(client, "SENTINEL", "CKQUORUM", NAME);
                let replicas = cmd!(client, "SENTINEL", "REPLICAS", NAME);
                let is_well = |replica: &super::Value| {
                    replica["flags"] == "slave" && replica["master-link-status"] == "ok"
                };
                !quorum.is_error("")
                    && quorum.text().starts_with("OK 3 ")
                    && replicas.items().len() >= count
                    && replicas.items().iter().all(is_well)
            };
            patiently("the sentinels are ready to take over", is_ready);
        }
        sentinels
    }

    /// The port of the server that the first of them sends clients to.
    #[track_caller]
    pub fn named(&self) -> u16 {
        let address = cmd!(self.all[0].client(), "SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME);
        address[1].text().parse().unwrap()
    }

    /// Returns when all of them send clients to this server.
    #[track_caller]
    pub fn wait_until_they_name(&self, server: &Server) {
        let port = server.port().to_string();
        for sentinel in &self.all {
            let mut client = sentinel.client();
            patiently("the sentinels name the new master", || {
                let address = cmd!(client, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME);
                address[1] == port
            });
        }
    }
}

/// A Sentinel that a busy machine has held up for seconds does nothing for half a minute.
#[track_caller]
fn patiently(what: &str, mut holds: impl FnMut() -> bool) {
    let done = (0..3).find_map(|_| in_time(|| holds().then_some(())));
    done.expect(what);
}

impl Sentinel {
    #[track_caller]
    fn start(master: u16) -> Sentinel {
        let dir = TempDir::with_prefix("redis-lock-sentinel-").unwrap();
        let (config, log) = (dir.path().join("sentinel.conf"), dir.path().join("log"));
        let port = free_port();
        let lines = [
            "bind 127.0.0.1".to_owned(),
            format!("port {port}"),
            format!("dir {:?}", dir.path()),
            format!("sentinel monitor {NAME} 127.0.0.1 {master} 2"),
            format!("sentinel down-after-milliseconds {NAME} 300"),
            format!("sentinel failover-timeout {NAME} 3000"),
        ];
        fs::write(&config, lines.join("\n") + "\n").unwrap();
        let process = Process::start(&program::server(), &config, &["--sentinel"], &[], &log);
        let sentinel = Sentinel { port, _process: process, _dir: dir };
        eventually("the sentinel answers", || {
            let client = Client::try_connect((Ipv4Addr::LOCALHOST, port).into());
            client.is_ok_and(|mut client| client.try_run(&["PING"]).is_ok())
        });
        sentinel
    }

    #[track_caller]
    fn client(&self) -> Client {
        Client::connect((Ipv4Addr::LOCALHOST, self.port).into())
    }
}
