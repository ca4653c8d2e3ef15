//! What a Pod waits for: the scheduler, the kubelet, a container, a probe, a finalizer.

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{ContainerStatus, Node, Pod, PodCondition};

use super::{
    scope::{Scope, age, name, uid},
    tree::{Branch, Weight},
};
use crate::facts::to_one_line;

/// Returns the branch of a Pod.
pub(super) async fn branch(scope: &Scope, pod: &Pod) -> Branch {
    let mut branch = Branch::new("Pod", name(&pod.metadata));
    let node = node_name(pod);
    node.clone_into(&mut branch.node);
    if pod.metadata.deletion_timestamp.is_some() {
        terminating(scope, pod, &mut branch).await;
    } else if matches!(phase(pod), "Succeeded" | "Failed") {
        ended(scope, pod, &mut branch);
    } else if node.is_empty() {
        unscheduled(scope, pod, &mut branch).await;
    } else {
        on_node(scope, pod, node, &mut branch).await;
    }
    branch
}

/// Returns the branch of a Pod, with owners that do not exist and budgets that allow no eviction.
pub(super) async fn whole_branch(scope: &Scope, pod: &Pod) -> Branch {
    let mut branch = branch(scope, pod).await;
    super::objects::owners(scope, &pod.metadata, "Pod", &mut branch).await;
    if pod.metadata.deletion_timestamp.is_none() && !matches!(phase(pod), "Succeeded" | "Failed") {
        super::objects::refused_eviction(scope, pod, &mut branch).await;
    }
    branch
}

/// Whether the Pod is ready, and not being deleted.
pub(super) fn is_ready(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none() && condition(pod, "Ready").is_some_and(|ready| ready.status == "True")
}

/// Returns `status.phase`.
pub(super) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn node_name(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    pod.status.as_ref()?.conditions.iter().flatten().find(|condition| condition.type_ == kind)
}

fn kubectl(scope: &Scope, command: &str) -> String {
    if scope.namespace.is_empty() {
        format!("kubectl {command}")
    } else {
        format!("kubectl -n {} {command}", scope.namespace)
    }
}

/// Returns the node of a Pod if its kubelet does not report any more, with the reason.
async fn silent_node(scope: &Scope, node: &str) -> Option<String> {
    if node.is_empty() {
        return None;
    }
    let nodes = scope.list::<Node>().await;
    if nodes.is_empty() {
        return None;
    }
    let Some(found) = nodes.iter().find(|each| name(&each.metadata) == node) else {
        return Some(format!("node {node} does not exist any more, and the Pod garbage collector removes its Pods"));
    };
    let conditions = found.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions.into_iter().flatten().find(|condition| condition.type_ == "Ready")?;
    match ready.status.as_str() {
        "True" => None,
        "Unknown" => Some(format!("the kubelet of node {node} does not report any more")),
        _ => Some(format!("node {node} is not ready: {}", to_one_line(ready.message.as_deref().unwrap_or_default()))),
    }
}

async fn terminating(scope: &Scope, pod: &Pod, branch: &mut Branch) {
    let Some(at) = pod.metadata.deletion_timestamp.as_ref().map(|time| time.0) else { return };
    let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or_default();
    let asked = at.checked_sub(SignedDuration::from_secs(grace)).unwrap_or(at);
    let left = at.duration_since(scope.now);
    let rest = if left.is_positive() { format!("{} left", age(left)) } else { format!("over since {}", age(-left)) };
    branch.say("metadata", format!("terminating since {}; grace period {grace}s, {rest}", scope.since(asked)));
    let pod_name = name(&pod.metadata);
    let finalizers = pod.metadata.finalizers.clone().unwrap_or_default();
    if let Some(why) = silent_node(scope, node_name(pod)).await {
        branch.say("Node", &why);
        branch.blame(
            Weight::Fails,
            format!("Pod {pod_name} cannot end: {why}"),
            [
                format!(
                    "bring the node back; only if it is certainly switched off and never comes back: kubectl delete node {}",
                    node_name(pod)
                ),
                format!(
                    "only if the containers certainly do not run any more: {}",
                    kubectl(scope, &format!("delete pod {pod_name} --force --grace-period=0"))
                ),
            ],
        );
    } else if !finalizers.is_empty() {
        let list = finalizers.join(", ");
        branch.say("metadata", format!("finalizers: {list}"));
        if finalizers == ["batch.kubernetes.io/job-tracking"] {
            branch.blame(
                Weight::Fails,
                format!("Pod {pod_name} is held by the finalizer of its Job, which the Job controller has not removed"),
                [format!("see why the Job controller does not work: {}", "kubectl nonet status")],
            );
        } else {
            branch.blame(
                Weight::Fails,
                format!("Pod {pod_name} is held by finalizers: {list}"),
                ["start the controller that removes the finalizer; remove it by hand only if that controller will never run again".to_owned()],
            );
        }
    } else if !left.is_positive() && !node_name(pod).is_empty() {
        branch.blame(
            Weight::Fails,
            format!("the kubelet of node {} has not reported the end of Pod {pod_name}", node_name(pod)),
            [format!("read the log of the kubelet on node {}: a container or a volume may not stop", node_name(pod))],
        );
    } else if left.is_positive() {
        branch.blame(Weight::Waits, format!("Pod {pod_name} has {} left to end", age(left)), ["wait".to_owned()]);
    }
}

