//! The table of the controllers of Nonet, the only list of them that is written by hand.
//!
//! A row has the program of a controller, and what its code cannot know. `cargo run -p tools --bin generate` writes the manifests
//! of `deploy/` from this table, and `plan`, the playground, the bench and the tests run the programs of it.

use std::fmt;

use common::app::ProgramDefinition;

/// One controller of Nonet: its program, its main rights, and how the manifests run it.
#[derive(Clone, Copy)]
pub struct Controller {
    /// Name of the controller and of its Lease.
    pub name: &'static str,
    /// Name, loops and flags.
    pub program: &'static ProgramDefinition,
    /// The most important rights. Without any of them, the controller cannot work.
    pub rights: &'static [AccessRight],
    /// For each loop that `kubectl nonet why` explains: the resources without which the loop would decide wrongly. An empty list in
    /// place of an unread one would look like a loss.
    pub needs: &'static [(&'static str, &'static [&'static str])],
    /// Port of its static Pod in the network of the node. Lists of manifests are in this order.
    pub host_port: u16,
    /// What its container requests, and its limit.
    pub resources: Resources,
    /// Whether a cluster without controllers needs its rescue Pod, because other controllers cannot start without it.
    pub is_rescued_first: bool,
    /// Whether its Pods run on nodes that are not ready, because no other process removes the taints of these nodes.
    pub tolerates_unready_nodes: bool,
    /// Whether its Pods read the ConfigMap `nonet-root-ca`, which an operator creates: see `deploy/base/root-ca`.
    pub reads_root_ca: bool,
}

/// Requests and limits of a container, as quantities of Kubernetes.
#[derive(Clone, Copy, Debug)]
pub struct Resources {
    /// Requested share of a processor, in thousandths: `20m`.
    pub cpu: &'static str,
    /// Requested memory, in mebibytes: `32Mi`.
    pub memory: &'static str,
    /// Memory at which the kernel ends the container, in mebibytes: `384Mi`.
    pub memory_limit: &'static str,
}

/// Resources of a controller that caches Pods: 20,000 of them requested, and twice 150,000 at the limit.
const RESOURCES: Resources = Resources { cpu: "20m", memory: "32Mi", memory_limit: "384Mi" };

impl Controller {
    /// A row with the usual resources, without explained loops, which runs on ready nodes and has no part in a rescue.
    const fn new(program: &'static ProgramDefinition, host_port: u16, rights: &'static [AccessRight]) -> Self {
        let (is_rescued_first, tolerates_unready_nodes, reads_root_ca) = (false, false, false);
        Self {
            name: program.name,
            program,
            rights,
            needs: &[],
            host_port,
            resources: RESOURCES,
            is_rescued_first,
            tolerates_unready_nodes,
            reads_root_ca,
        }
    }

    /// Port of its rescue Pod, which can run beside a static Pod on the same node.
    pub const fn rescue_port(&self) -> u16 {
        self.host_port + 10
    }

    /// Canonical names of the loops of kube-controller-manager that the controller replaces.
    pub fn loops(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.program.loops.iter().map(|each| each.name)
    }

    /// Whether the controller replaces the loop `name` of kube-controller-manager.
    pub fn has_loop(&self, name: &str) -> bool {
        self.loops().any(|each| each == name)
    }
}

impl PartialEq for Controller {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Controller {}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Controller").field(&self.name).finish()
    }
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

