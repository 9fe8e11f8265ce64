//! One cohabit a node (CDSM, section 5.6.1). Where a launcher of MPI starts `cohabit run` for each rank, the first one on a
//! node watches and places all ranks there: the others hand it their process, and become their programs.
//!
//! They find one another by an abstract socket, which is gone with the one that leads. It is named by the host and the job,
//! so that jobs, and the hosts of an emulated cluster, stay apart.

use crate::exit::Failure;
use crate::output::note;
use cohabit_apply::online::threads;
use cohabit_model::Error;
use cohabit_model::command::{CommandError, find};
use cohabit_model::launcher::RankPlace;
use nix::errno::Errno;
use nix::sys::socket::sockopt::{PeerCredentials, ReceiveTimeout};
use nix::sys::socket::{
    AddressFamily, Backlog, MsgFlags, SockFlag, SockType, UnixAddr, accept4, bind, connect, getsockopt, listen, recv,
    send, setsockopt, socket,
};
use nix::sys::time::TimeVal;
use nix::unistd::{geteuid, gethostname, getppid};
use std::env;
use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How often to look for one that leads, and to try to lead: it may end in between.
const ATTEMPTS: u32 = 5;
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
}

/// A process that waits to be followed.
pub struct Newcomer {
    /// Its id.
    pub pid: i32,
    connection: OwnedFd,
}

/// Finds out what this cohabit is to be.
pub fn role() -> Role {
    match RankPlace::of(|name| env::var(name).ok()) {
        Some(place) => role_at(&socket_name(&place)),
        None => Role::Alone,
    }
}

fn role_at(name: &str) -> Role {
    let Ok(address) = UnixAddr::new_abstract(name.as_bytes()) else { return Role::Alone };
    for _ in 0..ATTEMPTS {
        match lead(&address) {
            Ok(node) => return Role::Leads(node),
            Err(Errno::EADDRINUSE) => {}
            Err(_) => break,
        }
        match join(&address) {
            Ok(environment) => return Role::Joined(environment),
            // It has just ended.
            Err(Errno::ECONNREFUSED | Errno::ECONNRESET) => {}
            Err(errno) => {
                note(&format!(
                    "the cohabit that leads on this node does not answer ({errno}): this one watches its rank alone"
                ));
                break;
            }
        }
    }
    Role::Alone
}

/// Short enough for a socket's name, whatever the job is called.
fn socket_name(place: &RankPlace) -> String {
    let mut hasher = DefaultHasher::new();
    gethostname().ok().hash(&mut hasher);
    match &place.job {
        Some(job) => job.hash(&mut hasher),
        // All ranks of a node are children of one launcher.
        None => (getppid().as_raw(), threads::start_ticks(getppid().as_raw())).hash(&mut hasher),
    }
    format!("cohabit-node-{}-{:x}", geteuid(), hasher.finish())
}

fn new_socket(flags: SockFlag) -> nix::Result<OwnedFd> {
    socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC | flags, None)
}

fn lead(address: &UnixAddr) -> nix::Result<Node> {
    let listener = new_socket(SockFlag::SOCK_NONBLOCK)?;
    bind(listener.as_raw_fd(), address)?;
    listen(&listener, Backlog::MAXCONN)?;
    Ok(Node { listener })
}

fn join(address: &UnixAddr) -> nix::Result<Vec<(OsString, OsString)>> {
    let connection = new_socket(SockFlag::empty())?;
    setsockopt(&connection, ReceiveTimeout, &TimeVal::new(PATIENCE_SECONDS, 0))?;
    connect(connection.as_raw_fd(), address)?;
    // Anybody may have taken the name.
    if getsockopt(&connection, PeerCredentials)?.uid() != geteuid().as_raw() {
        return Err(Errno::EPERM);
    }
    let mut answer = vec![0; LONGEST_ANSWER];
    match recv(connection.as_raw_fd(), &mut answer, MsgFlags::empty())? {
        0 => Err(Errno::ECONNRESET),
        length => Ok(variables(&answer[..length])),
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
        let name = format!("cohabit-test-{}", std::process::id());
        let Role::Leads(node) = role_at(&name) else { panic!("nobody else leads") };
        let other = name.clone();
        let joiner = std::thread::spawn(move || match role_at(&other) {
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
        assert!(matches!(role_at(&name), Role::Leads(_)), "the name is free again");
    }

    #[test]
    fn files_of_several_nodes_have_their_names() {
        for (path, expected) in [("a/p.npz", "a/p.n1.npz"), ("log", "log.n1"), ("p.x.json", "p.x.n1.json")] {
            assert_eq!(with_host(Path::new(path), OsStr::new("n1")), Path::new(expected));
        }
    }
}