fn ended(scope: &Scope, pod: &Pod, branch: &mut Branch) {
    let status = pod.status.clone().unwrap_or_default();
    let reason = status.reason.as_deref().unwrap_or_default();
    let message = to_one_line(status.message.as_deref().unwrap_or_default());
    let pod_name = name(&pod.metadata);
    if phase(pod) == "Succeeded" {
        branch.say("kubelet", "Succeeded");
        return;
    }
    if reason.is_empty() {
        let all = status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten());
        let exits: Vec<String> = all.filter_map(last_exit).filter(|exit| !exit.ends_with("exited with 0")).collect();
        branch.say("kubelet", format!("Failed: {}", exits.join("; ")));
        branch.blame(
            Weight::Fails,
            format!("Pod {pod_name} failed: {}", exits.join("; ")),
            [kubectl(scope, &format!("logs {pod_name} --all-containers"))],
        );
        return;
    }
    let said = if message.is_empty() { reason.to_owned() } else { format!("{reason}: {message}") };
    branch.say("kubelet", format!("Failed: {said}"));
    let remedy = match reason {
        "Evicted" => format!("give the node {} room, or set requests and limits that fit", node_name(pod)),
        "DeadlineExceeded" => "raise activeDeadlineSeconds, or make the Pod faster".to_owned(),
        _ => kubectl(scope, &format!("describe pod {pod_name}")),
    };
    branch.blame(Weight::Fails, format!("Pod {pod_name} failed: {said}"), [remedy]);
}

/// The texts of the scheduler about nodes that do not fit, with what people do.
const SCHEDULER_REASONS: [(&str, &str); 19] = [
    ("Insufficient cpu", "lower the CPU requests, remove other Pods, or add a node"),
    ("Insufficient memory", "lower the memory requests, remove other Pods, or add a node"),
    ("Insufficient ephemeral-storage", "lower the requests of ephemeral storage, or add a node"),
    ("Insufficient nvidia.com/gpu", "add a node with a free GPU, and see its device plug-in"),
    ("Too many pods", "add a node, or raise maxPods of the kubelets"),
    ("untolerated taint", "add a toleration to the Pod, or a node without the taint"),
    ("didn't match Pod's node affinity/selector", "correct nodeSelector or affinity, or label a node"),
    (
        "didn't match pod anti-affinity rules",
        "add a node, lower the replicas, or prefer anti-affinity without requiring it",
    ),
    ("didn't satisfy existing pods anti-affinity rules", "add a node, or correct the anti-affinity of the other Pods"),
    ("didn't match pod affinity rules", "correct the affinity, or start the Pods that it asks for first"),
    ("didn't have free ports", "do not use hostPort, or run fewer Pods than nodes"),
    ("volume node affinity conflict", "make room where the volume is"),
    ("didn't match PersistentVolume's node affinity", "make room where the volume is"),
    (
        "didn't find available persistent volumes to bind",
        "create a PersistentVolume that fits, or see the StorageClass",
    ),
    ("exceed max volume count", "add a node, or use fewer volumes on a node"),
    ("unbound immediate PersistentVolumeClaims", "see the claim: kubectl nonet why pvc/NAME"),
    (
        "didn't match pod topology spread constraints",
        "add nodes in the missing zones, or use whenUnsatisfiable: ScheduleAnyway",
    ),
    ("node(s) were unschedulable", "kubectl uncordon NODE"),
    ("no nodes available to schedule pods", "add a node"),
];

