//! The files that `deploy/render` writes are what the kustomizations say, in an order that `kubectl apply -f` accepts.

use std::{collections::BTreeMap, fs, process::Command};

use serde_json::{Value, json};

use super::{
    deploy, directories,
    images::run,
    kustomize::{self, Rendered, documents, needs_kubectl, ordered},
    names,
    overlays::{OTHERS, check, expectations},
};
use crate::repository::empty_directory;

/// The name of the file of a kustomization.
fn file_of(path: &str) -> String {
    path.replace("overlays/", "").replace("examples/", "example-").replace('/', "-")
}

/// What each file of `deploy/render` has to contain.
fn expected() -> BTreeMap<String, Rendered> {
    let mut files: BTreeMap<String, Rendered> = BTreeMap::new();
    let is_rendered = |path: &&str| *path != "static-pods" && !path.starts_with("kind/");
    for path in expectations().into_keys().chain(OTHERS).filter(is_rendered) {
        files.insert(file_of(path), kustomize::build(path));
    }
    let rescue = names().into_iter().map(|name| format!("../../controllers/{name}/rescue")).collect::<Vec<_>>();
    for (prefix, components) in [("rescue", &["images"][..]), ("rescue-any-node", &["any-node", "images"])] {
        let components: Vec<String> = components.iter().map(|name| format!("../../components/{name}")).collect();
        let kustomization = json!({"namespace": "kube-system", "resources": rescue, "components": components});
        // Each Pod has a file of its own.
        for (id, pod) in kustomize::render("overlays/default", &kustomization) {
            let controller = id.1.strip_prefix("nonet-rescue-").unwrap();
            files.insert(format!("{prefix}-{controller}"), Rendered::from([(id.clone(), pod)]));
        }
    }
    for ((_, name), object) in kustomize::build("static-pods") {
        let controller = name.strip_prefix("nonet-").unwrap();
        files.insert(format!("static-pod-{controller}"), Rendered::from([(("Pod".to_owned(), name.clone()), object)]));
    }
    files
}

/// The order in which `kubectl apply -f`, which goes through a file in its order, has to come to kinds: behind all that they refer
/// to.
const ORDER: [&[&str]; 5] = [
    &["Namespace"],
    &["ServiceAccount", "ClusterRole", "Role", "ResourceQuota"],
    // The token of a ServiceAccount: the API server refuses it without the ServiceAccount.
    &["ClusterRoleBinding", "RoleBinding", "Secret"],
    &["Deployment", "Pod"],
    &["ConfigMap", "Service", "PodDisruptionBudget", "NetworkPolicy", "FlowSchema", "PodMonitor", "PrometheusRule"],
];

fn rank(object: &Value) -> usize {
    let kind = object["kind"].as_str().unwrap();
    ORDER.iter().position(|kinds| kinds.contains(&kind)).unwrap_or_else(|| panic!("when does {kind} come?"))
}

#[test]
fn one_file_installs_are_what_the_kustomizations_say() {
    needs_kubectl!();
    let out = empty_directory("rendered");
    run(Command::new(deploy("render")).arg(&out)).unwrap();

    let mut files = BTreeMap::new();
    for entry in fs::read_dir(&out).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().strip_suffix(".yaml").unwrap().to_owned();
        files.insert(name, fs::read_to_string(path).unwrap());
    }
    let expected = expected();
    assert_eq!(files.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (name, text) in &files {
        assert!(documents(text) == expected[name], "{name}.yaml is not what its kustomization says");
        // Bindings before their roles are valid, but Pods without their ServiceAccount are refused.
        let ranks: Vec<usize> = ordered(text).iter().map(rank).filter(|rank| *rank != 4).collect();
        assert!(ranks.is_sorted_by_key(|rank| (*rank).max(1)), "{name}.yaml: {ranks:?}");
    }
    for (path, promises) in expectations().into_iter().filter(|(path, _)| !path.starts_with("kind/")) {
        check(&documents(&files[&file_of(path)]), &promises);
    }
    let left = directories("").into_iter().filter(|name| name.starts_with(".render"));
    assert_eq!(left.count(), 0, "deploy/render leaves its directory behind");
}
