//! Checks the versions of the API server, of kube-controller-manager and of Nonet.

use std::collections::BTreeSet;

use common::process::leader::probation::VERSION_ANNOTATION;
use k8s_openapi::api::core::v1::Pod;

use super::{
    PlannedOperation,
    installation::{Installation, object_name},
    status_of_unmet_requirement,
};
use crate::{
    facts::Facts,
    finding::{Finding, FindingStatus, Findings, Topic},
};

/// Minor versions of Kubernetes 1.x with which all suites were run.
const SUPPORTED: std::ops::RangeInclusive<u32> = 33..=36;

/// Compares the versions of Kubernetes with the supported versions, and the replicas of each controller with each other.
pub(super) fn check(facts: &Facts, installations: &[Installation<'_>], stage: PlannedOperation) -> Vec<Finding> {
    let mut findings = Findings::for_topic(Topic::Versions);
    match &facts.server_version {
        Err(why) => findings.add_unreadable_fact("the version of the API server", why),
        Ok(version) => check_kubernetes_version(&mut findings, "the API server", version, FindingStatus::Problem),
    }
    let managers: BTreeSet<&str> =
        facts.kube_controller_manager.pods.iter().flatten().filter_map(|pod| image_tag(image(pod)?)).collect();
    for version in &managers {
        check_kubernetes_version(&mut findings, "kube-controller-manager", version, FindingStatus::Warning);
    }
    if managers.len() > 1 {
        findings.add_info(
            "kube-controller-manager runs in several versions: an upgrade of the control plane is in progress",
        );
    }
    for installation in installations.iter().filter(|installation| installation.is_installed()) {
        check_replica_images(&mut findings, installation, stage);
    }
    findings.into_list()
}

fn check_kubernetes_version(findings: &mut Findings, what: &str, version: &str, otherwise: FindingStatus) {
    let (first, last) = (SUPPORTED.start(), SUPPORTED.end());
    match parse_major_and_minor(version) {
        Some((1, minor)) if SUPPORTED.contains(&minor) => findings.add_ok(format!("{what} is {version}")),
        Some(parsed) => {
            // A newer version is likely to work.
            let otherwise = if parsed > (1, *last) { FindingStatus::Warning } else { otherwise };
            let found = format!("{what} is {version}; Nonet works with 1.{first} to 1.{last}");
            findings.add(otherwise, found, "use a release of Nonet that supports it: see docs/operating.md, Versions");
        }
        None => {
            let found = format!("cannot tell the version of {what}: {version:?} is not a version of Kubernetes");
            findings.add_unknown(found, "kubectl version");
        }
    }
}

/// Parses the major and the minor version of a text such as `v1.36.2`.
fn parse_major_and_minor(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.strip_prefix('v')?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Checks that all replicas of a controller have the same image.
fn check_replica_images(findings: &mut Findings, installation: &Installation<'_>, stage: PlannedOperation) {
    let images: BTreeSet<&str> = installation.pods_in_election().filter_map(image).collect();
    let controller = installation.controller.name;
    if images.len() > 1 {
        let all = images.iter().copied().collect::<Vec<_>>().join(", ");
        let names: Vec<&str> = installation.pods_in_election().map(|pod| object_name(&pod.metadata)).collect();
        let found = format!("{controller} runs in {} versions ({all}): a rollout is in progress", images.len());
        let remedy = format!("kubectl -n {} get pods {}", installation.namespace, names.join(" "));
        findings.add(status_of_unmet_requirement(stage, PlannedOperation::Upgrade, FindingStatus::Info), found, remedy);
    } else if let Some(version) =
        installation.lease_annotation(VERSION_ANNOTATION).filter(|_| installation.election.has_leader())
    {
        findings.add_ok(format!("the leader of {controller} is {version}"));
    }
}

fn image(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.containers.first()?.image.as_deref()
}

/// Returns the tag of an image, without the digest. The port of a registry is no tag.
pub(super) fn image_tag(image: &str) -> Option<&str> {
    let image = image.split_once('@').map_or(image, |(image, _)| image);
    let last = image.rsplit_once('/').map_or(image, |(_, last)| last);
    last.split_once(':').map(|(_, tag)| tag)
}
