//! Control loops in this process: put together as the binaries do it, without flags and with an election that tests play.

use std::sync::Arc;

use common::{
    api::WireFormat,
    app::{LeadershipMode, RunningLoops, StartParameters, start_loops},
    clock::Clock,
    gate::{WriteGateKeeper, closed_write_gate},
    io::SyncCallbacks,
    metrics::Metrics,
    runtime::{LoopDefinition, RunningLoop},
    settings::OperatorSettings,
    succession::{WriteLog, WrittenVersions},
};

/// The format in which loops under test list and watch: protobuf, or that of the environment variable `NONET_CONTENT_TYPE`.
pub fn preferred_format() -> WireFormat {
    let chosen = std::env::var("NONET_CONTENT_TYPE").ok();
    chosen.and_then(|media_type| WireFormat::from_media_type(&media_type)).unwrap_or(WireFormat::Protobuf)
}

/// Loops that run as tasks of this process, all of one leader. Dropping them is a crash: nothing is finished or released.
pub struct Loops {
    keeper: Arc<WriteGateKeeper>,
    writes: WriteLog,
    clock: Clock,
    assembly: RunningLoops,
}

impl Loops {
    /// Starts these loops with the permission to write.
    pub fn start(
        client: &kube::Client,
        clock: &Clock,
        settings: OperatorSettings,
        definitions: &[LoopDefinition],
    ) -> Self {
        let loops = Self::stand_by(client, clock, settings, definitions);
        loops.lead();
        loops
    }

    /// Starts these loops without the permission to write: they fill their caches and wait.
    pub fn stand_by(
        client: &kube::Client,
        clock: &Clock,
        settings: OperatorSettings,
        definitions: &[LoopDefinition],
    ) -> Self {
        Self::stand_by_observed(client, clock, settings, definitions, None)
    }

    /// The same, with somebody who sees the accounts of their syncs.
    pub fn stand_by_observed(
        client: &kube::Client,
        clock: &Clock,
        settings: OperatorSettings,
        definitions: &[LoopDefinition],
        accounts: Option<Arc<dyn SyncCallbacks>>,
    ) -> Self {
        let (keeper, gate) = closed_write_gate(clock.clone());
        let (keeper, writes) = (Arc::new(keeper), WriteLog::default());
        let leadership = LeadershipMode::SetByCaller { keeper: Arc::clone(&keeper), gate, writes: writes.clone() };
        let settings = Arc::new(settings);
        let parts = StartParameters {
            preferred_response_format: preferred_format(),
            ..StartParameters::new(client.clone(), clock.clone(), definitions)
        };
        let assembly = start_loops(StartParameters { settings, leadership, sync_callbacks: accounts, ..parts });
        Self { keeper, writes, clock: clock.clone(), assembly }
    }

    /// Gives the permission to write.
    pub fn lead(&self) {
        self.keeper.open_without_deadline();
    }

    /// What opens and closes their gate, for who plays the election.
    pub fn keeper(&self) -> &Arc<WriteGateKeeper> {
        &self.keeper
    }

    /// What a leader that ends in good order leaves to the next.
    pub fn left(&self) -> Option<WrittenVersions> {
        self.writes.written_versions_for_successor(self.clock.monotonic_now())
    }

    /// Takes over what a predecessor has left, before these loops lead.
    pub fn inherit(&self, left: Option<WrittenVersions>) {
        if let Some(left) = &left {
            self.writes.inherit_written_versions(left);
        }
        self.keeper.set_versions_written_by_predecessor(left);
    }

    /// Takes the permission to write away, at once.
    pub fn depose(&self) {
        self.keeper.close();
    }

    /// Whether every cache is filled; otherwise what is waited for.
    pub fn ready(&self) -> Result<(), String> {
        self.running().try_for_each(|l| l.check_ready())
    }

    /// What is wrong with them that does not keep them from their work.
    pub fn troubles(&self) -> Vec<String> {
        self.running().filter_map(|l| l.problems_besides_readiness()).collect()
    }

    /// What their queues hold.
    pub fn queues(&self) -> serde_json::Value {
        self.running().map(|l| l.debug_queue()).collect()
    }

    /// What their caches hold.
    pub fn caches(&self) -> serde_json::Value {
        self.running().map(|l| l.debug_cache()).collect()
    }

    /// What the loops say of one key, or of all.
    pub fn explain(&self, key: Option<&str>) -> serde_json::Value {
        self.running().map(|l| l.explain(key)).collect()
    }

    /// When the loops decided to act on a key, and the actions, in order; each loop remembers its last 128 such plans.
    pub fn plans(&self, key: &str) -> Vec<(jiff::Timestamp, Vec<String>)> {
        let mut plans = Vec::new();
        for explained in self.running().map(|running| running.explain(None)) {
            for plan in explained["recent"].as_array().into_iter().flatten().filter(|plan| plan["key"] == key) {
                let at = plan["at"].as_str().and_then(|at| at.parse().ok()).unwrap_or_default();
                let actions = plan["actions"].as_array().into_iter().flatten();
                plans.push((at, actions.filter_map(|action| action.as_str().map(str::to_owned)).collect()));
            }
        }
        plans.sort();
        plans
    }

    /// Their metrics.
    pub fn metrics(&self) -> &Metrics {
        self.assembly.metrics()
    }

    fn running(&self) -> impl Iterator<Item = Arc<dyn RunningLoop>> {
        self.assembly.started_loops().into_iter().map(|(_, running)| running)
    }

    /// Ends them in order: syncs in progress are finished, Events are sent.
    pub async fn shutdown(self) {
        self.assembly.shutdown(None).await;
    }
}
