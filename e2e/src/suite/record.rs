//! What happened in a namespace, step by step.
//!
//! Two watches, whose events are put into one order by their versions: those of one server count its writes, whatever
//! was written.

use std::{collections::BTreeMap, sync::Arc};

use common::{
    api::{Api, Lines},
    gate::gate,
    object::Resource,
};
use serde_json::Value;
use tokio::{sync::oneshot, task::JoinHandle};

use super::{Context, Failure, objects::resources};

/// What is recorded.
const RECORDED: [Resource; 3] = [resources::DEPLOYMENTS, resources::REPLICA_SETS, resources::PODS];

/// A recording that goes on.
pub struct Recorder {
    start: State,
    watches: Vec<(Resource, JoinHandle<Vec<Seen>>, oneshot::Sender<u64>)>,
    context: Context,
}

/// One event of a watch.
#[derive(Clone, Debug)]
struct Seen {
    version: u64,
    resource: Resource,
    gone: bool,
    object: Arc<Value>,
}

/// The objects of a namespace between two writes, by name.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Deployments.
    pub deployments: BTreeMap<String, Arc<Value>>,
    /// ReplicaSets.
    pub replica_sets: BTreeMap<String, Arc<Value>>,
    /// Pods.
    pub pods: BTreeMap<String, Arc<Value>>,
}

impl State {
    fn of(&mut self, resource: Resource) -> &mut BTreeMap<String, Arc<Value>> {
        match resource.plural {
            "deployments" => &mut self.deployments,
            "replicasets" => &mut self.replica_sets,
            _ => &mut self.pods,
        }
    }

    /// The sum of the sizes of all ReplicaSets.
    pub fn size(&self) -> i64 {
        self.replica_sets.values().map(|s| s["spec"]["replicas"].as_i64().unwrap_or(0)).sum()
    }

    /// Pods that are Ready and stay.
    pub fn ready(&self) -> i64 {
        self.pods.values().filter(|p| super::is_ready(p.as_ref())).count() as i64
    }

    /// Pods that are neither ending nor ended.
    pub fn active(&self) -> i64 {
        let active = |p: &&Arc<Value>| {
            p["metadata"].get("deletionTimestamp").is_none()
                && !matches!(p["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
        };
        self.pods.values().filter(active).count() as i64
    }
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|v| v.parse().ok()).unwrap_or(0)
}

fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

impl Recorder {
    pub(super) async fn start(context: &Context) -> Result<Self, Failure> {
        let clock = context.cluster().clock().clone();
        // A recorder only reads: its gate may stay closed.
        let (_, gate) = gate(clock.clone());
        let api = Api::new(context.client().kube().clone(), clock, gate, "nonet-suite");
        let mut start = State::default();
        let mut watches = Vec::new();
        for resource in RECORDED {
            let path = resource.path(context.namespace(), "", "");
            let list = context.client().send("GET", &path, "", None).await?;
            for item in list["items"].as_array().into_iter().flatten() {
                start.of(resource).insert(name(item), Arc::new(item.clone()));
            }
            let query = format!(
                "watch=true&allowWatchBookmarks=true&timeoutSeconds=3600&resourceVersion={}",
                list["metadata"]["resourceVersion"].as_str().unwrap_or_default()
            );
            let lines = api.watch(resource, context.namespace(), &query, "application/json").await?;
            let (stop, stopped) = oneshot::channel();
            watches.push((resource, tokio::spawn(follow(resource, lines, stopped)), stop));
        }
        Ok(Self { start, watches, context: context.clone() })
    }

    /// Ends the recording, and says every state the namespace was in, the first one included.
    pub async fn stop(self) -> Result<Vec<State>, Failure> {
        let mut seen = Vec::new();
        for (resource, task, stop) in self.watches {
            // An event that must come, so that everything before it has come.
            let marker = self.context.client().list(resource, self.context.namespace(), "").await?;
            let newest = marker.iter().map(version).max().unwrap_or(0);
            let _ = stop.send(newest);
            seen.extend(task.await?);
        }
        seen.sort_by_key(|s| s.version);
        let mut state = self.start;
        let mut states = vec![state.clone()];
        for Seen { resource, gone, object, .. } in seen {
            let objects = state.of(resource);
            if gone {
                objects.remove(&name(&object));
            } else {
                objects.insert(name(&object), object);
            }
            states.push(state.clone());
        }
        Ok(states)
    }
}

/// Collects the events of a watch until it is told to stop, and then up to the version it is told.
async fn follow(resource: Resource, mut lines: Lines, mut stop: oneshot::Receiver<u64>) -> Vec<Seen> {
    let mut seen: Vec<Seen> = Vec::new();
    let mut until = None;
    loop {
        let reached = seen.last().map_or(0, |s| s.version);
        if until.is_some_and(|until| reached >= until) {
            return seen;
        }
        let line = tokio::select! {
            biased;
            line = lines.next() => line,
            told = &mut stop, if until.is_none() => {
                until = Some(told.unwrap_or(0));
                continue;
            }
            // Nothing more comes although it should: what is there must do.
            () = tokio::time::sleep(std::time::Duration::from_secs(2)), if until.is_some() => return seen,
        };
        let Ok(Some(line)) = line else { return seen };
        let Ok(mut event) = serde_json::from_slice::<Value>(&line) else { return seen };
        let gone = match event["type"].as_str() {
            Some("ADDED" | "MODIFIED") => false,
            Some("DELETED") => true,
            Some("BOOKMARK") => continue,
            _ => return seen,
        };
        let object = event["object"].take();
        seen.push(Seen { version: version(&object), resource, gone, object: Arc::new(object) });
    }
}
