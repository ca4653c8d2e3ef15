//! What Services, Namespaces and budgets wait for, and what holds an object that is being deleted.

use std::collections::{BTreeMap, BTreeSet};

use common::{
    intern::Labels,
    prelude::{Selector, Text},
    process::leader::HAND_OVER_HOLDER_IDENTITY,
};
use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet},
        batch::v1::{CronJob, Job},
        coordination::v1::Lease,
        core::v1::{Namespace, Pod, Service},
        discovery::v1::EndpointSlice,
        policy::v1::PodDisruptionBudget,
    },
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, util::intstr::IntOrString},
};

use super::{
    pod,
    scope::{Scope, name, uid},
    storage::list,
    tree::{Branch, Weight, with_thousands},
};
use crate::{controllers::KUBE_SYSTEM_NAMESPACE, facts::to_one_line};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// Adds why an object that is being deleted is still there, and owners that do not exist.
pub(super) async fn deletion(scope: &Scope, metadata: &ObjectMeta, kind: &str, branch: &mut Branch) {
    owners(scope, metadata, kind, branch).await;
    let Some(at) = &metadata.deletion_timestamp else { return };
    branch.say(
        "metadata",
        format!(
            "terminating since {}; finalizers: {}",
            scope.since(at.0),
            metadata.finalizers.clone().unwrap_or_default().join(", ")
        ),
    );
    held_by_finalizers(metadata, kind, branch);
    if metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FOREGROUND) {
        let dependents = dependents(scope, uid(metadata)).await;
        if !dependents.is_empty() {
            let names: Vec<&str> = dependents.iter().map(String::as_str).collect();
            let block = if names.len() == 1 { "dependent blocks" } else { "dependents block" };
            branch.say("list", format!("{} {block} the deletion: {}", with_thousands(names.len()), list(&names)));
        }
    }
}

/// Adds the finalizers of an object that is being deleted.
pub(super) fn held_by_finalizers(metadata: &ObjectMeta, kind: &str, branch: &mut Branch) {
    let called = name(metadata);
    let finalizers = metadata.finalizers.clone().unwrap_or_default();
    let foreign: Vec<&str> =
        finalizers.iter().map(String::as_str).filter(|finalizer| !matches!(*finalizer, FOREGROUND | ORPHAN)).collect();
    if !foreign.is_empty() {
        branch.blame(
            Weight::Fails,
            format!("{kind} {called} is held by the finalizers {}", foreign.join(", ")),
            [
                "start the controller that removes the finalizer".to_owned(),
                format!(
                    "only if that controller will never run again, remove the finalizer: kubectl{} edit {} {called}",
                    metadata.namespace.as_ref().map_or_else(String::new, |namespace| format!(" -n {namespace}")),
                    kind.to_lowercase()
                ),
            ],
        );
    } else if finalizers.iter().any(|finalizer| finalizer == FOREGROUND) {
        branch.blame(
            Weight::Waits,
            format!("{kind} {called} is deleted after its dependents (foreground deletion)"),
            ["wait; if nothing changes, see the dependents, and who leads the garbage collector: kubectl nonet status"
                .to_owned()],
        );
    } else if finalizers.iter().any(|finalizer| finalizer == ORPHAN) {
        branch.blame(
            Weight::Waits,
            format!("{kind} {called} waits for the garbage collector, which makes its dependents independent"),
            ["wait; if nothing changes, see who leads the garbage collector: kubectl nonet status".to_owned()],
        );
    }
}

/// Returns the dependents of an owner that block its deletion, of the kinds that this command knows.
async fn dependents(scope: &Scope, owner: &str) -> Vec<String> {
    let blocks = |metadata: &ObjectMeta| {
        metadata
            .owner_references
            .iter()
            .flatten()
            .any(|each| each.uid == owner && each.block_owner_deletion == Some(true))
    };
    let mut out = Vec::new();
    let sets = scope.list::<ReplicaSet>().await;
    let pods = scope.list::<Pod>().await;
    let jobs = scope.list::<Job>().await;
    for (kind, metadata) in sets
        .iter()
        .map(|each| ("ReplicaSet", &each.metadata))
        .chain(jobs.iter().map(|each| ("Job", &each.metadata)))
        .chain(pods.iter().map(|each| ("Pod", &each.metadata)))
    {
        if blocks(metadata) {
            let held = metadata
                .finalizers
                .iter()
                .flatten()
                .next()
                .map_or_else(String::new, |finalizer| format!(" (finalizer {finalizer})"));
            out.push(format!("{kind} {}{held}", name(metadata)));
        }
    }
    out
}

