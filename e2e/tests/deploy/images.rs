//! Images are what `deploy/images` says they are, whatever they are made with.

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use e2e::skips;
use serde_json::{Value, json};

use super::{deploy, kustomize::this_test, names, text, yaml};
use crate::repository::{copy_directory, empty_directory, root};

/// An empty directory.
fn directory(name: &str) -> PathBuf {
    empty_directory(&format!("images/{name}"))
}

/// What a program prints, or what it complains about if it fails.
pub(crate) fn run(command: &mut Command) -> Result<String, String> {
    run_if_there(command).unwrap_or_else(|e| panic!("{command:?}: {e}"))
}

/// The same of a program that may not be installed.
pub(crate) fn run_if_there(command: &mut Command) -> io::Result<Result<String, String>> {
    let output = command.output()?;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ok(if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) })
}

fn pack(binaries: &Path, out: &Path) -> Result<String, String> {
    let mut command = Command::new(deploy("images/pack"));
    command.args([binaries, out]).env("SOURCE_DATE_EPOCH", "1700000000");
    run(command.env("REGISTRY", "registry.example/team").env("TAG", "v0.1.0").env("ARCH", "arm64"))
}

/// Writes a program that `sh` runs.
pub(crate) fn script(path: &Path, lines: &str) {
    fs::write(path, format!("#!/bin/sh\n{lines}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
}

/// Writes a program that answers `--version` as a controller does.
pub(crate) fn program(path: &Path, name: &str) {
    script(path, &format!("echo '{name} 0.1.0 (Kubernetes v1.36.2, commit 0a1b2c3)'"));
}

/// The same for each controller.
pub(crate) fn programs(directory: &Path) {
    for name in names() {
        program(&directory.join(&name), &name);
    }
}

/// The `PATH` of this process with a directory in front.
pub(crate) fn path_with(first: &Path) -> std::ffi::OsString {
    let others = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths([first.to_owned()].into_iter().chain(std::env::split_paths(&others))).unwrap()
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn packed_images_hold_one_file_and_are_the_same_twice() {
    let (first, second) = (directory("first"), directory("second"));
    let made: Vec<PathBuf> = [&first, &second]
        .into_iter()
        .map(|binaries| {
            programs(binaries);
            // Neither what else lies there nor when it came to be makes a difference.
            fs::write(binaries.join("readme"), binaries.display().to_string()).unwrap();
            let out = binaries.join("out");
            pack(binaries, &out).unwrap();
            out
        })
        .collect();
    let digests = fs::read_to_string(made[0].join("digests")).unwrap();
    assert_eq!(digests.lines().count(), names().len());
    for name in names() {
        let archive = format!("{name}.tar");
        assert!(fs::read(made[0].join(&archive)).unwrap() == fs::read(made[1].join(&archive)).unwrap(), "{name}");
        let image = directory("image");
        run(Command::new("tar").arg("-C").arg(&image).arg("-xf").arg(made[0].join(&archive))).unwrap();
        let blob = |digest: &Value| image.join("blobs").join(digest.as_str().unwrap().replace(':', "/"));
        let index = read(&image.join("index.json"));
        let digest = &index["manifests"][0]["digest"];
        let line = format!("{name} registry.example/team/{name}:v0.1.0 {}", digest.as_str().unwrap());
        assert!(digests.lines().any(|each| each == line), "{line} is not in\n{digests}");
        let manifest = read(&blob(digest));
        let config = read(&blob(&manifest["config"]["digest"]));
        assert_eq!(config["architecture"], "arm64");
        assert_eq!(config["config"]["User"], "65532:65532");
        assert_eq!(config["config"]["Entrypoint"], json!([format!("/{name}")]));
        let label = |key: &str| config["config"]["Labels"][format!("org.opencontainers.image.{key}")].clone();
        assert_eq!(
            [label("version"), label("revision"), label("title")],
            [json!("0.1.0"), json!("0a1b2c3"), json!(name)]
        );
        let [layer] = manifest["layers"].as_array().unwrap().as_slice() else { panic!("{name}: one layer") };
        let listed = run(Command::new("tar").args(["--numeric-owner", "-tvzf"]).arg(blob(&layer["digest"]))).unwrap();
        let [file] = listed.lines().collect::<Vec<_>>()[..] else { panic!("{name}: {listed}") };
        assert!(file.starts_with("-r-xr-xr-x 0/0") && file.ends_with(&format!(" {name}")), "{file}");
    }
}

#[test]
fn what_does_not_start_in_an_empty_image_is_not_packed() {
    let binaries = directory("dynamic");
    // This test loads shared libraries, as what cargo builds does by default.
    fs::copy(std::env::current_exe().unwrap(), binaries.join("gc-controller")).unwrap();
    let refused = pack(&binaries, &binaries.join("out"));
    if cfg!(target_env = "gnu") {
        assert!(refused.unwrap_err().contains("gc-controller is not static"));
    }
    let binaries = directory("silent");
    script(&binaries.join("gc-controller"), "echo 0.1.0");
    assert!(pack(&binaries, &binaries.join("out")).unwrap_err().contains("--version: 0.1.0"));
    assert!(!binaries.join("out/gc-controller.tar").exists());
}

const IMAGES: &str = "components/images/kustomization.yaml";
const SHADOW_IMAGES: &str = "components/shadow-images/kustomization.yaml";

/// A copy of the script that sets images, and of the files in which it sets them.
fn copy_of_images(name: &str) -> PathBuf {
    let copy = directory(name);
    for path in ["images", "components/images", "components/shadow-images"] {
        copy_directory(&deploy(path), &copy.join(path));
    }
    copy
}

/// The images that a copied file sets.
fn images_of(file: &Path) -> Vec<Value> {
    let kustomization: Value = serde_saphyr::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    kustomization["images"].as_array().unwrap().clone()
}

#[test]
fn images_are_set_and_pinned_by_a_script() {
    let copy = copy_of_images("set");
    let file = copy.join(IMAGES);
    let before = fs::read_to_string(&file).unwrap();
    let set = |arguments: &[&str]| run(Command::new(copy.join("images/set")).args(arguments));
    let digest = format!("sha256:{}", "a".repeat(64));
    let digests = copy.join("digests");
    let (registry, file_of_digests) = ("registry.example:5000/team", digests.to_str().unwrap());
    let line = |image: &str, digest: &str| {
        fs::write(&digests, format!("gc-controller {image} {digest}\njob-controller x/job-controller:v1 {digest}\n"))
            .unwrap();
    };
    line(&format!("{registry}/gc-controller:v1.2.3"), &digest);
    set(&[registry, "v1.2.3"]).unwrap();
    set(&[registry, "v1.2.3", "gc-controller", "--digests", file_of_digests]).unwrap();
    for image in images_of(&file) {
        let name = image["name"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        assert_eq!(image["newName"], format!("{registry}/{name}"));
        assert_eq!(image["newTag"], "v1.2.3");
        assert_eq!(image["digest"], if name == "gc-controller" { json!(digest) } else { Value::Null });
    }
    // Digests of another tag or registry, of fewer controllers than are set, and what is no digest.
    let pinned = fs::read_to_string(&file).unwrap();
    let refused = |arguments: &[&str], why: &str| {
        let error = set(&[arguments, &["--digests", file_of_digests]].concat()).unwrap_err();
        assert!(error.contains(why), "{arguments:?}: {error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), pinned, "{arguments:?}");
    };
    refused(&[registry, "v9.9.9", "gc-controller"], "instead of registry.example:5000/team/gc-controller:v9.9.9");
    refused(&["elsewhere", "v1.2.3", "gc-controller"], "instead of elsewhere/gc-controller:v1.2.3");
    refused(&[registry, "v1.2.3", "gc-controller", "job-controller"], "has the digest of x/job-controller:v1");
    refused(&[registry, "v1.2.3", "gc-controller", "cronjob-controller"], "no digest of cronjob-controller");
    refused(&[registry, "v1.2.3"], "no digest of clusterrole-controller");
    line(&format!("{registry}/gc-controller:v1.2.3"), "sha256:0a1b");
    refused(&[registry, "v1.2.3", "gc-controller"], "'sha256:0a1b' is not a digest");
    // One controller, which the old digest would pin to the old image.
    set(&["registry.example", "v1.3.0", "gc-controller"]).unwrap();
    let changed: Vec<Value> = images_of(&file).into_iter().filter(|image| image["newTag"] == "v1.3.0").collect();
    let expected = json!({"name": "registry.invalid/nonet/gc-controller", "newName": "registry.example/gc-controller", "newTag": "v1.3.0"});
    assert_eq!(changed, [expected]);
    for wrong in [&["registry.example", "v1", "dc-controller"][..], &["registry.example"], &["registry example", "v1"]]
    {
        set(wrong).unwrap_err();
    }
    set(&["registry.invalid/nonet", "dev"]).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
}

#[test]
fn digests_come_from_the_registry_in_the_form_that_is_set() {
    let tools = directory("digests");
    // The last image is missing in the registry.
    script(
        &tools.join("crane"),
        "case $2 in *statefulset*) exit 1;; esac; echo \"$1 $2\" >&2; printf 'sha256:%064d\\n' 7",
    );
    let digests = |arguments: &[&str]| {
        let mut command = Command::new(deploy("images/digests"));
        run(command.args(arguments).env("PATH", path_with(&tools)))
    };
    let expected = |name: &str| format!("{name} registry.example/team/{name}:v0.1.0 sha256:{:064}\n", 7);
    let printed = digests(&["registry.example/team", "v0.1.0", "gc-controller", "job-controller"]).unwrap();
    assert_eq!(printed, expected("gc-controller") + &expected("job-controller"));
    let missing = digests(&["registry.example/team", "v0.1.0"]).unwrap_err();
    assert!(missing.contains("returns no registry.example/team/statefulset-controller:v0.1.0"), "{missing}");
    assert!(
        digests(&["registry.example/team", "v0.1.0", "dc-controller"]).unwrap_err().contains("is not a controller")
    );
}

#[test]
fn another_tar_is_refused_before_anything_is_packed() {
    let binaries = directory("tar");
    program(&binaries.join("gc-controller"), "gc-controller");
    let tools = directory("bsd");
    for name in ["tar", "gtar"] {
        script(&tools.join(name), "echo 'bsdtar 3.5.3 - libarchive 3.7.4'");
    }
    let mut command = Command::new(deploy("images/pack"));
    let refused = run(command.args([&binaries, &binaries.join("out")]).env("PATH", path_with(&tools))).unwrap_err();
    assert!(refused.contains("needs GNU tar"), "{refused}");
    assert!(!binaries.join("out").exists());
}

#[test]
fn images_of_other_architectures_are_looked_into() {
    let lacking = Command::new("jq").arg("--version").output().is_err().then_some("jq is not installed");
    skips::note(this_test!(), lacking);
    if lacking.is_some() {
        return;
    }
    let binaries = directory("inspected");
    programs(&binaries);
    let out = binaries.join("out");
    pack(&binaries, &out).unwrap();
    let inspect = |wanted: &str| run(Command::new(root().join(".ci/inspect")).arg(&out).arg(wanted));
    let looked = inspect("arm64").unwrap();
    assert_eq!(looked.lines().count(), names().len(), "{looked}");
    assert!(inspect("amd64 arm64").unwrap_err().contains("is for arm64, and not for amd64 arm64"));
    // An image of another controller under this name, then none at all.
    fs::copy(out.join("job-controller.tar"), out.join("gc-controller.tar")).unwrap();
    assert!(inspect("arm64").unwrap_err().contains("gc-controller for arm64 has another entry point"));
    fs::remove_file(out.join("gc-controller.tar")).unwrap();
    assert!(inspect("arm64").unwrap_err().contains("there is no image of gc-controller"));
}

#[test]
fn the_bake_file_builds_every_controller_from_one_compile() {
    let dockerfile = text("images/Dockerfile");
    // The plug-in for kubectl is no image, and is compiled only where its binaries are asked for.
    let (dockerfile, plugin) = dockerfile.split_once("\nFROM build AS build-plugin\n").unwrap();
    assert!(plugin.contains(" -p kubectl-nonet "), "{plugin}");
    assert_eq!(dockerfile.matches("cargo build ").count(), 1);
    let bake = text("images/docker-bake.hcl");
    let stages = dockerfile.split("\nFROM scratch AS ").skip(1).filter(|stage| !stage.starts_with("binaries"));
    let stages = stages.map(|stage| {
        let name = stage.lines().next().unwrap();
        let rest = format!("COPY --from=build /out/{name} /\nUSER 65532:65532\nENTRYPOINT [\"/{name}\"]");
        assert!(stage.contains(&rest), "{name}:\n{stage}");
        assert!(dockerfile.contains(&format!(" -p {name}")), "{name} is not compiled");
        assert!(bake.contains(&format!("      \"{name}\",\n")), "{name} is not baked");
        name.to_owned()
    });
    let stages: BTreeSet<String> = stages.collect();
    assert_eq!(stages, names());
    // Both ways of building give images that the same entry sets.
    assert!(bake.contains("default = \"registry.invalid/nonet\""));
    assert_eq!(yaml("components/images/kustomization.yaml")[0]["images"][0]["newTag"], "dev");
}

#[test]
fn shadows_run_another_version_than_the_controllers_if_they_are_told_to() {
    let copy = copy_of_images("shadows");
    let set = |arguments: &[&str]| run(Command::new(copy.join("images/set")).args(arguments)).unwrap();
    let tags = || {
        [IMAGES, SHADOW_IMAGES].map(|path| {
            let mut images = images_of(&copy.join(path)).into_iter();
            let gc = images.find(|image| image["name"].as_str().unwrap().ends_with("/gc-controller")).unwrap();
            assert_eq!(gc["newName"], "registry.example/gc-controller", "{path}");
            gc["newTag"].as_str().unwrap().to_owned()
        })
    };
    set(&["registry.example", "v1"]);
    assert_eq!(tags(), ["v1", "v1"]);
    set(&["registry.example", "v2", "gc-controller", "--shadows"]);
    assert_eq!(tags(), ["v1", "v2"]);
}
