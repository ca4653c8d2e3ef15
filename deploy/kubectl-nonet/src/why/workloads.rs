//! What Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs and CronJobs wait for.

use std::collections::BTreeMap;

use daemonset_controller::{
    decide::eligibility::decide_eligibility,
    objects::{Node as NodeProjection, NodePlacement},
    snapshot::nodes::Eligibility,
};
use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet},
        core::v1::{Node, Pod, ReplicationController},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::{
    objects::{deletion, unseen_generation},
    pod, quota,
    scope::{Scope, is_controlled_by, name, uid},
    storage::list,
    tree::{Branch, Weight},
};

/// Annotation with the number of the revision of a ReplicaSet.
const REVISION: &str = "deployment.kubernetes.io/revision";

/// Adds what a refused creation of a Pod means.
fn blame_refusal(scope: &Scope, what: &str, message: &str, branch: &mut Branch) {
    let namespace = &scope.namespace;
    let message = ["(combined from similar events): ", "Error creating: "]
        .iter()
        .fold(message, |text, prefix| text.strip_prefix(prefix).unwrap_or(text));
    let (text, remedy) = if message.contains("exceeded quota") {
        (
            format!("a quota of namespace {namespace} is used up: {message}"),
            format!("free or raise the quota: kubectl -n {namespace} describe resourcequota"),
        )
    } else if message.contains("status unknown for quota") {
        (
            format!("a quota of namespace {namespace} is not counted: {message}"),
            "see why the resource quota controller does not count it: kubectl nonet status".to_owned(),
        )
    } else if message.contains("insufficient quota to match these scopes") {
        (
            format!("no quota of namespace {namespace} covers the scope of the Pods: {message}"),
            "create a quota with this scope, or choose another priority class in the template".to_owned(),
        )
    } else if message.contains("failed quota") {
        (
            format!("a quota of namespace {namespace} demands resources that the Pods do not state: {message}"),
            "set requests and limits in the template, or create a LimitRange with defaults".to_owned(),
        )
    } else if message.contains("maximum") && message.contains("usage per")
        || message.contains("minimum") && message.contains("usage per")
    {
        (
            format!("a LimitRange of namespace {namespace} forbids the resources of the Pods: {message}"),
            format!("correct the template: kubectl -n {namespace} describe limitrange"),
        )
    } else if message.contains("failed calling webhook") {
        (
            format!("an admission webhook cannot be reached: {message}"),
            "restore the service behind the webhook; until then, failurePolicy: Ignore lets the Pods pass".to_owned(),
        )
    } else if message.contains("admission webhook") || message.contains("failed calling webhook") {
        (format!("an admission webhook refuses the Pods: {message}"), "correct the template as the webhook asks, or see the service behind the webhook: kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations".to_owned())
    } else if message.contains("ValidatingAdmissionPolicy") {
        (
            format!("an admission policy refuses the Pods: {message}"),
            "correct the template as the policy asks: kubectl get validatingadmissionpolicies".to_owned(),
        )
    } else if message.contains("violates PodSecurity") {
        (
            format!("the Pod security level of namespace {namespace} forbids the Pods: {message}"),
            format!("correct the securityContext of the template: kubectl get namespace {namespace} --show-labels"),
        )
    } else if message.contains("serviceaccount") && message.contains("not found") {
        (
            format!("the service account of the Pods does not exist: {message}"),
            format!("create it, or correct serviceAccountName: kubectl -n {namespace} get serviceaccounts"),
        )
    } else if message.contains("is being terminated") || message.contains("being terminated") {
        (
            format!("namespace {namespace} is being deleted: {message}"),
            format!("kubectl nonet why namespace/{namespace}"),
        )
    } else if message.contains("priorityClass") || message.contains("PriorityClass") {
        (
            format!("the priority class of the Pods does not exist: {message}"),
            "correct priorityClassName: kubectl get priorityclasses".to_owned(),
        )
    } else {
        (format!("the API server refuses the Pods: {message}"), "correct the template".to_owned())
    };
    branch.blame(Weight::Fails, format!("{what} cannot create its Pods: {text}"), [remedy]);
}

/// Adds the newest Event about a creation that failed, if Pods are missing.
pub(super) async fn creation_event(scope: &Scope, metadata: &ObjectMeta, what: &str, branch: &mut Branch) {
    if let Some(event) = scope.newest_event(uid(metadata), &["FailedCreate"]) {
        let (message, source) = scope.quote(event);
        branch.say(source, &message);
        if let Some(users) = quota::users(scope, &message).await {
            branch.say("list", users);
        }
        blame_refusal(scope, what, &message, branch);
    }
}

