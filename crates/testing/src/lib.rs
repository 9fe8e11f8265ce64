//! What the tests of several rooms need: processes that end with the test, however it ends.

use std::ops::{Deref, DerefMut};
use std::process::{Child, Command, Stdio};

/// A process that is killed when this is dropped.
#[derive(Debug)]
pub struct Killed(Child);

impl Killed {
    /// Starts a command.
    ///
    /// # Panics
    ///
    /// Where it cannot be started.
    pub fn spawn(command: &mut Command) -> Self {
        Self(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }
}

impl Deref for Killed {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Killed {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sleeps longer than any test takes, with nothing to read.
pub fn sleeper() -> Killed {
    Killed::spawn(&mut sleeping())
}

/// The command that [`sleeper`] starts.
pub fn sleeping() -> Command {
    let mut command = Command::new("sleep");
    command.arg("60").stdin(Stdio::null());
    command
}
