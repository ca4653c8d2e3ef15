//! The processes of the controllers: starts them, asks for their diagnostics, restarts those that end, and stops them.

use std::{
    collections::BTreeMap,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Result;
use common::{
    app::ProgramDefinition,
    clock::{Clock, Instant},
};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};

use crate::{
    process::{Error, Launch, Process, Usage, chosen_directory},
    scrape::Samples,
};

/// The period of requests for diagnostics ...
const EVERY: Duration = Duration::from_millis(200);
/// ... and the longer period while all controllers are idle, so that the requests do not keep them busy.
const EVERY_IDLE: Duration = Duration::from_secs(2);
/// Time limit for a controller to end.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause before a controller that ended is restarted. It doubles each time ...
const RESTART_FIRST: Duration = Duration::from_secs(1);
/// ... up to this pause.
const RESTART_LAST: Duration = Duration::from_secs(60);

/// The state of the process of a controller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// It does not answer requests yet.
    #[default]
    Starting,
    Running,
    /// It has ended, and the playground did not stop it. The text has the exit status and the end of its log. It will be
    /// restarted.
    Ended(String),
}

/// One sync of a controller that had a plan.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Deed {
    pub(super) at: Timestamp,
    pub(super) key: String,
    pub(super) actions: Vec<String>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Report {
    pub(super) name: String,
    pub(super) pid: u32,
    pub(super) state: State,
    pub(super) diagnostics: Option<std::net::SocketAddr>,
    pub(super) leads: bool,
    pub(super) restarts: u32,
    /// The number of keys in its work queues.
    pub(super) depth: u64,
    /// The number of requests that it has sent.
    pub(super) requests: u64,
    pub(super) usage: Usage,
    /// The last error of each failing key.
    pub(super) failing: Vec<(String, String)>,
    pub(super) waiting: Vec<(String, Vec<String>)>,
    /// Its actions since the last report, oldest first.
    pub(super) deeds: Vec<Deed>,
}

