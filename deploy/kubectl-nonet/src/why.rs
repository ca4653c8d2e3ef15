//! `kubectl nonet why`: what an object waits for, as a tree down to its likely cause.
//!
//! The controllers are libraries. This command lists what they would read, with the rights of the caller and in one namespace,
//! lets them decide, and shows their reasons. Nothing has to be reached in the cluster, and the answer is the same whichever
//! manager leads. Below the objects of the controllers, the tree shows what scheduler, kubelets and admission said last.

mod batch;
mod loops;
mod node;
mod objects;
mod pod;
mod quota;
pub mod reader;
mod scope;
mod storage;
pub mod tree;
mod workloads;

use std::sync::Arc;

use common::{clock::Clock, runtime::LoopDefinition};
use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet},
        batch::v1::{CronJob, Job},
        core::v1::{Event, Namespace, Node, PersistentVolumeClaim, Pod, ReplicationController, Service},
        policy::v1::PodDisruptionBudget,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use self::{
    loops::Loops,
    reader::Reader,
    scope::{Scope, time_of},
    tree::{Answer, Branch, Weight},
};
use crate::gather::read::ListableKind;

/// The kinds that the command explains: the name in the answer, and the names that a user may type.
const KINDS: [(Kind, &str, &[&str]); 13] = [
    (Kind::Deployment, "Deployment", &["deployment", "deployments", "deploy"]),
    (Kind::ReplicaSet, "ReplicaSet", &["replicaset", "replicasets", "rs"]),
    (Kind::ReplicationController, "ReplicationController", &["replicationcontroller", "replicationcontrollers", "rc"]),
    (Kind::StatefulSet, "StatefulSet", &["statefulset", "statefulsets", "sts"]),
    (Kind::DaemonSet, "DaemonSet", &["daemonset", "daemonsets", "ds"]),
    (Kind::Job, "Job", &["job", "jobs"]),
    (Kind::CronJob, "CronJob", &["cronjob", "cronjobs", "cj"]),
    (Kind::Pod, "Pod", &["pod", "pods", "po"]),
    (Kind::Service, "Service", &["service", "services", "svc"]),
    (Kind::Claim, "PersistentVolumeClaim", &["persistentvolumeclaim", "persistentvolumeclaims", "pvc"]),
    (Kind::Budget, "PodDisruptionBudget", &["poddisruptionbudget", "poddisruptionbudgets", "pdb"]),
    (Kind::Node, "Node", &["node", "nodes", "no"]),
    (Kind::Namespace, "Namespace", &["namespace", "namespaces", "ns"]),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Deployment,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
    DaemonSet,
    Job,
    CronJob,
    Pod,
    Service,
    Claim,
    Budget,
    Node,
    Namespace,
}

/// An object that a user asks about: `deployment/web`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    kind: Kind,
    name: String,
}

/// Reasons why there is no answer.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text names no kind that the command explains.
    #[error("{0:?} is not KIND/NAME; the kinds are {kinds}", kinds = kind_names().join(", "))]
    NotATarget(String),
    /// The object does not exist. Holds the kind, the name, the place, and names that are near.
    #[error("{0} {1} does not exist{2}{3}")]
    NotFound(&'static str, String, String, String),
    /// The namespace does not exist.
    #[error("namespace {0} does not exist; see: kubectl get namespaces")]
    NoNamespace(String),
    /// The list of the kind could not be read.
    #[error("{0}: cannot list {1}: {2}")]
    Unreadable(&'static str, String, String),
}

/// Returns the kinds that the command explains.
pub fn kind_names() -> Vec<&'static str> {
    KINDS.iter().map(|(_, _, names)| names[0]).collect()
}

/// Returns the names of the objects of a kind, for completion.
pub async fn names(reader: &Arc<Reader>, kind: &str, namespace: &str) -> Vec<String> {
    let Ok(target) = Target::parse(&format!("{kind}/-")) else { return Vec::new() };
    let objects = list(reader, Some(namespace), target.kind).await;
    objects.into_iter().filter_map(|metadata| metadata.name).collect()
}

/// Lists the metadata of the objects of a kind.
async fn list(reader: &Arc<Reader>, namespace: Option<&str>, kind: Kind) -> Vec<ObjectMeta> {
    macro_rules! metadata {
        ($kind:ty) => {{
            let objects = reader.list::<$kind>(namespace, "").await;
            objects.iter().map(|object| object.metadata.clone()).collect()
        }};
    }
    match kind {
        Kind::Deployment => metadata!(Deployment),
        Kind::ReplicaSet => metadata!(ReplicaSet),
        Kind::ReplicationController => metadata!(ReplicationController),
        Kind::StatefulSet => metadata!(StatefulSet),
        Kind::DaemonSet => metadata!(DaemonSet),
        Kind::Job => metadata!(Job),
        Kind::CronJob => metadata!(CronJob),
        Kind::Pod => metadata!(Pod),
        Kind::Service => metadata!(Service),
        Kind::Claim => metadata!(PersistentVolumeClaim),
        Kind::Budget => metadata!(PodDisruptionBudget),
        Kind::Node => metadata!(Node),
        Kind::Namespace => metadata!(Namespace),
    }
}

