//! How the oracles of DaemonSets read nodes, Pods and templates: a second implementation, independent of the controller's.

use std::{collections::BTreeMap, sync::Arc};

use common::{
    clock::Instant,
    intstr::{IntOrString, Rounding},
};
use serde_json::{Value, json};

use super::rules::DAEMON_SETS;
use crate::{
    json::{at, controller_uid, has_finished, is_deleting, is_ready, items, label, labels, name, selects, text, uid},
    stage::NAMESPACE,
    world::World,
};

pub(super) const CONTROLLER: &str = DAEMON_SETS.controller;
pub(super) const REVISIONS: &str = "controllerrevisions.apps";
pub(super) const NODES: &str = "nodes";
pub(super) const PODS: &str = "pods";
pub(super) const SELECTOR: &str = "/spec/selector";
pub(super) const HASH: &str = "controller-revision-hash";
pub(super) const GENERATION: &str = "pod-template-generation";
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";
const TERMS: &str = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
/// Key and effect of the tolerations that every Pod gets.
pub(super) const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
pub(super) fn runs(pod: &Value) -> bool {
    !is_deleting(pod) && !has_finished(pod)
}

/// Whether a Pod has finished and terminates: it does not take its node's place any more.
pub(super) fn is_leaving(pod: &Value) -> bool {
    is_deleting(pod) && has_finished(pod)
}

/// The node that a Pod is for: the one it runs on, or the one its affinity names.
pub(super) fn target(pod: &Value) -> &str {
    let bound = text(pod, "/spec/nodeName");
    if !bound.is_empty() {
        return bound;
    }
    let terms = items(pod, TERMS).iter();
    let fields = terms.flat_map(|term| term["matchFields"].as_array().into_iter().flatten());
    let named = fields.filter(|field| field["key"] == "metadata.name" && field["operator"] == "In");
    named.map(|field| text(field, "/values/0")).next().unwrap_or_default()
}

/// The node that the affinity of a Pod pins it to, if it does just that.
pub(super) fn pin(pod: &Value) -> Option<&str> {
    let wanted = |node: &str| json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]);
    let node = at(pod, TERMS)?.pointer("/0/matchFields/0/values/0")?.as_str()?;
    (at(pod, TERMS) == Some(&wanted(node))).then_some(node)
}

/// What a set may do on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Leaves,
    Stays,
    Runs,
}

/// What a set may do on a node, by node selector and taints. The scenarios use no affinity.
pub(super) fn place(set: &Value, node: &Value) -> Place {
    let spec = &set["spec"]["template"]["spec"];
    let labels = labels(node);
    let wanted = spec["nodeSelector"].as_object().into_iter().flatten();
    if !wanted.into_iter().all(|(key, value)| labels.get(key.as_str()).copied() == value.as_str()) {
        return Place::Leaves;
    }
    let own = spec["tolerations"].as_array().into_iter().flatten();
    let tolerated = |taint: &Value| {
        let automatic = TOLERATED.iter().any(|(key, effect)| taint["key"] == *key && taint["effect"] == *effect);
        automatic || own.clone().any(|toleration| toleration["operator"] == "Exists" && toleration.get("key").is_none())
    };
    let repels = |effect: &str| {
        let mut taints = items(node, "/spec/taints").iter();
        taints.any(|taint| taint["effect"] == effect && !tolerated(taint))
    };
    if repels("NoExecute") {
        Place::Leaves
    } else if repels("NoSchedule") {
        Place::Stays
    } else {
        Place::Runs
    }
}

/// What a controller may have taken a node for: the best and the worst of what it recently was. None for a node that was missing.
pub(super) fn recent_places(world: &World, set: &Value, node: &str) -> (Option<Place>, Option<Place>) {
    let mut places = Vec::new();
    for state in world.recent(NODES, "", node) {
        places.extend(DAEMON_SETS.recent(world, set).map(|set| state.map(|node| place(set, node))));
    }
    (places.iter().max().copied().flatten(), places.iter().min().copied().flatten())
}

/// Whether a Pod is of the template that a set has in that state: by the data of its revision, or by the template's generation.
pub(super) fn is_updated(world: &World, set: &Value, pod: &Value) -> bool {
    let generation = label(pod, GENERATION);
    if !generation.is_empty() && generation == crate::json::annotation(set, TEMPLATE_GENERATION) {
        return true;
    }
    let hash = label(pod, HASH);
    // One of that name may still be owned by an earlier set.
    let named = format!("{}-{hash}", name(set));
    let is_of_set = |revision: &Value| controller_uid(revision) == uid(set) || name(revision) == named;
    let mut of_hash = world.list(REVISIONS).filter(|r| is_of_set(r) && label(r, HASH) == hash);
    !hash.is_empty() && of_hash.any(|revision| holds_template(revision, set))
}

/// Whether a revision holds the template that a set has in that state, and nothing else.
pub(super) fn holds_template(revision: &Value, set: &Value) -> bool {
    let mut template = set["spec"]["template"].clone();
    template["$patch"] = json!("replace");
    revision["data"] == json!({"spec": {"template": template}})
}

pub(super) fn rolls(set: &Value) -> bool {
    text(set, "/spec/updateStrategy/type") == "RollingUpdate"
}

