//! The controllers of the playground: processes that are started, asked what they do, and ended.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use common::{app::Definition, clock::Clock};
use jiff::Timestamp;
use serde::Deserialize;
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};

use crate::{
    process::{Error, Launch, Process, Usage},
    scrape::Samples,
};

/// How often controllers are asked what they do ...
const EVERY: Duration = Duration::from_millis(200);
/// ... and how often while they do nothing and nobody asks for anything else: idle controllers should be seen idle.
const EVERY_IDLE: Duration = Duration::from_secs(2);
/// How long a controller may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// Whether a controller lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It does not answer yet.
    Starting,
    /// It answers.
    Running,
    /// It has ended, although nobody told it to: its last words.
    Ended(String),
}

/// One plan that a controller carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Deed {
    pub(super) at: Timestamp,
    pub(super) key: String,
    pub(super) situation: String,
    pub(super) actions: Vec<String>,
}

/// What a controller says of itself.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub(super) name: String,
    pub(super) pid: u32,
    pub(super) state: State,
    /// Where it serves its diagnostics.
    pub(super) diagnostics: Option<std::net::SocketAddr>,
    pub(super) leads: bool,
    /// Keys in its work queues.
    pub(super) depth: u64,
    /// Requests it has sent.
    pub(super) requests: u64,
    pub(super) usage: Usage,
    /// What failed last, by key.
    pub(super) failing: Vec<(String, String)>,
    /// What is waited for, by key.
    pub(super) waiting: Vec<(String, Vec<String>)>,
    /// What it did since the last report, oldest first.
    pub(super) deeds: Vec<Deed>,
}

/// `/debug/explain` of one loop.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Explained {
    recent: Vec<Recent>,
    failing: Vec<Key>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Recent {
    at: String,
    key: String,
    situation: String,
    actions: Vec<String>,
}

/// `/debug/explain` of one key.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Key {
    #[serde(rename = "key")]
    name: String,
    state: String,
    waiting: Vec<String>,
    last_error: Option<LastError>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LastError {
    error: String,
}

/// Running controllers. They are killed if this is dropped without [`Processes::stop`].
pub(super) struct Processes {
    reports: mpsc::UnboundedReceiver<Vec<Report>>,
    questions: watch::Sender<Vec<String>>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// One of them, with what is known of it.
struct Player {
    process: Process,
    state: State,
    seen: Timestamp,
}

/// Finds the binaries; under cargo they are built first, which may take minutes.
pub(super) fn find(chosen: &[&'static Definition]) -> Result<(), Error> {
    chosen.iter().try_for_each(|definition| crate::process::find(definition.name).map(drop))
}

impl Processes {
    /// Starts controllers, each with its own kubeconfig.
    pub(super) fn start(controllers: &[(&'static Definition, PathBuf)], clock: &Clock) -> Result<Self, Error> {
        let mut players = Vec::new();
        for (definition, kubeconfig) in controllers {
            let process = Launch::controller(definition.name, kubeconfig)?.start(clock)?;
            players.push(Player { process, state: State::Starting, seen: Timestamp::MIN });
        }
        let (to_reports, reports) = mpsc::unbounded_channel();
        let (questions, asked) = watch::channel(Vec::new());
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(run(players, to_reports, asked, stopped, clock.clone()));
        Ok(Self { reports, questions, stop, task })
    }

    /// The next reports; none once all controllers were stopped.
    pub(super) async fn next(&mut self) -> Option<Vec<Report>> {
        self.reports.recv().await
    }

    /// Of which keys the next reports are to say what is waited for.
    pub(super) fn ask(&self, keys: Vec<String>) {
        self.questions.send_if_modified(|asked| {
            let changed = *asked != keys;
            *asked = keys;
            changed
        });
    }

    /// Ends all controllers in order and waits for them.
    pub(super) async fn stop(self) {
        // The task has ended by itself if nobody listens.
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
            () = clock.sleep(every) => {}
        }
        let questions = asked.borrow_and_update().clone();
        let all = players.iter_mut().map(|player| player.report(&questions));
        let all = tokio::select! {
            biased;
            _ = stopped.wait_for(|stop| *stop) => break,
            all = futures::future::join_all(all) => all,
        };
        let busy =
            |r: &Report| r.state == State::Starting || r.depth > 0 || !r.deeds.is_empty() || !r.failing.is_empty();
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

impl Player {
    async fn report(&mut self, questions: &[String]) -> Report {
        let mut report = Report {
            name: self.process.name().to_owned(),
            pid: self.process.pid(),
            state: self.state.clone(),
            diagnostics: self.process.debug_address(),
            leads: false,
            depth: 0,
            requests: 0,
            usage: self.process.usage().unwrap_or_default(),
            failing: Vec::new(),
            waiting: Vec::new(),
            deeds: Vec::new(),
        };
        if let Err(error) = self.process.check() {
            self.state = State::Ended(error.to_string());
            report.state = self.state.clone();
            return report;
        }
        if let Ok((200, text)) = self.process.get("/metrics").await {
            self.state = State::Running;
            report.state = State::Running;
            let samples = Samples::parse(&text);
            let sum = |name: &str| samples.sum(name).unwrap_or(0.0);
            report.leads = sum("leader_election_master_status") > 0.0;
            report.depth = sum("workqueue_depth") as u64;
            report.requests = sum("rest_client_requests_total") as u64;
        }
        if let Ok((200, text)) = self.process.get("/debug/explain").await {
            let loops: BTreeMap<String, Explained> = serde_json::from_str(&text).unwrap_or_default();
            let since = self.seen;
            for explained in loops.into_values() {
                let errors = explained.failing.into_iter().filter_map(|k| Some((k.name, k.last_error?.error)));
                report.failing.extend(errors);
                for recent in explained.recent {
                    let Ok(at) = recent.at.parse::<Timestamp>() else { continue };
                    if at > since {
                        let Recent { key, situation, actions, .. } = recent;
                        report.deeds.push(Deed { at, key, situation, actions });
                        self.seen = self.seen.max(at);
                    }
                }
            }
            report.deeds.sort_by_key(|deed| deed.at);
        }
        for question in questions {
            let Ok((200, text)) = self.process.get(&format!("/debug/explain?key={question}")).await else { continue };
            let loops: BTreeMap<String, Key> = serde_json::from_str(&text).unwrap_or_default();
            for answer in loops.into_values().filter(|key| key.state != "gone" && !key.waiting.is_empty()) {
                report.waiting.push((answer.name, answer.waiting));
            }
        }
        report
    }
}