impl Target {
    /// Parses `KIND/NAME`, with the short names of kubectl.
    ///
    /// # Errors
    /// If the kind is unknown, or the name is missing.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let not_a_target = || Error::NotATarget(text.to_owned());
        let (kind, name) = text.split_once('/').ok_or_else(not_a_target)?;
        // "deployments.apps" and "deployment.v1.apps" are usual, too.
        let (kind, rest) = kind.split_once('.').unwrap_or((kind, ""));
        let kind = kind.to_lowercase();
        // The same name in another group is another kind.
        let group = rest.strip_prefix("v1.").unwrap_or(rest);
        if !matches!(group, "" | "v1" | "apps" | "batch" | "policy") {
            return Err(not_a_target());
        }
        let (kind, ..) = KINDS.iter().find(|(_, _, names)| names.contains(&kind.as_str())).ok_or_else(not_a_target)?;
        if name.is_empty() || name.contains('/') {
            return Err(not_a_target());
        }
        Ok(Self { kind: *kind, name: name.to_owned() })
    }

    /// Whether objects of the kind have a namespace.
    pub fn is_namespaced(&self) -> bool {
        has_namespace(self.kind)
    }
}

fn has_namespace(kind: Kind) -> bool {
    !matches!(kind, Kind::Node | Kind::Namespace)
}

fn shown_kind(kind: Kind) -> &'static str {
    KINDS.iter().find(|(each, ..)| *each == kind).map_or("object", |(_, shown, _)| shown)
}

/// The loops that decide about objects of a kind.
fn loops_of(kind: Kind) -> Vec<LoopDefinition> {
    match kind {
        Kind::Deployment => vec![deployment_controller::DEPLOYMENT_LOOP, replicaset_controller::REPLICA_SET_LOOP],
        Kind::ReplicaSet => vec![replicaset_controller::REPLICA_SET_LOOP],
        Kind::ReplicationController => vec![replicaset_controller::REPLICATION_CONTROLLER_LOOP],
        Kind::StatefulSet => vec![statefulset_controller::STATEFUL_SET],
        Kind::DaemonSet => vec![daemonset_controller::DAEMON_SET_LOOP],
        Kind::Job => vec![job_controller::JOB_LOOP],
        Kind::CronJob => vec![cronjob_controller::CRON_JOB, job_controller::JOB_LOOP],
        Kind::Service => vec![endpointslice_controller::slices::ENDPOINT_SLICE_LOOP],
        Kind::Pod | Kind::Claim | Kind::Budget | Kind::Node | Kind::Namespace => Vec::new(),
    }
}

/// Explains what an object waits for.
///
/// # Errors
/// If the object does not exist, or its kind cannot be listed.
pub async fn explain(reader: &Arc<Reader>, clock: &Clock, namespace: &str, target: &Target) -> Result<Answer, Error> {
    let namespace = if target.is_namespaced() { namespace } else { "" };
    let definitions = loops_of(target.kind);
    let (events, loops) = futures::join!(
        events(reader, (!namespace.is_empty()).then_some(namespace)),
        Loops::start(reader, clock, &definitions, reader.limit()),
    );
    let scope = Scope {
        reader: Arc::clone(reader),
        namespace: namespace.to_owned(),
        now: clock.now(),
        events: Arc::new(events),
        loops: Arc::new(loops),
    };
    answer(&scope, target).await
}

