//! Extra faults on the memory of programs that preload the agent (`native/agent`): their pages are write-protected
//! through the userfaultfd that each hands over, a few at a time, and a write to one is a fault that the kernel settles
//! by itself (Documentation/admin-guide/mm/pagemap.rst, PAGEMAP_SCAN; Linux 6.7).
//!
//! As by CDSM's thread (section 4) every 10 ms, up to a share of the pages in use; which ones, says `sample`.

use super::mappings::armable;
use super::sample::{Places, Protect};
use cohabit_host::install::{LIBDIR_VARIABLE, candidates};
use cohabit_model::{Error, Result};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr, accept4, bind, getsockopt,
    listen, recvmsg, socket, sockopt::PeerCredentials,
};
use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

/// The file's name, in the folder of the native parts.
const LIBRARY: &str = "libcohabit_agent.so";
/// Names the socket to the agent.
const SOCKET_VARIABLE: &str = "COHABIT_AGENT";
const PRELOAD_VARIABLE: &str = "LD_PRELOAD";
/// How often pages are protected, at most.
pub const EVERY: Duration = Duration::from_millis(10);
/// Connections that are heard in one go, at most.
const MOST_AT_ONCE: usize = 1024;
/// Descriptors that a message may carry (SCM_MAX_FD of unix(7)).
const MOST_DESCRIPTORS: usize = 253;
/// Of the files that this process may have open, the part that programs' may be: two for each process.
const PART_OF_FILES: u64 = 4;
/// Pages protected in one go, at most.
const MOST_PAGES: u64 = 4096;

/// Write-protects pages of the programs that run with the agent.
pub struct Agent {
    library: PathBuf,
    name: String,
    listener: OwnedFd,
    processes: BTreeMap<i32, Armed>,
    /// Those of which files are kept open, at most.
    most_processes: usize,
    armed_at: Duration,
    /// Pages that have been protected.
    pub armed_pages: u64,
    /// Processes that had handed over a userfaultfd.
    pub announced: u64,
}

struct Armed {
    userfaultfd: File,
    pagemap: File,
    /// Ranges that are registered, ascending.
    ranges: Vec<(u64, u64)>,
    places: Places,
    /// Pages that may be protected, saved up.
    credit: f64,
}

impl Agent {
    /// Gets ready to be found by agents.
    ///
    /// # Errors
    /// Where the library is not there, or no socket can be had.
    pub fn start() -> Result<Self> {
        let library = find()?;
        let name = format!("cohabit-{}-{:x}", std::process::id(), nonce());
        let failed = |errno: nix::Error| Error::new(format!("a socket for the agent: {errno}"));
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let listener = socket(AddressFamily::Unix, SockType::SeqPacket, flags, None).map_err(failed)?;
        let address = UnixAddr::new_abstract(name.as_bytes()).map_err(failed)?;
        bind(listener.as_raw_fd(), &address).map_err(failed)?;
        listen(&listener, Backlog::MAXCONN).map_err(failed)?;
        Ok(Self {
            library,
            name,
            listener,
            processes: BTreeMap::new(),
            most_processes: most_processes(),
            armed_at: Duration::ZERO,
            armed_pages: 0,
            announced: 0,
        })
    }

