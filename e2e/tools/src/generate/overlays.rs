//! The overlays of `deploy/` that list controllers, the registries of images, and the cluster of kind without the built-in loops.

use std::{fmt::Write as _, fs, io};

use kubectl_nonet::controllers::{ALL, Controller};
use serde_json::Value;

use super::{File, by_name, by_port, expand, fill, join, root, template};

/// The overlays whose resources are a directory of each controller, or of those that a cluster without controllers needs first.
const OVERLAYS: [(&str, &str); 7] = [
    template!("overlays/default.yaml"),
    template!("overlays/single.yaml"),
    template!("overlays/monitored.yaml"),
    template!("overlays/rescue.yaml"),
    template!("overlays/shadow.yaml"),
    template!("overlays/static-pods.yaml"),
    template!("examples/hosted.yaml"),
];

/// The entries of a list of images. Entries of known controllers stay as `deploy/images/set` has set them.
fn images(path: &str, head: &str, name: &str) -> io::Result<File> {
    let old = fs::read_to_string(root().join("deploy").join(path)).unwrap_or_default();
    let old: Value = serde_saphyr::from_str(&old).map_err(|why| io::Error::other(format!("{path}: {why}")))?;
    let mut text = head.to_owned();
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

pub(super) fn files() -> io::Result<Vec<File>> {
    let overlay = |(path, template): (&str, &str)| {
        let is_rescue = path == "overlays/rescue.yaml";
        let chosen: Vec<_> =
            by_port().into_iter().filter(|controller| !is_rescue || controller.is_rescued_first).collect();
        let path = path.replace(".yaml", "/kustomization.yaml");
        File::of_deploy(&path, &expand(template, chosen))
    };
    let mut files: Vec<File> = OVERLAYS.into_iter().map(overlay).collect();
    files.push(cluster_of_kind());
    for ((path, head), name) in [
        (template!("components/images.yaml"), "registry.invalid/nonet/NAME"),
        (template!("components/shadow-images.yaml"), "registry.invalid/nonet/shadow/NAME"),
    ] {
        files.push(images(&path.replace(".yaml", "/kustomization.yaml"), head, name)?);
    }
    let (_, renamed) = template!("shadows/images.yaml");
    files.push(File::of_deploy("shadows/base/images/kustomization.yaml", &expand(renamed, by_name())));
    Ok(files)
}
