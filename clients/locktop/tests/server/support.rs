//! A server of a test's own, and a terminal that can be read.

use redis::{Client, Connection, FromRedisValue, cmd};
use std::env;
use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Waits until it is so, or says what was there instead.
pub fn eventually(what: &str, mut look: impl FnMut() -> (bool, String)) {
    let began = Instant::now();
    loop {
        let (is_so, seen) = look();
        if is_so {
            return;
        }
        assert!(began.elapsed() < ms(15_000), "never: {what}\n{seen}");
        sleep(ms(20));
    }
}

/// It ends with the test.
pub struct Server {
    pub port: u16,
    process: Child,
    folder: TempDir,
    with_module: bool,
}

impl Server {
    pub fn start() -> Server {
        Server::launch(true)
    }

    pub fn without_module() -> Server {
        Server::launch(false)
    }

    fn launch(with_module: bool) -> Server {
        let folder = TempDir::new().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let process = run(port, folder.path(), with_module);
        let mut server = Server { port, process, folder, with_module };
        server.wait_until_it_answers();
        server
    }

    pub fn stop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    pub fn start_again(&mut self) {
        self.process = run(self.port, self.folder.path(), self.with_module);
        self.wait_until_it_answers();
    }

    fn wait_until_it_answers(&mut self) {
        eventually("the server answers", || {
            assert!(self.process.try_wait().unwrap().is_none(), "the server has ended");
            let is_up = TcpStream::connect(("127.0.0.1", self.port)).is_ok();
            (is_up && self.try_say::<String>(&["PING"]).is_ok(), String::new())
        });
    }

    pub fn connect(&self) -> Connection {
        Client::open(format!("redis://127.0.0.1:{}/", self.port)).unwrap().get_connection().unwrap()
    }

    pub fn say<T: FromRedisValue>(&self, words: &[&str]) -> T {
        self.try_say(words).unwrap()
    }

    fn try_say<T: FromRedisValue>(&self, words: &[&str]) -> redis::RedisResult<T> {
        cmd(words[0]).arg(&words[1..]).query(&mut self.connect())
    }

    /// One who waits for a lock until the connection is dropped.
    pub fn waits(&self, lock: &str, owner: &str) -> Connection {
        let mut connection = self.connect();
        let mut request = cmd("LOCK.ACQUIRE");
        request.arg(&[lock, owner, "60000", "BLOCK", "0"]);
        connection.send_packed_command(&request.get_packed_command()).unwrap();
        eventually("it waits", || {
            let info: redis::Value = self.say(&["LOCK.INFO", lock]);
            let seen = format!("{info:?}");
            (seen.contains(&format!("'{owner}'")) || seen.contains(owner), seen)
        });
        connection
    }

    /// `locktop` with these options, and one more word for its environment.
    pub fn locktop(&self, words: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_locktop"))
            .args(["--port", &self.port.to_string(), "--interval", "0.2"])
            .args(words)
            .env("COLUMNS", "120")
            .env_remove("REDISCLI_AUTH")
            .output()
            .unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

fn run(port: u16, folder: &Path, with_module: bool) -> Child {
    let built = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/release/libredis_lock.so");
    let module = env::var("REDIS_LOCK_MODULE").unwrap_or_else(|_| built.into());
    let mut command =
        Command::new(env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".into()));
    command
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"])
        .arg(folder);
    if with_module {
        command.args(["--loadmodule", &module]);
    }
    command.stdout(Stdio::from(File::create(folder.join("log")).unwrap())).spawn().unwrap()
}

/// A terminal in which a shell runs locktop, and waits when that has ended.
pub struct Terminal {
    folder: TempDir,
}

impl Terminal {
    pub fn open(server: &Server, (width, height): (u16, u16)) -> Terminal {
        let terminal = Terminal { folder: TempDir::new().unwrap() };
        let locktop = env!("CARGO_BIN_EXE_locktop");
        let script = format!(
            "stty -g >before; '{locktop}' --port {} --interval 0.2 & echo $! >pid; fg >/dev/null; \
             echo \"ended with $?\"; stty -g >after; exec sleep 600",
            server.port
        );
        let size = [width.to_string(), height.to_string()];
        let started = Command::new("tmux")
            .arg("-S")
            .arg(terminal.folder.path().join("socket"))
            .args(["-f", "/dev/null", "new-session", "-d", "-x", &size[0], "-y", &size[1], "-c"])
            .arg(terminal.folder.path())
            .args(["bash", "-mc", &script])
            .status();
        assert!(started.unwrap().success());
        terminal
    }

    fn tmux(&self, words: &[&str]) -> String {
        let socket = self.folder.path().join("socket");
        let said = Command::new("tmux").arg("-S").arg(socket).args(words).output().unwrap();
        String::from_utf8_lossy(&said.stdout).into_owned()
    }

    pub fn page(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits until all of this is on the page, and returns it.
    pub fn shows(&self, words: &[&str]) -> String {
        let mut page = String::new();
        eventually(&words.join(" + "), || {
            page = self.page();
            (words.iter().all(|word| page.contains(word)), page.clone())
        });
        page
    }

    pub fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    /// The number of locktop's process.
    pub fn pid(&self) -> String {
        self.read("pid")
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.folder.path().join(file)).unwrap_or_default().trim().to_owned()
    }

    /// The screen is the shell's again, with a cursor, and what is typed is read and echoed as before.
    pub fn is_restored(&self) {
        eventually("the terminal is restored", || {
            let screen = self.tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"]);
            let (before, after) = (self.read("before"), self.read("after"));
            let is_so = screen.trim() == "0 1" && !after.is_empty() && before == after;
            (is_so, format!("{screen}{before}\n{after}\n{}", self.page()))
        });
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}