/// Explains every object of a namespace, or of all namespaces, that does not get better by itself: it fails, or it rests as a user
/// has asked.
///
/// # Errors
/// If the namespace does not exist.
pub async fn explain_failing(
    reader: &Arc<Reader>,
    clock: &Clock,
    namespace: Option<&str>,
) -> Result<Vec<Answer>, Error> {
    let kinds = KINDS.map(|(kind, ..)| kind);
    let mut definitions: Vec<LoopDefinition> = Vec::new();
    for definition in kinds.into_iter().flat_map(loops_of) {
        if definitions.iter().all(|known| known.name != definition.name) {
            definitions.push(definition);
        }
    }
    let (events, loops) =
        futures::join!(events(reader, namespace), Loops::start(reader, clock, &definitions, reader.limit()));
    let (events, loops) = (Arc::new(events), Arc::new(loops));
    let mut targets = Vec::new();
    for kind in kinds {
        // Objects without a namespace belong to the answer about the whole cluster.
        if namespace.is_some() && !has_namespace(kind) {
            continue;
        }
        for metadata in list(reader, namespace, kind).await.into_iter().filter(is_root) {
            let (namespace, name) = (metadata.namespace.unwrap_or_default(), metadata.name.unwrap_or_default());
            targets.push((namespace, Target { kind, name }));
        }
    }
    if targets.is_empty()
        && let Some(namespace) = namespace
        && reader.lacks_namespace().await
    {
        return Err(Error::NoNamespace(namespace.to_owned()));
    }
    let mut answers = Vec::new();
    for (namespace, target) in targets {
        let (reader, events, loops) = (Arc::clone(reader), Arc::clone(&events), Arc::clone(&loops));
        let scope = Scope { reader, namespace, now: clock.now(), events, loops };
        // An object that is gone meanwhile does not fail any more. A cause is shown at the first object that has it.
        if let Ok(answer) = answer(&scope, &target).await
            && answer.cause.as_ref().is_some_and(|cause| cause.weight <= Weight::Rests)
            && answers.iter().all(|known: &Answer| known.namespace != answer.namespace || known.cause != answer.cause)
        {
            answers.push(answer);
        }
    }
    Ok(answers)
}

/// Whether no object that the command explains shows the object below it.
fn is_root(metadata: &ObjectMeta) -> bool {
    !metadata.owner_references.iter().flatten().any(|owner| {
        let is_known = ["apps/", "batch/"].iter().any(|group| owner.api_version.starts_with(group));
        owner.controller == Some(true) && (is_known || owner.kind == "ReplicationController")
    })
}

/// Returns the Events of a namespace, the newest first.
async fn events(reader: &Arc<Reader>, namespace: Option<&str>) -> Vec<Event> {
    let mut events = reader.list::<Event>(namespace, "").await.to_vec();
    events.sort_by_key(|event| std::cmp::Reverse(time_of(event)));
    events
}

async fn answer(scope: &Scope, target: &Target) -> Result<Answer, Error> {
    let tree = tree(scope, target).await?;
    Ok(Answer { namespace: scope.namespace.clone(), cause: tree.cause(), tree, unread: scope.reader.unread() })
}

/// Returns the tree of an object.
async fn tree(scope: &Scope, target: &Target) -> Result<Branch, Error> {
    // The future of each kind is boxed, because it is large.
    macro_rules! branch {
        ($branch:path) => {{
            let object = find(scope, target).await?;
            Box::pin($branch(scope, &object)).await
        }};
    }
    Ok(match target.kind {
        Kind::Deployment => branch!(workloads::deployment),
        Kind::ReplicaSet => branch!(workloads::replica_set),
        Kind::ReplicationController => branch!(workloads::replication_controller),
        Kind::StatefulSet => branch!(workloads::stateful_set),
        Kind::DaemonSet => branch!(workloads::daemon_set),
        Kind::Job => branch!(batch::job),
        Kind::CronJob => branch!(batch::cron_job),
        Kind::Pod => branch!(pod::whole_branch),
        Kind::Service => branch!(objects::service),
        Kind::Claim => branch!(storage::branch),
        Kind::Budget => branch!(objects::budget),
        Kind::Node => branch!(node::branch),
        Kind::Namespace => branch!(objects::namespace),
    })
}

/// Finds the object that the user asks about.
async fn find<K: ListableKind>(scope: &Scope, target: &Target) -> Result<K, Error> {
    let all = scope.list::<K>().await;
    let shown = shown_kind(target.kind);
    let mut names = Vec::new();
    for object in all.iter() {
        if scope::name(object.metadata()) == target.name {
            return Ok(object.clone());
        }
        names.push(scope::name(object.metadata()).to_owned());
    }
    let resource = reader::resource_name::<K>();
    if let Some(why) = scope.reader.unread().remove(&resource) {
        return Err(Error::Unreadable(shown, resource, why));
    }
    if names.is_empty() && scope.reader.lacks_namespace().await {
        return Err(Error::NoNamespace(scope.namespace.clone()));
    }
    let place = if scope.namespace.is_empty() { String::new() } else { format!(" in namespace {}", scope.namespace) };
    names.sort_by_key(|name| strsim::damerau_levenshtein(name, &target.name));
    let near: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .filter(|name| strsim::damerau_levenshtein(name, &target.name) <= 2 + target.name.len() / 4)
        .take(3)
        .collect();
    let near = match near.as_slice() {
        [] if names.is_empty() => "; there are no objects of this kind".to_owned(),
        [] => String::new(),
        near => format!("; did you mean {}?", near.join(", ")),
    };
    Err(Error::NotFound(shown, target.name.clone(), place, near))
}
