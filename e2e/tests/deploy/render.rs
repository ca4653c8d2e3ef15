//! The files that `deploy/render` writes are what the kustomizations say, in an order that `kubectl apply -f` accepts.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use e2e::skips;
use serde_json::{Value, json};

use crate::{
    directories,
    kustomize::{Kustomize, Rendered},
    names,
    overlays::{OTHERS, check, deploy, documents, expectations, ordered},
    root,
};

/// What each file of `deploy/render` has to contain.
fn expected(kustomize: &mut Kustomize) -> BTreeMap<String, Rendered> {
    let mut files: BTreeMap<String, Rendered> = BTreeMap::new();
    let is_rendered = |path: &&str| *path != "static-pods" && !path.starts_with("kind/");
    for path in expectations().into_keys().chain(OTHERS).filter(is_rendered) {
        let name = path.replace("overlays/", "").replace("examples/", "example-").replace('/', "-");
        files.insert(name, kustomize.build(&deploy(path)));
    }
    for name in names() {
        let mut one = |resource: &str, components: &[&str]| {
            let components: Vec<String> = components.iter().map(|name| format!("../../components/{name}")).collect();
            let resource = format!("../../controllers/{name}/{resource}");
            let kustomization = json!({"namespace": "kube-system", "resources": [resource], "components": components});
            kustomize.render(&deploy("overlays/default"), &kustomization)
        };
        files.insert(format!("rescue-{name}"), one("rescue", &["images"]));
        files.insert(format!("rescue-any-node-{name}"), one("rescue", &["any-node", "images"]));
    }
    for ((_, name), object) in kustomize.build(&deploy("static-pods")) {
        let controller = name.strip_prefix("nonet-").unwrap();
        files.insert(format!("static-pod-{controller}"), Rendered::from([(("Pod".to_owned(), name.clone()), object)]));
    }
    files
}

/// When `kubectl apply -f`, which goes through a file in its order, has to come to a kind: behind all that it refers to.
fn rank(object: &Value) -> u32 {
    match object["kind"].as_str().unwrap() {
        "Namespace" => 0,
        "ServiceAccount" | "ClusterRole" | "Role" => 1,
        // The token of a ServiceAccount: the API server refuses it without the ServiceAccount.
        "ClusterRoleBinding" | "RoleBinding" | "Secret" => 2,
        "Deployment" | "Pod" => 3,
        "ConfigMap"
        | "Service"
        | "PodDisruptionBudget"
        | "NetworkPolicy"
        | "FlowSchema"
        | "PodMonitor"
        | "PrometheusRule" => 4,
        other => panic!("when does {other} come?"),
    }
}

#[test]
fn one_file_installs_are_what_the_kustomizations_say() {
    const TEST: &str = "deploy::render::one_file_installs_are_what_the_kustomizations_say";
    let there = ["kubectl", "kustomize"].iter().any(|name| Command::new(name).arg("version").output().is_ok());
    skips::note(TEST, (!there).then_some("kubectl is not installed"));
    if !there {
        return;
    }
    let out: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rendered");
    let _ = fs::remove_dir_all(&out);
    let output = Command::new(root().join("deploy/render")).arg(&out).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let mut files = BTreeMap::new();
    for entry in fs::read_dir(&out).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().strip_suffix(".yaml").unwrap().to_owned();
        files.insert(name, fs::read_to_string(path).unwrap());
    }
    let expected = expected(&mut Kustomize::default());
    assert_eq!(files.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    for (name, text) in &files {
        assert!(documents(text) == expected[name], "{name}.yaml is not what its kustomization says");
        // Bindings before their roles are valid, but Pods without their ServiceAccount are refused.
        let ranks: Vec<u32> = ordered(text).iter().map(rank).filter(|rank| *rank != 4).collect();
        assert!(ranks.is_sorted_by_key(|rank| (*rank).max(1)), "{name}.yaml: {ranks:?}");
    }
    for (path, promises) in expectations().into_iter().filter(|(path, _)| !path.starts_with("kind/")) {
        let name = path.replace("overlays/", "").replace("examples/", "example-");
        check(&documents(&files[&name]), &promises);
    }
    let left = directories("").into_iter().filter(|name| name.starts_with(".render"));
    assert_eq!(left.count(), 0, "deploy/render leaves its directory behind");
}