/// Adds owners that do not exist, and controllers of a kind that this command does not know.
pub(super) async fn owners(scope: &Scope, metadata: &ObjectMeta, kind: &str, branch: &mut Branch) {
    for owner in metadata.owner_references.iter().flatten() {
        let (group, _) = owner.api_version.split_once('/').unwrap_or_default();
        macro_rules! exists {
            ($kind:ty) => {{
                let objects = scope.reader.list::<$kind>(Some(scope.namespace_of(metadata)), "").await;
                objects.iter().any(|each| uid(&each.metadata) == owner.uid)
            }};
        }
        let found = match (group, owner.kind.as_str()) {
            ("apps", "Deployment") => exists!(Deployment),
            ("apps", "ReplicaSet") => exists!(ReplicaSet),
            ("apps", "StatefulSet") => exists!(StatefulSet),
            ("apps", "DaemonSet") => exists!(DaemonSet),
            ("batch", "Job") => exists!(Job),
            ("batch", "CronJob") => exists!(CronJob),
            _ => {
                if owner.controller == Some(true) {
                    branch.say("metadata", format!("managed by {} {}", owner.kind, owner.name));
                }
                continue;
            }
        };
        if !found && scope.reader.unread().is_empty() {
            branch.say("metadata", format!("its owner {} {} ({}) does not exist", owner.kind, owner.name, owner.uid));
            branch.blame(
                Weight::Rests,
                format!(
                    "{kind} {} has an owner that does not exist, so the garbage collector deletes it",
                    name(metadata)
                ),
                [
                    "if it stays, see who leads the garbage collector: kubectl nonet status".to_owned(),
                    "to keep the object, remove the owner reference".to_owned(),
                ],
            );
        }
    }
}

/// Adds that no controller has seen the newest specification, with what the Leases say.
pub(super) async fn unseen_generation(
    scope: &Scope,
    controller: &str,
    metadata: &ObjectMeta,
    observed: Option<i64>,
    branch: &mut Branch,
) {
    let generation = metadata.generation.unwrap_or_default();
    let observed = observed.unwrap_or_default();
    if observed >= generation {
        return;
    }
    branch.say(
        "status",
        format!(
            "generation {generation} of the specification has not been observed; the status is of generation {observed}"
        ),
    );
    let leases = scope.reader.list::<Lease>(Some(KUBE_SYSTEM_NAMESPACE), "").await;
    let lease = |called: &str| leases.iter().find(|lease| name(&lease.metadata) == called);
    let (own, manager) = (lease(controller), lease("kube-controller-manager"));
    let describe = |lease: &Lease| {
        let spec = lease.spec.clone().unwrap_or_default();
        let renewed = spec
            .renew_time
            .map_or_else(|| "never renewed".to_owned(), |time| format!("renewed {} ago", scope.since(time.0)));
        format!(
            "Lease {KUBE_SYSTEM_NAMESPACE}/{} of {}, {renewed}",
            name(&lease.metadata),
            spec.holder_identity.unwrap_or_else(|| "nobody".to_owned())
        )
    };
    for found in own.into_iter().chain(manager) {
        branch.say("Lease", describe(found));
    }
    let is_held = own.is_some_and(|lease| {
        lease.spec.as_ref().is_some_and(|spec| spec.holder_identity.as_deref() == Some(HAND_OVER_HOLDER_IDENTITY))
    });
    let remedy = if is_held {
        format!("if kube-controller-manager does not run this loop: kubectl nonet release {controller}")
    } else {
        "see who leads: kubectl nonet check".to_owned()
    };
    let text = format!("no {} has seen the newest specification of {}", controller.replace('-', " "), name(metadata));
    branch.blame(Weight::Blocks, text, [remedy]);
}