/// Adds the Pods below a workload that are not ready. Pods in the same state are shown once.
pub(super) async fn add_pods<'a>(scope: &Scope, pods: impl Iterator<Item = &'a Pod>, branch: &mut Branch) {
    for pod in pods {
        let child = pod::branch(scope, pod).await;
        branch.add_children([child]);
    }
}

pub(super) fn is_going(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some() || !matches!(pod::phase(pod), "Succeeded" | "Failed")
}

/// Adds that time has to pass until ready Pods are available.
fn wait_until_available(what: &str, ready: i32, available: i32, branch: &mut Branch) {
    if ready > available {
        branch.blame(
            Weight::Waits,
            format!(
                "{} of the ready Pods of {what} are not available yet, because minReadySeconds has not passed",
                ready - available
            ),
            ["wait".to_owned()],
        );
    }
}

/// Adds that a loop has work to do, if nothing else is known.
pub(super) fn blame_pending_work(branch: &mut Branch, acts: bool, controller: &str) {
    if acts && branch.cause().is_none() {
        branch.blame(
            Weight::Waits,
            format!("the {controller} controller has work to do, see the lines with \"next\""),
            ["ask again; if the same lines stay, see who leads: kubectl nonet status".to_owned()],
        );
    }
}

/// Returns the branch of a Deployment.
pub(super) async fn deployment(scope: &Scope, object: &Deployment) -> Branch {
    let called = name(&object.metadata);
    let mut branch = Branch::new("Deployment", called);
    let spec = object.spec.clone().unwrap_or_default();
    let status = object.status.clone().unwrap_or_default();
    deletion(scope, &object.metadata, "Deployment", &mut branch).await;
    unseen_generation(scope, "deployment-controller", &object.metadata, status.observed_generation, &mut branch).await;
    let acts = scope.say_decision(&mut branch, "deployment-controller", &object.metadata).await;

    let sets = scope.list::<ReplicaSet>().await;
    let mut own: Vec<&ReplicaSet> =
        sets.iter().filter(|set| is_controlled_by(&set.metadata, uid(&object.metadata))).collect();
    let revision = |set: &ReplicaSet| {
        set.metadata.annotations.as_ref().and_then(|all| all.get(REVISION)?.parse::<i64>().ok()).unwrap_or_default()
    };
    own.sort_by_key(|set| std::cmp::Reverse(revision(set)));
    for (index, set) in own.into_iter().enumerate() {
        let wanted = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or_default();
        let there = set.status.as_ref().map_or(0, |status| status.replicas);
        if index == 0 || wanted > 0 || there > 0 {
            branch.children.push(replica_set(scope, set).await);
        }
    }
    if spec.paused == Some(true) {
        branch.blame(
            Weight::Rests,
            format!("Deployment {called} is paused"),
            [format!("kubectl -n {} rollout resume deployment/{called}", scope.namespace)],
        );
    }
    let progressing = status.conditions.iter().flatten().find(|condition| condition.type_ == "Progressing");
    if progressing.is_some_and(|condition| condition.reason.as_deref() == Some("ProgressDeadlineExceeded")) {
        // What only waits has waited for too long.
        let below = branch.cause().filter(|cause| cause.weight == Weight::Waits);
        let what =
            below.as_ref().map_or_else(|| format!("Deployment {called} makes no progress"), |cause| cause.text.clone());
        let remedies = below.into_iter().flat_map(|cause| cause.remedies).filter(|remedy| remedy != "wait");
        let undo = format!("kubectl -n {} rollout undo deployment/{called}", scope.namespace);
        let has_older = branch.children.len() > 1;
        let remedies: Vec<String> = remedies.chain(has_older.then_some(undo)).collect();
        branch.blame(Weight::Fails, format!("{what}, and the progress deadline of {called} has passed"), remedies);
    }
    blame_pending_work(&mut branch, acts, "deployment");
    branch
}

