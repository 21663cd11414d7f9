//! Whatever happens to the two processes, to the command and to the server: no command outlives its hold.

use crate::masters::{Sentinel, replica_of};
use crate::support::{Running, Server, eventually, ms, signal, uptime};
use std::env;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, sleep};

/// In seconds.
const TTL: f64 = 2.0;

/// It and a daemon that has left it write down when they run, and hear no `TERM`.
const BEATS: &str = "echo 'trap \"\" TERM; while read up rest </proc/uptime; do echo $up >>beats; sleep 0.01; done' >it; \
    (setsid sh it &); exec sh it";

const FAULTS: [&str; 9] = [
    "run is killed",
    "the keeper is killed",
    "the command is killed",
    "run is stopped and the server with it",
    "the keeper is stopped",
    "the server is killed and started again",
    "the server is stopped for longer than the ttl",
    "the server is gone for longer than the ttl",
    "a replica is promoted",
];

/// What a round has brought: when the command beat last before the hold's end at the latest, in seconds. None where the
/// hold goes on.
struct Outcome {
    spare: Option<f64>,
}

/// From where on the hold can't have been renewed any more.
fn round(fault: &str, with_module: bool, after: u64) -> Outcome {
    let words = ["--appendonly", "yes", "--appendfsync", "always"];
    let mut server = if with_module { Server::with(&words) } else { Server::launch(&words) };
    let replica = (fault == "a replica is promoted").then(|| replica_of(&server));
    let sentinel = Sentinel::start(server.port);
    let url = sentinel.url();
    let mut job = Running::start(&url, &["k", "--ttl", "2s"], BEATS);
    job.writes("beats");
    let mut next = Running::start(
        &url,
        &["k", "--ttl", "2s", "--wait", "60s"],
        "read up rest </proc/uptime; echo $up >first",
    );
    let keeper = job.keeper();
    sleep(ms(after));
    match fault {
        "run is killed" => job.signal("KILL"),
        "the keeper is killed" => signal(keeper, "KILL"),
        "the command is killed" => signal(command_of(&job), "KILL"),
        "run is stopped and the server with it" => {
            job.signal("STOP");
            signal(server.pid(), "STOP");
        }
        "the keeper is stopped" => signal(keeper, "STOP"),
        "the server is stopped for longer than the ttl" => signal(server.pid(), "STOP"),
        "a replica is promoted" => {
            // Else the last renewal may be lost, and the hold end earlier than its holder knows.
            let _: String = server.say(&["CLIENT", "PAUSE", "60000", "WRITE"]);
            let at = |server: &Server, name: &str| {
                let info: String = server.say(&["INFO", "replication"]);
                let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
                line.and_then(|at| at.parse::<u64>().ok())
            };
            eventually("the replica knows all", || {
                let replica = at(replica.as_ref().unwrap(), "slave_repl_offset");
                let master = at(&server, "master_repl_offset");
                (replica >= master, format!("{replica:?} of {master:?}"))
            });
            server.stop();
        }
        _ => server.stop(),
    }
    let fault_at = uptime();
    let mut ends = Some(fault_at + TTL);
    let pass = || {
        eventually("the hold is over", || (uptime() - fault_at > TTL + 0.5, String::new()));
    };
    match fault {
        "the server is killed and started again" => {
            server.start_again();
            ends = None;
            job.signal("KILL");
        }
        "a replica is promoted" => {
            let replica = replica.as_ref().unwrap();
            let _: String = replica.say(&["REPLICAOF", "NO", "ONE"]);
            sentinel.promotes(replica.port);
            ends = None;
            sleep(ms(after));
            job.signal("KILL");
        }
        "the server is gone for longer than the ttl" => {
            pass();
            server.start_again();
        }
        "the server is stopped for longer than the ttl" => {
            pass();
            signal(server.pid(), "CONT");
        }
        "run is stopped and the server with it" => {
            pass();
            signal(server.pid(), "CONT");
            job.signal("CONT");
        }
        _ => {}
    }
    assert_eq!(next.ends(), 0, "{fault}: {}", next.read("stderr"));
    let first: f64 = next.read("first").trim().parse().unwrap();
    let beats = job.read("beats");
    let last = beats.lines().filter_map(|line| line.parse::<f64>().ok()).fold(0.0, f64::max);
    let said = job.read("stderr");
    assert!(last <= first, "{fault}: it ran at {last}, and the next at {first}\n{said}");
    if let Some(ends) = ends {
        assert!(last <= ends, "{fault}: it ran at {last}, and its hold was over at {ends}\n{said}");
    }
    if fault == "the keeper is stopped" {
        assert_eq!(job.ends(), 76, "{said}");
        signal(keeper, "CONT");
    }
    // Nothing of it comes back.
    assert_eq!(job.read("beats"), beats, "{fault}");
    Outcome { spare: ends.map(|ends| ends - last) }
}

fn command_of(job: &Running) -> u32 {
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", job.pid()));
    let children = children.unwrap();
    let is_command = |pid: &&str| {
        let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line == "sh\0it\0" && *pid == group_of(pid)
    };
    children.split_whitespace().find(is_command).unwrap().parse().unwrap()
}

fn group_of(pid: &str) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, behind) = stat.rsplit_once(") ").unwrap();
    behind.split(' ').nth(2).unwrap().to_owned()
}

#[test]
fn a_command_never_outlives_its_hold() {
    let rounds: usize = env::var("LOCK_ROUNDS").map_or(18, |rounds| rounds.parse().unwrap());
    let (next, spares) = (AtomicUsize::new(0), Mutex::new([f64::MAX; FAULTS.len()]));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                loop {
                    let round_number = next.fetch_add(1, Ordering::Relaxed);
                    if round_number >= rounds {
                        return;
                    }
                    let which = round_number % FAULTS.len();
                    // A replica has the module if its master does.
                    let with_module = round_number / FAULTS.len() % 4 != 3 || which == 8;
                    let after = round_number as u64 * 137 % 900;
                    let outcome = round(FAULTS[which], with_module, after);
                    let mut spares = spares.lock().unwrap_or_else(PoisonError::into_inner);
                    spares[which] = spares[which].min(outcome.spare.unwrap_or(f64::MAX));
                }
            });
        }
    });
    let spares = spares.into_inner().unwrap();
    println!("{rounds} rounds; the hold went on for at least, in seconds:");
    for (fault, spare) in FAULTS.iter().zip(spares) {
        match spare {
            f64::MAX => println!("  {fault}: passed on in order"),
            spare => println!("  {fault}: {spare:.2}"),
        }
    }
}