async fn unscheduled(scope: &Scope, pod: &Pod, branch: &mut Branch) {
    let pod_name = name(&pod.metadata);
    let spec = pod.spec.clone().unwrap_or_default();
    let Some(scheduled) = condition(pod, "PodScheduled").filter(|scheduled| scheduled.status != "True") else {
        let scheduler = spec.scheduler_name.unwrap_or_else(|| "default-scheduler".to_owned());
        branch.say("status", format!("no node, and the scheduler {scheduler} has not said why"));
        let remedy = if scheduler == "default-scheduler" {
            "see whether kube-scheduler runs: kubectl -n kube-system get lease kube-scheduler".to_owned()
        } else {
            format!("start the scheduler {scheduler}, or remove schedulerName")
        };
        branch.blame(Weight::Fails, format!("the scheduler {scheduler} has not considered Pod {pod_name}"), [remedy]);
        return;
    };
    let message = to_one_line(scheduled.message.as_deref().unwrap_or_default());
    let reason = scheduled.reason.as_deref().unwrap_or_default();
    branch.say("scheduler", format!("{reason}: {message}"));
    if reason == "SchedulingGated" {
        let gates: Vec<String> = spec.scheduling_gates.iter().flatten().map(|gate| gate.name.clone()).collect();
        branch.blame(
            Weight::Rests,
            format!("Pod {pod_name} has scheduling gates: {}", gates.join(", ")),
            ["wait for the controller that removes them".to_owned()],
        );
        return;
    }
    for claim in super::storage::claims_of(scope, pod).await {
        branch.add_children([claim]);
    }
    if branch.children.iter().any(|claim| !claim.causes.is_empty()) {
        return;
    }
    // "0/5 nodes are available: 3 Insufficient cpu, 2 node(s) had untolerated taint {a: b}. preemption: ..."
    let nodes = message.split_once("nodes are available: ").map_or(message.as_str(), |(_, rest)| rest);
    let nodes = nodes.split(" preemption:").next().unwrap_or_default();
    let nodes = nodes.trim().trim_end_matches('.');
    let known =
        SCHEDULER_REASONS.iter().filter(|(text, _)| nodes.contains(text)).map(|(_, remedy)| (*remedy).to_owned());
    let mut remedies: Vec<String> = known.collect();
    if remedies.is_empty() {
        remedies.push(kubectl(scope, &format!("describe pod {pod_name}")));
    }
    branch.blame(Weight::Fails, format!("Pod {pod_name} fits on no node: {nodes}"), remedies);
}

/// Describes how a container ended last; `None` if it never ended.
fn last_exit(status: &ContainerStatus) -> Option<String> {
    let ended = |state: &k8s_openapi::api::core::v1::ContainerState| state.terminated.clone();
    let exit = status.state.as_ref().and_then(ended).or_else(|| status.last_state.as_ref().and_then(ended))?;
    let message = exit.message.as_deref().map(to_one_line).unwrap_or_default();
    let reason = match exit.reason.as_deref() {
        None | Some("Error" | "Completed") => String::new(),
        Some(reason @ ("StartError" | "ContainerCannotRun")) => format!(" ({reason}: {message})"),
        Some(reason) => format!(" ({reason})"),
    };
    Some(format!("container {} exited with {}{reason}", status.name, exit.exit_code))
}

async fn on_node(scope: &Scope, pod: &Pod, node: &str, branch: &mut Branch) {
    let pod_name = name(&pod.metadata);
    let status = pod.status.clone().unwrap_or_default();
    if let Some(why) = silent_node(scope, node).await {
        branch.say("Node", &why);
        branch.blame(
            Weight::Fails,
            format!("Pod {pod_name} is not ready: {why}"),
            [format!("bring the node back: kubectl nonet why node/{node}")],
        );
        return;
    }
    let source = "kubelet";
    let inits = status.init_container_statuses.iter().flatten();
    for (container, is_init) in
        inits.map(|each| (each, true)).chain(status.container_statuses.iter().flatten().map(|each| (each, false)))
    {
        container_line(scope, pod, container, is_init, source, branch);
    }
    if branch.causes.is_empty() && phase(pod) == "Pending" {
        let reasons =
            ["FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox", "FailedMapVolume", "NetworkNotReady"];
        if let Some(event) = scope.newest_event(uid(&pod.metadata), &reasons) {
            let (message, quoted) = scope.quote(event);
            branch.say(quoted, &message);
            let what = match event.reason.as_deref() {
                Some("FailedCreatePodSandBox" | "NetworkNotReady") => {
                    "the node cannot create the network or the sandbox of the Pod"
                }
                _ => "a volume cannot be mounted",
            };
            branch.blame(
                Weight::Fails,
                format!("Pod {pod_name} does not start: {what}: {message}"),
                [kubectl(scope, &format!("describe pod {pod_name}"))],
            );
        } else {
            let since = status.start_time.as_ref().map(|time| format!(" for {}", scope.since(time.0)));
            branch.say(source, format!("starts its containers{}", since.unwrap_or_default()));
            branch.blame(
                Weight::Waits,
                format!("Pod {pod_name} starts"),
                ["wait; if it takes long, images are pulled or volumes attached".to_owned()],
            );
        }
        return;
    }
    if branch.causes.is_empty() && !is_ready(pod) {
        not_ready(scope, pod, source, branch);
    }
    if is_ready(pod) && branch.lines.is_empty() {
        branch.say(source, "ready");
    }
}

