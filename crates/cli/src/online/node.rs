//! One cohabit a node (CDSM, section 5.6.1). Where a launcher of MPI starts `cohabit run` for each rank, the first one
//! on a node watches and places all ranks there: the others hand it their process, and become their programs.
//!
//! They find one another in the folder of the user's ledgers, where nobody else can put anything: who has locked the
//! job's file there leads, and listens at a socket beside it. The lock is gone with the one that leads. The file is
//! named by the host and the job, so that jobs, and the hosts of an emulated cluster, stay apart.

use crate::exit::Failure;
use crate::output::note;
use cohabit_model::command::{CommandError, find};
use cohabit_model::launcher::RankPlace;
use cohabit_model::{Error, private};
use cohabit_online::{ledger, threads};
use nix::errno::Errno;
use nix::fcntl::Flock;
use nix::sys::socket::sockopt::{PeerCredentials, ReceiveTimeout, SendTimeout};
use nix::sys::socket::{
    AddressFamily, Backlog, MsgFlags, SockFlag, SockType, UnixAddr, accept4, bind, connect, getsockopt, listen, recv,
    send, setsockopt, socket,
};
use nix::sys::time::TimeVal;
use nix::unistd::{geteuid, gethostname, getppid};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How often to look for one that leads, and to try to lead: it may end in between, or not listen yet.
const ATTEMPTS: u32 = 100;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(5);
/// How long one that leads may take to answer.
const PATIENCE_SECONDS: i64 = 10;
/// An answer is not longer.
const LONGEST_ANSWER: usize = 64 << 10;
/// While ranks may still come, they are not kept waiting longer than this.
pub const WELCOME_EVERY: Duration = Duration::from_millis(20);
/// How long that is, from the start on.
pub const WELCOMED_SOON: Duration = Duration::from_secs(30);

/// What this cohabit is on its node.
pub enum Role {
    /// No launcher of ranks has started it.
    Alone,
    /// It watches all ranks that are handed over.
    Leads(Node),
    /// Another one watches this process from now on; its programs need these variables.
    Joined(Vec<(OsString, OsString)>),
}

/// Where ranks are handed over.
pub struct Node {
    listener: OwnedFd,
    place: Place,
    /// As long as it is held nobody else leads.
    _lock: Flock<File>,
}

/// Where the ranks of a job on a node find one another.
struct Place {
    lock: PathBuf,
    socket: PathBuf,
}

/// A process that waits to be followed.
pub struct Newcomer {
    /// Its id.
    pub pid: i32,
    connection: OwnedFd,
}

/// Finds out what this cohabit is to be.
pub fn role() -> Role {
    let Some(place) = RankPlace::of(|name| env::var(name).ok()) else { return Role::Alone };
    let folder = ledger::folder();
    match private::make(&folder) {
        Ok(()) => role_at(&folder, &name(&place)),
        Err(error) => alone(&error.cause),
    }
}

fn role_at(folder: &Path, name: &str) -> Role {
    let at = |ending: &str| folder.join(format!("{name}{ending}"));
    for _ in 0..ATTEMPTS {
        let place = Place { lock: at(".lock"), socket: at(".socket") };
        match place.lock() {
            Ok(Some(lock)) => return place.lead(lock).map_or_else(|error| alone(&error.to_string()), Role::Leads),
            Ok(None) => {}
            Err(error) => return alone(&error.to_string()),
        }
        match place.join() {
            Ok(environment) => return Role::Joined(environment),
            // It has just ended, or does not listen yet.
            Err(Errno::ECONNREFUSED | Errno::ECONNRESET | Errno::ENOENT) => std::thread::sleep(BETWEEN_ATTEMPTS),
            Err(errno) => return alone(&format!("the cohabit that leads on this node does not answer ({errno})")),
        }
    }
    alone("no cohabit leads on this node")
}

fn alone(why: &str) -> Role {
    note(&format!("{why}: this one watches its rank alone"));
    Role::Alone
}

/// Short enough for a socket's name, whatever the job is called.
fn name(place: &RankPlace) -> String {
    let mut hasher = DefaultHasher::new();
    gethostname().ok().hash(&mut hasher);
    match &place.job {
        Some(job) => job.hash(&mut hasher),
        // All ranks of a node are children of one launcher.
        None => (getppid().as_raw(), threads::start_ticks(getppid().as_raw())).hash(&mut hasher),
    }
    format!("{}{:x}", ledger::NODE, hasher.finish())
}

fn new_socket(flags: SockFlag) -> nix::Result<OwnedFd> {
    socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC | flags, None)
}

