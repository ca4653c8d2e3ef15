//! The table of the loops of kube-controller-manager 1.36 that no controller of Nonet runs.
//!
//! Together with the loops of [`crate::controllers`], the table has every loop of upstream. `kubectl nonet check --without-manager` and
//! the page `docs/reference/loops.md` are made from it.

/// A loop that only kube-controller-manager runs, or no process at all.
#[derive(Debug)]
pub struct RemainingLoop {
    /// Canonical name, as `--controllers` takes it.
    pub name: &'static str,
    /// When kube-controller-manager starts the loop.
    pub start: LoopStart,
    /// What a cluster lacks while no process runs the loop: a sentence without a full stop.
    pub loss: &'static str,
    /// Kinds of objects that the loop works for. In a cluster without any object of these kinds, nothing is lost. Empty if there is
    /// no such kind, or if it holds secrets.
    pub kinds: &'static [ServedKind],
}

/// What makes kube-controller-manager start a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopStart {
    /// `--controllers=*`, which is the default.
    Default,
    /// `--controllers=*` together with these flags, which kubeadm sets.
    WithFlags(&'static str),
    /// These flags alone: `--controllers` does not concern the loop. kubeadm sets them.
    FlagsAlone(&'static str),
    /// The name of the loop in `--controllers`, where kubeadm writes it.
    NamedByKubeadm,
    /// The name of the loop in `--controllers`.
    Named,
    /// `--controllers=*` together with these feature gates, which are off by default.
    Gates(&'static [&'static str]),
    /// Nothing: the loop has moved to the cloud-controller-managers.
    Never,
}

impl LoopStart {
    /// Whether a kube-controller-manager with its default flags or with those of kubeadm runs the loop.
    pub fn is_usual(self) -> bool {
        !matches!(self, Self::Named | Self::Gates(_) | Self::Never)
    }
}

/// A kind of objects, and where the API server lists them.
#[derive(Debug)]
pub struct ServedKind {
    /// The kind, or a description of one object: `HorizontalPodAutoscaler`.
    pub noun: &'static str,
    /// Resource in the form that `kubectl auth can-i` takes.
    pub resource: &'static str,
    /// Path of the list.
    pub path: &'static str,
    /// Field selector of the objects that count; empty for all.
    pub fields: &'static str,
}

const fn kind(noun: &'static str, resource: &'static str, path: &'static str) -> ServedKind {
    ServedKind { noun, resource, path, fields: "" }
}

const NODES: ServedKind = kind("Node", "nodes", "/api/v1/nodes");
const CERTIFICATE_REQUESTS: ServedKind = kind(
    "CertificateSigningRequest",
    "certificatesigningrequests.certificates.k8s.io",
    "/apis/certificates.k8s.io/v1/certificatesigningrequests",
);
const CLAIMS: ServedKind = kind("PersistentVolumeClaim", "persistentvolumeclaims", "/api/v1/persistentvolumeclaims");
const DEVICE_CLAIMS: ServedKind =
    kind("ResourceClaim", "resourceclaims.resource.k8s.io", "/apis/resource.k8s.io/v1/resourceclaims");
/// What `kubeadm init` publishes for nodes that join. Bootstrap tokens themselves are Secrets.
const CLUSTER_INFO: ServedKind = ServedKind {
    noun: "ConfigMap kube-public/cluster-info",
    resource: "configmaps",
    path: "/api/v1/namespaces/kube-public/configmaps",
    fields: "metadata.name=cluster-info",
};

const MOVED: &str = "nothing changes, because no kube-controller-manager since 1.31 runs it";

