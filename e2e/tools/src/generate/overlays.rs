//! The overlays of `deploy/` that list controllers, the registries of images, and the cluster of kind without the built-in loops.

use std::{fmt::Write as _, fs, io};

use kubectl_nonet::controllers::{ALL, Controller};
use serde_json::Value;

use super::{File, by_name, by_port, fill, fill_each, join, root, template};

const KUSTOMIZATION: &str = "apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: kube-system
resources:
";

/// An overlay whose resources are a directory of each controller.
struct Overlay {
    name: &'static str,
    /// What the overlay is for, as a comment.
    comment: &'static str,
    /// Resources in front of those of the controllers.
    first: &'static str,
    /// The directory of a controller.
    resource: &'static str,
    /// The controllers.
    has: fn(&Controller) -> bool,
    /// The components, and everything behind them.
    rest: &'static str,
}

const OVERLAYS: [Overlay; 6] = [
    Overlay {
        name: "default",
        comment: "# Production: every controller with two replicas on different control-plane nodes. Delete the line of a controller to leave its
# loops to kube-controller-manager.
",
        first: "",
        resource: "../../controllers/NAME",
        has: |_| true,
        rest: "components:
  - ../../components/ha
  - ../../components/debug
  - ../../components/images
",
    },
    Overlay {
        name: "single",
        comment: "# Every controller with one replica, for a cluster with one control-plane node. A new version starts beside the old version, and
# has to lead before the old Pod is deleted, as with two replicas.
",
        first: "",
        resource: "../../controllers/NAME",
        has: |_| true,
        rest: "components:
  - ../../components/debug
  - ../../components/images
",
    },
    Overlay {
        name: "monitored",
        comment: "# Production, with scraping, alerts and a dashboard. Delete the line of a controller that is not installed, because its absence
# would fire an alert.
",
        first: "  - ../default
",
        resource: "../../controllers/NAME/absence",
        has: |_| true,
        rest: r#"components:
  - ../../components/monitoring
# Names of cluster-scoped objects end in the namespace, so that two installations have different names.
replacements:
  - source: {kind: ServiceAccount, name: nonet-metrics-reader, fieldPath: metadata.namespace}
    targets:
      - select: {kind: ClusterRole, name: "nonet:metrics-reader.kube-system"}
        fieldPaths: [metadata.name]
        options: {delimiter: ., index: 1}
      - select: {kind: ClusterRoleBinding, name: "nonet:metrics-reader.kube-system"}
        fieldPaths: [metadata.name, roleRef.name]
        options: {delimiter: ., index: 1}
"#,
    },
    Overlay {
        name: "rescue",
        comment: "# Bare Pods of the controllers that a cluster without controllers needs first: those that create all other Pods, and
# node-lifecycle-controller, which removes the taints of ready nodes. The Pods need no controller, no network plugin and no
# kube-proxy.
# Use this overlay when no replicaset-controller runs that could create the Pods of replicaset-controller, and on a cluster that
# has never had the built-in loops. The Pods use the ServiceAccounts and roles of the Deployments, so apply the overlay with the
# Deployments first. Delete the line of a controller that your overlay lacks, because its ServiceAccount does not exist.
# The Pods take part in the usual elections. Delete them once the Deployments are available.
",
        first: "",
        resource: "../../controllers/NAME/rescue",
        has: |controller| controller.is_rescued_first,
        rest: "components:
  - ../../components/images
",
    },
    Overlay {
        name: "shadow",
        comment: "# Shadows of all controllers, beside the controllers of kube-controller-manager or of Nonet that write.
",
        first: "",
        resource: "../../shadows/NAME",
        has: |_| true,
        rest: "components:
  - ../../components/shadow-images
",
    },
    Overlay {
        name: "static-pods",
        comment: "# Rights of static Pods (deploy/static-pods): ServiceAccounts and roles of all controllers, and of readers of /debug.
",
        first: "",
        resource: "../../controllers/NAME",
        has: |_| true,
        rest: "components:
  - ../../base/rights
  - ../../components/debug
",
    },
];

const IMAGES: &str = "# Registry, tag and digest of every image, for all overlays. deploy/images/set edits this file.
# The name registry.invalid never resolves (RFC 2606). Until a registry is set, only images that are loaded onto nodes can start.
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
";

const SHADOW_IMAGES: &str = "# Registry, tag and digest of the image of every shadow, for all overlays. deploy/images/set edits this file.
# The name registry.invalid never resolves (RFC 2606). Until a registry is set, only images that are loaded onto nodes can start.
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
";

const RENAMED_IMAGES: &str =
    "# A separate image, which components/shadow-images sets, so that a shadow can run a newer version than the controllers.
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
images:
";

/// The entries of a list of images. Entries of known controllers stay as `deploy/images/set` has set them.
fn images(path: &str, head: &str, name: &str) -> io::Result<File> {
    let old = fs::read_to_string(root().join("deploy").join(path)).unwrap_or_default();
    let old: Value = serde_saphyr::from_str(&old).map_err(|why| io::Error::other(format!("{path}: {why}")))?;
    let mut text = format!("{head}images:\n");
    for controller in by_name() {
        let name = fill(name, controller);
        let entry = old["images"].as_array().into_iter().flatten().find(|entry| entry["name"] == *name);
        let set = |field: &str| entry.and_then(|entry| entry[field].as_str());
        let new_name = set("newName").map_or_else(|| fill("registry.invalid/nonet/NAME", controller), str::to_owned);
        let new_tag = set("newTag").unwrap_or("dev");
        let _ = write!(text, "  - name: {name}\n    newName: {new_name}\n    newTag: {new_tag}\n");
        text.extend(set("digest").map(|digest| format!("    digest: {digest}\n")));
    }
    Ok(File::of_deploy(path, &text))
}

/// The value of `--controllers` with which kube-controller-manager leaves every loop to Nonet.
pub(super) fn controllers_without_loops_of_nonet() -> String {
    let off = join(ALL.iter().flat_map(Controller::loops).map(|name| format!(",-{name}")));
    format!("*,bootstrapsigner,tokencleaner{off}")
}

/// The configuration of a kind cluster in which kube-controller-manager leaves every loop to Nonet.
fn cluster_of_kind() -> File {
    let (path, template) = template!("kind/cluster.yaml");
    File::of_deploy(path, &template.replace("CONTROLLERS", &controllers_without_loops_of_nonet()))
}

/// All files.
pub(super) fn files() -> io::Result<Vec<File>> {
    let overlay = |overlay: &Overlay| {
        let Overlay { name, comment, first, resource, has, rest } = overlay;
        let chosen = by_port().into_iter().filter(|controller| has(controller));
        let list = fill_each(&format!("  - {resource}\n"), chosen);
        let path = format!("overlays/{name}/kustomization.yaml");
        File::of_deploy(&path, &format!("{comment}{KUSTOMIZATION}{first}{list}{rest}"))
    };
    let mut files: Vec<File> = OVERLAYS.iter().map(overlay).collect();
    files.push(cluster_of_kind());
    let own = "registry.invalid/nonet/NAME";
    let shadow = "registry.invalid/nonet/shadow/NAME";
    files.push(images("components/images/kustomization.yaml", IMAGES, own)?);
    files.push(images("components/shadow-images/kustomization.yaml", SHADOW_IMAGES, shadow)?);
    let renamed = fill_each(&format!("  - name: {own}\n    newName: {shadow}\n"), by_name());
    files.push(File::of_deploy("shadows/base/images/kustomization.yaml", &format!("{RENAMED_IMAGES}{renamed}")));
    Ok(files)
}