    /// What a program's environment needs for the agent to be in it.
    pub fn environment(&self) -> [(&'static str, OsString); 2] {
        let mut preload = self.library.clone().into_os_string();
        if let Some(others) = env::var_os(PRELOAD_VARIABLE).filter(|others| !others.is_empty()) {
            preload.push(OsStr::new(":"));
            preload.push(others);
        }
        [(SOCKET_VARIABLE, OsString::from(&self.name)), (PRELOAD_VARIABLE, preload)]
    }

    /// Takes what agents hand over, from processes that are followed. Anybody may come to the socket: who is not
    /// followed is turned away, and no more than so many are heard in one go.
    pub fn welcome(&mut self, is_followed: impl Fn(i32) -> bool) {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        for _ in 0..MOST_AT_ONCE {
            let Ok(fd) = accept4(self.listener.as_raw_fd(), flags) else { return };
            // SAFETY: a descriptor that nobody else has.
            let connection = unsafe { OwnedFd::from_raw_fd(fd) };
            let peer = getsockopt(&connection, PeerCredentials).ok().filter(|peer| is_followed(peer.pid()));
            let Some(peer) = peer.filter(|_| self.processes.len() < self.most_processes) else { continue };
            let Some(userfaultfd) = received(&connection) else { continue };
            let Ok(pagemap) = File::open(format!("/proc/{}/pagemap", peer.pid())) else { continue };
            self.announced += 1;
            let armed = Armed { userfaultfd, pagemap, ranges: Vec::new(), places: Places::default(), credit: 0.0 };
            self.processes.insert(peer.pid(), armed);
        }
    }

    /// Looks at the processes' memory again: what has come since is registered, who has ended is dropped. With
    /// `only_shared` no more than what processes share is protected from now on.
    pub fn refresh(&mut self, only_shared: bool) {
        self.processes.retain(|pid, armed| {
            let Ok(maps) = fs::read_to_string(format!("/proc/{pid}/maps")) else { return false };
            let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
            armed.ranges = armable(&maps, threads > 1 && !only_shared);
            // Memory that belongs to a userfaultfd of the program's own is refused, and left.
            armed.ranges.retain(|&(start, end)| register(&armed.userfaultfd, start, end));
            !maps.is_empty()
        });
    }

    /// Drops processes that have ended.
    pub fn forget(&mut self, has_ended: impl Fn(i32) -> bool) {
        self.processes.retain(|&process, _| !has_ended(process));
    }

    /// Whether any process runs with the agent.
    pub fn has_processes(&self) -> bool {
        !self.processes.is_empty()
    }

    /// Protects pages: of each process as many as `pages_per_second` says, for the time since the last call. `now` is
    /// since any moment.
    pub fn arm(&mut self, now: Duration, pages_per_second: impl Fn(i32) -> f64) {
        let elapsed = now.saturating_sub(self.armed_at);
        if elapsed < EVERY {
            return;
        }
        self.armed_at = now;
        for (&pid, armed) in &mut self.processes {
            let rate = pages_per_second(pid);
            // No more is saved up than a few goes' worth.
            let most = 1.0 + rate * (5 * EVERY).max(elapsed).as_secs_f64();
            armed.credit = (armed.credit + rate * elapsed.as_secs_f64()).min(most);
            let pages = (armed.credit as u64).min(MOST_PAGES);
            if pages > 0 {
                let (ranges, kernel) = (&armed.ranges, &mut Pages(&armed.pagemap));
                let walked = armed.places.walk(now, ranges, pages.div_ceil(2), kernel);
                let looked = armed.places.look(now, elapsed, ranges, (pages - walked, rate / 2.0), kernel);
                let protected = walked + looked;
                armed.credit -= protected as f64;
                self.armed_pages += protected;
            }
        }
    }
}

fn most_processes() -> usize {
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((1024, 1024));
    usize::try_from(soft / (2 * PART_OF_FILES)).unwrap_or(usize::MAX)
}

/// The descriptor that came with a message, where it is the only one. All that came are taken, however many: one that
/// is left would stay open for good.
fn received(connection: &OwnedFd) -> Option<File> {
    let mut byte = [0];
    let mut content = [IoSliceMut::new(&mut byte)];
    let mut control = nix::cmsg_space!([i32; MOST_DESCRIPTORS]);
    // The agent sends before it is scheduled away; one that has not is not waited for.
    let message = recvmsg::<()>(connection.as_raw_fd(), &mut content, Some(&mut control), MsgFlags::MSG_CMSG_CLOEXEC);
    let message = message.ok()?;
    let mut files: Vec<File> = Vec::new();
    for control in message.cmsgs().ok()? {
        if let ControlMessageOwned::ScmRights(descriptors) = control {
            // SAFETY: descriptors that were just received, and nobody else has.
            files.extend(descriptors.into_iter().map(|descriptor| unsafe { File::from_raw_fd(descriptor) }));
        }
    }
    files.pop().filter(|_| files.is_empty())
}

/// `struct uffdio_register` (linux/userfaultfd.h).
#[repr(C)]
struct Register {
    start: u64,
    bytes: u64,
    mode: u64,
    ioctls: u64,
}

fn register(userfaultfd: &File, start: u64, end: u64) -> bool {
    const UFFDIO_REGISTER: libc::c_ulong = 0xc020_aa00;
    const WRITE_PROTECT: u64 = 1 << 1;
    let mut record = Register { start, bytes: end - start, mode: WRITE_PROTECT, ioctls: 0 };
    // SAFETY: the record is as the kernel has it, and lives through the call.
    unsafe { libc::ioctl(userfaultfd.as_raw_fd(), UFFDIO_REGISTER, &raw mut record) == 0 }
}

/// `struct pm_scan_arg` (linux/fs.h).
#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    regions: u64,
    regions_length: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// `struct page_region`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Region {
    start: u64,
    end: u64,
    categories: u64,
}

