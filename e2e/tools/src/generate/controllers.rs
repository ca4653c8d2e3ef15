//! `deploy/controllers`, `deploy/shadows` and `deploy/static-pods`: the objects of each controller.

use std::io;

use kubectl_nonet::controllers::ALL;

use super::{File, by_port, expand, fill, roles, template};

/// The templates of the files of a controller, by their paths below `deploy/`.
const FILES: [(&str, &str); 11] = [
    template!("controllers/NAME/serviceaccount.yaml"),
    template!("controllers/NAME/deployment.yaml"),
    template!("controllers/NAME/poddisruptionbudget.yaml"),
    template!("controllers/NAME/networkpolicy.yaml"),
    template!("controllers/NAME/rescue/kustomization.yaml"),
    template!("controllers/NAME/rescue/pod.yaml"),
    template!("controllers/NAME/absence/kustomization.yaml"),
    template!("controllers/NAME/absence/rule.yaml"),
    template!("shadows/NAME/kustomization.yaml"),
    template!("static-pods/NAME.yaml"),
    template!("controllers/NAME/kustomization.yaml"),
];

/// The component in the kustomization of a controller that runs on nodes that are not ready.
const UNREADY_NODES: &str = "  - ../../base/unready-nodes\n";
/// The component in the kustomizations of a controller that reads the ConfigMap `nonet-root-ca`.
const ROOT_CA: &str = "base/root-ca\n";

/// All files, in the order of the table.
pub(super) fn files() -> io::Result<Vec<File>> {
    let lists = [template!("static-pods/kustomization.yaml"), template!("static-pods/scrape.yaml")];
    let mut files: Vec<File> = lists.map(|(path, template)| File::of_deploy(path, &expand(template, by_port()))).into();
    for controller in ALL {
        for (path, template) in FILES {
            let mut text = fill(template, controller);
            if path == "controllers/NAME/kustomization.yaml" && controller.tolerates_unready_nodes {
                text.push_str(UNREADY_NODES);
            }
            let levels = match path {
                "controllers/NAME/kustomization.yaml" => "../../",
                "controllers/NAME/rescue/kustomization.yaml" => "../../../",
                _ => "",
            };
            if controller.reads_root_ca && !levels.is_empty() {
                text.extend(["  - ", levels, ROOT_CA]);
            }
            files.push(File::of_deploy(&fill(path, controller), &text));
        }
        files.extend(roles::files(controller)?);
    }
    Ok(files)
}
