//! Hand-overs of loops between kube-controller-manager and Nonet.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use super::{Context, Failure, OnProcesses as _, Outcome, PATIENT_ELECTION};
use crate::{
    cluster::ASSETS_VARIABLE,
    process::{Launch, Process},
    skips,
};

const PEER: &str = "kube-controller-manager";
const ENDING: Duration = Duration::from_secs(30);
/// The time in which kube-controller-manager fills its caches.
const FILLING: Duration = Duration::from_secs(2);

/// A loop that two processes run in turn.
pub struct Hands {
    peer: Option<PathBuf>,
    program: &'static str,
    name: &'static str,
}

/// The running one of the two processes.
pub enum Worker {
    /// kube-controller-manager, or the process that takes its part.
    Theirs(Process),
    /// The program of Nonet.
    Ours(Process),
}

impl Hands {
    /// The loop with this name in a program.
    ///
    /// Without kube-controller-manager, a second process of the same program takes its part. It runs without an election, and is
    /// killed while it works.
    pub fn find(program: &'static str, name: &'static str) -> Self {
        let peer = peer().inspect_err(|why| eprintln!("{why}: a second {program} takes the part of {PEER}"));
        skips::note(&format!("{name} and {PEER} in turn"), peer.as_ref().err().map(String::as_str));
        Self { peer: peer.ok(), program, name }
    }

    /// The condition of tests that compare the two: the binary of kube-controller-manager beside those of etcd and
    /// kube-apiserver.
    pub fn differ() -> Result<(), String> {
        peer().map(drop)
    }

    /// Starts kube-controller-manager with this loop alone, and gives it time to fill its caches.
    pub async fn theirs(&self, c: &Context) -> Result<Worker, Failure> {
        let Some(peer) = &self.peer else {
            let loops = format!("--controllers={}", self.name);
            return Ok(Worker::Theirs(c.start(self.program, &[&loops, "--leader-elect=false"]).await?));
        };
        let process = self.launch(c, peer)?;
        c.sleep(FILLING).await;
        Ok(Worker::Theirs(process))
    }

    fn launch(&self, c: &Context, binary: &Path) -> Result<Process, Failure> {
        let kubeconfig = c.cluster().kubeconfig().display().to_string();
        let process = Launch::program(PEER, binary)
            .argument(format!("--kubeconfig={kubeconfig}"))
            .argument(format!("--authentication-kubeconfig={kubeconfig}"))
            .argument(format!("--authorization-kubeconfig={kubeconfig}"))
            .argument(format!("--controllers={}", self.name))
            .argument("--leader-elect=false")
            .argument("--secure-port=0")
            .start(c.cluster().clock())?;
        Ok(process)
    }

    /// Starts the program of Nonet.
    pub async fn ours(&self, c: &Context) -> Result<Worker, Failure> {
        Ok(Worker::Ours(c.start(self.program, PATIENT_ELECTION).await?))
    }

    /// Stops one process and starts the other.
    pub async fn change(&self, c: &Context, worker: Worker) -> Result<Worker, Failure> {
        let theirs = matches!(worker, Worker::Theirs(_));
        worker.end().await?;
        if theirs { self.ours(c).await } else { self.theirs(c).await }
    }
}

fn peer() -> Result<PathBuf, String> {
    let assets = std::env::var_os(ASSETS_VARIABLE).ok_or_else(|| format!("{ASSETS_VARIABLE} is not set"))?;
    let peer = PathBuf::from(assets).join(PEER);
    if peer.is_file() { Ok(peer) } else { Err(format!("there is no {}", peer.display())) }
}

impl Worker {
    /// Stops the running process. kube-controller-manager is killed while it works, because it has no Lease to release.
    pub async fn end(self) -> Outcome {
        match self {
            Self::Theirs(mut process) => {
                process.kill()?;
                process.ended(ENDING).await?;
            }
            Self::Ours(process) => {
                process.stop(ENDING).await?;
            }
        }
        Ok(())
    }
}