/// The running controllers. Dropping this without [`Processes::stop`] kills them.
pub(super) struct Processes {
    reports: mpsc::UnboundedReceiver<Vec<Report>>,
    questions: watch::Sender<Vec<String>>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// The process of one controller, with its last report.
struct Player {
    process: Process,
    state: State,
    seen: Timestamp,
    /// The time of the restart, if it has ended.
    restart_at: Option<Instant>,
    restarts: u32,
    clock: Clock,
}

/// The command of a controller: this program, or a binary in the directory that `NONET_BIN_DIR` names.
fn launch(name: &str, kubeconfig: &Path) -> Result<Launch, Error> {
    match chosen_directory() {
        Some(_) => Launch::controller(name, kubeconfig),
        None => Launch::own_controller(name, kubeconfig),
    }
}

impl Processes {
    /// Starts controllers, each with its own kubeconfig.
    pub(super) fn start(controllers: &[(&'static ProgramDefinition, PathBuf)], clock: &Clock) -> Result<Self> {
        let mut players = Vec::new();
        for (definition, kubeconfig) in controllers {
            let process = launch(definition.name, kubeconfig)?.start(clock)?;
            players.push(Player::new(process, clock));
        }
        let (to_reports, reports) = mpsc::unbounded_channel();
        let (questions, asked) = watch::channel(Vec::new());
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(run(players, to_reports, asked, stopped, clock.clone()));
        Ok(Self { reports, questions, stop, task })
    }

    /// The next reports; `None` after all controllers were stopped.
    pub(super) async fn next(&mut self) -> Option<Vec<Report>> {
        self.reports.recv().await
    }

    /// Sets the keys whose reasons for waiting the next reports contain.
    pub(super) fn ask(&self, keys: Vec<String>) {
        self.questions.send_if_modified(|asked| {
            let changed = *asked != keys;
            *asked = keys;
            changed
        });
    }

    /// Stops all controllers and waits until they have ended.
    pub(super) async fn stop(self) {
        // The task ends when the receiver of its reports is dropped.
        let _ = self.stop.send(true);
        let _ = self.task.await;
    }
}

async fn run(
    mut players: Vec<Player>,
    reports: mpsc::UnboundedSender<Vec<Report>>,
    mut asked: watch::Receiver<Vec<String>>,
    mut stopped: watch::Receiver<bool>,
    clock: Clock,
) {
    let mut every = EVERY;
    loop {
        tokio::select! {
            biased;
            _ = stopped.wait_for(|stop| *stop) => break,
            Ok(()) = asked.changed() => {}
            () = until_due(&players, every, &clock) => {}
        }
        let questions = asked.borrow_and_update().clone();
        let all = players.iter_mut().map(|player| player.report(&questions));
        let all = tokio::select! {
            biased;
            _ = stopped.wait_for(|stop| *stop) => break,
            all = futures::future::join_all(all) => all,
        };
        let busy =
            |r: &Report| r.state != State::Running || r.depth > 0 || !r.deeds.is_empty() || !r.failing.is_empty();
        every = if questions.is_empty() && !all.iter().any(busy) { EVERY_IDLE } else { EVERY };
        if reports.send(all).is_err() {
            break;
        }
    }
    let ends = players.into_iter().map(|player| player.process.stop(END_TIMEOUT));
    for ended in futures::future::join_all(ends).await {
        if let Err(error) = ended {
            tracing::warn!(err = %error, "A controller did not end in order");
        }
    }
}

/// Waits for the period, or until a controller ends or has to be restarted.
async fn until_due(players: &[Player], every: Duration, clock: &Clock) {
    let due = clock.monotonic_now() + every;
    loop {
        clock.sleep(EVERY.min(every)).await;
        let ended = |player: &Player| player.state == State::Running && player.process.check().is_err();
        if clock.monotonic_now() >= due || players.iter().any(ended) {
            return;
        }
    }
}

/// The pause before the next restart of a controller that was restarted `restarts` times.
fn restart_delay(restarts: u32) -> Duration {
    RESTART_FIRST.saturating_mul(1 << restarts.min(16)).min(RESTART_LAST)
}

/// The exit status of a process, without its name. The log is added for an exit, but not for a signal, which it cannot explain.
fn ending(error: &Error) -> String {
    match error {
        Error::Ended { status, .. } if status.signal().is_some() => format!("ended with {status}"),
        Error::Ended { status, last_words, .. } => format!("ended with {status}: {last_words}"),
        other => other.to_string(),
    }
}

impl Player {
    fn new(process: Process, clock: &Clock) -> Self {
        let (state, seen) = (State::Starting, Timestamp::MIN);
        Self { process, state, seen, restart_at: None, restarts: 0, clock: clock.clone() }
    }

    /// Updates the state from the process, and restarts it when the pause is over.
    fn supervise(&mut self) {
        let Err(error) = self.process.check() else { return };
        let now = self.clock.monotonic_now();
        let Some(restart_at) = self.restart_at else {
            let delay = restart_delay(self.restarts);
            self.restart_at = Some(now + delay);
            self.state = State::Ended(format!("{}; it is started again in {} s", ending(&error), delay.as_secs()));
            return;
        };
        if now < restart_at {
            return;
        }
        self.restarts += 1;
        self.restart_at = None;
        match self.process.restart() {
            Ok(()) => self.state = State::Starting,
            Err(error) => {
                // The next update finds the old process ended, and tries the restart again.
                self.state = State::Ended(error.to_string());
            }
        }
    }

    async fn report(&mut self, questions: &[String]) -> Report {
        self.supervise();
        let mut report = Report {
            name: self.process.name().to_owned(),
            pid: self.process.pid(),
            state: self.state.clone(),
            diagnostics: self.process.debug_address(),
            restarts: self.restarts,
            usage: self.process.usage().unwrap_or_default(),
            ..Report::default()
        };
        if matches!(self.state, State::Ended(_)) {
            return report;
        }
        if let Ok((200, text)) = self.process.get("/metrics").await {
            self.state = State::Running;
            report.state = State::Running;
            let samples = Samples(text);
            report.leads = samples.sum("leader_election_master_status") > 0.0;
            report.depth = samples.sum("workqueue_depth") as u64;
            report.requests = samples.sum("rest_client_requests_total") as u64;
        }
        let since = self.seen;
        for explained in self.explain("").await {
            for key in items(&explained["failing"]) {
                if let (Some(name), Some(error)) = (key["key"].as_str(), key["lastError"]["error"].as_str()) {
                    report.failing.push((name.to_owned(), error.to_owned()));
                }
            }
            let deeds = items(&explained["recent"]).filter_map(|recent| Deed::deserialize(recent).ok());
            report.deeds.extend(deeds.filter(|deed| deed.at > since));
        }
        report.deeds.sort_by_key(|deed| deed.at);
        self.seen = report.deeds.last().map_or(since, |deed| deed.at);
        for question in questions {
            let answers = self.explain(&format!("?key={question}")).await.into_iter();
            for answer in answers.filter(|answer| answer["state"] != "gone") {
                let why: Vec<String> = items(&answer["waiting"]).filter_map(Value::as_str).map(str::to_owned).collect();
                if !why.is_empty() {
                    report.waiting.push((answer["key"].as_str().unwrap_or_default().to_owned(), why));
                }
            }
        }
        report
    }

    /// The answer of `/debug/explain` for each loop.
    async fn explain(&self, query: &str) -> Vec<Value> {
        let Ok((200, text)) = self.process.get(&format!("/debug/explain{query}")).await else { return Vec::new() };
        serde_json::from_str::<BTreeMap<String, Value>>(&text).unwrap_or_default().into_values().collect()
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_controller_that_ended_is_started_again_after_a_pause() {
        tokio::time::pause();
        let clock = Clock::simulated(Timestamp::UNIX_EPOCH, 1);
        let program = Launch::program("gc-controller", Path::new("/bin/sh")).argument("-c").argument("exit 3");
        let mut player = Player::new(program.start(&clock).unwrap(), &clock);
        let first = player.process.pid();
        while player.process.check().is_ok() {
            std::thread::yield_now();
        }
        player.supervise();
        let State::Ended(why) = &player.state else { panic!("{:?}", player.state) };
        assert!(why.contains("exit status: 3") && why.ends_with("started again in 1 s"), "{why}");
        player.supervise();
        assert_eq!((player.process.pid(), player.restarts), (first, 0), "not before the pause is over");
        tokio::time::advance(RESTART_FIRST).await;
        player.supervise();
        assert_eq!((&player.state, player.restarts), (&State::Starting, 1));
        assert_ne!(player.process.pid(), first);
    }

    #[test]
    fn the_pause_doubles_up_to_a_minute() {
        let seconds: Vec<u64> = [0, 1, 2, 5, 6, 60].into_iter().map(|n| restart_delay(n).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 32, 60, 60]);
    }
}