/// Every controller of Nonet, in the order in which lists show them.
pub const ALL: &[Controller] = &[
    Controller {
        is_rescued_first: true,
        needs: &[("deployment-controller", &["replicasets.apps"])],
        ..Controller::new(
            &deployment_controller::DEFINITION,
            10362,
            &[
                may("list", "apps", "deployments"),
                may("update", "apps", "deployments/status"),
                may("create", "apps", "replicasets"),
                may("patch", "apps", "replicasets"),
            ],
        )
    },
    Controller {
        is_rescued_first: true,
        needs: &[("replicaset-controller", &["pods"]), ("replicationcontroller-controller", &["pods"])],
        ..Controller::new(
            &replicaset_controller::DEFINITION,
            10361,
            &[
                may("list", "apps", "replicasets"),
                may("update", "apps", "replicasets/status"),
                may("create", "", "pods"),
                may("delete", "", "pods"),
            ],
        )
    },
    Controller {
        needs: &[("statefulset-controller", &["pods", "persistentvolumeclaims", "controllerrevisions.apps"])],
        ..Controller::new(
            &statefulset_controller::DEFINITION,
            10363,
            &[
                may("list", "apps", "statefulsets"),
                may("update", "apps", "statefulsets/status"),
                may("create", "", "pods"),
                may("create", "", "persistentvolumeclaims"),
                may("create", "apps", "controllerrevisions"),
            ],
        )
    },
    Controller {
        is_rescued_first: true,
        needs: &[("daemonset-controller", &["pods", "nodes", "controllerrevisions.apps"])],
        ..Controller::new(
            &daemonset_controller::DEFINITION,
            10364,
            &[
                may("list", "apps", "daemonsets"),
                may("update", "apps", "daemonsets/status"),
                may("create", "", "pods"),
                may("create", "apps", "controllerrevisions"),
            ],
        )
    },
    Controller {
        needs: &[("job-controller", &["pods"])],
        ..Controller::new(
            &job_controller::DEFINITION,
            10365,
            &[
                may("list", "batch", "jobs"),
                may("update", "batch", "jobs/status"),
                may("create", "", "pods"),
                may("patch", "", "pods"),
            ],
        )
    },
    Controller {
        resources: Resources { cpu: "10m", memory: "16Mi", memory_limit: "128Mi" },
        needs: &[("cronjob-controller", &["jobs.batch"])],
        ..Controller::new(
            &cronjob_controller::DEFINITION,
            10366,
            &[
                may("list", "batch", "cronjobs"),
                may("patch", "batch", "cronjobs/status"),
                may("create", "batch", "jobs"),
            ],
        )
    },
    Controller {
        needs: &[("endpointslice-controller", &["pods", "nodes", "endpointslices.discovery.k8s.io"])],
        ..Controller::new(
            &endpointslice_controller::DEFINITION,
            10367,
            &[
                may("list", "", "services"),
                may("create", "discovery.k8s.io", "endpointslices"),
                may("update", "discovery.k8s.io", "endpointslices"),
                may("update", "", "endpoints"),
            ],
        )
    },
    Controller {
        resources: Resources { memory_limit: "512Mi", ..RESOURCES },
        ..Controller::new(
            &gc_controller::DEFINITION,
            10368,
            &[may("list", "*", "*"), may("patch", "*", "*"), may("delete", "*", "*")],
        )
    },
    Controller {
        is_rescued_first: true,
        tolerates_unready_nodes: true,
        ..Controller::new(
            &node_lifecycle_controller::DEFINITION,
            10369,
            &[
                may("patch", "", "nodes"),
                may("patch", "", "nodes/status"),
                may("list", "coordination.k8s.io", "leases"),
                may("delete", "", "pods"),
            ],
        )
    },
    Controller {
        resources: Resources { cpu: "10m", memory: "16Mi", memory_limit: "128Mi" },
        ..Controller::new(
            &clusterrole_controller::DEFINITION,
            10383,
            &[
                may("list", "rbac.authorization.k8s.io", "clusterroles"),
                may("patch", "rbac.authorization.k8s.io", "clusterroles"),
                may("escalate", "rbac.authorization.k8s.io", "clusterroles"),
            ],
        )
    },
    Controller {
        // No Pod is admitted to a namespace without an account, or starts without the ConfigMap.
        is_rescued_first: true,
        reads_root_ca: true,
        resources: Resources { cpu: "10m", memory: "16Mi", memory_limit: "128Mi" },
        ..Controller::new(
            &serviceaccount_controller::DEFINITION,
            10382,
            &[may("list", "", "namespaces"), may("create", "", "serviceaccounts"), may("create", "", "configmaps")],
        )
    },
    Controller {
        resources: Resources { cpu: "10m", memory: "16Mi", memory_limit: "256Mi" },
        ..Controller::new(
            &namespace_controller::DEFINITION,
            10381,
            &[
                may("update", "", "namespaces/finalize"),
                may("list", "*", "*"),
                may("delete", "*", "*"),
                may("deletecollection", "*", "*"),
            ],
        )
    },
    Controller::new(
        &disruption_controller::DEFINITION,
        10384,
        &[
            may("list", "policy", "poddisruptionbudgets"),
            may("update", "policy", "poddisruptionbudgets/status"),
            may("list", "", "pods"),
        ],
    ),
    Controller::new(
        &resourcequota_controller::DEFINITION,
        10385,
        &[may("list", "*", "*"), may("patch", "", "resourcequotas/status")],
    ),
    Controller::new(
        &volume_controller::DEFINITION,
        10386,
        &[
            may("list", "", "pods"),
            may("patch", "", "persistentvolumeclaims"),
            may("create", "", "persistentvolumeclaims"),
            may("patch", "", "persistentvolumes"),
        ],
    ),
];

/// The programs of all controllers, in the same order.
pub const PROGRAMS: [&ProgramDefinition; ALL.len()] = {
    let mut programs = [ALL[0].program; ALL.len()];
    let mut index = 1;
    while index < programs.len() {
        programs[index] = ALL[index].program;
        index += 1;
    }
    programs
};

/// The names of all controllers, in the same order.
pub const NAMES: [&str; ALL.len()] = {
    let mut names = [""; ALL.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = ALL[index].name;
        index += 1;
    }
    names
};

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
    ALL.iter().find(|controller| controller.has_loop(name))
}
