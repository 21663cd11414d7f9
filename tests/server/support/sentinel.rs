//! Sentinels: servers that watch a master, and make its replica one when enough of them miss it.

use super::client::Client;
use super::command::cmd;
use super::port::free_port;
use super::process::Process;
use super::program;
use super::server::Server;
use super::wait::eventually;
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
        let all = (0..3).map(|_| Sentinel::start(master)).collect();
        let sentinels = Sentinels { all };
        for sentinel in &sentinels.all {
            let mut client = sentinel.client();
            eventually("the sentinels are ready to take over", || {
                let quorum = cmd!(client, "SENTINEL", "CKQUORUM", NAME);
                let replicas = cmd!(client, "SENTINEL", "REPLICAS", NAME);
                let is_well = |replica: &super::Value| {
                    replica["flags"] == "slave" && replica["master-link-status"] == "ok"
                };
                !quorum.is_error("")
                    && quorum.text().starts_with("OK 3 ")
                    && (1..).contains(&replicas.items().len())
                    && replicas.items().iter().all(is_well)
            });
        }
        sentinels
    }

    /// Returns when all of them send clients to this server.
    #[track_caller]
    pub fn wait_until_they_name(&self, server: &Server) {
        let port = server.port().to_string();
        for sentinel in &self.all {
            let mut client = sentinel.client();
            eventually("the sentinels name the new master", || {
                cmd!(client, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)[1] == port
            });
        }
    }
}

impl Sentinel {
    #[track_caller]
    fn start(master: &Server) -> Sentinel {
        let dir = TempDir::with_prefix("redis-lock-sentinel-").unwrap();
        let (config, log) = (dir.path().join("sentinel.conf"), dir.path().join("log"));
        let port = free_port();
        let lines = [
            "bind 127.0.0.1".to_owned(),
            format!("port {port}"),
            format!("dir {:?}", dir.path()),
            format!("sentinel monitor {NAME} 127.0.0.1 {} 2", master.port()),
            format!("sentinel down-after-milliseconds {NAME} 300"),
            format!("sentinel failover-timeout {NAME} 3000"),
        ];
        fs::write(&config, lines.join("\n") + "\n").unwrap();
        let process = Process::start(&program::server(), &config, &["--sentinel"], &[], &log);
        let sentinel = Sentinel {
            port,
            _process: process,
            _dir: dir,
        };
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