/// A process's pages, by its pagemap.
struct Pages<'a>(&'a File);

impl Protect for Pages<'_> {
    fn protect(&mut self, start: u64, end: u64, pages: u64) -> Option<(u64, u64, u64)> {
        protect(self.0, start, end, pages)
    }
}

/// Write-protects up to `pages` pages of a range that are in memory, small, and not protected: how many, where the
/// first of them starts, and how far it came. None where the kernel refuses.
fn protect(pagemap: &File, start: u64, end: u64, pages: u64) -> Option<(u64, u64, u64)> {
    const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610;
    const WRITE_PROTECT_MATCHING: u64 = 1;
    const CHECK_ASYNCHRONOUS: u64 = 1 << 1;
    const WRITE_PROTECT_ALLOWED: u64 = 1;
    const WRITTEN: u64 = 1 << 1;
    const PRESENT: u64 = 1 << 3;
    const ZERO_PAGE: u64 = 1 << 5;
    // Protecting a part of a huge page would split it.
    const HUGE: u64 = 1 << 6;
    let mut regions = [Region::default(); 64];
    let mut scan = Scan {
        size: size_of::<Scan>() as u64,
        flags: WRITE_PROTECT_MATCHING | CHECK_ASYNCHRONOUS,
        start,
        end,
        regions: regions.as_mut_ptr() as u64,
        regions_length: regions.len() as u64,
        max_pages: pages,
        category_inverted: ZERO_PAGE | HUGE,
        category_mask: WRITE_PROTECT_ALLOWED | WRITTEN | PRESENT | ZERO_PAGE | HUGE,
        return_mask: PRESENT,
        ..Scan::default()
    };
    // SAFETY: the record is as the kernel has it, and both it and the regions live through the call.
    let count = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, &raw mut scan) };
    let found = regions.get(..usize::try_from(count).ok()?)?;
    let first = found.first().map_or(scan.walk_end, |region| region.start);
    Some((found.iter().map(|region| (region.end - region.start) / 4096).sum(), first, scan.walk_end))
}

/// Whether the kernel can write-protect pages of programs and let them be written to all the same, as the agent asks it
/// to (userfaultfd(2), UFFD_FEATURE_WP_ASYNC; Linux 6.7): asked by doing so here.
///
/// # Errors
/// It cannot.
pub fn kernel_check() -> Result<()> {
    const USER_MODE_ONLY: libc::c_int = 1;
    const UFFDIO_API: libc::c_ulong = 0xc018_aa3f;
    const UFFD_API: u64 = 0xaa;
    const WP_ASYNC: u64 = 1 << 15;
    let refused = |what: &str| {
        let error = std::io::Error::last_os_error();
        Error::new(format!("this kernel has no write protection that programs pass through ({what}: {error})"))
            .remedy("Linux 6.7 or later; until then faults by other means are used")
    };
    // SAFETY: takes a number; what it returns is owned by nobody else.
    let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | libc::O_NONBLOCK | USER_MODE_ONLY) };
    if fd < 0 {
        return Err(refused("userfaultfd"));
    }
    // SAFETY: the kernel has just opened it for us.
    let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    let mut api = [UFFD_API, WP_ASYNC, 0];
    // SAFETY: the record is three words, as the kernel has it, and lives through the call.
    match unsafe { libc::ioctl(fd.as_raw_fd(), UFFDIO_API, api.as_mut_ptr()) } {
        0 => Ok(()),
        _ => Err(refused("UFFDIO_API")),
    }
}