impl Place {
    /// The lock that who leads has; none where somebody else has it.
    fn lock(&self) -> std::io::Result<Option<Flock<File>>> {
        match private::try_lock(private::lock_file(&self.lock)?) {
            // One that has just been removed, by who led until now, is no lock.
            Ok(lock) => Ok((lock.metadata()?.nlink() > 0).then_some(lock)),
            Err(Errno::EAGAIN) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    fn lead(self, lock: Flock<File>) -> std::io::Result<Node> {
        // Of one that led and was killed.
        let _ = fs::remove_file(&self.socket);
        let listener = new_socket(SockFlag::SOCK_NONBLOCK)?;
        bind(listener.as_raw_fd(), &UnixAddr::new(&self.socket)?)?;
        listen(&listener, Backlog::MAXCONN)?;
        Ok(Node { listener, place: self, _lock: lock })
    }

    fn join(&self) -> nix::Result<Vec<(OsString, OsString)>> {
        let connection = new_socket(SockFlag::empty())?;
        // That of sending holds for connecting, too: one that is stopped has a full backlog some day.
        setsockopt(&connection, SendTimeout, &TimeVal::new(1, 0))?;
        setsockopt(&connection, ReceiveTimeout, &TimeVal::new(PATIENCE_SECONDS, 0))?;
        connect(connection.as_raw_fd(), &UnixAddr::new(&self.socket)?)?;
        if getsockopt(&connection, PeerCredentials)?.uid() != geteuid().as_raw() {
            return Err(Errno::EPERM);
        }
        let mut answer = vec![0; LONGEST_ANSWER];
        match recv(connection.as_raw_fd(), &mut answer, MsgFlags::empty())? {
            0 => Err(Errno::ECONNRESET),
            length => Ok(variables(&answer[..length])),
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.place.socket);
        let _ = fs::remove_file(&self.place.lock);
    }
}

/// `NAME=VALUE`, each closed by a zero byte.
fn variables(answer: &[u8]) -> Vec<(OsString, OsString)> {
    let strings = answer.split(|&byte| byte == 0);
    let pair = |string: &[u8]| {
        let at = string.iter().position(|&byte| byte == b'=').filter(|&at| at > 0)?;
        Some((OsString::from_vec(string[..at].to_vec()), OsString::from_vec(string[at + 1..].to_vec())))
    };
    strings.filter_map(pair).collect()
}

impl Node {
    /// Processes of this user that have come since.
    pub fn newcomers(&self) -> Vec<Newcomer> {
        let mut found = Vec::new();
        while let Ok(fd) = accept4(self.listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK) {
            // SAFETY: a descriptor that nobody else has.
            let connection = unsafe { OwnedFd::from_raw_fd(fd) };
            let peer = getsockopt(&connection, PeerCredentials).ok().filter(|peer| peer.uid() == geteuid().as_raw());
            found.extend(peer.map(|peer| Newcomer { pid: peer.pid(), connection }));
        }
        found
    }
}

impl Newcomer {
    /// Lets it go on, with these variables.
    pub fn answer(self, environment: &[(String, OsString)]) {
        let mut answer: Vec<u8> = vec![0];
        for (name, value) in environment {
            answer.extend([name.as_bytes(), b"=", value.as_bytes(), b"\0"].concat());
        }
        // One that has gone needs no answer.
        let _ = send(self.connection.as_raw_fd(), &answer, MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT);
    }
}

/// Becomes the command; returns only where that fails.
pub fn become_program(command: &[OsString], environment: Vec<(OsString, OsString)>) -> Failure {
    if let Err(error) = find(command) {
        return error.into();
    }
    let error = Command::new(&command[0]).args(&command[1..]).envs(environment).exec();
    CommandError::CannotRun(Error::new(format!("{}: {error}", Path::new(&command[0]).display()))).into()
}

/// The file for what this node's cohabit writes: with the host's name in it where the job has several nodes, which may
/// share a file system.
pub fn of_this_node(path: &Path) -> PathBuf {
    let spans_nodes = RankPlace::of(|name| env::var(name).ok()).is_some_and(|place| place.one_node != Some(true));
    let host = gethostname().ok().filter(|_| spans_nodes);
    host.map_or_else(|| path.to_owned(), |host| with_host(path, &host))
}

fn with_host(path: &Path, host: &OsStr) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(".");
    name.push(host);
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_leads_and_the_others_join() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().to_owned();
        // One that led and was killed has left its socket.
        fs::write(place.join("node-1.socket"), "").unwrap();
        let Role::Leads(node) = role_at(&place, "node-1") else { panic!("nobody else leads") };
        let other = place.clone();
        let joiner = std::thread::spawn(move || match role_at(&other, "node-1") {
            Role::Joined(environment) => environment,
            _ => Vec::new(),
        });
        let newcomer = loop {
            match node.newcomers().pop() {
                Some(newcomer) => break newcomer,
                None => std::thread::yield_now(),
            }
        };
        assert_eq!(newcomer.pid, std::process::id() as i32);
        let environment = [("LD_PRELOAD".to_owned(), OsString::from("/a=b.so")), ("X".to_owned(), OsString::new())];
        newcomer.answer(&environment);
        let expected: Vec<(OsString, OsString)> =
            environment.into_iter().map(|(name, value)| (name.into(), value)).collect();
        assert_eq!(joiner.join().unwrap(), expected);
        drop(node);
        assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
        assert!(matches!(role_at(&place, "node-1"), Role::Leads(_)), "the name is free again");
    }

    #[test]
    fn what_others_have_put_where_ranks_meet_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        nix::unistd::mkfifo(&folder.path().join("node-1.lock"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(matches!(role_at(folder.path(), "node-1"), Role::Alone));
    }

    #[test]
    fn files_of_several_nodes_have_their_names() {
        for (path, expected) in [("a/p.npz", "a/p.n1.npz"), ("log", "log.n1"), ("p.x.json", "p.x.n1.json")] {
            assert_eq!(with_host(Path::new(path), OsStr::new("n1")), Path::new(expected));
        }
    }
}
