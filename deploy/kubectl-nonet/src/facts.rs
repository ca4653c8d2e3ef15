//! Facts about a cluster: the input of the check, as read from the API server and the command line.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use common::process::built_in_flags::ControllersFlag;
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        coordination::v1::Lease,
        core::v1::{ConfigMap, Event, Node, Pod},
        policy::v1::PodDisruptionBudget,
        rbac::v1::{ClusterRoleBinding, RoleBinding},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use crate::controllers::CONTROLLER_NAME_LABEL;

/// Name of the Lease of kube-controller-manager.
pub(crate) const MANAGER_LEASE: &str = "kube-controller-manager";

/// A fact, or the reason why the fact could not be read.
pub type FactResult<T> = Result<T, FactError>;

/// Reasons why a fact could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FactError {
    /// The API server denied the request (403).
    Forbidden {
        /// Verb of RBAC that the caller lacks: `get`, `list`, `create` or `patch`.
        verb: &'static str,
        /// Resource in the form that `kubectl auth can-i` takes.
        resource: &'static str,
        /// Namespace of the request; `None` for all namespaces or a cluster-scoped resource.
        namespace: Option<String>,
    },
    /// The request failed for another reason.
    RequestFailed {
        /// Method and path, or a description of the operation.
        request: String,
        /// Error message on one line.
        why: String,
    },
}

impl fmt::Display for FactError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forbidden { verb, resource, namespace } => {
                let place = namespace.as_ref().map(|namespace| format!("namespace {namespace}"));
                write!(
                    f,
                    "forbidden; it needs {verb} on {resource} in the {}",
                    place.as_deref().unwrap_or("whole cluster")
                )
            }
            Self::RequestFailed { request, why } => write!(f, "{request} failed: {why}"),
        }
    }
}

impl FactError {
    /// Returns advice for the caller, with a command if a command helps.
    pub fn remedy(&self) -> String {
        match self {
            Self::Forbidden { verb, resource, namespace } => {
                let place = namespace.as_ref().map(|namespace| format!("-n {namespace}"));
                let place = place.as_deref().unwrap_or("--all-namespaces");
                format!("request the right; kubectl auth can-i {verb} {resource} {place}")
            }
            Self::RequestFailed { .. } => "try again, with a longer --timeout if the server is slow".to_owned(),
        }
    }
}

/// The input of [`check`](crate::check::check). A fact that could not be read is an `Err`.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Namespaces with objects of Nonet. If there are none, the namespace that was searched. Never empty.
    pub namespaces: Vec<String>,
    /// Namespace that the caller named; `None` without `-n`.
    pub stated_namespace: Option<String>,
    /// `Err` if the caller may not list in all namespaces, so that only one namespace was searched.
    pub cluster_wide_search: FactResult<()>,
    /// Times of this machine and of the API server at one moment.
    pub clocks: FactResult<TimeReadings>,
    /// `gitVersion` of the API server, such as `v1.36.2`.
    pub server_version: FactResult<String>,
    /// All Deployments of Nonet, including those in shadow mode.
    pub deployments: FactResult<Vec<Deployment>>,
    /// All Pods of Nonet: of Deployments, static Pods and rescue Pods.
    pub pods: FactResult<Vec<Pod>>,
    /// PodDisruptionBudgets of Nonet.
    pub disruption_budgets: FactResult<Vec<PodDisruptionBudget>>,
    /// Lease of each controller in each of `namespaces`.
    pub leases: Vec<NamedLease>,
    /// Flags, leader and nodes of kube-controller-manager, which may run the loops of Nonet.
    pub kube_controller_manager: KubeControllerManagerFacts,
    /// Events about Leases. With such an Event, a controller reports that another manager runs the same loop (a second writer).
    pub lease_events: FactResult<Vec<Event>>,
    /// Roles and bindings with the labels of Nonet.
    pub roles_and_bindings: RolesAndBindings,
    /// Results of the access reviews, one for each installed controller and namespace.
    pub access_reviews: Vec<AccessReview>,
    /// Client certificate of the caller; `None` with other credentials.
    pub client_certificate: FactResult<Option<Certificate>>,
    /// Serving certificate of the API server; `None` without TLS.
    pub serving_certificate: FactResult<Option<Certificate>>,
}

