//! For tests: a process to move about.

use std::process::{Child, Command, Stdio};

/// Ends with the test.
pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sleeps longer than any test takes.
pub fn sleeper() -> Killed {
    Killed(Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap())
}