fn container_line(
    scope: &Scope,
    pod: &Pod,
    container: &ContainerStatus,
    is_init: bool,
    source: &str,
    branch: &mut Branch,
) {
    let pod_name = name(&pod.metadata);
    let kind = if is_init { "init container" } else { "container" };
    let called = &container.name;
    let logs = |previous: &str| kubectl(scope, &format!("logs {pod_name} -c {called}{previous}"));
    let state = container.state.clone().unwrap_or_default();
    if let Some(waiting) = state.waiting {
        let reason = waiting.reason.unwrap_or_default();
        let message = to_one_line(waiting.message.as_deref().unwrap_or_default());
        let said = if message.is_empty() { reason.clone() } else { format!("{reason}: {message}") };
        match reason.as_str() {
            "PodInitializing" | "ContainerCreating" | "" => {}
            "ErrImagePull"
            | "ImagePullBackOff"
            | "InvalidImageName"
            | "ErrImageNeverPull"
            | "ImageInspectError"
            | "RegistryUnavailable" => {
                // The kubelet repeats the error of the attempt while it waits for the next one.
                let error = message.split_once("ErrImagePull: ").map_or(message.as_str(), |(_, error)| error);
                branch.say(source, format!("{kind} {called}: image {}: {error}", container.image));
                let end = error.rsplit(": ").next().filter(|_| error.contains(": ")).map(|end| format!(": {end}"));
                let remedy = format!(
                    "correct the image or the pull secret in the template, or push the image {}",
                    container.image
                );
                let text = format!("the image {} cannot be pulled{}", container.image, end.unwrap_or_default());
                branch.blame(Weight::Fails, text, [remedy]);
            }
            "CrashLoopBackOff" => {
                let exit = last_exit(container).unwrap_or_else(|| format!("container {called} ended"));
                branch.say(
                    source,
                    format!("{kind} {called}: {reason} after {} restarts; {exit}", container.restart_count),
                );
                let killed = scope.newest_event(uid(&pod.metadata), &["Unhealthy"]).filter(|event| {
                    let message = event.message.as_deref().unwrap_or_default();
                    ["Liveness probe", "Startup probe"].iter().any(|probe| message.starts_with(probe))
                });
                if let Some(event) = killed {
                    let (message, quoted) = scope.quote(event);
                    branch.say(quoted, &message);
                    branch.blame(
                        Weight::Fails,
                        format!("{kind} {called} of Pod {pod_name} is killed by its probe: {message}"),
                        [
                            "give the program more time (startupProbe, initialDelaySeconds), or correct the probe"
                                .to_owned(),
                            logs(" --previous"),
                        ],
                    );
                    return;
                }
                let oom = exit.contains("OOMKilled");
                let remedies = if oom {
                    vec!["raise the memory limit, or make the program use less".to_owned(), logs(" --previous")]
                } else {
                    vec![logs(" --previous")]
                };
                let what = if exit.ends_with("exited with 0") {
                    "ends again and again, and a Pod of this workload must not end"
                } else if oom {
                    "is killed because it needs more memory than its limit"
                } else {
                    "crashes again and again"
                };
                branch.blame(Weight::Fails, format!("{kind} {called} of Pod {pod_name} {what} ({exit})"), remedies);
            }
            "CreateContainerConfigError" => {
                branch.say(source, format!("{kind} {called}: {said}"));
                branch.blame(
                    Weight::Fails,
                    format!("{kind} {called} of Pod {pod_name} cannot be configured: {message}"),
                    ["create the missing ConfigMap, Secret or key, or correct its name".to_owned()],
                );
            }
            _ => {
                branch.say(source, format!("{kind} {called}: {said}"));
                branch.blame(
                    Weight::Fails,
                    format!("{kind} {called} of Pod {pod_name} does not start: {said}"),
                    [kubectl(scope, &format!("describe pod {pod_name}"))],
                );
            }
        }
    } else if let Some(ended) = state.terminated {
        if is_init && ended.exit_code == 0 {
            return;
        }
        let exit = last_exit(container).unwrap_or_default();
        branch.say(source, exit.clone());
        if ended.exit_code != 0 {
            branch.blame(Weight::Fails, format!("{kind} {called} of Pod {pod_name} failed ({exit})"), [logs("")]);
        }
    } else if is_init && state.running.is_some() && !(is_sidecar(pod, called) && container.started == Some(true)) {
        branch.say(source, format!("init container {called} still runs"));
        branch.blame(Weight::Waits, format!("init container {called} of Pod {pod_name} has not ended"), [logs("")]);
    }
}

