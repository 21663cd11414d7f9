//! Which server and which module the tests are about.

use super::process::{output, spawn};
use super::version::Version;
use std::env::{self, consts};
use std::path::{self, Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// `REDIS_SERVER`, else `redis-server`, else `valkey-server`, as found on PATH. To follow links
/// would be wrong: `redis-server` may be a link to a program that looks at its own name.
pub fn server() -> PathBuf {
    match env::var_os("REDIS_SERVER").map(PathBuf::from) {
        Some(name) => {
            on_path(&name).unwrap_or_else(|| panic!("REDIS_SERVER: there is no {}", name.display()))
        }
        None => ["redis-server", "valkey-server"]
            .iter()
            .find_map(|name| on_path(Path::new(name)))
            .expect("neither redis-server nor valkey-server is on PATH; REDIS_SERVER can name one"),
    }
}

/// What the server says of itself before it is started.
pub fn version() -> Version {
    static VERSION: LazyLock<Version> = LazyLock::new(|| {
        let said = output(Command::new(server()).arg("--version")).unwrap();
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        Version::of_words(&said)
    });
    *VERSION
}

/// On how many threads every server shall read and write, if `LOCK_IO_THREADS` says so.
pub fn io_threads() -> Option<usize> {
    let threads = env::var("LOCK_IO_THREADS").ok()?;
    Some(threads.parse().expect("LOCK_IO_THREADS is a number"))
}

/// It has traits of its own: it may send a reply before the append-only file is written, whatever the
/// command and whatever `appendfsync` says; it stops when a module's thread closes a connection; and when
/// a module is unloaded that clients go on to use.
pub fn is_redis_8_with_io_threads() -> bool {
    let redis_8 = version().is_at_least((8, 0), (u32::MAX, 0));
    redis_8 && has_io_threads()
}

pub fn has_io_threads() -> bool {
    io_threads().is_some_and(|threads| threads > 1)
}

/// `REDIS_LOCK_MODULE`, else what `cargo build --release` makes.
pub fn module() -> PathBuf {
    let module = env::var_os("REDIS_LOCK_MODULE").map_or_else(built_module, PathBuf::from);
    let module = path::absolute(module).unwrap();
    assert!(
        module.is_file(),
        "there is no module at {}: run `cargo build --release` first, or name it in REDIS_LOCK_MODULE",
        module.display()
    );
    module
}

/// The module that panics when it is asked to, built anew if need be.
pub fn provoking_module() -> PathBuf {
    static BUILT: LazyLock<()> = LazyLock::new(|| build(&["--features", "provoke"]));
    LazyLock::force(&BUILT);
    module_of("testing")
}

/// Another module, to stand beside ours, built anew if need be.
pub fn neighbour() -> PathBuf {
    static BUILT: LazyLock<()> = LazyLock::new(|| build(&["--example", "neighbour"]));
    LazyLock::force(&BUILT);
    in_target("testing/examples", "neighbour")
}

/// What a server is started with whose wall clock is to be stepped (see tests/stepped_clock), built anew if
/// need be.
pub fn stepped_clock() -> PathBuf {
    static BUILT: LazyLock<()> = LazyLock::new(|| build(&["--example", "stepped_clock"]));
    LazyLock::force(&BUILT);
    in_target("testing/examples", "stepped_clock")
}

fn build(what: &[&str]) {
    // The one that runs the tests, or the one on PATH: where the name stands for one of several
    // toolchains, only that says which of them the compiler is to be.
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build
        .args(["build", "--quiet", "--profile", "testing"])
        .args(what)
        .args(["--target-dir", "target"])
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    let built = spawn(&mut build).and_then(|mut build| build.wait());
    assert!(built.unwrap().success(), "cargo build {what:?}");
}

fn built_module() -> PathBuf {
    module_of("release")
}

fn module_of(profile: &str) -> PathBuf {
    in_target(profile, "redis_lock")
}

fn in_target(folder: &str, library: &str) -> PathBuf {
    let file = format!("{}{library}{}", consts::DLL_PREFIX, consts::DLL_SUFFIX);
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target").join(folder).join(file)
}

fn on_path(name: &Path) -> Option<PathBuf> {
    if name.components().count() > 1 {
        return path::absolute(name).ok().filter(|file| file.is_file());
    }
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}