/// Returns the branch of a ReplicaSet.
pub(super) async fn replica_set(scope: &Scope, object: &ReplicaSet) -> Branch {
    let spec = object.spec.clone().unwrap_or_default();
    let status = object.status.clone().unwrap_or_default();
    let counts = SetCounts {
        wanted: spec.replicas.unwrap_or(1),
        active: status.replicas,
        ready: status.ready_replicas.unwrap_or_default(),
        available: status.available_replicas.unwrap_or_default(),
        observed: status.observed_generation,
    };
    set_of_pods(scope, "ReplicaSet", "replicaset-controller", &object.metadata, counts).await
}

/// Returns the branch of a ReplicationController.
pub(super) async fn replication_controller(scope: &Scope, object: &ReplicationController) -> Branch {
    let spec = object.spec.clone().unwrap_or_default();
    let status = object.status.clone().unwrap_or_default();
    let counts = SetCounts {
        wanted: spec.replicas.unwrap_or(1),
        active: status.replicas,
        ready: status.ready_replicas.unwrap_or_default(),
        available: status.available_replicas.unwrap_or_default(),
        observed: status.observed_generation,
    };
    set_of_pods(scope, "ReplicationController", "replicationcontroller-controller", &object.metadata, counts).await
}

struct SetCounts {
    wanted: i32,
    active: i32,
    ready: i32,
    available: i32,
    observed: Option<i64>,
}

async fn set_of_pods(scope: &Scope, kind: &str, controller: &str, metadata: &ObjectMeta, counts: SetCounts) -> Branch {
    let called = name(metadata);
    let mut branch = Branch::new(kind, called);
    deletion(scope, metadata, kind, &mut branch).await;
    unseen_generation(scope, "replicaset-controller", metadata, counts.observed, &mut branch).await;
    let acts = scope.say_decision(&mut branch, controller, metadata).await;
    if counts.active < counts.wanted {
        creation_event(scope, metadata, &format!("{kind} {called}"), &mut branch).await;
    }
    let pods = scope.list::<Pod>().await;
    let own = pods
        .iter()
        .filter(|pod| is_controlled_by(&pod.metadata, uid(metadata)) && is_going(pod) && !pod::is_ready(pod));
    add_pods(scope, own, &mut branch).await;
    wait_until_available(&format!("{kind} {called}"), counts.ready, counts.available, &mut branch);
    blame_pending_work(&mut branch, acts, "replicaset");
    branch
}

/// Returns the branch of a StatefulSet.
pub(super) async fn stateful_set(scope: &Scope, object: &StatefulSet) -> Branch {
    let called = name(&object.metadata);
    let mut branch = Branch::new("StatefulSet", called);
    let spec = object.spec.clone().unwrap_or_default();
    let status = object.status.clone().unwrap_or_default();
    deletion(scope, &object.metadata, "StatefulSet", &mut branch).await;
    unseen_generation(scope, "statefulset-controller", &object.metadata, status.observed_generation, &mut branch).await;
    let acts = scope.say_decision(&mut branch, "statefulset-controller", &object.metadata).await;
    if status.replicas < spec.replicas.unwrap_or(1) {
        creation_event(scope, &object.metadata, &format!("StatefulSet {called}"), &mut branch).await;
    }
    let pods = scope.list::<Pod>().await;
    let ordinal = |pod: &Pod| {
        name(&pod.metadata).rsplit('-').next().and_then(|tail| tail.parse::<i64>().ok()).unwrap_or(i64::MAX)
    };
    let mut own: Vec<&Pod> = pods
        .iter()
        .filter(|pod| is_controlled_by(&pod.metadata, uid(&object.metadata)) && !pod::is_ready(pod))
        .collect();
    own.sort_by_key(|pod| ordinal(pod));
    add_pods(scope, own.into_iter(), &mut branch).await;
    wait_until_available(
        &format!("StatefulSet {called}"),
        status.ready_replicas.unwrap_or_default(),
        status.available_replicas.unwrap_or_default(),
        &mut branch,
    );
    let strategy = spec.update_strategy.clone().unwrap_or_default();
    let outdated = status.update_revision != status.current_revision;
    if outdated && branch.cause().is_none() {
        let partition = strategy.rolling_update.as_ref().and_then(|rolling| rolling.partition).unwrap_or_default();
        if strategy.type_.as_deref() == Some("OnDelete") {
            branch.blame(
                Weight::Rests,
                format!("StatefulSet {called} replaces a Pod only after a user has deleted it (OnDelete)"),
                ["delete the Pods of the old revision one by one".to_owned()],
            );
        } else if partition > 0 {
            branch.blame(
                Weight::Rests,
                format!("StatefulSet {called} updates only the Pods from ordinal {partition} on (partition)"),
                ["lower spec.updateStrategy.rollingUpdate.partition when the updated Pods are good".to_owned()],
            );
        }
    }
    blame_pending_work(&mut branch, acts, "statefulset");
    branch
}