/// A Pod of an earlier template that a rolling update has left, although its limit allows to replace that Pod.
///
/// A rolling update may wait for ever for nodes whose new Pod does not become ready, and for no others.
pub(super) fn left_behind<'a>(world: &'a World, set: &'a Value) -> Option<&'a Arc<Value>> {
    let mut nodes: BTreeMap<&str, Vec<&Arc<Value>>> = BTreeMap::new();
    let place_of = |node: &str| world.get(NODES, "", node).map(|node| place(set, node));
    let running = world.list(NODES).filter(|node| place(set, node) == Place::Runs);
    nodes.extend(running.map(|node| (name(node), Vec::new())));
    let desired = nodes.len();
    for pod in DAEMON_SETS.dependents_of(world, set).filter(|pod| !is_leaving(pod)) {
        nodes.entry(target(pod)).or_default().push(pod);
    }
    let surges = max_surge(set, desired) > 0;
    let (mut blocking, mut serving) = (0, 0);
    let (mut candidates, mut sunset) = (Vec::new(), Vec::new());
    for (node, pods) in nodes {
        let live = pods.into_iter().filter(|pod| !is_deleting(pod));
        let (new, old): (Vec<_>, Vec<_>) = live.partition(|pod| is_updated(world, set, pod));
        match (place_of(node), &new[..], &old[..]) {
            (_, [new], []) if is_ready(new) => serving += 1,
            (_, [], [old]) if !surges && is_ready(old) => candidates.push(*old),
            // Whether one should run on a node that has vanished is not known.
            (None, _, [_]) if surges => {}
            (_, [], [old]) if !is_ready(old) => return Some(old),
            (Some(place), [], [old]) if surges => {
                serving += 1;
                if place == Place::Runs { candidates.push(*old) } else { sunset.push(*old) }
            }
            (_, [new], [old]) if surges && (is_ready(new) || !is_ready(old)) => return Some(old),
            (_, [_], [_]) if surges => {
                serving += 1;
                blocking += 1;
            }
            // With surge, a node whose only Pod is new does not count against the limit.
            (_, [_], []) if surges => {}
            _ => blocking += 1,
        }
    }
    let limit = if surges { max_surge(set, desired) } else { max_unavailable(set, desired) };
    let candidate = candidates.into_iter().next().filter(|_| blocking < limit);
    candidate.or_else(|| sunset.into_iter().next().filter(|_| serving > desired))
}

/// A limit of a rolling update in nodes, if that many are desired.
fn limit(set: &Value, field: &str, desired: usize, absent: i32) -> i32 {
    let given = at(set, "/spec/updateStrategy/rollingUpdate").and_then(|rolling| rolling.get(field)).cloned();
    let given: Option<IntOrString> = given.and_then(|given| serde_json::from_value(given).ok());
    let desired = i32::try_from(desired).unwrap_or(i32::MAX);
    given.map_or(absent, |limit| limit.resolve(desired, Rounding::Up).unwrap_or(i32::MAX))
}

pub(super) fn max_surge(set: &Value, desired: usize) -> i32 {
    if rolls(set) { limit(set, "maxSurge", desired, 0) } else { 0 }
}

pub(super) fn max_unavailable(set: &Value, desired: usize) -> i32 {
    let given = limit(set, "maxUnavailable", desired, 1);
    // With neither, a rollout could not go on.
    if given == 0 && max_surge(set, desired) == 0 { 1 } else { given }
}

pub(super) fn may_surge(set: &Value) -> bool {
    max_surge(set, 1) > 0
}

pub(super) fn deleted_by_the_controller(world: &World, pod: &Value) -> bool {
    let mut log = world.log().iter().rev().filter(|logged| logged.resource() == PODS && logged.write.name == name(pod));
    log.any(|logged| logged.deletes() && logged.by(CONTROLLER))
}

/// Whether a Pod was such in all states that the controller may have seen lately. What the controller created itself, it has
/// seen.
pub(super) fn always(world: &World, pod: &Value, test: impl Fn(&Value) -> bool) -> bool {
    let created_by_user = || {
        let mut log = world.log().iter().filter(|logged| logged.resource() == PODS && logged.creates());
        !log.any(|logged| logged.write.name == name(pod) && logged.by(CONTROLLER))
    };
    let is_new = || text_time(world, pod).is_none_or(|created| world.now() - created <= world.lag());
    world.recently(PODS, NAMESPACE, name(pod)).all(|state| uid(state) != uid(pod) || test(state))
        && !(is_new() && created_by_user())
}

fn text_time(world: &World, pod: &Value) -> Option<Instant> {
    world.states(PODS, NAMESPACE, name(pod)).iter().find(|(_, state)| state.is_some()).map(|(when, _)| *when)
}

/// The Pods of a set for a node that the controller must know: it controls and selects them in every state it may have seen.
pub(super) fn known_pods<'a>(
    world: &'a World,
    set: &'a Value,
    node: &'a str,
    test: impl Fn(&Value) -> bool + Copy + 'a,
) -> impl Iterator<Item = &'a Arc<Value>> {
    let known = move |pod: &Value| {
        target(pod) == node && controller_uid(pod) == uid(set) && selects(set, SELECTOR, pod) && test(pod)
    };
    DAEMON_SETS.dependents_of(world, set).filter(move |pod| always(world, pod, known))
}
