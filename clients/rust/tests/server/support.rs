//! A server of a test's own, and who looks at it from aside.

use redis::aio::{ConnectionManager, ConnectionManagerConfig, MultiplexedConnection};
use redis::{AsyncConnectionConfig, Client, FromRedisValue, RedisResult, Value, cmd};
use redis_lock_module::{Inbox, Locks};
use std::collections::HashMap;
use std::env;
use std::fs::File;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::time::sleep;
use uuid::Uuid;

pub const MARKET: &str = "{market}:lock";

pub async fn eventually(what: &str, condition: impl AsyncFn() -> bool) {
    let began = Instant::now();
    while !condition().await {
        assert!(began.elapsed() < Duration::from_secs(10), "never: {what}");
        sleep(Duration::from_millis(2)).await;
    }
}

pub fn random(below: Duration) -> Duration {
    below.mul_f64((Uuid::new_v4().as_u128() >> 96) as f64 / f64::from(u32::MAX))
}

pub fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// It ends with the test.
pub struct Server {
    pub port: u16,
    process: Child,
    operator: MultiplexedConnection,
    _folder: TempDir,
}

impl Server {
    pub async fn start() -> Server {
        Server::start_with(&[]).await
    }

    pub async fn start_with(options: &[&str]) -> Server {
        let module = module();
        Server::start_bare_with(&[&["--loadmodule", &module], options].concat()).await
    }

    /// Without the module.
    pub async fn start_bare() -> Server {
        Server::start_bare_with(&[]).await
    }

    /// Without the module, which may be loaded later.
    pub async fn start_bare_with(options: &[&str]) -> Server {
        for _ in 0..10 {
            let port = free_port();
            let folder = TempDir::new().unwrap();
            let mut process = launch(port, &folder, options);
            if let Some(operator) = operator(port, &mut process).await {
                return Server { port, process, operator, _folder: folder };
            }
        }
        panic!("no server starts");
    }

    pub async fn say<T: FromRedisValue>(&self, words: &[&str]) -> T {
        self.try_say(words).await.unwrap()
    }

    pub async fn try_say<T: FromRedisValue>(&self, words: &[&str]) -> RedisResult<T> {
        let mut command = cmd(words[0]);
        command.arg(&words[1..]);
        command.query_async(&mut self.operator.clone()).await
    }

    pub fn operator(&self) -> MultiplexedConnection {
        self.operator.clone()
    }

    pub fn client(&self) -> Client {
        Client::open(format!("redis://127.0.0.1:{}/?protocol=resp3", self.port)).unwrap()
    }

    pub async fn connect(&self) -> MultiplexedConnection {
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(ms(5_000)));
        let client = self.client();
        client.get_multiplexed_async_connection_with_config(&config).await.unwrap()
    }

    pub async fn manager(&self) -> (ConnectionManager, Inbox) {
        let inbox = Inbox::new();
        let config = ConnectionManagerConfig::new()
            .set_push_sender(inbox.clone())
            .set_automatic_resubscription()
            .set_response_timeout(Some(ms(5_000)));
        let client = self.client();
        let mut manager = client.get_connection_manager_with_config(config).await.unwrap();
        manager.subscribe(inbox.channel()).await.unwrap();
        (manager, inbox)
    }

    pub async fn info(&self) -> HashMap<String, Value> {
        // Null while no client holds it or waits for it; an error while its slot is elsewhere.
        match self.try_say::<Value>(&["LOCK.INFO", MARKET]).await {
            Ok(info @ Value::Map(_)) => redis::from_redis_value(info).unwrap(),
            _ => HashMap::new(),
        }
    }

    pub async fn waiters(&self) -> usize {
        let queue = self.info().await.remove("queue").unwrap_or(Value::Int(0));
        redis::from_redis_value(queue).unwrap()
    }

    pub async fn wait_for_waiters(&self, count: usize) {
        eventually("they wait", async || self.waiters().await == count).await;
    }

    /// Of a command, since the last `CONFIG RESETSTAT`.
    pub async fn calls(&self, command: &str) -> usize {
        let statistics: String = self.say(&["INFO", "commandstats"]).await;
        let calls = statistics.split(&format!("cmdstat_{command}:calls=")).nth(1);
        calls.map_or(0, |calls| calls.split(',').next().unwrap().parse().unwrap())
    }

    /// Neither a hold nor a place nor anything in memory, and long before any ttl or lease of the tests ends.
    pub async fn nothing_is_left(&self) {
        eventually("nothing is left", async || {
            let memory: String = self.say(&["INFO", "lock_memory"]).await;
            let mut readings = memory.lines().filter(|line| line.starts_with("lock_"));
            let info: String = self.say(&["INFO", "lock"]).await;
            self.info().await.is_empty()
                && info.contains("lock_places:0\r")
                && readings.all(|reading| reading.ends_with(":0"))
        })
        .await;
    }

    pub async fn locks(&self) -> Locks {
        let config = ConnectionManagerConfig::new().set_response_timeout(Some(ms(5_000)));
        let server = format!("redis://127.0.0.1:{}", self.port);
        Locks::connect_with(server, config).await.unwrap()
    }

    /// It answers nothing until the returned is dropped, and then all that was said meanwhile.
    pub fn stop(&self) -> Stopped {
        signal("STOP", self.process.id());
        Stopped(self.process.id())
    }

    /// The connections of all others.
    pub async fn break_connections(&self) {
        let kill = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];
        let _: usize = self.say(&kill).await;
        // Who has a subscription is of another type.
        let _: usize = self.say(&["CLIENT", "KILL", "TYPE", "pubsub", "SKIPME", "yes"]).await;
    }
}

pub struct Stopped(u32);

impl Drop for Stopped {
    fn drop(&mut self) {
        signal("CONT", self.0);
    }
}

fn signal(name: &str, process: u32) {
    let kill = Command::new("kill").args(["-s", name, &process.to_string()]).status();
    assert!(kill.unwrap().success());
}

impl Drop for Server {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

/// One to which a node of a cluster can add 10,000.
fn free_port() -> u16 {
    loop {
        let port = 10_000 + (Uuid::new_v4().as_u128() % 22_000) as u16;
        let bind = |port| TcpListener::bind(("127.0.0.1", port));
        if bind(port).is_ok() && bind(port + 10_000).is_ok() {
            return port;
        }
    }
}

pub fn module() -> String {
    env::var("REDIS_LOCK_MODULE").unwrap_or_else(|_| {
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/release/libredis_lock.so").into()
    })
}

fn launch(port: u16, folder: &TempDir, options: &[&str]) -> Child {
    let log = File::create(folder.path().join("log")).unwrap();
    Command::new(env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".into()))
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
        .arg("--dir")
        .arg(folder.path())
        .args(options)
        .stdout(Stdio::from(log))
        .spawn()
        .unwrap()
}

/// None if it has ended: its port was another process's.
async fn operator(port: u16, process: &mut Child) -> Option<MultiplexedConnection> {
    let client = Client::open(format!("redis://127.0.0.1:{port}/?protocol=resp3")).unwrap();
    let config = AsyncConnectionConfig::new().set_response_timeout(Some(ms(10_000)));
    let began = Instant::now();
    while process.try_wait().unwrap().is_none() && began.elapsed() < ms(10_000) {
        let connected = client.get_multiplexed_async_connection_with_config(&config).await;
        if let Ok(connection) = connected {
            return Some(connection);
        }
        sleep(ms(10)).await;
    }
    None
}
