//! Feature gates of the API server: their positions in 1.36 unless a sandbox is told otherwise.

/// Gates that bear on what is stored and are on by default in 1.36; all others are off.
const ON: [&str; 46] = [
    "AnyVolumeDataSource",
    "ContainerRestartRules",
    "DeploymentReplicaSetTerminatingReplicas",
    "DisableNodeKubeProxyVersion",
    "DynamicResourceAllocation",
    "EnvFiles",
    "HostnameOverride",
    "ImageVolume",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScaling",
    "JobBackoffLimitPerIndex",
    "JobManagedBy",
    "JobPodReplacementPolicy",
    "JobSuccessPolicy",
    "MatchLabelKeysInPodAffinity",
    "MatchLabelKeysInPodTopologySpread",
    "MatchLabelKeysInPodTopologySpreadSelectorMerge",
    "MultiCIDRServiceAllocator",
    "MutablePodResourcesForSuspendedJobs",
    "MutableSchedulingDirectivesForSuspendedJobs",
    "NodeDeclaredFeatures",
    "NodeInclusionPolicyInPodTopologySpread",
    "NominatedNodeNameForExpectation",
    "PodDeletionCost",
    "PodLevelResources",
    "PodLifecycleSleepAction",
    "PodLifecycleSleepActionAllowZero",
    "PodObservedGenerationTracking",
    "PodReadyToStartContainersCondition",
    "PodSchedulingReadiness",
    "PodTopologyLabelsAdmission",
    "PreferSameTrafficDistribution",
    "ProcMountType",
    "RecoverVolumeExpansionFailure",
    "RecursiveReadOnlyMounts",
    "RelaxedDNSSearchValidation",
    "RelaxedEnvironmentVariableValidation",
    "RelaxedServiceNameValidation",
    "ResourceHealthStatus",
    "SELinuxChangePolicy",
    "SidecarContainers",
    "StatefulSetSemanticRevisionComparison",
    "StrictIPCIDRValidation",
    "SupplementalGroupsPolicy",
    "UserNamespacesSupport",
    "VolumeAttributesClass",
];

/// Whether a gate is on in 1.36 when nobody says.
pub(crate) fn default_of(name: &str) -> bool {
    ON.binary_search(&name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_as_the_search_needs_it() {
        assert!(ON.is_sorted());
        assert!(default_of("JobManagedBy"));
        assert!(!default_of("MaxUnavailableStatefulSet"));
    }
}
