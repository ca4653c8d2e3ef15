//! Checks which controllers are installed, and whether they are ready.

use std::collections::BTreeMap;

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod, policy::v1::PodDisruptionBudget};

use super::{
    PlannedOperation,
    installation::{Installation, object_name, object_namespace},
    status_of_unmet_requirement,
};
use crate::{
    facts::Facts,
    finding::{Finding, FindingStatus, Findings, Topic},
};

/// Checks Deployments, static Pods, rescue Pods, and Deployments in shadow mode.
pub(super) fn check(facts: &Facts, installations: &[Installation<'_>], stage: PlannedOperation) -> Vec<Finding> {
    let mut findings = Findings::for_topic(Topic::Installed);
    if let Err(why) = &facts.cluster_wide_search {
        let found = format!("cannot tell whether Nonet runs in other namespaces: {why}");
        findings.add_unknown(found, "name the namespace with -n");
    }
    if let Err(why) = &facts.deployments {
        findings.add_unreadable_fact("which Deployments are installed", why);
    }
    if let Err(why) = &facts.pods {
        findings.add_unreadable_fact("which Pods run", why);
    }
    for installation in installations {
        check_installation(&mut findings, facts, installation, stage);
    }
    report_several_namespaces(&mut findings, installations);
    let left_out: Vec<&str> = installations.iter().filter(|i| !i.is_installed()).map(|i| i.controller.name).collect();
    // A list that could not be read may contain an installed controller.
    if facts.deployments.is_ok() && facts.pods.is_ok() && !left_out.is_empty() {
        let nothing = left_out.len() == installations.len();
        let has_manager = !super::switch::is_without_manager(facts);
        if nothing && matches!(stage, PlannedOperation::HandOver | PlannedOperation::Upgrade) {
            let remedy = "choose and install controllers as in docs/install, or name another cluster with --context";
            findings.add_problem("Nonet is not installed", remedy);
        } else if nothing {
            let rest = if has_manager { ": everything is left to kube-controller-manager" } else { "" };
            findings.add_info(format!("Nonet is not installed{rest}"));
        } else {
            let rest = if has_manager { ", and left to kube-controller-manager" } else { "" };
            findings.add_info(format!("not installed{rest}: {}", left_out.join(", ")));
        }
    }
    findings.into_list()
}

fn check_installation(
    findings: &mut Findings,
    facts: &Facts,
    installation: &Installation<'_>,
    stage: PlannedOperation,
) {
    for deployment in &installation.deployments {
        check_deployment(findings, facts, installation, deployment, stage);
    }
    if !installation.static_pods.is_empty() {
        static_pods(findings, installation, stage);
    }
    let controller = installation.controller.name;
    if !installation.deployments.is_empty() && !installation.static_pods.is_empty() {
        let found = format!("{controller} is installed twice, as a Deployment and as static Pods, in one election");
        let place = installation.namespace;
        let remedy = format!(
            "keep one: kubectl -n {place} delete deployment {}",
            object_name(&installation.deployments[0].metadata)
        );
        findings.add_warning(found, remedy);
    }
    for pod in &installation.rescue_pods {
        let (place, pod) = (installation.namespace, object_name(&pod.metadata));
        let found = format!("the rescue Pod {place}/{pod} is still there");
        let remedy = format!("once the Deployment is ready: kubectl -n {place} delete pod {pod}");
        findings.add_warning(found, remedy);
    }
    for shadow in &installation.shadow_deployments {
        let (place, shadow) = (installation.namespace, object_name(&shadow.metadata));
        findings.add_info(format!("{controller} has a shadow, {place}/{shadow}, which writes nothing"));
    }
}

fn check_deployment(
    findings: &mut Findings,
    facts: &Facts,
    installation: &Installation<'_>,
    deployment: &Deployment,
    stage: PlannedOperation,
) {
    let (place, deployment_name) = (object_namespace(&deployment.metadata), object_name(&deployment.metadata));
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let status = deployment.status.clone().unwrap_or_default();
    let (ready, updated) = (status.ready_replicas.unwrap_or_default(), status.updated_replicas.unwrap_or_default());
    let observed = status.observed_generation >= deployment.metadata.generation;
    let what =
        format!("Deployment {place}/{deployment_name} ({}): {ready} of {wanted} replicas ready", image(deployment));
    let look = format!("kubectl -n {place} describe deployment {deployment_name}");
    if wanted == 0 {
        let severity = if stage == PlannedOperation::Removal { FindingStatus::Info } else { FindingStatus::Warning };
        let remedy = format!("kubectl -n {place} scale deployment {deployment_name} --replicas=2");
        findings.add(severity, format!("{what}; it is scaled to zero"), remedy);
    } else if ready < wanted {
        let severity = match stage {
            PlannedOperation::HandOver | PlannedOperation::Upgrade => FindingStatus::Problem,
            PlannedOperation::NoOperation if ready == 0 => FindingStatus::Problem,
            PlannedOperation::NoOperation | PlannedOperation::Removal => FindingStatus::Warning,
        };
        findings.add(severity, what, look);
    } else if !observed || updated < wanted || status.replicas.unwrap_or_default() > wanted {
        let found = format!("{what}; a rollout is in progress, {updated} of {wanted} updated");
        let remedy = format!("kubectl -n {place} rollout status deployment/{deployment_name}");
        findings.add(
            status_of_unmet_requirement(stage, PlannedOperation::Upgrade, FindingStatus::Warning),
            found,
            remedy,
        );
    } else {
        findings.add_ok(what);
    }
    if stage == PlannedOperation::Upgrade {
        check_upgrade_protection(findings, facts, installation, deployment, wanted);
    }
}

/// Warns if an upgrade or a drain may leave no replica that can lead.
fn check_upgrade_protection(
    findings: &mut Findings,
    facts: &Facts,
    installation: &Installation<'_>,
    deployment: &Deployment,
    wanted: i32,
) {
    let (place, deployment_name) = (object_namespace(&deployment.metadata), object_name(&deployment.metadata));
    if wanted < 2 {
        let found = format!(
            "Deployment {place}/{deployment_name} has one replica: a new version starts beside it, but a drain or a lost \
                node leaves no leader until another replica is ready"
        );
        findings.add_warning(found, format!("kubectl -n {place} scale deployment {deployment_name} --replicas=2"));
    }
    let selected = deployment.spec.as_ref().and_then(|spec| spec.selector.match_labels.as_ref());
    let protects = |budget: &PodDisruptionBudget| {
        let labels = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref()?.match_labels.as_ref());
        object_namespace(&budget.metadata) == place && labels.is_some() && labels == selected
    };
    let what = format!("Deployment {place}/{deployment_name} has");
    match &facts.disruption_budgets {
        Err(why) => findings.add_unreadable_fact(&format!("whether {what} a PodDisruptionBudget"), why),
        Ok(budgets) if budgets.iter().any(protects) => {}
        Ok(_) => findings.add_warning(
            format!("{what} no PodDisruptionBudget: a drain may evict all replicas at once"),
            installation.apply_again(),
        ),
    }
}

