//! Names that upstream accepts in `--controllers` and `--feature-gates`.

/// Every controller of kube-controller-manager 1.36 with its alias; empty without an alias.
///
/// A list of `--controllers` that all services of this project share may name controllers of other services.
pub(super) const CONTROLLER_NAMES_AND_ALIASES: &[(&str, &str)] = &[
    ("serviceaccount-token-controller", "serviceaccount-token"),
    ("endpoints-controller", "endpoint"),
    ("endpointslice-controller", "endpointslice"),
    ("endpointslice-mirroring-controller", "endpointslicemirroring"),
    ("replicationcontroller-controller", "replicationcontroller"),
    ("pod-garbage-collector-controller", "podgc"),
    ("resourcequota-controller", "resourcequota"),
    ("namespace-controller", "namespace"),
    ("serviceaccount-controller", "serviceaccount"),
    ("garbage-collector-controller", "garbagecollector"),
    ("daemonset-controller", "daemonset"),
    ("job-controller", "job"),
    ("deployment-controller", "deployment"),
    ("replicaset-controller", "replicaset"),
    ("statefulset-controller", "statefulset"),
    ("cronjob-controller", "cronjob"),
    ("horizontal-pod-autoscaler-controller", "horizontalpodautoscaling"),
    ("disruption-controller", "disruption"),
    ("certificatesigningrequest-signing-controller", "csrsigning"),
    ("certificatesigningrequest-approving-controller", "csrapproving"),
    ("certificatesigningrequest-cleaner-controller", "csrcleaner"),
    ("podcertificaterequest-cleaner-controller", ""),
    ("ttl-controller", "ttl"),
    ("bootstrap-signer-controller", "bootstrapsigner"),
    ("token-cleaner-controller", "tokencleaner"),
    ("node-ipam-controller", "nodeipam"),
    ("node-lifecycle-controller", "nodelifecycle"),
    ("taint-eviction-controller", ""),
    ("service-lb-controller", "service"),
    ("node-route-controller", "route"),
    ("cloud-node-lifecycle-controller", "cloud-node-lifecycle"),
    ("persistentvolume-binder-controller", "persistentvolume-binder"),
    ("persistentvolume-attach-detach-controller", "attachdetach"),
    ("persistentvolume-expander-controller", "persistentvolume-expander"),
    ("persistentvolumeclaim-protection-controller", "pvc-protection"),
    ("persistentvolume-protection-controller", "pv-protection"),
    ("volumeattributesclass-protection-controller", ""),
    ("ephemeral-volume-controller", "ephemeral-volume"),
    ("clusterrole-aggregation-controller", "clusterrole-aggregation"),
    ("ttl-after-finished-controller", "ttl-after-finished"),
    ("root-ca-certificate-publisher-controller", "root-ca-cert-publisher"),
    ("kube-apiserver-serving-clustertrustbundle-publisher-controller", ""),
    ("storageversion-garbage-collector-controller", "storage-version-gc"),
    ("storage-version-migrator-controller", "svm"),
    ("resourceclaim-controller", "resource-claim-controller"),
    ("device-taint-eviction-controller", ""),
    ("resourcepoolstatusrequest-controller", ""),
    ("podgroup-protection-controller", ""),
    ("legacy-serviceaccount-token-cleaner-controller", "legacy-service-account-token-cleaner"),
    ("validatingadmissionpolicy-status-controller", ""),
    ("service-cidr-controller", ""),
    ("selinux-warning-controller", ""),
];

/// Returns the canonical name of a controller by its name or alias; `None` for an unknown name.
pub(crate) fn canonical_controller_name(name: &str) -> Option<&'static str> {
    CONTROLLER_NAMES_AND_ALIASES
        .iter()
        .find(|(canonical, alias)| *canonical == name || (!alias.is_empty() && *alias == name))
        .map(|(canonical, _)| *canonical)
}

/// Feature gates that are alpha in Kubernetes 1.36.
const ALPHA_GATES: &[&str] = &[
    "ClientsAllowCBOR",
    "ClientsPreferCBOR",
    "ControllerManagerReleaseLeaderElectionLockOnExit",
    "GenericWorkload",
    "LoggingAlphaOptions",
    "NativeHistograms",
    "WorkloadWithJob",
];

/// Pairs of feature gates. The first gate of a pair cannot be on while the second gate is off.
pub(super) const FEATURE_GATE_DEPENDENCIES: &[(&str, &str)] = &[("WorkloadWithJob", "GenericWorkload")];

/// Gates of upstream's common code that are fixed here, with their values.
///
/// The values describe the common code of this project. A Lease is always released. Caches are replaced as a whole, keep the
/// `resourceVersion` of their content, and deliver changes in order. Logs are contextual and may be JSON.
const FIXED_GATES: &[(&str, bool)] = &[
    ("AtomicFIFO", true),
    ("ClientsAllowCBOR", false),
    ("ClientsPreferCBOR", false),
    ("ClientsAllowTLSCacheGC", true),
    ("ComponentFlagz", false),
    ("ComponentStatusz", false),
    ("ContextualLogging", true),
    ("ControllerManagerReleaseLeaderElectionLockOnExit", true),
    ("CoordinatedLeaderElection", false),
    ("InformerResourceVersion", true),
    ("InOrderInformers", true),
    ("InOrderInformersBatchProcess", true),
    ("LoggingAlphaOptions", false),
    ("LoggingBetaOptions", true),
    ("NativeHistograms", false),
    ("SeparateTaintEvictionController", true),
    ("UnlockWhileProcessingFIFO", true),
];

/// Returns the fixed value of a gate of upstream's common code; `None` for all other gates.
pub(super) fn fixed_feature_gate_value(gate: &str) -> Option<bool> {
    FIXED_GATES.iter().find(|(name, _)| *name == gate).map(|(_, position)| *position)
}

/// Returns the value of the label `stage` of the metric `kubernetes_feature_enabled`; empty if the gate is locked.
pub(super) fn feature_gate_stage(name: &str, locked: bool) -> &'static str {
    if locked {
        ""
    } else if ALPHA_GATES.contains(&name) {
        "ALPHA"
    } else {
        "BETA"
    }
}