/// Whether an init container keeps running beside the others.
fn is_sidecar(pod: &Pod, container: &str) -> bool {
    let inits = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    inits.into_iter().any(|each| each.name == container && each.restart_policy.as_deref() == Some("Always"))
}

fn not_ready(scope: &Scope, pod: &Pod, source: &str, branch: &mut Branch) {
    let pod_name = name(&pod.metadata);
    let spec = pod.spec.clone().unwrap_or_default();
    let gates = spec.readiness_gates.unwrap_or_default();
    let open = |gate: &str| condition(pod, gate).is_some_and(|condition| condition.status == "True");
    let closed: Vec<String> = gates.into_iter().map(|gate| gate.condition_type).filter(|gate| !open(gate)).collect();
    let status = pod.status.clone().unwrap_or_default();
    let sidecars = status.init_container_statuses.iter().flatten().filter(|each| is_sidecar(pod, &each.name));
    let all = sidecars.chain(status.container_statuses.iter().flatten());
    let is_running = |each: &&ContainerStatus| each.state.as_ref().is_some_and(|state| state.running.is_some());
    let (running, ended): (Vec<_>, Vec<_>) = all.partition(is_running);
    if !ended.is_empty() && !running.is_empty() {
        let names: Vec<&str> = running.iter().map(|container| container.name.as_str()).collect();
        let names = names.join(", ");
        branch.say(source, format!("container {names} still runs"));
        branch.blame(
            Weight::Waits,
            format!("Pod {pod_name} ends when its container {names} ends"),
            [kubectl(scope, &format!("logs {pod_name} -c {}", running[0].name))],
        );
        return;
    }
    let unready: Vec<&ContainerStatus> = running.into_iter().filter(|container| !container.ready).collect();
    if let Some(event) = scope.newest_event(uid(&pod.metadata), &["Unhealthy"]).filter(|_| !unready.is_empty()) {
        let (message, quoted) = scope.quote(event);
        branch.say(quoted, &message);
        let names: Vec<&str> = unready.iter().map(|container| container.name.as_str()).collect();
        branch.blame(
            Weight::Fails,
            format!("container {} of Pod {pod_name} runs and is not ready: {message}", names.join(", ")),
            [
                kubectl(scope, &format!("logs {pod_name} -c {}", names[0])),
                "correct the probe if the program works".to_owned(),
            ],
        );
    } else if !unready.is_empty() {
        for container in &unready {
            let step = if container.started == Some(false) {
                "has not passed its startup probe"
            } else {
                "has not passed its readiness probe"
            };
            branch.say(source, format!("container {} runs and {step}", container.name));
        }
        branch.blame(
            Weight::Waits,
            format!("container {} of Pod {pod_name} runs and is not ready yet", unready[0].name),
            [kubectl(scope, &format!("logs {pod_name} -c {}", unready[0].name))],
        );
    } else if !closed.is_empty() {
        branch.say("status", format!("readiness gates without a condition True: {}", closed.join(", ")));
        branch.blame(
            Weight::Fails,
            format!("Pod {pod_name} waits for the readiness gates {}", closed.join(", ")),
            ["see the controller that sets these conditions, for example that of the load balancer".to_owned()],
        );
    } else {
        branch.say(source, "not ready, and it does not say why");
        branch.blame(
            Weight::Waits,
            format!("Pod {pod_name} is not ready"),
            [kubectl(scope, &format!("describe pod {pod_name}"))],
        );
    }
}
