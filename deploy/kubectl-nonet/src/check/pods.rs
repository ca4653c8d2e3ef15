//! Finds Pods that do not start, and the reasons.

use k8s_openapi::{
    api::core::v1::{ContainerStatus, Pod, PodSpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::installation::{Installation, label_value, object_name, object_namespace};
use crate::{
    controllers::{COMPONENT_LABEL, CONTROLLER_NAME_LABEL},
    facts::{Facts, to_one_line},
    finding::{Finding, Findings, Topic},
};

/// Placeholder for the registry in the manifests, which `deploy/images/set` replaces. The name never resolves (RFC 2606).
const NO_REGISTRY: &str = "registry.invalid/";
/// Reasons of a waiting container that cannot get its image.
const IMAGE_PULL_FAILURES: &[&str] = &["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"];

/// Returns a finding for each Pod that does not start. The topic `installed` reports a list of Pods that cannot be read.
pub(super) fn check(facts: &Facts, installations: &[Installation<'_>]) -> Vec<Finding> {
    let mut findings = Findings::for_topic(Topic::Pods);
    let apply_again = |metadata: &ObjectMeta, value: &str, change: &str| -> String {
        let name = label_value(metadata, CONTROLLER_NAME_LABEL);
        let is = |i: &&Installation<'_>| i.controller.name == name && i.namespace == object_namespace(metadata);
        installations.iter().find(is).map(|i| i.apply_again_with(value, change)).unwrap_or_default()
    };
    for deployment in facts.deployments.iter().flatten() {
        let spec = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
        check_registry(&mut findings, "Deployment", &deployment.metadata, spec, &apply_again);
    }
    for pod in facts.pods.iter().flatten() {
        // A Pod of a Deployment has the image of its Deployment, which the loop above has checked.
        if !matches!(label_value(&pod.metadata, COMPONENT_LABEL), "controller" | "shadow") {
            check_registry(&mut findings, "Pod", &pod.metadata, pod.spec.as_ref(), &apply_again);
        }
        let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
        for container in statuses.into_iter().flatten() {
            check_container(&mut findings, pod, container, &apply_again);
        }
        check_scheduling(&mut findings, pod, &apply_again);
    }
    findings.into_list()
}

fn check_registry(
    findings: &mut Findings,
    what: &str,
    metadata: &ObjectMeta,
    spec: Option<&PodSpec>,
    apply_again: ApplyAgain<'_>,
) {
    let containers = spec.into_iter().flat_map(|spec| &spec.containers);
    let images = containers.filter_map(|container| container.image.as_deref());
    for image in images.filter(|image| image.starts_with(NO_REGISTRY)) {
        let found = format!(
            "{what} {}/{}: its image {image} has no registry",
            object_namespace(metadata),
            object_name(metadata)
        );
        let remedy = apply_again(metadata, "image.registry=REGISTRY/nonet", "deploy/images/set REGISTRY/nonet TAG");
        findings.add_problem(found, remedy);
    }
}

fn check_container(findings: &mut Findings, pod: &Pod, container: &ContainerStatus, apply_again: ApplyAgain<'_>) {
    let (place, pod_name) = (object_namespace(&pod.metadata), object_name(&pod.metadata));
    let waiting = container.state.as_ref().and_then(|state| state.waiting.as_ref());
    let reason = waiting.and_then(|waiting| waiting.reason.as_deref()).unwrap_or_default();
    let message = waiting.and_then(|waiting| waiting.message.as_deref()).map(|text| format!(": {}", shortened(text)));
    let message = message.unwrap_or_default();
    if IMAGE_PULL_FAILURES.contains(&reason) {
        if container.image.starts_with(NO_REGISTRY) {
            return;
        }
        let found = format!("Pod {place}/{pod_name} cannot pull {} ({reason}){message}", container.image);
        let change =
            "set a tag that exists with deploy/images/set, or add deploy/components/pull-secret to the overlay";
        let remedy = apply_again(&pod.metadata, "image.tag=TAG", change);
        findings.add_problem(found, format!("kubectl -n {place} describe pod {pod_name}; {remedy}"));
    } else if reason == "CrashLoopBackOff" {
        let last = container.last_state.as_ref().and_then(|state| state.terminated.as_ref());
        let last = last.map_or(String::new(), |last| {
            let text = last.message.as_deref().map(|text| format!(": {}", shortened(text))).unwrap_or_default();
            format!(", last with exit code {}{text}", last.exit_code)
        });
        let found = format!("Pod {place}/{pod_name} crashes, {} times so far{last}", container.restart_count);
        findings.add_problem(found, format!("kubectl -n {place} logs {pod_name} --previous"));
    } else if matches!(reason, "CreateContainerConfigError" | "CreateContainerError" | "RunContainerError") {
        let found = format!("Pod {place}/{pod_name} does not start ({reason}){message}");
        findings.add_problem(found, format!("kubectl -n {place} describe pod {pod_name}"));
    }
}

fn check_scheduling(findings: &mut Findings, pod: &Pod, apply_again: ApplyAgain<'_>) {
    let (place, pod_name) = (object_namespace(&pod.metadata), object_name(&pod.metadata));
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let refused = conditions.into_iter().flatten().find(|c| c.type_ == "PodScheduled" && c.status == "False");
    if let Some(refused) = refused {
        let why = shortened(refused.message.as_deref().or(refused.reason.as_deref()).unwrap_or("no reason given"));
        let found = format!("Pod {place}/{pod_name} finds no node: {why}");
        let single = apply_again(&pod.metadata, "ha=false", "take deploy/components/ha out of the overlay");
        let any_node = apply_again(&pod.metadata, "anyNode=true", "add deploy/components/any-node to the overlay");
        let toleration = "'tolerations[0].key=TAINT,tolerations[0].operator=Exists'";
        let tainted = apply_again(&pod.metadata, toleration, "tolerate the taint in the overlay");
        let remedy = format!(
            "on one control-plane node: {single}. Without control-plane nodes: {any_node}. With another taint: {tainted}"
        );
        findings.add_problem(found, remedy);
    }
}

/// Returns advice to apply the manifests of an object again with a value of the chart, or with a change of the overlay.
type ApplyAgain<'a> = &'a dyn Fn(&ObjectMeta, &str, &str) -> String;

fn shortened(text: &str) -> String {
    let line = to_one_line(text);
    if line.chars().count() > 300 { format!("{}…", line.chars().take(300).collect::<String>()) } else { line }
}
