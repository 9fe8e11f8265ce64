//! A session beside a program that is launched: in a thread of its own, which follows the program from before its first
//! instruction to its end.

use super::{Report, Session};
use cohabit_apply::BeforeStart;
use cohabit_model::{Error, Result};
use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// A session that waits for its program, or follows it.
pub struct Beside {
    session: JoinHandle<Result<Report>>,
    name: Sender<i32>,
    answered: Option<Receiver<()>>,
    ended: Arc<AtomicBool>,
    /// What the program's environment needs.
    pub environment: Vec<(String, OsString)>,
}

impl Beside {
    /// Starts it.
    ///
    /// # Errors
    /// As `make`, and where there is no thread to be had.
    pub fn start(make: impl FnOnce() -> Result<Session> + Send + 'static) -> Result<Self> {
        let (ready, is_ready) = channel();
        let (name, named) = channel::<i32>();
        let (answer, answered) = channel();
        let ended = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&ended);
        let session = std::thread::Builder::new().name("cohabit-online".to_owned()).spawn(move || {
            let mut session = make().inspect_err(|error| {
                let _ = ready.send(Err(error.clone()));
            })?;
            let _ = ready.send(Ok(session.environment()));
            let Ok(pid) = named.recv() else { return session.finish() };
            let followed = session.follow(pid);
            let _ = answer.send(());
            followed?;
            session.run(&stop, &mut |_| {})?;
            session.finish()
        });
        let session = session.map_err(|error| Error::new(format!("starting a thread: {error}")))?;
        let environment = is_ready.recv().unwrap_or_else(|_| Err(Error::new("the online session ended early")))?;
        Ok(Self { session, name, answered: Some(answered), ended, environment })
    }

    /// What the launch is to do before the program's first instruction. Once.
    pub fn before_start(&mut self) -> BeforeStart {
        let (name, answered) = (Mutex::new(self.name.clone()), Mutex::new(self.answered.take()));
        BeforeStart(Arc::new(move |pid| {
            if name.lock().is_ok_and(|name| name.send(pid).is_ok()) {
                // An error is told at the end: the program is not made to pay.
                let _ = answered.lock().map(|answered| answered.as_ref().map(Receiver::recv));
            }
        }))
    }

    /// The program has ended, or was not started.
    ///
    /// # Errors
    /// As the session.
    pub fn finish(self) -> Result<Report> {
        self.ended.store(true, Ordering::SeqCst);
        drop(self.name);
        self.session.join().unwrap_or_else(|_| Err(Error::new("the online session broke down")))
    }
}
