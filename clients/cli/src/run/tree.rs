//! The command and all processes that it started, as /proc shows them.

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How to recognise the command's processes. As long as the first process lives, they all are its descendants, since it
/// adopts orphans. After that: by process group or session, by the owner in the environment, which no other command has,
/// and as descendants of those.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// The command's process, which leads the group.
    pub group: Option<Pid>,
    /// Is its process not reaped yet? Until then no other group can have its id.
    pub leads: bool,
    /// The process whose children, except `spared`, are the command and its orphans.
    pub adopts: Option<Pid>,
    /// Not part of it: the second process, and children that the first had before, as when a shell executed it.
    pub spared: Vec<Pid>,
    /// `LOCK_OWNER=` and the owner, only where it is needed: reading the environment of a process in state D can block.
    pub mark: Option<Vec<u8>>,
}

struct Process {
    parent: i32,
    group: i32,
    session: i32,
    /// When it started, in clock ticks.
    since: u64,
}

impl Tree {
    /// All that run now.
    pub fn members(&self) -> Vec<Pid> {
        self.found().into_keys().map(Pid::from_raw).collect()
    }

    fn found(&self) -> BTreeMap<i32, Process> {
        match self.adopts {
            // On a busy machine there may not be time to look at every process.
            Some(first) if fs::exists("/proc/thread-self/children").unwrap_or(false) => {
                self.descendants(first)
            }
            _ => self.searched(),
        }
    }

    fn is_no_part(&self, pid: i32) -> bool {
        let pid = Pid::from_raw(pid);
        pid == Pid::this() || Some(pid) == self.adopts || self.spared.contains(&pid)
    }

    fn descendants(&self, first: Pid) -> BTreeMap<i32, Process> {
        let (mut found, mut next) = (BTreeMap::new(), started_by(first.as_raw()));
        while let Some(pid) = next.pop() {
            if !self.is_no_part(pid)
                && let Some(one) = look_at(pid)
            {
                next.extend(started_by(pid));
                found.insert(pid, one);
            }
        }
        found
    }

    fn searched(&self) -> BTreeMap<i32, Process> {
        let mut others = processes();
        let began = others.get(&Pid::this().as_raw()).map_or(0, |one| one.since);
        others.retain(|pid, _| !self.is_no_part(*pid));
        let is_of = |id: i32, whose: Option<Pid>| Some(Pid::from_raw(id)) == whose;
        let mut found = BTreeMap::new();
        let mut next: Vec<i32> = (others.iter())
            .filter(|(pid, one)| {
                is_of(one.group, self.group)
                    || is_of(one.session, self.group)
                    || is_of(one.parent, self.adopts)
                    || one.since >= began && self.is_marked(**pid)
            })
            .map(|(pid, _)| *pid)
            .collect();
        // And their descendants.
        while let Some(pid) = next.pop() {
            if let Some(one) = others.remove(&pid) {
                found.insert(pid, one);
            }
            next.extend(others.iter().filter(|(_, one)| one.parent == pid).map(|(pid, _)| *pid));
        }
        found
    }

    /// Only root can read this of other users' processes.
    fn is_marked(&self, pid: i32) -> bool {
        self.mark.as_ref().is_some_and(|mark| {
            let all = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            all.split(|byte| *byte == 0).any(|one| one == mark)
        })
    }

    /// Each gets it once, the group first, since finding the others takes time. Stopped ones are continued to receive it.
    pub fn signal(&self, signal: Signal) {
        let both = |send: &dyn Fn(Signal)| [signal, Signal::SIGCONT].map(send);
        if self.leads
            && let Some(group) = self.group
        {
            both(&|signal| _ = killpg(group, signal));
        }
        for (pid, one) in self.found() {
            if !self.leads || Some(Pid::from_raw(one.group)) != self.group {
                both(&|signal| _ = kill(Pid::from_raw(pid), signal));
            }
        }
    }

