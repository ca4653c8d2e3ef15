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
pub use binary::{chosen_directory, find};
use log::Log;
pub use received::Received;
pub use usage::{Usage, proportional_memory};

/// The environment variable with the directory of the binaries.
pub const BIN_DIR_VARIABLE: &str = "NONET_BIN_DIR";

/// The reason why a process cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The binary was not found.
    #[error("the program {name} cannot be found: {why}")]
    NoBinary {
        /// Which.
        name: String,
        /// The lookup that failed.
        why: String,
    },
    /// A call of the operating system failed.
    #[error("{name}: {what}: {cause}")]
    System {
        /// The name of the process.
        name: String,
        /// The attempted operation.
        what: &'static str,
        /// The error of the system.
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
    /// It did not reach a state in time.
    #[error("{name} is not {what} after {seconds} s: {last_words}")]
    TimedOut {
        /// Which.
        name: String,
        /// The awaited state.
        what: &'static str,
        /// The time limit in seconds.
        seconds: u64,
        /// The end of its log, or of its answer.
        last_words: String,
    },
}

/// The command of a process, with its arguments and its environment.
#[derive(Clone, Debug)]
pub struct Launch {
    name: String,
    binary: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Launch {
    /// A controller of the workspace. It uses the API server of `kubeconfig`, and serves its diagnostics on a free loopback
    /// port and nothing on its usual port.
    pub fn controller(name: &str, kubeconfig: &Path) -> Result<Self, Error> {
        Ok(Self::program(name, &find(name)?).controlling(kubeconfig))
    }

    /// The same controller, as a process of the running program, which must call [`crate::controllers::main`] first.
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
            .argument("--lead-without-release")
    }

    /// Any program, without arguments.
    pub fn program(name: &str, binary: &Path) -> Self {
        Self { name: name.to_owned(), binary: binary.to_owned(), arguments: Vec::new(), environment: Vec::new() }
    }

    /// Adds an argument.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Adds an environment variable.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
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

struct Running {
    name: String,
    child: Mutex<Child>,
    log: Log,
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

/// A process, which is killed when this is dropped.
pub struct Process {
    launch: Launch,
    running: Arc<Running>,
    pid: u32,
    clock: Clock,
}

/// Observes whether a process that another owner holds has ended unexpectedly.
#[derive(Clone)]
pub struct Witness(Weak<Running>);

impl Witness {
    /// The error and the end of the log of a process that has ended unexpectedly; `None` otherwise.
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

    /// The newest lines of its log.
    pub fn log(&self) -> Vec<String> {
        self.running.log.lines()
    }

    /// Its processor time and memory so far; `None` after its end.
    pub fn usage(&self) -> Option<Usage> {
        Usage::of(self.pid)
    }

    /// Voluntary context switches of its running threads so far; `None` after its end.
    pub fn context_switches(&self) -> Option<u64> {
        usage::context_switches(self.pid)
    }

    /// The address of its diagnostics, after it has logged it.
    pub fn debug_address(&self) -> Option<SocketAddr> {
        self.running.log.debug_address()
    }

    /// Waits until it answers `/readyz` with 200.
    pub async fn ready(&mut self, timeout: Duration) -> Result<(), Error> {
        let started = self.clock.monotonic_now();
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

    /// Its explanation of one object (`namespace/name`), as text.
    pub async fn explain(&self, key: &str) -> io::Result<String> {
        Ok(self.get(&format!("/debug/explain?format=text&key={key}")).await?.1)
    }

    /// An observer of its unexpected end.
    pub fn witness(&self) -> Witness {
        Witness(Arc::downgrade(&self.running))
    }

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

    /// Pauses it by SIGSTOP until [`Self::resume`], so that it hangs.
    pub fn pause(&self) -> Result<(), Error> {
        self.signal(rustix::process::Signal::STOP)
    }

    /// Continues it after [`Self::pause`].
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

    /// Stops it by SIGTERM, and by SIGKILL if it has not ended within `timeout`.
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

    /// Replaces it by a new process with the same arguments. A process that still runs is killed.
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
        self.clock.monotonic_now() - started > timeout
    }

    fn timed_out(&self, what: &'static str, timeout: Duration, last_words: String) -> Error {
        Error::TimedOut { name: self.launch.name.clone(), what, seconds: timeout.as_secs(), last_words }
    }
}

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
