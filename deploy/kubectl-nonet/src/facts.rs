//! What was read of a cluster, before anything is concluded.

use std::{collections::BTreeSet, fmt};

use common::built_in_flags::Controllers;
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::Deployment,
    coordination::v1::Lease,
    core::v1::{ConfigMap, Event, Node, Pod},
    policy::v1::PodDisruptionBudget,
    rbac::v1::{ClusterRoleBinding, RoleBinding},
};

/// A fact, or why it could not be read.
pub type Read<T> = Result<T, Unreadable>;

/// Why a fact could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// The caller lacks a right.
    Forbidden {
        /// The verb.
        verb: &'static str,
        /// The resource.
        resource: &'static str,
        /// Where; all namespaces or the cluster scope if none.
        namespace: Option<String>,
    },
    /// Anything else.
    Failed {
        /// The request.
        request: String,
        /// What went wrong, in one line.
        why: String,
    },
}

impl fmt::Display for Unreadable {
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
            Self::Failed { request, why } => write!(f, "{request} failed: {why}"),
        }
    }
}

impl Unreadable {
    /// A command that shows the cause.
    pub fn remedy(&self) -> String {
        match self {
            Self::Forbidden { verb, resource, namespace } => {
                let place = namespace.as_ref().map(|namespace| format!("-n {namespace}"));
                let place = place.as_deref().unwrap_or("--all-namespaces");
                format!("ask for the right; kubectl auth can-i {verb} {resource} {place}")
            }
            Self::Failed { .. } => "try again, with a longer --timeout if the server is slow".to_owned(),
        }
    }
}

/// Everything that was read.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Namespaces that Nonet was found in or is looked for in; at least one.
    pub namespaces: Vec<String>,
    /// Why the namespaces were not searched for, if the caller may not list in all of them.
    pub search: Read<()>,
    /// The clocks of this machine and of the API server.
    pub clocks: Read<Times>,
    /// Version of the API server, such as `v1.36.2`.
    pub server_version: Read<String>,
    /// Deployments of Nonet.
    pub deployments: Read<Vec<Deployment>>,
    /// Pods of Nonet.
    pub pods: Read<Vec<Pod>>,
    /// Budgets for disruptions of the Pods of Nonet.
    pub budgets: Read<Vec<PodDisruptionBudget>>,
    /// The Lease of each controller in each namespace.
    pub leases: Vec<NamedLease>,
    /// What is known of kube-controller-manager.
    pub manager: BuiltInFacts,
    /// Events with which controllers report another manager at work.
    pub second_writers: Read<Vec<Event>>,
    /// Roles and bindings of Nonet.
    pub roles: Roles,
    /// Answers to access reviews.
    pub reviews: Vec<Review>,
    /// The certificate that the caller authenticates with; none with other credentials.
    pub client_certificate: Read<Option<Certificate>>,
    /// The certificate of the API server; none without TLS.
    pub serving_certificate: Read<Option<Certificate>>,
}

/// Two clocks at about the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// This machine's.
    pub local: Timestamp,
    /// The API server's, as the header `Date` has it.
    pub server: Timestamp,
}

/// The Lease of a controller.
#[derive(Clone, Debug)]
pub struct NamedLease {
    /// Its name.
    pub name: &'static str,
    /// Its namespace.
    pub namespace: String,
    /// What was read.
    pub reading: Read<Option<LeaseReading>>,
}

/// A Lease that was read once, or twice with a pause.
#[derive(Clone, Debug)]
pub struct LeaseReading {
    /// The Lease.
    pub lease: Lease,
    /// When it was read, by the API server's clock.
    pub at: Timestamp,
    /// The renewal before the pause. None if the first reading was beyond doubt.
    pub before: Option<Before>,
}

impl LeaseReading {
    /// The time of the last renewal.
    pub(crate) fn renewed(&self) -> Option<Timestamp> {
        self.lease.spec.as_ref()?.renew_time.as_ref().map(|time| time.0)
    }
}

/// What the first of two readings showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Before {
    /// The time of the last renewal.
    pub renewed: Option<Timestamp>,
    /// When it was read, by the API server's clock.
    pub at: Timestamp,
}

/// What is known of kube-controller-manager.
#[derive(Clone, Debug)]
pub struct BuiltInFacts {
    /// Its Lease.
    pub lease: Read<Option<LeaseReading>>,
    /// Its Pods.
    pub pods: Read<Vec<Pod>>,
    /// The control-plane nodes.
    pub nodes: Read<Vec<Node>>,
    /// ConfigMap `kubeadm-config`.
    pub kubeadm: Read<Option<ConfigMap>>,
    /// What the caller says about it, where it cannot be seen.
    pub stated: Option<Stated>,
}

/// What the caller says about a kube-controller-manager that cannot be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stated {
    /// There is none.
    None,
    /// It runs with this value of `--controllers`.
    Controllers(Controllers),
}

/// Roles and bindings.
#[derive(Clone, Debug)]
pub struct Roles {
    /// Names of ClusterRoles.
    pub cluster_roles: Read<BTreeSet<String>>,
    /// Bindings in the whole cluster.
    pub cluster_bindings: Read<Vec<ClusterRoleBinding>>,
    /// Namespaces and names of Roles.
    pub roles: Read<BTreeSet<(String, String)>>,
    /// Bindings in the namespaces of Nonet.
    pub bindings: Read<Vec<RoleBinding>>,
}

/// Answers to access reviews for one controller.
#[derive(Clone, Debug)]
pub struct Review {
    /// The controller.
    pub controller: &'static str,
    /// Rights that it lacks, such as `create pods`.
    pub denied: Read<Vec<String>>,
}

/// A text with single spaces, and without line breaks.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Its subject.
    pub subject: String,
    /// When it ends.
    pub ends: Timestamp,
}
