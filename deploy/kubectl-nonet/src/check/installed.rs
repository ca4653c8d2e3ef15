//! Checks which controllers are installed, and whether they are ready.

use std::collections::BTreeMap;

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod, policy::v1::PodDisruptionBudget};

use super::{
    Stage,
    installation::{Installation, name, namespace},
    needed,
};
use crate::{
    facts::Facts,
    finding::{Finding, Findings, Status, Topic},
};

/// Checks Deployments, static Pods, rescue Pods and shadows.
pub(super) fn check(facts: &Facts, installations: &[Installation<'_>], stage: Stage) -> Vec<Finding> {
    let mut findings = Findings::of(Topic::Installed);
    if let Err(why) = &facts.search {
        let found = format!("cannot tell whether Nonet runs in other namespaces: {why}");
        findings.unknown(found, "name the namespace with -n");
    }
    if let Err(why) = &facts.deployments {
        findings.unreadable("which Deployments are installed", why);
    }
    if let Err(why) = &facts.pods {
        findings.unreadable("which Pods run", why);
    }
    for installation in installations {
        installation_of(&mut findings, facts, installation, stage);
    }
    twice(&mut findings, installations);
    let left_out: Vec<&str> = installations.iter().filter(|i| !i.exists()).map(|i| i.controller.name).collect();
    // An unreadable list may contain an installed controller.
    if facts.deployments.is_ok() && facts.pods.is_ok() && !left_out.is_empty() {
        let nothing = left_out.len() == installations.len();
        if nothing && matches!(stage, Stage::HandOver | Stage::Upgrade) {
            let remedy = "kubectl apply -k deploy/overlays/default, or name another cluster with --context";
            findings.problem("Nonet is not installed", remedy);
        } else if nothing {
            findings.info("Nonet is not installed: everything is left to kube-controller-manager");
        } else {
            findings.info(format!("not installed, and left to kube-controller-manager: {}", left_out.join(", ")));
        }
    }
    findings.into_list()
}

fn installation_of(findings: &mut Findings, facts: &Facts, installation: &Installation<'_>, stage: Stage) {
    for deployment in &installation.deployments {
        deployment_of(findings, facts, deployment, stage);
    }
    if !installation.static_pods.is_empty() {
        static_pods(findings, installation, stage);
    }
    let controller = installation.controller.name;
    if !installation.deployments.is_empty() && !installation.static_pods.is_empty() {
        let found = format!("{controller} is installed twice, as a Deployment and as static Pods, in one election");
        let place = installation.namespace;
        let remedy =
            format!("keep one: kubectl -n {place} delete deployment {}", name(&installation.deployments[0].metadata));
        findings.warning(found, remedy);
    }
    for pod in &installation.rescue_pods {
        let (place, pod) = (installation.namespace, name(&pod.metadata));
        let found = format!("the rescue Pod {place}/{pod} is still there");
        let remedy = format!("once the Deployment is ready: kubectl -n {place} delete pod {pod}");
        findings.warning(found, remedy);
    }
    for shadow in &installation.shadows {
        let (place, shadow) = (installation.namespace, name(&shadow.metadata));
        findings.info(format!("{controller} has a shadow, {place}/{shadow}, which writes nothing"));
    }
}

fn deployment_of(findings: &mut Findings, facts: &Facts, deployment: &Deployment, stage: Stage) {
    let (place, deployment_name) = (namespace(&deployment.metadata), name(&deployment.metadata));
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let status = deployment.status.clone().unwrap_or_default();
    let (ready, updated) = (status.ready_replicas.unwrap_or_default(), status.updated_replicas.unwrap_or_default());
    let observed = status.observed_generation >= deployment.metadata.generation;
    let what =
        format!("Deployment {place}/{deployment_name} ({}): {ready} of {wanted} replicas ready", image(deployment));
    let look = format!("kubectl -n {place} describe deployment {deployment_name}");
    if wanted == 0 {
        let severity = if stage == Stage::Removal { Status::Info } else { Status::Warning };
        let remedy = format!("kubectl -n {place} scale deployment {deployment_name} --replicas=2");
        findings.add(severity, format!("{what}; it is scaled to zero"), remedy);
    } else if ready < wanted {
        let severity = match stage {
            Stage::HandOver | Stage::Upgrade => Status::Problem,
            Stage::Running if ready == 0 => Status::Problem,
            Stage::Running | Stage::Removal => Status::Warning,
        };
        findings.add(severity, what, look);
    } else if !observed || updated < wanted || status.replicas.unwrap_or_default() > wanted {
        let found = format!("{what}; a rollout is in progress, {updated} of {wanted} updated");
        let remedy = format!("kubectl -n {place} rollout status deployment/{deployment_name}");
        findings.add(needed(stage, Stage::Upgrade, Status::Warning), found, remedy);
    } else {
        findings.ok(what);
    }
    if stage == Stage::Upgrade {
        protection(findings, facts, deployment, wanted);
    }
}

/// Warns if an upgrade or a drain may leave no replica that can lead.
fn protection(findings: &mut Findings, facts: &Facts, deployment: &Deployment, wanted: i32) {
    let (place, deployment_name) = (namespace(&deployment.metadata), name(&deployment.metadata));
    if wanted < 2 {
        let found = format!(
            "Deployment {place}/{deployment_name} has one replica: there is no standby during the upgrade, and a \
                new version that fails leaves no leader"
        );
        findings.warning(found, format!("kubectl -n {place} scale deployment {deployment_name} --replicas=2"));
    }
    let selected = deployment.spec.as_ref().and_then(|spec| spec.selector.match_labels.as_ref());
    let protects = |budget: &PodDisruptionBudget| {
        let labels = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref()?.match_labels.as_ref());
        namespace(&budget.metadata) == place && labels.is_some() && labels == selected
    };
    let what = format!("Deployment {place}/{deployment_name} has");
    match &facts.budgets {
        Err(why) => findings.unreadable(&format!("whether {what} a PodDisruptionBudget"), why),
        Ok(budgets) if budgets.iter().any(protects) => {}
        Ok(_) => findings.warning(
            format!("{what} no PodDisruptionBudget: a drain may evict all replicas at once"),
            "kubectl apply -k deploy/overlays/default",
        ),
    }
}

