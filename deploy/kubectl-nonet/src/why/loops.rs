//! Control loops that decide and never write. They read through a [`Reader`].

use std::{sync::Arc, time::Duration};

use common::{
    api::WireFormat,
    app::{LeadershipMode, RunningLoops, StartParameters, start_loops},
    clock::Clock,
    runtime::{LoopDefinition, RunningLoop},
    settings::{OperatorSettings, WATCH_LIST_CLIENT},
};
use serde::Deserialize;

use super::reader::Reader;

/// The pause between two questions whether the loops have read all lists.
const POLL_PERIOD: Duration = Duration::from_millis(2);
/// How long a loop may need to read what only some objects need, such as the Pods of a Deployment with the strategy `Recreate`.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// What a loop would do about an object now, and what it waits for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Decision {
    /// `acting`, `settled`, `waiting`, `failing` or `gone`.
    pub(super) state: String,
    /// The observed state in one line.
    pub(super) situation: String,
    /// The reasons why the object makes no progress.
    pub(super) waiting: Vec<String>,
    /// The requests that the loop would send.
    pub(super) actions: Vec<String>,
}

/// Loops that have read their lists.
pub(super) struct Loops {
    /// Ends the loops when it is dropped.
    _running: RunningLoops,
    started: Vec<(&'static str, Arc<dyn RunningLoop>)>,
    clock: Clock,
}

impl Loops {
    /// Starts the loops, and waits until they have read their lists. A loop that has not read them after `limit` decides nothing.
    pub(super) async fn start(
        reader: &Arc<Reader>,
        clock: &Clock,
        definitions: &[LoopDefinition],
        limit: Duration,
    ) -> Self {
        // In shadow mode, the workers decide and never write, so that loops read what only some objects need.
        let settings = OperatorSettings::new().with_feature_gate(WATCH_LIST_CLIENT.name, false).with_shadow_mode(true);
        let running = start_loops(StartParameters {
            settings: Arc::new(settings),
            leadership: LeadershipMode::Never,
            preferred_response_format: WireFormat::Json,
            ..StartParameters::new(reader.loop_client(), clock.clone(), definitions)
        });
        let begin = clock.monotonic_now();
        loop {
            let mut started = running.started_loops();
            if clock.monotonic_now().saturating_duration_since(begin) > limit {
                started.retain(|(_, each)| each.check_ready().is_ok());
                return Self { _running: running, started, clock: clock.clone() };
            }
            if started.len() == definitions.len() && started.iter().all(|(_, each)| each.check_ready().is_ok()) {
                return Self { _running: running, started, clock: clock.clone() };
            }
            clock.sleep(POLL_PERIOD).await;
        }
    }

    /// Returns what the loop `name` decides about an object; `None` if the loop does not run, or has nothing to say.
    pub(super) async fn decide(&self, name: &str, key: &str) -> Option<Decision> {
        let (_, each) = self.started.iter().find(|(started, _)| *started == name)?;
        let begin = self.clock.monotonic_now();
        loop {
            let decision: Decision = serde_json::from_value(each.explain(Some(key))).ok()?;
            let is_early = self.clock.monotonic_now().saturating_duration_since(begin) < MAX_WAIT;
            match decision.state.as_str() {
                "" | "gone" => return None,
                "waiting" if is_early => self.clock.sleep(POLL_PERIOD).await,
                _ => return Some(decision),
            }
        }
    }
}
