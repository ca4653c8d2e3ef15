//! The history of a namespace: all changes of its objects in order.
//!
//! Two watches, whose events are put into one order by their versions. The versions of a server count all of its writes.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::{
    api::{Api, WatchFrames},
    gate::closed_write_gate,
    object::Resource,
};
use serde_json::Value;
use tokio::{sync::oneshot, task::JoinHandle};

use super::{Context, Failure, Outcome, objects::resources};

const RECORDED: [Resource; 3] = [resources::DEPLOYMENTS, resources::REPLICA_SETS, resources::PODS];

/// The time limit for the event of an object that was already read.
const SILENCE: Duration = Duration::from_secs(30);

type Following = JoinHandle<Result<Vec<Seen>, Failure>>;

/// A running recording.
pub struct Recorder {
    start: State,
    watches: Vec<(Resource, Following, oneshot::Sender<u64>)>,
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
    fn of(&mut self, resource: &Resource) -> &mut BTreeMap<String, Arc<Value>> {
        match resource.plural() {
            "deployments" => &mut self.deployments,
            "replicasets" => &mut self.replica_sets,
            _ => &mut self.pods,
        }
    }

    /// The sum of the sizes of all ReplicaSets.
    pub fn size(&self) -> i64 {
        self.replica_sets.values().map(|s| s["spec"]["replicas"].as_i64().unwrap_or(0)).sum()
    }

    /// Pods that are ready and not terminating.
    pub fn ready(&self) -> i64 {
        self.pods.values().filter(|p| super::is_ready(p.as_ref())).count() as i64
    }

    /// Pods that are neither terminating nor finished.
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
        let clock = context.clock().clone();
        // A recorder only reads: its gate may stay closed.
        let (_, gate) = closed_write_gate(clock.clone());
        let api = Api::new(context.client().kube().clone(), clock, gate, "nonet-suite");
        let mut start = State::default();
        let mut watches = Vec::new();
        for resource in RECORDED {
            let path = resource.path(context.namespace(), "", "");
            let list = context.client().send("GET", &path, "", None).await?;
            for item in list["items"].as_array().into_iter().flatten() {
                start.of(&resource).insert(name(item), Arc::new(item.clone()));
            }
            let (api, namespace) = (api.clone(), context.namespace().to_owned());
            let watch = Watch { api, resource: resource.clone(), namespace, reached: version(&list), seen: Vec::new() };
            let lines = watch.open().await?;
            let (stop, stopped) = oneshot::channel();
            watches.push((resource, tokio::spawn(watch.follow(lines, stopped)), stop));
        }
        Ok(Self { start, watches, context: context.clone() })
    }

    /// Ends the recording, and returns every state of the namespace in order, with the first one.
    pub async fn stop(self) -> Result<Vec<State>, Failure> {
        let mut seen = Vec::new();
        for (resource, task, stop) in self.watches {
            // An event that must come, so that everything before it has come.
            let marker = self.context.client().list(resource, self.context.namespace(), "").await?;
            let newest = marker.iter().map(version).max().unwrap_or(0);
            let _ = stop.send(newest);
            seen.extend(task.await??);
        }
        seen.sort_by_key(|s| s.version);
        let mut state = self.start;
        let mut states = vec![state.clone()];
        for Seen { resource, gone, object, .. } in seen {
            let objects = state.of(&resource);
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

/// A watch that is opened again at its last version, because a server closes watches that it cannot serve fast enough.
struct Watch {
    api: Api,
    resource: Resource,
    namespace: String,
    reached: u64,
    seen: Vec<Seen>,
}

impl Watch {
    async fn open(&self) -> Result<WatchFrames, Failure> {
        let query = format!("watch=true&allowWatchBookmarks=true&timeoutSeconds=3600&resourceVersion={}", self.reached);
        Ok(self.api.watch(&self.resource, &self.namespace, &query, "application/json").await?)
    }

    /// Collects events until `stop` names a version, and then up to that version. A gap is a failure.
    async fn follow(mut self, mut lines: WatchFrames, mut stop: oneshot::Receiver<u64>) -> Result<Vec<Seen>, Failure> {
        let mut until = None;
        loop {
            if until.is_some_and(|until| self.reached >= until) {
                return Ok(self.seen);
            }
            let line = tokio::select! {
                biased;
                line = lines.next_frame() => line,
                told = &mut stop, if until.is_none() => {
                    until = Some(told.unwrap_or(0));
                    continue;
                }
                () = tokio::time::sleep(SILENCE), if until.is_some() => {
                    let (reached, plural) = (self.reached, self.resource.plural());
                    return Err(Failure(format!("the watch of {plural} is silent at version {reached}")));
                }
            };
            match line {
                Ok(Some(line)) => self.take(serde_json::from_slice(&line)?)?,
                Ok(None) | Err(_) => lines = self.open().await?,
            }
        }
    }

    fn take(&mut self, mut event: Value) -> Outcome {
        let kind = event["type"].take();
        let object = event["object"].take();
        let gone = match kind.as_str() {
            Some("ADDED" | "MODIFIED") => false,
            Some("DELETED") => true,
            Some("BOOKMARK") => {
                self.reached = self.reached.max(version(&object));
                return Ok(());
            }
            _ => return Err(Failure(format!("the watch of {} has a gap: {object}", self.resource.plural()))),
        };
        self.reached = version(&object);
        self.seen.push(Seen { version: self.reached, resource: self.resource.clone(), gone, object: Arc::new(object) });
        Ok(())
    }
}
