//! `deploy/images`: one compilation, and an image of each controller.

use super::{File, by_name, expand, fill, join, template};

pub(super) fn files() -> [File; 2] {
    let packages: Vec<String> = by_name().into_iter().map(|controller| fill("-p NAME", controller)).collect();
    let lines = join(packages.chunks(5).map(|chunk| format!("      {} \\\n", chunk.join(" "))));
    [template!("images/Dockerfile"), template!("images/docker-bake.hcl")]
        .map(|(path, template)| File::of_deploy(path, &expand(&template.replace("PACKAGES", &lines), by_name())))
}
