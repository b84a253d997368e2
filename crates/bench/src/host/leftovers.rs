//! Processes that a bench started, found by what they were given at their start: who owns them.
//!
//! Engines are no children of ours (`dev/up` detaches them), and after SIGKILL of a bench nobody knows them any more. So
//! each one has its owner in its environment, which the kernel shows and whatever it starts inherits: a second Ctrl-C
//! ends what is ours at once, and the next bench ends what belongs to one that is gone. Nothing else is ever ended.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use ::procfs::net::{TcpNetEntry, TcpState, tcp, tcp6};
use ::procfs::process::{FDTarget, Process};
use rustix::process::Signal;

use crate::host::process::signal;
use crate::host::procfs;

/// Not of the names that the server reads: it refuses those that it does not know.
const OWNER: &str = "OWNED_BY_DOORBUSTER_BENCH";
/// The folder of a set of engines, as `dev/up` is given it.
const SET: &str = "DOORBUSTER_DEV_DIR";
/// What is killed may be starting others at that moment: it is looked again until there are none.
const PATIENCE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(10);
const COMMAND_CHARS: usize = 120;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Left {
    pub pid: u32,
    pub command: String,
}

/// Whose children they are. A number alone may have become somebody else's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owner {
    pid: u32,
    /// In ticks since the system's start.
    started: u64,
}

impl Owner {
    fn of(pid: u32) -> io::Result<Self> {
        Ok(Self { pid, started: procfs::started(pid)? })
    }

    fn parse(text: &str) -> Option<Self> {
        let (pid, started) = text.split_once(':')?;
        Some(Self { pid: pid.parse().ok()?, started: started.parse().ok()? })
    }

    fn lives(self) -> bool {
        Self::of(self.pid).is_ok_and(|now| now == self)
    }
}

/// Marks a command, whatever it starts included, as started by this process. The set of engines that our own environment
/// names is somebody else's: a command has one only if it was given one before.
pub fn mark(command: &mut Command) -> io::Result<&mut Command> {
    let Owner { pid, started } = Owner::of(std::process::id())?;
    if !command.get_envs().any(|(name, _)| name == SET) {
        command.env_remove(SET);
    }
    Ok(command.env(OWNER, format!("{pid}:{started}")))
}

/// Ends at once (SIGKILL) whatever this process started and still runs.
///
/// # Errors
/// If it can't be found out, or something survives: who it is.
pub fn end_own() -> io::Result<Vec<Left>> {
    let own = Owner::of(std::process::id())?;
    end(&|owner| owner == own)
}

/// The same of what was left by benches that are gone: killed, and so unable to do it themselves.
pub fn end_orphans() -> io::Result<Vec<Left>> {
    end(&|owner| !owner.lives())
}

fn end(is_wanted: &dyn Fn(Owner) -> bool) -> io::Result<Vec<Left>> {
    let (mut ended, begun) = (BTreeSet::new(), Instant::now());
    loop {
        let found = find(is_wanted)?;
        if found.is_empty() {
            return Ok(ended.into_iter().collect());
        }
        if begun.elapsed() > PATIENCE {
            return Err(io::Error::other(format!("{} survives SIGKILL", list(&found))));
        }
        // One may be gone before its turn, which is no failure: the next look shows it.
        found.iter().for_each(|left| drop(signal(left.pid, Signal::KILL)));
        ended.extend(found);
        sleep(POLL);
    }
}

/// `redis-server 127.0.0.1:17000 (pid 12), java -Xmx1g (pid 34)`
pub fn list(left: &[Left]) -> String {
    let each: Vec<_> = left.iter().map(|left| format!("{} (pid {})", left.command, left.pid)).collect();
    each.join(", ")
}

/// Those with such an owner, the members of their sets of engines, and the children of all of these.
fn find(is_wanted: &dyn Fn(Owner) -> bool) -> io::Result<Vec<Left>> {
    let (mut pids, mut sets) = (BTreeSet::new(), BTreeSet::new());
    for process in procfs::all()? {
        // Those that have ended, or are another user's, show none.
        let Ok(environment) = process.environ() else { continue };
        let value = |name: &str| environment.get(OsStr::new(name));
        let owner = value(OWNER).and_then(|owner| Owner::parse(owner.to_str()?));
        if owner.is_some_and(is_wanted) && in_our_namespace(&process) {
            pids.extend(u32::try_from(process.pid()));
            sets.extend(value(SET).map(PathBuf::from));
        }
    }
    for set in &sets {
        pids.extend(members(set));
    }
    let children: Vec<u32> = pids.iter().flat_map(|pid| procfs::children(*pid).unwrap_or_default()).collect();
    pids.extend(children);
    Ok(pids.into_iter().filter_map(|pid| Some(Left { pid, command: command(pid)? })).collect())
}

/// In a container of its own the numbers of processes mean others.
fn in_our_namespace(process: &Process) -> bool {
    let namespace = |of: &str| std::fs::read_link(format!("/proc/{of}/ns/pid"));
    matches!((namespace("self"), namespace(&process.pid().to_string())), (Ok(ours), Ok(its)) if ours == its)
}

/// Some write their title over their environment (nginx). They are known from the set's pid files, and as for `dev/down`
/// the command line must hold the member's folder.
fn members(set: &Path) -> Vec<u32> {
    let Ok(folders) = std::fs::read_dir(set) else { return Vec::new() };
    folders
        .filter_map(|folder| {
            let folder = folder.ok()?.path();
            let pid = std::fs::read_to_string(folder.join("pid")).ok()?.trim().parse().ok()?;
            command_line(pid)?.contains(&format!("{}/", folder.display())).then_some(pid)
        })
        .collect()
}