/// Returns the branch of a DaemonSet.
pub(super) async fn daemon_set(scope: &Scope, object: &DaemonSet) -> Branch {
    let called = name(&object.metadata);
    let mut branch = Branch::new("DaemonSet", called);
    let status = object.status.clone().unwrap_or_default();
    deletion(scope, &object.metadata, "DaemonSet", &mut branch).await;
    unseen_generation(scope, "daemonset-controller", &object.metadata, status.observed_generation, &mut branch).await;
    let nodes = scope.list::<Node>().await;
    let acts = scope.say_decision(&mut branch, "daemonset-controller", &object.metadata).await;
    left_out_nodes(object, &nodes, &mut branch);
    if status.current_number_scheduled < status.desired_number_scheduled {
        creation_event(scope, &object.metadata, &format!("DaemonSet {called}"), &mut branch).await;
    }
    let pods = scope.list::<Pod>().await;
    let own = pods.iter().filter(|pod| is_controlled_by(&pod.metadata, uid(&object.metadata)) && !pod::is_ready(pod));
    add_pods(scope, own, &mut branch).await;
    wait_until_available(
        &format!("DaemonSet {called}"),
        status.number_ready,
        status.number_available.unwrap_or_default(),
        &mut branch,
    );
    let on_delete = object
        .spec
        .as_ref()
        .and_then(|spec| spec.update_strategy.as_ref())
        .is_some_and(|strategy| strategy.type_.as_deref() == Some("OnDelete"));
    let is_outdated = status.updated_number_scheduled.unwrap_or_default() < status.desired_number_scheduled;
    if on_delete && is_outdated && branch.cause().is_none() {
        branch.blame(
            Weight::Rests,
            format!("DaemonSet {called} replaces a Pod only after a user has deleted it (OnDelete)"),
            ["delete the Pods of the old revision one by one".to_owned()],
        );
    }
    if status.desired_number_scheduled == 0 && !nodes.is_empty() && branch.cause().is_none() {
        branch.blame(
            Weight::Fails,
            format!("no node should run a Pod of DaemonSet {called}"),
            ["correct nodeSelector, affinity or tolerations of the template, or label a node".to_owned()],
        );
    }
    blame_pending_work(&mut branch, acts, "daemonset");
    branch
}

/// Adds the nodes that run no Pod of the DaemonSet, by the reason.
fn left_out_nodes(object: &DaemonSet, nodes: &[Node], branch: &mut Branch) {
    let template = object.spec.as_ref().and_then(|spec| serde_json::to_value(&spec.template.spec).ok());
    let Some(placement) = template.and_then(|template| NodePlacement::new(&template).ok()) else { return };
    let decide = |node: &Node| {
        let node =
            serde_json::to_value(node).ok().and_then(|value| serde_json::from_value::<NodeProjection>(value).ok());
        node.map(|node| decide_eligibility(&placement, &node, false))
    };
    let mut reasons: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for node in nodes {
        let without_taints = || {
            let mut node = node.clone();
            node.spec.get_or_insert_default().taints = None;
            decide(&node)
        };
        let why = match decide(node) {
            Some(Eligibility::RunsPods) | None => continue,
            Some(Eligibility::RemovesPods) if without_taints() == Some(Eligibility::RemovesPods) => {
                let labels = node.metadata.labels.clone().unwrap_or_default();
                let differs = |(key, value): &(&str, &str)| labels.get(*key).map(String::as_str) != Some(*value);
                match placement.node_selector.iter().find(differs) {
                    Some((key, value)) => format!("it lacks the label {key}={value} of nodeSelector"),
                    None => "affinity does not match".to_owned(),
                }
            }
            Some(_) => {
                let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
                let taints: Vec<String> = taints
                    .filter(|taint| taint.effect != "PreferNoSchedule")
                    .map(|taint| format!("{}:{}", taint.key, taint.effect))
                    .collect();
                format!("a taint is not tolerated ({})", taints.join(", "))
            }
        };
        reasons.entry(why).or_default().push(name(&node.metadata));
    }
    for (why, names) in reasons {
        branch.say("daemonset controller", format!("left out: {}: {why}", list(&names)));
    }
}
