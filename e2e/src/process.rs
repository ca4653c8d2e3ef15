//! Controllers as real processes: starts, observes, stops and measures them.
//!
//! The binary of a controller is looked up in this order:
//! 1. in the directory that `NONET_BIN_DIR` names;
//! 2. under cargo (`cargo test`, `cargo run`), it is built first with the profile of the calling program, so that no outdated
//!    binary is tested;
//! 3. next to the running program, where it is built if it is missing.
//!
//! The playground contains the controllers and needs no binaries: see [`Launch::own_controller`].

mod binary;
mod log;
mod received;
mod usage;

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    pin::pin,
    process::{ExitStatus, Stdio},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use common::clock::{Clock, Instant};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    process::{Child, Command},
};

pub(crate) use binary::beside;
pub(crate) use binary::chosen_directory;
pub use binary::find;
use log::Log;
pub use received::Received;
pub use usage::Usage;

/// The directory with the controllers' binaries.
pub const BIN_DIR_VARIABLE: &str = "NONET_BIN_DIR";

/// Why a process cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such binary.
    #[error("the program {name} cannot be found: {why}")]
    NoBinary {
        /// Which.
        name: String,
        /// What was tried.
        why: String,
    },
    /// The system refuses.
    #[error("{name}: {what}: {cause}")]
    System {
        /// Which process.
        name: String,
        /// What was to be done.
        what: &'static str,
        /// Why not.
        cause: io::Error,
    },
    /// The process has ended.
    #[error("{name} ended with {status}: {last_words}")]
    Ended {
        /// Which.
        name: String,
        /// How.
        status: ExitStatus,
        /// The end of its log.
        last_words: String,
    },
    /// It did not do in time what was waited for.
    #[error("{name} is not {what} after {seconds} s: {last_words}")]
    TimedOut {
        /// Which.
        name: String,
        /// What was waited for.
        what: &'static str,
        /// For how long.
        seconds: u64,
        /// The end of its log, or of its answer.
        last_words: String,
    },
}

/// How a process is to be started.
#[derive(Clone, Debug)]
pub struct Launch {
    name: String,
    binary: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Launch {
    /// A controller of the workspace, which talks to the API server of `kubeconfig` and serves its diagnostics on a free
    /// loopback port, and nothing on its usual one.
    pub fn controller(name: &str, kubeconfig: &Path) -> Result<Self, Error> {
        Ok(Self::program(name, &find(name)?).controlling(kubeconfig))
    }

    /// The same controller out of this program, which must call [`crate::controllers::main`] first: the program is started
    /// again, as a process of its own.
    pub fn own_controller(name: &str, kubeconfig: &Path) -> Result<Self, Error> {
        let program = std::env::current_exe();
        let program = program.map_err(|e| Error::NoBinary {
            name: name.to_owned(),
            why: format!("the path of this program is unknown: {e}"),
        })?;
        Ok(Self::program(name, &program).argument(name).controlling(kubeconfig))
    }

    fn controlling(self, kubeconfig: &Path) -> Self {
        self.argument(format!("--kube-api-content-type={}", sandbox::loops::preferred_format().media_type()))
            .argument(format!("--kubeconfig={}", kubeconfig.display()))
            .argument("--debug-address=127.0.0.1:0")
            .argument("--secure-port=0")
    }

    /// Any program, without arguments.
    pub fn program(name: &str, binary: &Path) -> Self {
        Self { name: name.to_owned(), binary: binary.to_owned(), arguments: Vec::new(), environment: Vec::new() }
    }

    /// One more argument.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// One more variable of the environment.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// What the process is called here; its binary's name otherwise.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Starts the process. Must be called inside a tokio runtime with I/O.
    pub fn start(self, clock: &Clock) -> Result<Process, Error> {
        let mut command = Command::new(&self.binary);
        command.args(&self.arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.envs(self.environment.iter().map(|(name, value)| (name, value))).kill_on_drop(true);
        let failed = |cause| Error::System { name: self.name.clone(), what: "cannot be started", cause };
        let mut child = command.spawn().map_err(failed)?;
        let log = Log::default();
        if let Some(out) = child.stdout.take() {
            log.follow(out);
        }
        if let Some(err) = child.stderr.take() {
            log.follow(err);
        }
        let pid = child.id().unwrap_or_default();
        let name = self.name.clone();
        let running = Arc::new(Running { name, child: Mutex::new(child), log, dismissed: AtomicBool::new(false) });
        Ok(Process { launch: self, running, pid, clock: clock.clone() })
    }
}

/// What there is of a process while it runs.
struct Running {
    name: String,
    child: Mutex<Child>,
    log: Log,
    /// Whether its end is wanted.
    dismissed: AtomicBool,
}

impl Running {
    fn check(&self) -> Result<(), Error> {
        match self.child.lock().try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => {
                Err(Error::Ended { name: self.name.clone(), status, last_words: self.log.last_words() })
            }
            Err(cause) => Err(Error::System { name: self.name.clone(), what: "cannot be waited for", cause }),
        }
    }
}

/// A process. Killed if it is dropped.
pub struct Process {
    launch: Launch,
    running: Arc<Running>,
    pid: u32,
    clock: Clock,
}

/// Sees whether somebody else's process has ended although nobody told it to.
#[derive(Clone)]
pub struct Witness(Weak<Running>);

impl Witness {
    /// Why it has ended, and the end of its log, if it has and nobody wanted it to.
    pub fn ended(&self) -> Option<(Error, Vec<String>)> {
        let running = self.0.upgrade().filter(|running| !running.dismissed.load(Ordering::Relaxed))?;
        let error = running.check().err()?;
        Some((error, running.log.lines()))
    }
}

impl Process {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.launch.name
    }