impl Facts {
    /// Returns a copy without the Deployments, Pods, Events and access reviews of other controllers.
    pub(crate) fn of_controllers(&self, names: &[&str]) -> Self {
        let mut facts = self.clone();
        let is_named = |metadata: &ObjectMeta| {
            let name = metadata.labels.as_ref().and_then(|labels| labels.get(CONTROLLER_NAME_LABEL));
            name.is_some_and(|name| names.contains(&name.as_str()))
        };
        if let Ok(deployments) = &mut facts.deployments {
            deployments.retain(|deployment| is_named(&deployment.metadata));
        }
        if let Ok(pods) = &mut facts.pods {
            pods.retain(|pod| is_named(&pod.metadata));
        }
        if let Ok(events) = &mut facts.lease_events {
            events.retain(|event| event.involved_object.name.as_deref().is_some_and(|name| names.contains(&name)));
        }
        facts.access_reviews.retain(|review| names.contains(&review.controller_name));
        facts
    }
}

/// Times of two clocks at about the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeReadings {
    /// Time of this machine.
    pub local_time: Timestamp,
    /// Time of the API server, from the header `Date`.
    pub server_time: Timestamp,
}

/// The Lease of a controller in one namespace.
#[derive(Clone, Debug)]
pub struct NamedLease {
    /// Name of the Lease and of the controller.
    pub name: &'static str,
    /// Namespace of the Lease, one of [`Facts::namespaces`].
    pub namespace: String,
    /// Result of reading the Lease; `None` if the Lease does not exist.
    pub reading: FactResult<Option<LeaseReading>>,
}

/// A Lease that was read once, or twice with a pause between the reads.
#[derive(Clone, Debug)]
pub struct LeaseReading {
    /// The object of the last read.
    pub lease: Lease,
    /// Time of the last read, by the clock of the API server.
    pub read_at: Timestamp,
    /// The first of two reads; `None` if one read was enough.
    pub first_reading: Option<FirstReading>,
}

impl LeaseReading {
    /// Returns `spec.renewTime` of the last read; `None` if no leader has renewed the Lease.
    pub(crate) fn renew_time(&self) -> Option<Timestamp> {
        self.lease.spec.as_ref()?.renew_time.as_ref().map(|time| time.0)
    }
}

/// Result of the first of two reads of a Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstReading {
    /// `spec.renewTime` of the Lease.
    pub renew_time: Option<Timestamp>,
    /// Time of the read, by the clock of the API server.
    pub read_at: Timestamp,
}

/// Facts about kube-controller-manager, from the API and from the command line.
#[derive(Clone, Debug)]
pub struct KubeControllerManagerFacts {
    /// Lease `kube-controller-manager` in `kube-system`.
    pub lease: FactResult<Option<LeaseReading>>,
    /// Pods of kube-controller-manager in `kube-system`.
    pub pods: FactResult<Vec<Pod>>,
    /// Nodes with the role `control-plane`.
    pub control_plane_nodes: FactResult<Vec<Node>>,
    /// ConfigMap `kubeadm-config` in `kube-system`; `None` on clusters without kubeadm.
    pub kubeadm_config: FactResult<Option<ConfigMap>>,
    /// What the caller says about a kube-controller-manager that the API may not show; `None` without such a flag.
    pub stated: Option<ManagerStatement>,
    /// For each path of [`ServedKind`](crate::remaining_loops::ServedKind): whether the cluster has such an object. Empty unless the
    /// caller says that there is no kube-controller-manager.
    pub has_objects: BTreeMap<&'static str, FactResult<bool>>,
}

/// What the caller says about kube-controller-manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManagerStatement {
    /// No process of it runs (`--without-manager`).
    Absent,
    /// It runs with this value of `--controllers` (`--built-in-controllers`).
    Controllers(ControllersFlag),
}

/// Roles and bindings that have the label `app.kubernetes.io/part-of=nonet`.
#[derive(Clone, Debug)]
pub struct RolesAndBindings {
    /// Names of the ClusterRoles, without their rules.
    pub cluster_role_names: FactResult<BTreeSet<String>>,
    /// ClusterRoleBindings with role and subjects.
    pub cluster_role_bindings: FactResult<Vec<ClusterRoleBinding>>,
    /// Namespace and name of each Role, without its rules.
    pub role_names: FactResult<BTreeSet<(String, String)>>,
    /// RoleBindings in the namespaces of Nonet.
    pub role_bindings: FactResult<Vec<RoleBinding>>,
}

/// Result of the access reviews for one controller.
#[derive(Clone, Debug)]
pub struct AccessReview {
    /// Name of an installed controller.
    pub controller_name: &'static str,
    /// Rights that the API server does not grant the controller, such as `create pods`.
    pub denied_rights: FactResult<Vec<String>>,
}

/// Replaces all white space in a text, line breaks included, by single spaces.
pub(crate) fn to_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Subject and expiry of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Distinguished name of the subject.
    pub subject: String,
    /// End of the validity (`notAfter`).
    pub expires_at: Timestamp,
}
