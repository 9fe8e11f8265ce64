//! The kernel's debugfs, where NUMA balancing's scan rate is: where the machine has it, or else mounted for this
//! process alone, at no place in the file system: fsmount(2)'s mount is reached by its descriptor and goes with it.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::OnceLock;

/// Where the machine has it.
const USUAL: &str = "/sys/kernel/debug";
const NAME: &CStr = c"debugfs";
/// `FSOPEN_CLOEXEC`, `FSCONFIG_CMD_CREATE` and `FSMOUNT_CLOEXEC` of linux/mount.h.
const CLOSE_ON_EXEC: libc::c_uint = 1;
const CREATE: libc::c_uint = 6;

/// Its folder; the usual one where it is there, or where it cannot be had.
pub fn folder() -> PathBuf {
    static MOUNTED: OnceLock<Option<OwnedFd>> = OnceLock::new();
    let usual = PathBuf::from(USUAL);
    if usual.join("sched").exists() {
        return usual;
    }
    match MOUNTED.get_or_init(|| mounted().ok()) {
        Some(mount) => PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd())),
        None => usual,
    }
}

/// A mount of it that nobody else sees (fsopen(2), fsconfig(2), fsmount(2): root, Linux 5.2).
fn mounted() -> io::Result<OwnedFd> {
    // SAFETY: a name that ends with 0, and a number.
    let context = descriptor(unsafe { libc::syscall(libc::SYS_fsopen, NAME.as_ptr(), CLOSE_ON_EXEC) })?;
    let none = std::ptr::null::<libc::c_char>();
    // SAFETY: a descriptor that is open, and for this command no key and no value.
    let created = unsafe { libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), CREATE, none, none, 0) };
    if created != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that is open, and numbers.
    descriptor(unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), CLOSE_ON_EXEC, 0) })
}

fn descriptor(result: libc::c_long) -> io::Result<OwnedFd> {
    match libc::c_int::try_from(result) {
        // SAFETY: the kernel has just given it to us.
        Ok(descriptor) if descriptor >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_there_where_it_may_be_mounted() {
        match mounted() {
            Ok(mount) => {
                let path = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
                assert!(path.join("sched").is_dir() && folder().join("sched").is_dir());
            }
            Err(error) => {
                println!("skipped: debugfs cannot be mounted here: {error}");
                assert!(folder().join("sched").is_dir() || folder().as_os_str() == USUAL);
            }
        }
    }
}