/// Returns the branch of a Service.
pub(super) async fn service(scope: &Scope, object: &Service) -> Branch {
    let called = name(&object.metadata);
    let mut branch = Branch::new("Service", called);
    deletion(scope, &object.metadata, "Service", &mut branch).await;
    let spec = object.spec.clone().unwrap_or_default();
    let selector = spec.selector.clone().unwrap_or_default();
    if spec.type_.as_deref() == Some("ExternalName") {
        branch.say("spec", format!("ExternalName {}: it needs no Pods", spec.external_name.unwrap_or_default()));
        return branch;
    }
    if selector.is_empty() {
        branch.say("spec", "no selector: its EndpointSlices are made by another controller or by a user");
        let slices = scope.list::<EndpointSlice>().await;
        let is_own = |slice: &&EndpointSlice| {
            let labels = slice.metadata.labels.as_ref();
            labels.and_then(|labels| labels.get("kubernetes.io/service-name")).is_some_and(|service| service == called)
        };
        let endpoints: usize = slices.iter().filter(is_own).map(|slice| slice.endpoints.iter().flatten().count()).sum();
        branch.say("list", format!("endpoints in its slices: {endpoints}"));
        if endpoints == 0 && !scope.reader.is_unread("endpointslices.discovery.k8s.io") {
            branch.blame(
                Weight::Rests,
                format!("Service {called} has neither a selector nor EndpointSlices"),
                ["create EndpointSlices, or set spec.selector if Pods are to serve it".to_owned()],
            );
        }
        return branch;
    }
    let acts = scope.say_decision(&mut branch, "endpointslice-controller", &object.metadata).await;
    let pods = scope.list::<Pod>().await;
    let matches = |pod: &Pod, without: Option<&str>| {
        let labels = pod.metadata.labels.clone().unwrap_or_default();
        selector
            .iter()
            .filter(|(key, _)| Some(key.as_str()) != without)
            .all(|(key, value)| labels.get(key) == Some(value))
    };
    let own: Vec<&Pod> =
        pods.iter().filter(|pod| matches(pod, None) && !matches!(pod::phase(pod), "Succeeded" | "Failed")).collect();
    let text = selector.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",");
    branch.say(
        "list",
        format!(
            "selector {text}: {} Pods, {} ready",
            with_thousands(own.len()),
            with_thousands(own.iter().filter(|pod| pod::is_ready(pod)).count())
        ),
    );
    if own.is_empty() {
        let near = selector.keys().find_map(|key| {
            pods.iter().find(|pod| selector.len() > 1 && matches(pod, Some(key))).map(|pod| (key, pod))
        });
        let near = near.map(|(key, pod)| {
            let value = pod.metadata.labels.as_ref().and_then(|labels| labels.get(key));
            format!("; Pod {} has {key}={}", name(&pod.metadata), value.map_or("(missing)", String::as_str))
        });
        branch.blame(
            Weight::Fails,
            format!("no Pod has the labels of Service {called} ({text}){}", near.unwrap_or_default()),
            [format!(
                "correct the selector, or the labels of the Pods: kubectl -n {} get pods --show-labels",
                scope.namespace
            )],
        );
    }
    for port in spec.ports.iter().flatten() {
        let Some(IntOrString::String(wanted)) = &port.target_port else { continue };
        let has = |pod: &Pod| {
            pod.spec
                .iter()
                .flat_map(|spec| &spec.containers)
                .flat_map(|container| container.ports.iter().flatten())
                .any(|port| port.name.as_ref() == Some(wanted))
        };
        if let Some(without) = own.iter().find(|pod| !has(pod)) {
            branch.say("list", format!("Pod {} has no port with the name {wanted}", name(&without.metadata)));
            branch.blame(
                Weight::Fails,
                format!(
                    "port {} of Service {called} leads to the port {wanted}, which Pod {} does not have",
                    port.port,
                    name(&without.metadata)
                ),
                ["correct targetPort, or name the port of the container".to_owned()],
            );
        }
    }
    if spec.publish_not_ready_addresses == Some(true) {
        branch.say("spec", "publishNotReadyAddresses: Pods that are not ready are in the slices, too");
    } else {
        for each in own.into_iter().filter(|pod| !pod::is_ready(pod)) {
            let child = pod::branch(scope, each).await;
            branch.add_children([child]);
        }
    }
    let has_address = object
        .status
        .as_ref()
        .and_then(|status| status.load_balancer.as_ref())
        .is_some_and(|balancer| balancer.ingress.as_ref().is_some_and(|all| !all.is_empty()));
    if spec.type_.as_deref() == Some("LoadBalancer") && !has_address {
        branch.say("status", "the load balancer has no address");
        if let Some(event) = scope.newest_event(uid(&object.metadata), &[]) {
            let (message, source) = scope.quote(event);
            branch.say(source, message);
        }
        branch.blame(
            Weight::Rests,
            format!("no load balancer has been created for Service {called}"),
            ["see the controller for load balancers of your cluster; without one, use NodePort".to_owned()],
        );
    }
    if acts && branch.cause().is_none() {
        branch.blame(
            Weight::Waits,
            "the endpointslice controller has work to do, see the lines with \"next\"",
            ["ask again; if the same lines stay, see who leads: kubectl nonet status".to_owned()],
        );
    }
    branch
}