fn static_pods(findings: &mut Findings, installation: &Installation<'_>, stage: Stage) {
    let pods = &installation.static_pods;
    let idle: Vec<&str> = pods.iter().filter(|pod| !is_ready(pod)).map(|pod| name(&pod.metadata)).collect();
    let controller = installation.controller.name;
    let found = format!("{controller}: {} of {} static Pods ready", pods.len() - idle.len(), pods.len());
    if idle.is_empty() {
        findings.ok(found);
    } else {
        let must_be_ready = matches!(stage, Stage::HandOver | Stage::Upgrade) || idle.len() == pods.len();
        let severity = if must_be_ready { Status::Problem } else { Status::Warning };
        findings.add(severity, found, format!("kubectl -n {} describe pod {}", installation.namespace, idle.join(" ")));
    }
    if stage == Stage::Upgrade && pods.len() < 2 {
        let found =
            format!("{controller} has one static Pod: there is no leader during the upgrade until the new Pod leads");
        findings.warning(found, "");
    }
}

/// Reports each controller that is installed in several namespaces, where its elections are independent.
fn twice(findings: &mut Findings, installations: &[Installation<'_>]) {
    let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for installation in installations.iter().filter(|installation| installation.exists()) {
        places.entry(installation.controller.name).or_default().push(installation.namespace);
    }
    for (controller, places) in places.into_iter().filter(|(_, places)| places.len() > 1) {
        let found = format!(
            "{controller} is installed in several namespaces ({}), each with an election of its own",
            places.join(", ")
        );
        let remedy = format!("keep one: kubectl -n {} delete deployment nonet-{controller}", places[places.len() - 1]);
        findings.problem(found, remedy);
    }
}

/// Returns the image of a Deployment without the registry.
fn image(deployment: &Deployment) -> &str {
    let containers = deployment.spec.as_ref().and_then(|spec| spec.template.spec.as_ref()).map(|pod| &pod.containers);
    let image = containers.and_then(|containers| containers.first()?.image.as_deref()).unwrap_or("no image");
    image.rsplit_once('/').map_or(image, |(_, name)| name)
}

/// Whether a Pod is ready and not terminating.
pub(super) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let ready = conditions.into_iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True");
    ready && pod.metadata.deletion_timestamp.is_none()
}
