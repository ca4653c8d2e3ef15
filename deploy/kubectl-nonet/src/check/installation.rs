//! Groups Deployments, Pods and Leases by controller and namespace.

use std::collections::BTreeSet;

use k8s_openapi::{
    api::{apps::v1::Deployment, core::v1::Pod},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::election::{LeaderElectionState, host_of_identity};
use crate::{
    controllers::{self, COMPONENT_LABEL, CONTROLLER_NAME_LABEL, Controller},
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

    /// Whether the holder of the Lease is one of the Pods. A Pod in the host network uses the name of its node as its identity.
    pub(super) fn has_pod_with_identity(&self, holder: &str) -> bool {
        let host = host_of_identity(holder);
        self.pods_in_election().any(|pod| {
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
/// A controller that is not installed is returned once, for the namespace of its Lease or the first namespace of the facts.
pub(super) fn all_installations(facts: &Facts) -> Vec<Installation<'_>> {
    controllers::ALL.iter().flat_map(|controller| installations_of(facts, controller)).collect()
}

fn installations_of<'a>(facts: &'a Facts, controller: &'static Controller) -> Vec<Installation<'a>> {
    let is = |metadata: &ObjectMeta| label_value(metadata, CONTROLLER_NAME_LABEL) == controller.name;
    let deployments: Vec<&Deployment> = facts.deployments.iter().flatten().filter(|d| is(&d.metadata)).collect();
    let pods: Vec<&Pod> = facts.pods.iter().flatten().filter(|pod| is(&pod.metadata)).collect();
    let mut places: BTreeSet<&str> = deployments.iter().map(|d| object_namespace(&d.metadata)).collect();
    places.extend(pods.iter().map(|pod| object_namespace(&pod.metadata)));
    if places.is_empty() {
        let lease = facts.leases.iter().find(|l| l.name == controller.name && matches!(l.reading, Ok(Some(_))));
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
        let lease = facts.leases.iter().find(|lease| lease.name == controller.name && lease.namespace == place);
        Installation {
            controller,
            namespace: place,
            deployments,
            shadow_deployments: shadows,
            deployment_pods: pods_of("controller"),
            static_pods: pods_of("static-pod"),
            rescue_pods: pods_of("rescue"),
            lease,
            election: lease
                .map_or(LeaderElectionState::Absent, |lease| LeaderElectionState::from_reading(&lease.reading)),
        }
    };
    places.into_iter().map(at).collect()
}
