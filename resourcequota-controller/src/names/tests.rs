use super::*;

#[test]
fn each_name_belongs_to_the_kind_of_its_evaluator() {
    // RESOURCEQUOTA-17, RESOURCEQUOTA-18, RESOURCEQUOTA-19, RESOURCEQUOTA-20, RESOURCEQUOTA-21, RESOURCEQUOTA-35, RESOURCEQUOTA-40
    for (kind, names) in [
        ("pods", "pods count/pods cpu requests.memory limits.ephemeral-storage hugepages-2Mi requests.hugepages-1Gi"),
        ("pods", "requests.example.com/gpu requests.deviceclass.resource.kubernetes.io/gpu"),
        ("services", "services count/services services.nodeports services.loadbalancers"),
        ("persistentvolumeclaims", "persistentvolumeclaims requests.storage"),
        ("persistentvolumeclaims", "requests.a.storageclass.storage.k8s.io/requests.storage"),
        ("persistentvolumeclaims", "gold.storageclass.storage.k8s.io/persistentvolumeclaims"),
        (
            "resourceclaims.resource.k8s.io",
            "count/resourceclaims.resource.k8s.io gpu.deviceclass.resource.k8s.io/devices",
        ),
        ("secrets", "secrets count/secrets"),
        ("deployments.apps", "count/deployments.apps"),
    ] {
        for name in names.split(' ') {
            assert_eq!(kind_of(name).as_deref(), Some(kind), "{name}");
        }
    }
    let unknown = "example.com/gpu limits.example.com/gpu limits.hugepages-2Mi requests.kubernetes.io/x limits.storage deployments";
    for name in unknown.split(' ').chain(["", "count/", "requests.", "services.other"]) {
        assert_eq!(kind_of(name), None, "{name}");
    }
}

#[test]
fn some_kinds_are_never_counted() {
    // RESOURCEQUOTA-5
    for name in
        ["count/events", "count/events.events.k8s.io", "count/bindings", "count/tokenreviews.authentication.k8s.io"]
    {
        assert_eq!(kind_of(name), None, "{name}");
    }
}

#[test]
fn an_extended_resource_concerns_claims_and_classes() {
    // RESOURCEQUOTA-81
    assert!(is_extended("requests.example.com/gpu"));
    for name in ["gpu.deviceclass.resource.k8s.io/devices", "requests.cpu", "count/pods"] {
        assert!(!is_extended(name), "{name}");
    }
}