fn static_pods(findings: &mut Findings, installation: &Installation<'_>, stage: PlannedOperation) {
    let pods = &installation.static_pods;
    let idle: Vec<&str> =
        pods.iter().filter(|pod| !is_ready_and_not_terminating(pod)).map(|pod| object_name(&pod.metadata)).collect();
    let controller = installation.controller.name;
    let found = format!("{controller}: {} of {} static Pods ready", pods.len() - idle.len(), pods.len());
    if idle.is_empty() {
        findings.add_ok(found);
    } else {
        let must_be_ready =
            matches!(stage, PlannedOperation::HandOver | PlannedOperation::Upgrade) || idle.len() == pods.len();
        let severity = if must_be_ready { FindingStatus::Problem } else { FindingStatus::Warning };
        findings.add(severity, found, format!("kubectl -n {} describe pod {}", installation.namespace, idle.join(" ")));
    }
    if stage == PlannedOperation::Upgrade && pods.len() < 2 {
        let found =
            format!("{controller} has one static Pod: there is no leader during the upgrade until the new Pod leads");
        findings.add_warning(found, "");
    }
}

/// Reports each controller that is installed in several namespaces, where its elections are independent.
fn report_several_namespaces(findings: &mut Findings, installations: &[Installation<'_>]) {
    let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for installation in installations.iter().filter(|installation| installation.is_installed()) {
        places.entry(installation.controller.name).or_default().push(installation.namespace);
    }
    for (controller, places) in places.into_iter().filter(|(_, places)| places.len() > 1) {
        let found = format!(
            "{controller} is installed in several namespaces ({}), each with an election of its own",
            places.join(", ")
        );
        let hold = places.iter().map(|place| format!("kubectl nonet hold {controller} -n {place}"));
        let remedy = format!(
            "keep one: hold the other at once, and then remove it there: {}",
            hold.collect::<Vec<_>>().join(", or ")
        );
        findings.add_problem(found, remedy);
    }
}

/// Returns the image of a Deployment without the registry.
fn image(deployment: &Deployment) -> &str {
    let containers = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref()).map(|pod| &pod.containers);
    let image = containers.and_then(|containers| containers.first()?.image.as_deref()).unwrap_or("no image");
    image.rsplit_once('/').map_or(image, |(_, name)| name)
}

/// Whether a Pod is ready and not terminating.
pub(super) fn is_ready_and_not_terminating(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions.into_iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True");
    ready && pod.metadata.deletion_timestamp.is_none()
}