fn find() -> Result<PathBuf> {
    let program = env::current_exe().map_err(|error| Error::new(format!("cannot tell where cohabit is: {error}")))?;
    let named = env::var_os(LIBDIR_VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
    let places = named.map_or_else(|| candidates(&program), |libdir| vec![libdir]);
    let found = places.iter().map(|place| place.join(LIBRARY)).find(|path| path.is_file());
    found.ok_or_else(|| Error::new(format!("{LIBRARY} is not installed")).remedy("run `make native`"))
}

/// A number that nobody guesses.
fn nonce() -> u64 {
    let mut bytes = [0; 8];
    // SAFETY: the kernel writes as many bytes as there are.
    let count = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if count == 8 { u64::from_ne_bytes(bytes) } else { u64::from(std::process::id()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{ControlMessage, sendmsg, socketpair};
    use std::io::IoSlice;
    use std::os::unix::fs::MetadataExt;

    /// As where cohabit is stopped, or others crowd its socket.
    #[test]
    fn a_program_goes_on_where_nobody_answers_its_agent() {
        let Ok(library) = find() else {
            println!("skipped: the agent is not built (make native)");
            return;
        };
        let name = format!("cohabit-test-{}-{:x}", std::process::id(), nonce());
        let listener = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).unwrap();
        bind(listener.as_raw_fd(), &UnixAddr::new_abstract(name.as_bytes()).unwrap()).unwrap();
        listen(&listener, Backlog::new(0).unwrap()).unwrap();
        let forks = "i=0; while [ $i -lt 20 ]; do (exit 0); i=$((i + 1)); done";
        let mut program = std::process::Command::new("timeout");
        program.args(["-s", "KILL", "60", "sh", "-c", forks]).env(SOCKET_VARIABLE, name).env(PRELOAD_VARIABLE, library);
        assert!(program.status().unwrap().success());
    }

    /// A program under the agent has the NUMA policies that it has without.
    #[test]
    fn the_agent_leaves_policies_of_memory_alone() {
        const CHILD: &str = "COHABIT_TEST_POLICIES";
        if env::var_os(CHILD).is_some() {
            return check_policies();
        }
        let Ok(library) = find() else {
            println!("skipped: the agent is not built (make native)");
            return;
        };
        let mut program = std::process::Command::new(env::current_exe().unwrap());
        program.args(["--exact", "faults::agent::tests::the_agent_leaves_policies_of_memory_alone", "--nocapture"]);
        let output =
            program.env(CHILD, "1").env(SOCKET_VARIABLE, "cohabit-nobody").env(PRELOAD_VARIABLE, library).output();
        let output = output.unwrap();
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
        print!("{}", String::from_utf8_lossy(&said));
    }

    /// Of memory that is shared, whether the task has a policy or not.
    fn check_policies() {
        const BYTES: usize = 1 << 16;
        let (default, interleave, of_address) = (0, 3, 2_u64);
        // The first node.
        let nodes = 1_u64;
        for task in [default, interleave] {
            let (mask, bits) = if task == default { (std::ptr::null(), 0_u64) } else { (&raw const nodes, 64) };
            // SAFETY: a policy of this thread's alone; of the mask as many bits are read as it has.
            if unsafe { libc::syscall(libc::SYS_set_mempolicy, task, mask, bits) } != 0 {
                println!("skipped: policies of memory: {}", std::io::Error::last_os_error());
                return;
            }
            let (access, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
            // SAFETY: new mappings, wherever the kernel puts them, which nothing is read from or written to.
            let places = unsafe {
                let segment = libc::shmget(libc::IPC_PRIVATE, BYTES, libc::IPC_CREAT | 0o600);
                let attached = libc::shmat(segment, std::ptr::null(), 0);
                libc::shmctl(segment, libc::IPC_RMID, std::ptr::null_mut());
                [libc::mmap(std::ptr::null_mut(), BYTES, access, shared, -1, 0), attached]
            };
            for place in places {
                let mut policy: libc::c_int = -1;
                let none = std::ptr::null_mut::<u64>();
                // SAFETY: the kernel writes the one number, and no mask of nodes.
                let got =
                    unsafe { libc::syscall(libc::SYS_get_mempolicy, &mut policy, none, 0_u64, place, of_address) };
                assert_eq!((got, policy), (0, default), "{place:?} of a task with policy {task}");
            }
        }
    }

    #[test]
    fn a_message_leaves_no_descriptor_but_the_one_that_is_expected() {
        let held = tempfile::tempfile().unwrap();
        // Each open file of this process that is this one.
        let count = || {
            let inode = held.metadata().unwrap().ino();
            let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
            open.filter(|entry| fs::metadata(entry.path()).is_ok_and(|metadata| metadata.ino() == inode)).count()
        };
        for (sent, is_taken) in [(0, false), (1, true), (2, false), (3, false), (MOST_DESCRIPTORS, false)] {
            let (ours, theirs) =
                socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).unwrap();
            let descriptors = vec![held.as_raw_fd(); sent];
            let rights = [ControlMessage::ScmRights(&descriptors)];
            let rights = if sent == 0 { &[][..] } else { &rights[..] };
            sendmsg::<()>(theirs.as_raw_fd(), &[IoSlice::new(b"x")], rights, MsgFlags::empty(), None).unwrap();
            let taken = received(&ours);
            assert_eq!((taken.is_some(), count()), (is_taken, 1 + usize::from(is_taken)), "{sent}");
            drop(taken);
            assert_eq!(count(), 1, "{sent}");
        }
    }
}