    /// Its id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// What it has logged, the newest lines of it.
    pub fn log(&self) -> Vec<String> {
        self.running.log.lines()
    }

    /// What it has cost so far; none once it has ended.
    pub fn usage(&self) -> Option<Usage> {
        Usage::of(self.pid)
    }

    /// Voluntary context switches of its running threads so far; none once it has ended.
    pub fn context_switches(&self) -> Option<u64> {
        usage::context_switches(self.pid)
    }

    /// Where it serves its diagnostics, once it has said so.
    pub fn debug_address(&self) -> Option<SocketAddr> {
        self.running.log.debug_address()
    }

    /// Waits until it answers `/readyz` with 200.
    pub async fn ready(&mut self, timeout: Duration) -> Result<(), Error> {
        let started = self.clock.instant();
        let mut last = String::new();
        loop {
            match self.get("/readyz?verbose").await {
                Ok((200, _)) => return Ok(()),
                Ok((_, body)) => last = body.trim().replace('\n', " "),
                Err(_) => {}
            }
            self.check()?;
            if self.late(started, timeout) {
                let last_words = if last.is_empty() { self.running.log.last_words() } else { last };
                return Err(self.timed_out("ready", timeout, last_words));
            }
            self.clock.sleep(Duration::from_millis(10)).await;
        }
    }

    /// Reads a path of its diagnostics: status and body.
    pub async fn get(&self, path: &str) -> io::Result<(u16, String)> {
        let address = self.debug_address().ok_or(io::ErrorKind::AddrNotAvailable)?;
        get(address, path).await
    }

    /// Why it does what it does with one object (`namespace/name`), in text for people.
    pub async fn explain(&self, key: &str) -> io::Result<String> {
        Ok(self.get(&format!("/debug/explain?format=text&key={key}")).await?.1)
    }

    /// Somebody who sees when it ends and was not to.
    pub fn witness(&self) -> Witness {
        Witness(Arc::downgrade(&self.running))
    }

    /// Its end is wanted from now on.
    fn dismiss(&self) {
        self.running.dismissed.store(true, Ordering::Relaxed);
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) -> Result<(), Error> {
        self.dismiss();
        self.signal(rustix::process::Signal::TERM)
    }

    /// Sends SIGKILL.
    pub fn kill(&self) -> Result<(), Error> {
        self.dismiss();
        self.signal(rustix::process::Signal::KILL)
    }

    /// Stops it where it is (SIGSTOP) until [`Self::resume`]: a process that hangs.
    pub fn pause(&self) -> Result<(), Error> {
        self.signal(rustix::process::Signal::STOP)
    }

    /// Lets it go on after [`Self::pause`].
    pub fn resume(&self) -> Result<(), Error> {
        self.signal(rustix::process::Signal::CONT)
    }

    fn signal(&self, signal: rustix::process::Signal) -> Result<(), Error> {
        let failed = |cause| Error::System { name: self.launch.name.clone(), what: "cannot be signalled", cause };
        // Only a child that has not been waited for still owns its id.
        let pid = self.running.child.lock().id().and_then(|pid| rustix::process::Pid::from_raw(pid.cast_signed()));
        let pid = pid.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        rustix::process::kill_process(pid, signal).map_err(|e| failed(e.into()))
    }

    /// Waits until it has ended.
    pub async fn ended(&mut self, timeout: Duration) -> Result<ExitStatus, Error> {
        self.dismiss();
        // Each look is a wait of its own: nobody holds the child in between.
        let ended = std::future::poll_fn(|context| pin!(self.running.child.lock().wait()).poll(context));
        match tokio::time::timeout(timeout, ended).await {
            Ok(Ok(status)) => Ok(status),
            Ok(Err(cause)) => {
                Err(Error::System { name: self.launch.name.clone(), what: "cannot be waited for", cause })
            }
            Err(_) => Err(self.timed_out("ended", timeout, self.running.log.last_words())),
        }
    }

    /// Ends it in order: SIGTERM, and SIGKILL if that does not help within `timeout`.
    pub async fn stop(mut self, timeout: Duration) -> Result<ExitStatus, Error> {
        if self.running.child.lock().id().is_some() {
            self.terminate()?;
        }
        match self.ended(timeout).await {
            Err(error @ Error::TimedOut { .. }) => {
                self.kill()?;
                self.ended(timeout).await?;
                Err(error)
            }
            result => result,
        }
    }

    /// Starts the same program with the same arguments again, in place of this one, which is killed if it still runs.
    pub fn restart(&mut self) -> Result<(), Error> {
        let next = self.launch.clone().start(&self.clock)?;
        *self = next;
        Ok(())
    }

    /// Fails if it has ended.
    pub fn check(&self) -> Result<(), Error> {
        self.running.check()
    }

    fn late(&self, started: Instant, timeout: Duration) -> bool {
        self.clock.instant() - started > timeout
    }

    fn timed_out(&self, what: &'static str, timeout: Duration, last_words: String) -> Error {
        Error::TimedOut { name: self.launch.name.clone(), what, seconds: timeout.as_secs(), last_words }
    }
}

/// The longest answer read.
const ANSWER_MAX: u64 = 16 << 20;

/// A GET over HTTP/1.0, whose answer ends with the connection.
async fn get(address: SocketAddr, path: &str) -> io::Result<(u16, String)> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(ANSWER_MAX).read_to_end(&mut answer).await?;
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::InvalidData)?;
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
        Ok((status, body.to_owned()))
    };
    match tokio::time::timeout(Duration::from_secs(5), exchange).await {
        Ok(result) => result,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

#[cfg(test)]
mod tests;
