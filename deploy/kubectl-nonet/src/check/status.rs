//! The status of each installed controller: state of the election, leader, version and standbys.

use common::process::leader::probation::{PROBATION_ANNOTATION, VERSION_ANNOTATION};
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use serde::Serialize;

use super::{
    PlannedOperation, age, check_installations,
    election::LeaderElectionState,
    installation::{Installation, all_installations},
    installed::is_ready_and_not_terminating,
    span,
};
use crate::{
    facts::Facts,
    finding::{Finding, FindingStatus, Topic},
};

/// Port on which a controller of a Deployment serves metrics and diagnostics.
const SECURE_PORT: i32 = 10257;

/// The part that a controller takes in its election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ControllerState {
    /// A process leads.
    Leads,
    /// A process of a new version leads, and is replaced by the old version if it fails.
    OnProbation,
    /// The Lease is held, and no process has led with it.
    Held,
    /// The Lease is held, and a process has led before.
    HeldAfterLeading,
    /// The Lease has expired, or its holder has stopped renewing it.
    Expired,
    /// The Lease has no holder.
    Free,
    /// The Lease does not exist.
    NoLease,
    /// The Lease could not be read.
    Unknown,
    /// A Deployment in shadow mode, which takes part in no election.
    Shadow,
}

impl ControllerState {
    /// Returns the name of the state in the text form.
    pub fn text(self) -> &'static str {
        match self {
            Self::Leads => "leads",
            Self::OnProbation => "on probation",
            Self::Held => "held",
            Self::HeldAfterLeading => "held after leading",
            Self::Expired => "expired",
            Self::Free => "free",
            Self::NoLease => "no Lease",
            Self::Unknown => "unknown",
            Self::Shadow => "shadow",
        }
    }

    /// Whether a process leads.
    pub fn is_led(self) -> bool {
        matches!(self, Self::Leads | Self::OnProbation)
    }
}

/// The status of one controller in one namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerStatus {
    /// Name of the controller.
    pub name: &'static str,
    /// Namespace of its Lease and its Pods.
    pub namespace: String,
    /// State of the election.
    pub state: ControllerState,
    /// Identity of the leader; `None` without a leader.
    pub leader: Option<String>,
    /// Time for which the leader has led, such as `5 h`; `None` without a leader.
    pub led_for: Option<String>,
    /// Version of the leader; `None` without a leader, or if the leader has not written its version.
    pub version: Option<String>,
    /// Images of its replicas, without the registry.
    pub images: Vec<String>,
    /// How many ready replicas do not lead; `None` if the Pods could not be read. Their caches are filled.
    pub ready_standbys: Option<usize>,
    /// How many replicas do not lead, with those that are still to be created; `None` if the Pods could not be read.
    pub standbys: Option<usize>,
    /// Command that forwards a local port to the diagnostics of the leader; `None` if the leader is not a Pod.
    pub port_forward: Option<String>,
}

/// The status of all controllers, and the findings about them.
#[derive(Clone, Debug)]
pub struct StatusReport {
    /// One entry for each installed controller, and one for each that has a shadow.
    pub controllers: Vec<ControllerStatus>,
    /// Findings that need attention.
    pub findings: Vec<Finding>,
    /// State of kube-controller-manager if Nonet is known not to be installed, otherwise `None`.
    pub without_nonet: Option<String>,
}

impl StatusReport {
    /// Returns 1 with a problem or an installed controller without a leader, otherwise 3 with an unknown fact, otherwise 0.
    pub fn exit_code(&self) -> u8 {
        let is_idle = |c: &ControllerStatus| {
            !c.state.is_led() && !matches!(c.state, ControllerState::Shadow | ControllerState::Unknown)
        };
        let is_idle = self.controllers.iter().any(is_idle);
        if is_idle { 1 } else { crate::finding::exit_code(&self.findings) }
    }
}

/// Returns the status of the installed controllers.
pub fn status(facts: &Facts) -> StatusReport {
    let stated = facts.stated_namespace.as_deref();
    let mut installations = all_installations(facts);
    installations.retain(|i| stated.is_none_or(|namespace| namespace == i.namespace));
    let mut controllers = Vec::new();
    for installation in &installations {
        // A controller that runs outside the cluster has a leader and no Pod.
        if installation.is_installed() || installation.election.has_leader() {
            controllers.push(status_of(facts, installation));
        }
        if !installation.shadow_deployments.is_empty() {
            controllers.push(status_of_shadow(installation));
        }
    }
    let is_known = facts.deployments.is_ok() && facts.pods.is_ok() && facts.cluster_wide_search.is_ok();
    if controllers.is_empty() && is_known {
        let place = stated.map_or("this cluster".to_owned(), |namespace| format!("the namespace {namespace}"));
        let manager = manager_state(facts);
        let without_nonet = Some(format!("Nonet is not installed in {place}; {manager}"));
        return StatusReport { controllers, findings: Vec::new(), without_nonet };
    }
    let mut findings = check_installations(facts, &installations, PlannedOperation::NoOperation);
    findings.retain(|finding| {
        let is_advice = finding.status >= FindingStatus::Warning || finding.remedy.is_some();
        is_advice && matches!(finding.topic, Topic::Installed | Topic::Pods | Topic::Leases | Topic::Loops)
    });
    StatusReport { controllers, findings, without_nonet: None }
}