/// Every loop of kube-controller-manager 1.36 that is not in [`crate::controllers::ALL`], in upstream's order.
pub const ALL: &[RemainingLoop] = &[
    RemainingLoop {
        name: "serviceaccount-token-controller",
        start: LoopStart::FlagsAlone("--service-account-private-key-file"),
        loss: "a Secret of the type kubernetes.io/service-account-token gets no token, and stays when its account is deleted; Pods \
            and kubectl create token do not need such Secrets",
        kinds: &[],
    },
    RemainingLoop {
        name: "horizontal-pod-autoscaler-controller",
        start: LoopStart::Default,
        loss: "HorizontalPodAutoscalers scale nothing: the replicas stay as they are",
        kinds: &[kind(
            "HorizontalPodAutoscaler",
            "horizontalpodautoscalers.autoscaling",
            "/apis/autoscaling/v2/horizontalpodautoscalers",
        )],
    },
    RemainingLoop {
        name: "certificatesigningrequest-signing-controller",
        start: LoopStart::WithFlags("--cluster-signing-cert-file --cluster-signing-key-file"),
        loss: "approved CertificateSigningRequests get no certificate: no node joins by TLS bootstrap, and a kubelet is cut off \
            when its client certificate ends, within a year",
        kinds: &[NODES, CERTIFICATE_REQUESTS],
    },
    RemainingLoop {
        name: "certificatesigningrequest-approving-controller",
        start: LoopStart::Default,
        loss: "the requests of kubelets for client certificates wait for kubectl certificate approve",
        kinds: &[NODES, CERTIFICATE_REQUESTS],
    },
    RemainingLoop {
        name: "certificatesigningrequest-cleaner-controller",
        start: LoopStart::Default,
        loss: "finished and abandoned CertificateSigningRequests are not deleted",
        kinds: &[CERTIFICATE_REQUESTS],
    },
    RemainingLoop {
        name: "podcertificaterequest-cleaner-controller",
        start: LoopStart::Gates(&["PodCertificateRequest"]),
        loss: "finished PodCertificateRequests are not deleted",
        kinds: &[],
    },
    RemainingLoop {
        name: "ttl-controller",
        start: LoopStart::Default,
        loss: "in a cluster of more than 100 nodes, kubelets with the non-default setting Cache for Secrets and ConfigMaps read them \
            more often than necessary",
        kinds: &[NODES],
    },
    RemainingLoop {
        name: "bootstrap-signer-controller",
        start: LoopStart::NamedByKubeadm,
        loss: "kubeadm join does not accept a new bootstrap token, because kube-public/cluster-info has no signature for it",
        kinds: &[CLUSTER_INFO],
    },
    RemainingLoop {
        name: "token-cleaner-controller",
        start: LoopStart::NamedByKubeadm,
        loss: "the Secrets of expired bootstrap tokens stay, and with them the uploaded keys in kube-system/kubeadm-certs; the API \
            server does not accept expired tokens",
        kinds: &[CLUSTER_INFO],
    },
    RemainingLoop {
        name: "node-ipam-controller",
        start: LoopStart::WithFlags("--allocate-node-cidrs --cluster-cidr"),
        loss: "a new Node gets no spec.podCIDR: it does not become ready with a network plugin that reads it, such as flannel; \
            plugins with an address management of their own do not need it",
        kinds: &[NODES],
    },
    RemainingLoop { name: "service-lb-controller", start: LoopStart::Never, loss: MOVED, kinds: &[] },
    RemainingLoop { name: "node-route-controller", start: LoopStart::Never, loss: MOVED, kinds: &[] },
    RemainingLoop { name: "cloud-node-lifecycle-controller", start: LoopStart::Never, loss: MOVED, kinds: &[] },
    RemainingLoop {
        name: "persistentvolume-binder-controller",
        start: LoopStart::Default,
        loss: "new PersistentVolumeClaims stay Pending, and Pods with them; the volumes of deleted claims are not released",
        kinds: &[CLAIMS, kind("PersistentVolume", "persistentvolumes", "/api/v1/persistentvolumes")],
    },
    RemainingLoop {
        name: "persistentvolume-attach-detach-controller",
        start: LoopStart::Default,
        loss: "new Pods with volumes that have to be attached stay ContainerCreating, and volumes stay attached to dead nodes",
        kinds: &[
            kind("VolumeAttachment", "volumeattachments.storage.k8s.io", "/apis/storage.k8s.io/v1/volumeattachments"),
            kind("PersistentVolume", "persistentvolumes", "/api/v1/persistentvolumes"),
        ],
    },
    RemainingLoop {
        name: "persistentvolume-expander-controller",
        start: LoopStart::Default,
        loss: "larger claims of FlexVolumes, and of volumes that were migrated to CSI, are not resized; CSI volumes need only their \
            resizer",
        kinds: &[CLAIMS],
    },
    RemainingLoop {
        name: "storageversion-garbage-collector-controller",
        start: LoopStart::Gates(&["StorageVersionAPI"]),
        loss: "StorageVersions keep entries of API servers that are gone",
        kinds: &[],
    },
    RemainingLoop {
        name: "storage-version-migrator-controller",
        start: LoopStart::Gates(&["StorageVersionMigrator"]),
        loss: "StorageVersionMigrations do not run",
        kinds: &[],
    },
    RemainingLoop {
        name: "resourceclaim-controller",
        start: LoopStart::Default,
        loss: "Pods with a ResourceClaimTemplate stay Pending, and ended Pods keep their devices",
        kinds: &[
            DEVICE_CLAIMS,
            kind(
                "ResourceClaimTemplate",
                "resourceclaimtemplates.resource.k8s.io",
                "/apis/resource.k8s.io/v1/resourceclaimtemplates",
            ),
        ],
    },
    RemainingLoop {
        name: "device-taint-eviction-controller",
        start: LoopStart::Default,
        loss: "Pods are not evicted from devices with a taint",
        kinds: &[DEVICE_CLAIMS],
    },
    RemainingLoop {
        name: "resourcepoolstatusrequest-controller",
        start: LoopStart::Gates(&["DRAResourcePoolStatus"]),
        loss: "ResourcePoolStatusRequests get no answer",
        kinds: &[],
    },
    RemainingLoop {
        name: "podgroup-protection-controller",
        start: LoopStart::Gates(&["GenericWorkload"]),
        loss: "deleted PodGroups that have a finalizer stay",
        kinds: &[],
    },
    RemainingLoop {
        name: "legacy-serviceaccount-token-cleaner-controller",
        start: LoopStart::Default,
        loss: "unused token Secrets that Kubernetes before 1.24 created stay valid, and are not deleted",
        kinds: &[],
    },
    RemainingLoop {
        name: "validatingadmissionpolicy-status-controller",
        start: LoopStart::Default,
        loss: "ValidatingAdmissionPolicies get no warnings of the type check in their status; they are enforced all the same",
        kinds: &[kind(
            "ValidatingAdmissionPolicy",
            "validatingadmissionpolicies.admissionregistration.k8s.io",
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
        )],
    },
    RemainingLoop {
        name: "service-cidr-controller",
        start: LoopStart::Default,
        loss: "a deleted ServiceCIDR with a finalizer stays, and a new one has no finalizer that keeps it while Services use it; \
            addresses are assigned all the same",
        // The API server creates the first one.
        kinds: &[ServedKind {
            noun: "ServiceCIDR besides the first",
            resource: "servicecidrs.networking.k8s.io",
            path: "/apis/networking.k8s.io/v1/servicecidrs",
            fields: "metadata.name!=kubernetes",
        }],
    },
    RemainingLoop {
        name: "selinux-warning-controller",
        start: LoopStart::Named,
        loss: "no Events or metrics about Pods whose SELinux labels conflict on one volume",
        kinds: &[],
    },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use common::process::built_in_flags::loop_names;

    use super::*;
    use crate::controllers;

    /// With this test, a loop that moves into a controller of Nonet has to leave the table.
    #[test]
    fn each_loop_of_upstream_is_run_by_nonet_or_in_the_table() {
        let mut found: Vec<&str> = ALL.iter().map(|each| each.name).collect();
        let order: Vec<&str> = loop_names().filter(|name| found.contains(name)).collect();
        assert_eq!(found, order, "upstream's order");
        found.extend(controllers::ALL.iter().flat_map(controllers::Controller::loops));
        let (unique, expected): (BTreeSet<&str>, BTreeSet<&str>) =
            (found.iter().copied().collect(), loop_names().collect());
        assert_eq!(unique, expected);
        assert_eq!(found.len(), unique.len(), "a loop is there twice");
    }
}