/// `None` of one that has ended, waited for or not.
fn command_line(pid: u32) -> Option<String> {
    let words = procfs::process(pid).ok()?.cmdline().ok()?;
    (!words.is_empty()).then(|| words.join(" "))
}

fn command(pid: u32) -> Option<String> {
    command_line(pid).map(|line| line.chars().take(COMMAND_CHARS).collect())
}

/// Who listens on a port of this machine, as far as it can be seen: `pid 12 (redis-server 127.0.0.1:17000)`.
pub fn holder(port: u16) -> Option<String> {
    let socket = listening_socket(port)?;
    Some(match owner_of(&socket) {
        Some(pid) => format!("pid {pid} ({})", command(pid).unwrap_or_default()),
        None => "another user's process".to_owned(),
    })
}

/// The process that listens on a port of this machine, if it can be seen.
pub(crate) fn listening_on(port: u16) -> Option<u32> {
    owner_of(&listening_socket(port)?)
}

fn listening_socket(port: u16) -> Option<FDTarget> {
    let mut sockets = [tcp(), tcp6()].into_iter().flatten().flatten();
    let listens = |of: &TcpNetEntry| of.state == TcpState::Listen && of.local_address.port() == port;
    Some(FDTarget::Socket(sockets.find(listens)?.inode))
}

fn owner_of(socket: &FDTarget) -> Option<u32> {
    let holds = |process: &Process| process.fd().is_ok_and(|of| of.flatten().any(|of| of.target == *socket));
    let process = procfs::all().ok()?.find(holds)?;
    u32::try_from(process.pid()).ok()
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;
    use std::process::{Child, Stdio};

    use super::*;

    /// A shell that has left its parent, as `dev/up` starts an engine, once what it started is what it says.
    fn detached(owner: &str) -> u32 {
        let mut command = Command::new("setsid");
        let script = "sleep 600 >&- 2>&- & echo $$ $!; exec >&- 2>&-; wait";
        command.args(["--fork", "sh", "-c", script]);
        // Marked, but not by this process.
        mark(&mut command).unwrap().env(OWNER, owner);
        let numbers = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let (shell, child) = numbers.trim().split_once(' ').unwrap();
        let (child, begun) = (child.parse().unwrap(), Instant::now());
        while command_line(child).as_deref() != Some("sleep 600") {
            assert!(begun.elapsed() < PATIENCE, "{:?}", command_line(child));
            sleep(POLL);
        }
        shell.parse().unwrap()
    }

    fn sleeping(command: &mut Command) -> Child {
        command.arg("600").stdout(Stdio::null()).spawn().unwrap()
    }

    #[test]
    fn what_a_dead_bench_left_is_ended_and_nothing_else() {
        // Somebody who has ended, and has been waited for.
        let mut gone = Command::new("true").spawn().unwrap();
        let owner = format!("{}:{}", gone.id(), procfs::started(gone.id()).unwrap());
        gone.wait().unwrap();
        let orphan = detached(&owner);
        let mut kept = sleeping(mark(&mut Command::new("sleep")).unwrap());
        let mut foreign = sleeping(&mut Command::new("sleep"));
        let ended = end(&|of| Some(of) == Owner::parse(&owner) && !of.lives()).unwrap();
        // The shell, and what it started.
        assert!(ended.iter().any(|left| left.pid == orphan), "{ended:?}");
        assert!(ended.iter().any(|left| left.command == "sleep 600"), "{ended:?}");
        assert_eq!((ended.len(), command_line(orphan)), (2, None), "{ended:?}");
        assert!(list(&ended).contains(&format!("(pid {orphan})")));
        for child in [&mut kept, &mut foreign] {
            assert!(child.try_wait().unwrap().is_none(), "it is not an orphan");
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    #[test]
    fn the_set_of_engines_of_whoever_started_us_is_not_ended() {
        let set_of = |command: &mut Command| {
            let marked = mark(command).unwrap();
            marked.get_envs().find(|(name, _)| *name == SET).map(|(_, set)| set.map(ToOwned::to_owned))
        };
        assert_eq!(set_of(&mut Command::new("true")), Some(None), "not inherited");
        assert_eq!(set_of(Command::new("true").env(SET, "/ours")), Some(Some("/ours".into())));
    }

    #[test]
    fn an_owner_lives_as_long_as_its_number_means_it() {
        let own = Owner::of(std::process::id()).unwrap();
        assert!(own.lives());
        assert!(!Owner { started: own.started + 1, ..own }.lives(), "another process has its number");
        assert_eq!(Owner::parse("12:345"), Some(Owner { pid: 12, started: 345 }));
        assert_eq!([Owner::parse(""), Owner::parse("12"), Owner::parse("a:b")], [None; 3]);
    }

    #[test]
    fn members_that_hide_their_environment_are_found_by_their_pid_files() {
        let set = tempfile::tempdir().unwrap();
        let folder = set.path().join("nginx");
        std::fs::create_dir(&folder).unwrap();
        let mut child = Command::new("sh");
        // Its command line can be read once it runs.
        let script = format!("echo; read -r line # {}/", folder.display());
        child.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = child.spawn().unwrap();
        child.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
        std::fs::write(folder.join("pid"), child.id().to_string()).unwrap();
        assert_eq!(members(set.path()), [child.id()]);
        // A number that has become somebody else's.
        std::fs::write(folder.join("pid"), std::process::id().to_string()).unwrap();
        assert_eq!(members(set.path()), [0_u32; 0]);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_port_is_named_with_its_holder() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let named = holder(port).unwrap();
        assert!(named.starts_with(&format!("pid {} (", std::process::id())), "{named}");
        assert_eq!(holder(0), None, "nobody listens there");
    }
}
