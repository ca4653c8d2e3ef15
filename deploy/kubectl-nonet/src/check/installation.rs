//! Groups Deployments, Pods and Leases by controller and namespace.

use std::collections::BTreeSet;

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{Pod, PodSpec},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::election::{LeaderElectionState, host_of_identity};
use crate::{
    controllers::{self, COMPONENT_LABEL, CONTROLLER_NAME_LABEL, Controller, KUBE_SYSTEM_NAMESPACE},
    facts::{Facts, LeaseReading, NamedLease},
};

/// A controller and its objects in one namespace. The lists of objects are empty if the controller is not installed.
#[derive(Debug)]
pub(super) struct Installation<'a> {
    pub(super) controller: &'static Controller,
    /// Namespace of the objects and of the Lease.
    pub(super) namespace: &'a str,
    /// Deployments with Pods that take part in the election.
    pub(super) deployments: Vec<&'a Deployment>,
    /// Deployments in shadow mode, which write nothing and take part in no election.
    pub(super) shadow_deployments: Vec<&'a Deployment>,
    /// Pods of the Deployments in `deployments`.
    pub(super) deployment_pods: Vec<&'a Pod>,
    /// Mirror Pods, which represent static Pods in the API.
    pub(super) static_pods: Vec<&'a Pod>,
    /// Bare Pods of `deploy/overlays/rescue`.
    pub(super) rescue_pods: Vec<&'a Pod>,
    /// Lease of the election; `None` if it was not read.
    pub(super) lease: Option<&'a NamedLease>,
    /// State of the election, derived from `lease`.
    pub(super) election: LeaderElectionState<'a>,
}

impl Installation<'_> {
    /// Whether there is a Deployment, a static Pod or a rescue Pod. A Deployment in shadow mode does not count.
    pub(super) fn is_installed(&self) -> bool {
        !(self.deployments.is_empty() && self.static_pods.is_empty() && self.rescue_pods.is_empty())
    }

    /// Returns all Pods that take part in the election.
    pub(super) fn pods_in_election(&self) -> impl Iterator<Item = &Pod> {
        self.deployment_pods.iter().chain(&self.static_pods).chain(&self.rescue_pods).copied()
    }

    /// Returns the specifications of all Pods that take part in the election, with those in the Deployments.
    pub(super) fn pod_specs(&self) -> impl Iterator<Item = &PodSpec> {
        let templates = self.deployments.iter().filter_map(|d| d.spec.as_ref()?.template.spec.as_ref());
        templates.chain(self.pods_in_election().filter_map(|pod| pod.spec.as_ref()))
    }

    /// Whether the holder of the Lease is one of the Pods.
    pub(super) fn has_pod_with_identity(&self, holder: &str) -> bool {
        self.pod_with_identity(holder).is_some()
    }

    /// Returns the Pod that holds the Lease. The identity of a Pod in the host network is the name of its node.
    pub(super) fn pod_with_identity(&self, holder: &str) -> Option<&Pod> {
        let host = host_of_identity(holder);
        self.pods_in_election().find(|pod| {
            let spec = pod.spec.as_ref();
            let on_host = spec.and_then(|spec| spec.host_network).unwrap_or_default();
            let node = spec.and_then(|spec| spec.node_name.as_deref());
            pod.metadata.name.as_deref() == Some(host) || (on_host && node == Some(host))
        })
    }

    /// Returns the reading of the Lease; `None` if the Lease does not exist or could not be read.
    pub(super) fn lease_reading(&self) -> Option<&LeaseReading> {
        self.lease?.reading.as_ref().ok()?.as_ref()
    }

    /// Returns name and namespace of the Helm release that installed the Deployment; `None` without Helm.
    fn helm_release(&self) -> Option<(&str, &str)> {
        let annotations = self.deployments.first()?.metadata.annotations.as_ref()?;
        let namespace = annotations.get("meta.helm.sh/release-namespace").map_or(self.namespace, String::as_str);
        Some((annotations.get("meta.helm.sh/release-name")?, namespace))
    }

    /// Returns advice to apply the manifests of exactly this installation again, with a change: a value of the chart for Helm,
    /// otherwise a sentence. Both may be empty.
    pub(super) fn apply_again_with(&self, value: &str, change: &str) -> String {
        let (controller, place) = (self.controller.name, self.namespace);
        if let Some((release, namespace)) = self.helm_release() {
            let value = if value.is_empty() { String::new() } else { format!(" --set {value}") };
            return format!(
                "helm upgrade {release} CHART -n {namespace} --reset-then-reuse-values{value}, where CHART is the chart of the \
                    installed version"
            );
        }
        let change = if change.is_empty() { String::new() } else { format!("{change}; then ") };
        let what = if self.deployments.is_empty() && !self.static_pods.is_empty() {
            "the manifest with the rights of the static Pods of"
        } else {
            "the overlay or file that installed"
        };
        format!("{change}apply again {what} {controller} in the namespace {place}")
    }

    /// Returns advice to apply the manifests of exactly this installation again.
    pub(super) fn apply_again(&self) -> String {
        self.apply_again_with("", "")
    }

    /// Returns the command that puts back the previous version of the controller.
    pub(super) fn roll_back(&self) -> String {
        let (controller, place) = (self.controller.name, self.namespace);
        match self.helm_release() {
            Some((release, namespace)) => format!("helm rollback {release} -n {namespace}"),
            None if self.deployments.is_empty() => {
                format!("put back the previous manifest of the static Pods of {controller}, on each node")
            }
            None => format!("kubectl -n {place} rollout undo deployment/nonet-{controller}"),
        }
    }

    /// Returns the command that releases the Lease.
    pub(super) fn release(&self) -> String {
        format!("kubectl nonet release {} -n {}", self.controller.name, self.namespace)
    }

    /// Returns the command that holds the Lease, so that the leader ends and no process leads.
    pub(super) fn hold(&self) -> String {
        format!("kubectl nonet hold {} -n {}", self.controller.name, self.namespace)
    }

    /// Returns the value of an annotation on the Lease.
    pub(super) fn lease_annotation(&self, key: &str) -> Option<&str> {
        self.lease_reading()?.lease.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }
}