/// Returns the branch of a PodDisruptionBudget.
pub(super) async fn budget(scope: &Scope, object: &PodDisruptionBudget) -> Branch {
    let called = name(&object.metadata);
    let mut branch = Branch::new("PodDisruptionBudget", called);
    deletion(scope, &object.metadata, "PodDisruptionBudget", &mut branch).await;
    let status = object.status.clone().unwrap_or_default();
    let [healthy, expected, desired, allowed] =
        [status.current_healthy, status.expected_pods, status.desired_healthy, status.disruptions_allowed]
            .map(Option::unwrap_or_default);
    branch.say(
        "status",
        format!("{healthy} of {expected} Pods are healthy, {desired} must be: {allowed} may be evicted"),
    );
    if let Some(name) = status.disrupted_pods.as_ref().and_then(|pods| pods.keys().next()) {
        let count = status.disrupted_pods.as_ref().map_or(0, BTreeMap::len);
        branch.say("evictions", format!("{count} approved, whose Pods are still there; the first is {name}"));
    }
    let conditions = status.conditions.iter().flatten();
    if let Some(failed) = conditions.into_iter().find(|condition| condition.reason == "SyncFailed") {
        branch.blame(
            Weight::Fails,
            format!(
                "PodDisruptionBudget {called} allows no eviction, because its Pods cannot be counted: {}",
                failed.message
            ),
            ["use minAvailable with a number, for which no owner needs a size".to_owned()],
        );
    } else if expected == 0 {
        branch.blame(
            Weight::Rests,
            format!("PodDisruptionBudget {called} selects no Pods"),
            ["correct spec.selector".to_owned()],
        );
    } else if allowed == 0 {
        if status.observed_generation.unwrap_or_default() < object.metadata.generation.unwrap_or_default() {
            branch.blame(
                Weight::Waits,
                format!("the controller of budgets has not seen the newest specification of {called}"),
                ["see whether disruption-controller runs".to_owned()],
            );
        } else if healthy < expected && desired < expected {
            branch.blame(
                Weight::Fails,
                format!(
                    "PodDisruptionBudget {called} allows no eviction while {} of {expected} Pods are not healthy",
                    expected - healthy
                ),
                ["see the Pods that are not ready; unhealthyPodEvictionPolicy: AlwaysAllow lets them be evicted"
                    .to_owned()],
            );
        } else if healthy < desired {
            branch.blame(Weight::Fails, format!("PodDisruptionBudget {called} allows no eviction, because only {healthy} of {desired} Pods are healthy"), ["see the Pods that are not ready; unhealthyPodEvictionPolicy: AlwaysAllow lets them be evicted".to_owned()]);
        } else {
            branch.blame(Weight::Rests, format!("PodDisruptionBudget {called} never allows an eviction, because {desired} of {expected} Pods must be healthy"), ["raise the replicas, or use maxUnavailable: 1".to_owned()]);
        }
    }
    branch
}

