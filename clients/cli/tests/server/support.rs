//! A server of a test's own, a command under a lock, and a terminal that can be read.

use redis::{Client, Connection, FromRedisValue, cmd};
use std::env;
use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{self, Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
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
    words: Vec<String>,
}

impl Server {
    pub fn start() -> Server {
        Server::with(&[])
    }

    /// With these words more on its command line.
    pub fn with(words: &[&str]) -> Server {
        let built = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/release/libredis_lock.so");
        let module = env::var("REDIS_LOCK_MODULE").unwrap_or_else(|_| built.into());
        Server::launch(&[&["--loadmodule", &module], words].concat())
    }

    pub fn without_module() -> Server {
        Server::launch(&[])
    }

    pub fn launch(words: &[&str]) -> Server {
        let folder = TempDir::new().unwrap();
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let port = free_port();
        let process = run(port, folder.path(), &words);
        let mut server = Server { port, process, folder, words };
        server.wait_until_it_answers();
        server
    }

    /// It watches the masters that its file names.
    pub fn sentinel(file: &Path, password: &str) -> Server {
        let folder = TempDir::new().unwrap();
        let port = free_port();
        let program = env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".into());
        let log = File::create(folder.path().join("log")).unwrap();
        let process = Command::new(program)
            .arg(file)
            .args(["--sentinel", "--bind", "127.0.0.1", "--port", &port.to_string(), "--dir"])
            .arg(folder.path())
            .stdout(Stdio::from(log))
            .spawn()
            .unwrap();
        let server = Server { port, process, folder, words: Vec::new() };
        eventually("the Sentinel answers", || {
            let client = Client::open(format!("redis://:{password}@127.0.0.1:{port}/")).unwrap();
            (client.get_connection().is_ok(), String::new())
        });
        server
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The port at which the nodes of a cluster talk.
    pub fn bus(&self) -> String {
        let at = self.words.iter().position(|word| word == "--cluster-port").unwrap();
        self.words[at + 1].clone()
    }

    pub fn stop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    pub fn start_again(&mut self) {
        self.process = run(self.port, self.folder.path(), &self.words);
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
        Command::new(env!("CARGO_BIN_EXE_redis-lock"))
            .arg("top")
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

fn run(port: u16, folder: &Path, words: &[String]) -> Child {
    let mut command =
        Command::new(env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".into()));
    command
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"])
        .arg(folder)
        .args(words);
    command.stdout(Stdio::from(File::create(folder.join("log")).unwrap())).spawn().unwrap()
}

/// Outside of the range from which connections get theirs, so that a server can be started there again; and no other
/// test's, since a port whose server is gone for a while must stay its own.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 21_000 + (process::id() % 16) as u16 * 500 + next % 500;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// `redis-lock` with these words.
pub fn redis_lock(url: &str, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redis-lock"));
    command.args(words).env("REDIS_URL", url).env_remove("REDISCLI_AUTH");
    command
}

/// A `redis-lock run` that goes on.
pub struct Running {
    pub process: Child,
    pub folder: TempDir,
}

impl Running {
    /// Its command is a script of a shell, which runs in a folder of its own.
    pub fn start(url: &str, words: &[&str], script: &str) -> Running {
        let folder = TempDir::new().unwrap();
        let process = redis_lock(url, &[&["run"], words, &["--", "sh", "-c", script]].concat())
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::from(File::create(folder.path().join("stdout")).unwrap()))
            .stderr(Stdio::from(File::create(folder.path().join("stderr")).unwrap()))
            .spawn()
            .unwrap();
        Running { process, folder }
    }

    pub fn read(&self, file: &str) -> String {
        fs::read_to_string(self.folder.path().join(file)).unwrap_or_default()
    }

    /// Waits until it has written something there, and returns it.
    pub fn writes(&self, file: &str) -> String {
        let mut text = String::new();
        eventually(&format!("it writes {file}"), || {
            text = self.read(file);
            (text.ends_with('\n'), format!("{text}\n{}", self.read("stderr")))
        });
        text
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The second process.
    pub fn keeper(&self) -> u32 {
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.pid()));
        let children = children.unwrap_or_default();
        let is_keeper = |pid: &&str| {
            let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split('\0').nth(1) == Some("keep")
        };
        children.split_whitespace().find(is_keeper).unwrap().parse().unwrap()
    }

    pub fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// Its status, as a shell has it.
    pub fn ends(&mut self) -> i32 {
        let mut status = None;
        eventually("it ends", || {
            status = self.process.try_wait().unwrap();
            (status.is_some(), self.read("stderr"))
        });
        let status = status.unwrap();
        status.code().unwrap_or_else(|| 128 + status.signal().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It ends its command, and the second process ends it if it can't.
        if self.process.try_wait().unwrap().is_none() {
            self.signal("CONT");
            self.signal("KILL");
            _ = self.process.wait();
        }
    }
}

pub fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").arg(format!("-{name}")).arg(pid.to_string()).status();
    assert!(status.unwrap().success(), "{name} to {pid}");
}

/// Does a process of this number run?
pub fn runs(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, behind)| !behind.starts_with('Z'))
}

/// Seconds since the machine has started, as the scripts read them too.
pub fn uptime() -> f64 {
    let all = fs::read_to_string("/proc/uptime").unwrap();
    all.split(' ').next().unwrap().parse().unwrap()
}

/// A terminal in which a shell runs locktop, and waits when that has ended; or one that reads what is typed.
pub struct Terminal {
    folder: TempDir,
}

impl Terminal {
    pub fn open(server: &Server, size: (u16, u16)) -> Terminal {
        let locktop = env!("CARGO_BIN_EXE_redis-lock");
        let script = format!(
            "stty -g >before; '{locktop}' top --port {} --interval 0.2 & echo $! >pid; fg >/dev/null; \
             echo \"ended with $?\"; stty -g >after; exec sleep 600",
            server.port
        );
        Terminal::run(&["bash", "-mc", &script], size)
    }

    /// A shell that reads what is typed.
    pub fn shell(server: &Server) -> Terminal {
        let url = format!("REDIS_URL={}", server.url());
        Terminal::run(
            &["env", &url, "PS1=ready ", "bash", "--norc", "--noprofile", "-i"],
            (120, 40),
        )
    }

    fn run(command: &[&str], (width, height): (u16, u16)) -> Terminal {
        let terminal = Terminal { folder: TempDir::new().unwrap() };
        let size = [width.to_string(), height.to_string()];
        let started = Command::new("tmux")
            .arg("-S")
            .arg(terminal.folder.path().join("socket"))
            .args(["-f", "/dev/null", "new-session", "-d", "-x", &size[0], "-y", &size[1], "-c"])
            .arg(terminal.folder.path())
            .args(command)
            .status();
        assert!(started.unwrap().success());
        terminal
    }

    /// A line, and the key that ends it.
    pub fn enter(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.press("Enter");
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

    pub fn read(&self, file: &str) -> String {
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