/// Returns the value of a label; empty if the object lacks the label.
pub(super) fn label_value<'a>(metadata: &'a ObjectMeta, key: &str) -> &'a str {
    metadata.labels.as_ref().and_then(|labels| labels.get(key)).map_or("", String::as_str)
}

/// Returns `metadata.name`; empty if it is missing.
pub(super) fn object_name(metadata: &ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}

/// Returns `metadata.namespace`; empty if it is missing.
pub(super) fn object_namespace(metadata: &ObjectMeta) -> &str {
    metadata.namespace.as_deref().unwrap_or_default()
}

/// Returns every controller once for each namespace that it is installed in.
///
/// A controller that is not installed is returned once, for the namespace of its Lease or the first namespace of the facts. Its
/// Lease counts only where no tenant may write it: in kube-system, or in the namespace that the caller named.
pub(super) fn all_installations(facts: &Facts) -> Vec<Installation<'_>> {
    controllers::ALL.iter().flat_map(|controller| installations_of(facts, controller)).collect()
}

fn installations_of<'a>(facts: &'a Facts, controller: &'static Controller) -> Vec<Installation<'a>> {
    let is = |metadata: &ObjectMeta| label_value(metadata, CONTROLLER_NAME_LABEL) == controller.name;
    let deployments: Vec<&Deployment> = facts.deployments.iter().flatten().filter(|d| is(&d.metadata)).collect();
    let pods: Vec<&Pod> = facts.pods.iter().flatten().filter(|pod| is(&pod.metadata)).collect();
    let lists_are_complete = facts.deployments.is_ok() && facts.pods.is_ok();
    let is_trusted = |namespace: &str| {
        !lists_are_complete
            || namespace == KUBE_SYSTEM_NAMESPACE
            || facts.stated_namespace.as_deref() == Some(namespace)
    };
    let mut places: BTreeSet<&str> = deployments.iter().map(|d| object_namespace(&d.metadata)).collect();
    places.extend(pods.iter().map(|pod| object_namespace(&pod.metadata)));
    if places.is_empty() {
        let exists = |l: &&NamedLease| l.name == controller.name && matches!(l.reading, Ok(Some(_)));
        let lease = facts.leases.iter().filter(|lease| is_trusted(&lease.namespace)).find(exists);
        places.extend(lease.map(|lease| lease.namespace.as_str()).or(facts.namespaces.first().map(String::as_str)));
    }
    let at = |place: &'a str| {
        let deployments = deployments.iter().copied().filter(|d| object_namespace(&d.metadata) == place);
        let (shadows, deployments) = deployments.partition(|d| label_value(&d.metadata, COMPONENT_LABEL) == "shadow");
        let pods_of = |component: &str| {
            let here = |pod: &&Pod| {
                object_namespace(&pod.metadata) == place && label_value(&pod.metadata, COMPONENT_LABEL) == component
            };
            pods.iter().copied().filter(here).collect()
        };
        let mut installation = Installation {
            controller,
            namespace: place,
            deployments,
            shadow_deployments: shadows,
            deployment_pods: pods_of("controller"),
            static_pods: pods_of("static-pod"),
            rescue_pods: pods_of("rescue"),
            lease: None,
            election: LeaderElectionState::Absent,
        };
        if installation.is_installed() || is_trusted(place) {
            let lease = facts.leases.iter().find(|lease| lease.name == controller.name && lease.namespace == place);
            installation.lease = lease;
            installation.election =
                lease.map_or(LeaderElectionState::Absent, |lease| LeaderElectionState::from_reading(&lease.reading));
        }
        installation
    };
    places.into_iter().map(at).collect()
}