/// Adds why an eviction of a Pod is refused: a budget allows none now, or more than one budget selects the Pod.
pub(super) async fn refused_eviction(scope: &Scope, pod: &Pod, branch: &mut Branch) {
    let labels = pod.metadata.labels.iter().flatten().map(|(key, value)| (key.as_str(), value.as_str()));
    let labels = Labels::from_pairs(labels);
    let budgets = scope.list::<PodDisruptionBudget>().await;
    let selects = |object: &&PodDisruptionBudget| {
        let selector = object.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        selector.is_some_and(|selector| {
            Selector::from_value(&serde_json::to_value(selector).unwrap_or_default()).matches(&labels)
        })
    };
    let own: Vec<_> = budgets.iter().filter(selects).collect();
    match own.as_slice() {
        [] => {}
        [only] => {
            if let Some(cause) = budget(scope, only).await.cause() {
                branch.say("eviction", format!("refused: {}", cause.text));
            }
        }
        several => {
            let names: Vec<&str> = several.iter().map(|each| name(&each.metadata)).collect();
            branch.say(
                "eviction",
                format!("refused, because more than one PodDisruptionBudget selects it: {}", list(&names)),
            );
        }
    }
}

/// The most kinds of a terminating namespace whose objects are listed.
const MAX_REMAINING_KINDS: usize = 5;

/// Returns for each finalizer of the kinds that a condition names an object that has it, such as `configmaps a is held by b`.
async fn held_objects(scope: &Scope, namespace: &str, message: &str) -> Vec<String> {
    let kinds = message.split_once(": ").map_or("", |(_, kinds)| kinds).split(", ");
    let kinds = kinds.filter_map(|kind| Some(kind.split_once(" has ")?.0.trim_end_matches('.')));
    let mut lines = Vec::new();
    for kind in kinds.take(MAX_REMAINING_KINDS) {
        let mut known = BTreeSet::new();
        for object in scope.reader.list_metadata(namespace, kind).await {
            for finalizer in object.metadata.finalizers.iter().map(Text::as_str) {
                if !matches!(finalizer, FOREGROUND | ORPHAN) && known.insert(finalizer.to_owned()) {
                    lines.push(format!("{kind} {} is held by the finalizer {finalizer}", object.metadata.name));
                }
            }
        }
    }
    lines
}

/// Returns the branch of a Namespace.
pub(super) async fn namespace(scope: &Scope, object: &Namespace) -> Branch {
    let called = name(&object.metadata);
    let mut branch = Branch::new("Namespace", called);
    let Some(at) = &object.metadata.deletion_timestamp else {
        branch.say("status", "Active");
        return branch;
    };
    branch.say("metadata", format!("terminating since {}", scope.since(at.0)));
    let conditions = object.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    for condition in conditions.iter().filter(|condition| condition.status == "True") {
        let message = to_one_line(condition.message.as_deref().unwrap_or_default());
        branch.say("status", format!("{}: {message}", condition.type_));
        match condition.type_.as_str() {
            "NamespaceDeletionDiscoveryFailure" | "NamespaceDeletionGroupVersionParsingFailure" => branch.blame(
                Weight::Blocks,
                format!(
                    "an API of the cluster does not answer, so namespace {called} may still have objects: {message}"
                ),
                ["repair or delete the APIService: kubectl get apiservices".to_owned()],
            ),
            "NamespaceFinalizersRemaining" => branch.blame(
                Weight::Fails,
                format!("objects of namespace {called} are held by finalizers: {message}"),
                ["start the controllers that remove these finalizers".to_owned()],
            ),
            "NamespaceContentRemaining" => {
                for held in held_objects(scope, called, &message).await {
                    branch.say("list", held);
                }
                branch.blame(
                    Weight::Waits,
                    format!("namespace {called} still has objects: {message}"),
                    ["wait".to_owned()],
                );
            }
            _ => branch.blame(
                Weight::Fails,
                format!("namespace {called} cannot be emptied: {message}"),
                ["see the message".to_owned()],
            ),
        }
    }
    if branch.causes.is_empty() {
        let finalizers = object.spec.as_ref().and_then(|spec| spec.finalizers.clone()).unwrap_or_default();
        branch.say("spec", format!("finalizers: {}", finalizers.join(", ")));
        branch.blame(
            Weight::Waits,
            format!("the namespace controller removes the content of namespace {called}"),
            ["wait; if nothing changes, see whether kube-controller-manager leads: kubectl nonet check".to_owned()],
        );
    }
    branch
}
