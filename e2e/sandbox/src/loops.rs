//! Control loops in this process: the real code without a binary, flags or an election around it.

use std::sync::Arc;

use common::{
    api::Api,
    clock::Clock,
    events,
    gate::{Keeper, gate},
    metrics::Metrics,
    runtime::{Context, LoopDefinition, Running, Shared},
    sequence::AccountObserver,
    settings::Settings,
    succession::{Left, Writes},
};

/// Loops that run as tasks of this process, all of one leader. Dropping them is a crash: nothing is finished or released.
pub struct Loops {
    keeper: Arc<Keeper>,
    writes: Writes,
    clock: Clock,
    running: Vec<Arc<dyn Running>>,
    events: events::Sender,
    metrics: Metrics,
}

impl Loops {
    /// Starts these loops with the permission to write.
    pub fn start(client: &kube::Client, clock: &Clock, settings: Settings, definitions: &[LoopDefinition]) -> Self {
        let loops = Self::stand_by(client, clock, settings, definitions);
        loops.lead();
        loops
    }

    /// Starts these loops without the permission to write: they fill their caches and wait.
    pub fn stand_by(client: &kube::Client, clock: &Clock, settings: Settings, definitions: &[LoopDefinition]) -> Self {
        Self::stand_by_observed(client, clock, settings, definitions, None)
    }

    /// The same, with somebody who sees the accounts of their syncs.
    pub fn stand_by_observed(
        client: &kube::Client,
        clock: &Clock,
        settings: Settings,
        definitions: &[LoopDefinition],
        accounts: Option<Arc<dyn AccountObserver>>,
    ) -> Self {
        let (keeper, gate) = gate(clock.clone());
        let metrics = Metrics::new();
        let (settings, shared, writes) = (Arc::new(settings), Shared::default(), Writes::default());
        let api = |name: &str| Api::new(client.clone(), clock.clone(), gate.clone(), &common::client::user_agent(name));
        let events = events::Sender::start(api("events"), &metrics);
        let start = |definition: &LoopDefinition| {
            (definition.start)(Context {
                api: api(definition.client).with_writes(writes.clone()),
                clock: clock.clone(),
                gate: gate.clone(),
                settings: Arc::clone(&settings),
                metrics: metrics.clone(),
                recorder: events
                    .recorder(events::Source { component: definition.component, client: definition.client }),
                accounts: accounts.clone(),
                shared: shared.clone(),
            })
        };
        let running = definitions.iter().map(start).collect();
        Self { keeper: Arc::new(keeper), writes, clock: clock.clone(), running, events, metrics }
    }

    /// Gives the permission to write.
    pub fn lead(&self) {
        self.keeper.open();
    }

    /// What opens and closes their gate, for who plays the election.
    pub fn keeper(&self) -> &Arc<Keeper> {
        &self.keeper
    }

    /// What a leader that ends in good order leaves to the next.
    pub fn left(&self) -> Option<Left> {
        self.writes.left(self.clock.instant())
    }

    /// Takes over what a predecessor has left, before these loops lead.
    pub fn inherit(&self, left: Option<Left>) {
        if let Some(left) = &left {
            self.writes.inherit(left);
        }
        self.keeper.inherit(left);
    }

    /// Takes the permission to write away, at once.
    pub fn depose(&self) {
        self.keeper.close();
    }

    /// Whether every cache is filled; otherwise what is waited for.
    pub fn ready(&self) -> Result<(), String> {
        self.running.iter().try_for_each(|l| l.ready())
    }

    /// What is wrong with them that does not keep them from their work.
    pub fn troubles(&self) -> Vec<String> {
        self.running.iter().filter_map(|l| l.troubles()).collect()
    }

    /// What their queues hold.
    pub fn queues(&self) -> serde_json::Value {
        self.running.iter().map(|l| l.debug_queue()).collect()
    }

    /// What the loops say of one key, or of all.
    pub fn explain(&self, key: Option<&str>) -> serde_json::Value {
        self.running.iter().map(|l| l.explain(key)).collect()
    }

    /// When the loops decided to act on a key, and the actions, in order; each loop remembers its last 128 such plans.
    pub fn plans(&self, key: &str) -> Vec<(jiff::Timestamp, Vec<String>)> {
        let mut plans = Vec::new();
        for explained in self.running.iter().map(|running| running.explain(None)) {
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
        &self.metrics
    }

    /// Ends them in order: syncs in progress are finished, Events are sent.
    pub async fn shutdown(self) {
        for running in &self.running {
            running.shutdown().await;
        }
        self.events.flush().await;
    }
}