fn status_of(facts: &Facts, installation: &Installation<'_>) -> ControllerStatus {
    let election = installation.election;
    let state = match election {
        LeaderElectionState::Led { .. } if !election.has_leader() => ControllerState::Expired,
        LeaderElectionState::Led { .. } if installation.lease_annotation(PROBATION_ANNOTATION).is_some() => {
            ControllerState::OnProbation
        }
        LeaderElectionState::Led { .. } => ControllerState::Leads,
        LeaderElectionState::HeldForHandOver { has_been_led: true, .. } => ControllerState::HeldAfterLeading,
        LeaderElectionState::HeldForHandOver { .. } => ControllerState::Held,
        LeaderElectionState::Expired { .. } => ControllerState::Expired,
        LeaderElectionState::NoHolder => ControllerState::Free,
        LeaderElectionState::Absent => ControllerState::NoLease,
        LeaderElectionState::Unreadable(_) => ControllerState::Unknown,
    };
    let leader = if let LeaderElectionState::Led { holder, .. } = election { Some(holder) } else { None };
    let leader = leader.filter(|_| state.is_led());
    let pod = leader.and_then(|holder| installation.pod_with_identity(holder));
    let now = installation.lease_reading().map(|reading| reading.read_at).unwrap_or_default();
    let is_standby = |candidate: &&Pod| pod.is_none_or(|pod| pod.metadata.name != candidate.metadata.name);
    let standbys: Vec<&Pod> = installation.pods_in_election().filter(is_standby).collect();
    let ready = standbys.iter().filter(|pod| is_ready_and_not_terminating(pod)).count();
    let wanted: i32 =
        installation.deployments.iter().filter_map(|d| Some(d.spec.as_ref()?.replicas.unwrap_or(1))).sum();
    let wanted = usize::try_from(wanted).unwrap_or_default().saturating_sub(usize::from(pod.is_some()));
    let standbys = standbys.len().max(wanted);
    ControllerStatus {
        name: installation.controller.name,
        namespace: installation.namespace.to_owned(),
        state,
        leader: leader.map(str::to_owned),
        led_for: election.leader_since().filter(|_| leader.is_some()).map(|since| age(since, now)),
        version: installation.lease_annotation(VERSION_ANNOTATION).filter(|_| leader.is_some()).map(str::to_owned),
        images: images(installation.pod_specs()),
        ready_standbys: facts.pods.is_ok().then_some(ready),
        standbys: facts.pods.is_ok().then_some(standbys),
        port_forward: pod.and_then(|pod| port_forward(installation.namespace, pod)),
    }
}

fn status_of_shadow(installation: &Installation<'_>) -> ControllerStatus {
    let shadows = &installation.shadow_deployments;
    let specs = shadows.iter().filter_map(|d| d.spec.as_ref()?.template.spec.as_ref());
    let ready: i32 = shadows.iter().filter_map(|d| d.status.as_ref()?.ready_replicas).sum();
    let wanted: i32 = shadows.iter().filter_map(|d| Some(d.spec.as_ref()?.replicas.unwrap_or(1))).sum();
    ControllerStatus {
        name: installation.controller.name,
        namespace: installation.namespace.to_owned(),
        state: ControllerState::Shadow,
        leader: None,
        led_for: None,
        version: None,
        images: images(specs),
        ready_standbys: usize::try_from(ready).ok(),
        standbys: usize::try_from(wanted).ok(),
        port_forward: None,
    }
}

/// Returns the different images of the first containers, without the registry and the digest.
fn images<'a>(specs: impl Iterator<Item = &'a PodSpec>) -> Vec<String> {
    let mut images: Vec<String> = specs
        .filter_map(|spec| spec.containers.first()?.image.as_deref())
        .map(|image| image.rsplit_once('/').map_or(image, |(_, name)| name))
        .map(|image| image.split_once('@').map_or(image, |(image, _)| image).to_owned())
        .collect();
    images.sort();
    images.dedup();
    images
}

/// Returns the command that forwards a port to a Pod. Static Pods listen on different ports.
fn port_forward(namespace: &str, pod: &Pod) -> Option<String> {
    let container = pod.spec.as_ref()?.containers.first()?;
    let port = container.ports.iter().flatten().next().map_or(SECURE_PORT, |port| port.container_port);
    Some(format!("kubectl -n {namespace} port-forward pod/{} 20257:{port}", pod.metadata.name.as_deref()?))
}

/// Describes the election of kube-controller-manager in one clause.
fn manager_state(facts: &Facts) -> String {
    match LeaderElectionState::from_reading(&facts.kube_controller_manager.lease) {
        LeaderElectionState::Led { holder, renewal_age_seconds, .. } => {
            format!(
                "kube-controller-manager is led by {holder}, which renewed its Lease {} ago",
                span(renewal_age_seconds)
            )
        }
        LeaderElectionState::Expired { holder, .. } => {
            format!("the Lease of kube-controller-manager has expired, and {holder} was its last leader")
        }
        LeaderElectionState::Unreadable(why) => format!("the Lease of kube-controller-manager: {why}"),
        LeaderElectionState::Absent => "kube-controller-manager has no Lease".to_owned(),
        LeaderElectionState::NoHolder | LeaderElectionState::HeldForHandOver { .. } => {
            "kube-controller-manager has no leader".to_owned()
        }
    }
}