    /// Kills until none is left. False if some can't be killed: they are another user's, or in state D. `leads` says
    /// whether the group's leader is not reaped yet.
    pub fn kill_all(mut self, mut leads: impl FnMut() -> bool) -> bool {
        let began = Instant::now();
        loop {
            self.signal(Signal::SIGKILL);
            self.leads = leads();
            if self.found().is_empty() {
                return true;
            }
            if began.elapsed() > PATIENCE {
                return false;
            }
            sleep(PAUSE);
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);

/// The current children of this process.
pub fn children(parent: Pid) -> Vec<Pid> {
    let all = processes().into_iter();
    all.filter(|(_, one)| one.parent == parent.as_raw())
        .map(|(pid, _)| Pid::from_raw(pid))
        .collect()
}

/// The children of all its threads.
fn started_by(pid: i32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.map(|thread| fs::read_to_string(thread.path().join("children")));
    lists
        .flat_map(|list| {
            let list = list.unwrap_or_default();
            list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>()
        })
        .collect()
}

fn look_at(pid: i32) -> Option<Process> {
    process(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// All processes of this machine, without zombies.
fn processes() -> BTreeMap<i32, Process> {
    let mut all = BTreeMap::new();
    let Ok(folders) = fs::read_dir("/proc") else {
        return all;
    };
    for folder in folders.flatten() {
        let name = folder.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if let Some(process) = look_at(pid) {
            all.insert(pid, process);
        }
    }
    all
}

/// The fields after the name, which can contain anything: state, parent, group, session.
fn process(stat: &str) -> Option<Process> {
    let (_, behind) = stat.rsplit_once(") ")?;
    let mut words = behind.split(' ');
    if matches!(words.next()?, "Z" | "X" | "x") {
        return None;
    }
    let mut number = || words.next()?.parse().ok();
    let (parent, group, session) = (number()?, number()?, number()?);
    Some(Process { parent, group, session, since: words.nth(15)?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_name_with_brackets_and_spaces_is_no_field() {
        let behind = "S 3 16 15 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 9 9";
        let one = process(&format!("17 (a) b (c)) {behind}")).unwrap();
        assert_eq!((one.parent, one.group, one.session, one.since), (3, 16, 15, 4711));
        assert!(process("17 (gone) Z 3 16 15 0").is_none());
        assert!(process("").is_none());
    }

    #[test]
    fn descendants_are_found_without_a_look_at_all_others() {
        let mut shell = Command::new("sh")
            .args(["-c", "setsid sh -c 'sleep 600; true' & wait"])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let first = Pid::this();
        let tree = Tree { adopts: Some(first), ..Tree::default() };
        let of_shell = |tree: &Tree| tree.descendants(Pid::from_raw(shell.id() as i32)).len();
        let began = Instant::now();
        while of_shell(&tree) < 2 {
            assert!(began.elapsed() < Duration::from_secs(10));
        }
        let shell_tree = Tree { adopts: Some(Pid::from_raw(shell.id() as i32)), ..Tree::default() };
        assert!(shell_tree.kill_all(|| false));
        shell.kill().unwrap();
        shell.wait().unwrap();
    }

    #[test]
    fn one_that_has_left_its_group_and_its_parent_is_found_by_its_environment_and_killed() {
        let mark = format!("LOCK_OWNER=tree-{}", std::process::id());
        let mut shell = Command::new("sh")
            .args(["-c", "setsid sleep 600 & exit 0"])
            .env("LOCK_OWNER", mark.trim_start_matches("LOCK_OWNER="))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        shell.wait().unwrap();
        let tree = Tree { mark: Some(mark.into_bytes()), ..Tree::default() };
        let began = Instant::now();
        while tree.members().is_empty() {
            assert!(began.elapsed() < Duration::from_secs(10));
        }
        assert!(tree.clone().kill_all(|| false));
        assert!(tree.members().is_empty());
    }
}
