//! `deploy/images`: one compilation, and an image of each controller.

use super::{File, MARK, by_name, expand, fill, join, template};

/// The files, of which Docker reads the first line of the Dockerfile as a directive.
pub(super) fn files() -> [File; 2] {
    let packages: Vec<String> = by_name().into_iter().map(|controller| fill("-p NAME", controller)).collect();
    let lines = join(packages.chunks(5).map(|chunk| format!("      {} \\\n", chunk.join(" "))));
    let [(_, dockerfile), (path, bake)] = [template!("images/Dockerfile"), template!("images/docker-bake.hcl")];
    let dockerfile = expand(&dockerfile.replace("PACKAGES", &lines), by_name());
    let dockerfile = format!("{SYNTAX}\n# {MARK}.\n{dockerfile}");
    [
        File { path: "deploy/images/Dockerfile".to_owned(), text: dockerfile },
        File::of_deploy(path, &expand(bake, by_name())),
    ]
}

const SYNTAX: &str = "# syntax=docker/dockerfile:1";
