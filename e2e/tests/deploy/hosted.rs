//! The controllers of another control plane as Pods: they have no right in the cluster that runs them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    kustomize::{self, needs_kubectl},
    names,
    overlays::{arguments, check_arguments, check_confined, container, pods, selects},
};

#[test]
fn hosted_controllers_have_a_kubeconfig_and_no_right_in_their_own_cluster() {
    needs_kubectl!();
    let objects = kustomize::build("examples/hosted");
    let kinds: BTreeSet<&str> = objects.keys().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, BTreeSet::from(["Deployment", "NetworkPolicy", "PodDisruptionBudget"]));
    let pods = pods(&objects);
    assert_eq!(pods.iter().map(|(name, _)| (*name).to_owned()).collect::<BTreeSet<_>>(), names());
    for (name, pod) in pods {
        let account = (&pod["automountServiceAccountToken"], &pod["serviceAccountName"]);
        assert_eq!(account, (&json!(false), &Value::Null), "{name}");
        let volumes = json!([{"name": "kubeconfig", "secret": {"secretName": format!("nonet-{name}")}}]);
        let mounts = json!([{"name": "kubeconfig", "mountPath": "/etc/nonet", "readOnly": true}]);
        assert_eq!((&pod["volumes"], &container(pod)["volumeMounts"]), (&volumes, &mounts), "{name}");
        // Without a flag, the Lease is in kube-system of the other control plane.
        assert_eq!(arguments(pod), ["--v=2", "--kubeconfig=/etc/nonet/kubeconfig", "--probation=1m"], "{name}");
        check_arguments(name, pod);
        check_confined(name, pod);
    }
}

/// `kubectl nonet` finds an installation by this label.
#[test]
fn hosted_controllers_are_no_installation_of_their_own_cluster() {
    needs_kubectl!();
    let objects = kustomize::build("examples/hosted");
    for ((kind, name), object) in &objects {
        let labels = &object["metadata"]["labels"];
        assert_eq!(labels["app.kubernetes.io/part-of"], "nonet-hosted", "{kind} {name}");
        let selector = ["/spec/selector/matchLabels", "/spec/podSelector/matchLabels"];
        let selector = selector.iter().find_map(|path| object.pointer(path)).unwrap();
        let pods = &objects[&("Deployment".to_owned(), name.clone())]["spec"]["template"]["metadata"]["labels"];
        assert!(selects(selector, pods), "{kind} {name}");
    }
}
