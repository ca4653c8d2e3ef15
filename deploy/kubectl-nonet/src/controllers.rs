//! The controllers of Nonet with their loops and rights, as the manifests of `deploy/` install them.
//!
//! A test in `e2e/tests/check.rs` compares this list with the controllers themselves.

/// Name, loops and main rights of one controller of Nonet.
#[derive(Debug, PartialEq, Eq)]
pub struct Controller {
    /// Name of the controller and of its Lease.
    pub name: &'static str,
    /// Canonical names of the loops of kube-controller-manager that the controller replaces.
    pub loops: &'static [&'static str],
    /// The most important rights. Without any of them, the controller cannot work.
    pub rights: &'static [AccessRight],
}

/// A verb on a resource in all namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessRight {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Plural name, with the subresource behind a slash: `jobs/status`.
    pub resource: &'static str,
    /// Verb of RBAC, such as `list`.
    pub verb: &'static str,
}

const fn may(verb: &'static str, group: &'static str, resource: &'static str) -> AccessRight {
    AccessRight { group, resource, verb }
}

/// All nine controllers of Nonet, each with its loops and main rights.
pub const ALL: &[Controller] = &[
    Controller {
        name: "deployment-controller",
        loops: &["deployment-controller"],
        rights: &[
            may("list", "apps", "deployments"),
            may("patch", "apps", "deployments/status"),
            may("create", "apps", "replicasets"),
            may("patch", "apps", "replicasets"),
        ],
    },
    Controller {
        name: "replicaset-controller",
        loops: &["replicaset-controller", "replicationcontroller-controller"],
        rights: &[
            may("list", "apps", "replicasets"),
            may("patch", "apps", "replicasets/status"),
            may("create", "", "pods"),
            may("delete", "", "pods"),
        ],
    },
    Controller {
        name: "statefulset-controller",
        loops: &["statefulset-controller"],
        rights: &[
            may("list", "apps", "statefulsets"),
            may("patch", "apps", "statefulsets/status"),
            may("create", "", "pods"),
            may("create", "", "persistentvolumeclaims"),
            may("create", "apps", "controllerrevisions"),
        ],
    },
    Controller {
        name: "daemonset-controller",
        loops: &["daemonset-controller"],
        rights: &[
            may("list", "apps", "daemonsets"),
            may("patch", "apps", "daemonsets/status"),
            may("create", "", "pods"),
            may("create", "apps", "controllerrevisions"),
        ],
    },
    Controller {
        name: "job-controller",
        loops: &["job-controller", "ttl-after-finished-controller"],
        rights: &[
            may("list", "batch", "jobs"),
            may("patch", "batch", "jobs/status"),
            may("create", "", "pods"),
            may("patch", "", "pods"),
        ],
    },
    Controller {
        name: "cronjob-controller",
        loops: &["cronjob-controller"],
        rights: &[
            may("list", "batch", "cronjobs"),
            may("patch", "batch", "cronjobs/status"),
            may("create", "batch", "jobs"),
        ],
    },
    Controller {
        name: "endpointslice-controller",
        loops: &["endpointslice-controller", "endpointslice-mirroring-controller", "endpoints-controller"],
        rights: &[
            may("list", "", "services"),
            may("create", "discovery.k8s.io", "endpointslices"),
            may("patch", "discovery.k8s.io", "endpointslices"),
            may("patch", "", "endpoints"),
        ],
    },
    Controller {
        name: "gc-controller",
        loops: &["garbage-collector-controller"],
        rights: &[may("list", "*", "*"), may("patch", "*", "*"), may("delete", "*", "*")],
    },
    Controller {
        name: "node-lifecycle-controller",
        loops: &["node-lifecycle-controller", "taint-eviction-controller", "pod-garbage-collector-controller"],
        rights: &[
            may("patch", "", "nodes"),
            may("patch", "", "nodes/status"),
            may("list", "coordination.k8s.io", "leases"),
            may("delete", "", "pods"),
        ],
    },
];

/// Key of the label that contains the name of the controller. All objects of a controller have the label.
pub const CONTROLLER_NAME_LABEL: &str = "app.kubernetes.io/name";
/// Key of the label that distinguishes Deployments, Deployments in shadow mode, static Pods and rescue Pods.
pub const COMPONENT_LABEL: &str = "app.kubernetes.io/component";
/// Label selector of all objects of Nonet.
pub const NONET_LABEL_SELECTOR: &str = "app.kubernetes.io/part-of=nonet";
/// Namespace of kube-controller-manager, and of Nonet in the default overlays.
pub const KUBE_SYSTEM_NAMESPACE: &str = "kube-system";

/// Returns the controller that replaces the loop `name` of kube-controller-manager; `None` if no controller of Nonet does.
pub fn controller_of_loop(name: &str) -> Option<&'static Controller> {
    ALL.iter().find(|controller| controller.loops.contains(&name))
}
