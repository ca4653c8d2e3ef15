//! The workflows of `.github` do what a release promises. The steps of a release are run here, with programs of this test in place of
//! the registry and the signer.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    process::Command,
};

use e2e::skips;
use serde_json::Value;

use super::{
    fields,
    images::{path_with, program, run, script},
    kustomize::{needs_kubectl, this_test},
    names, strings, text,
};
use crate::repository::{self, copy_directory, empty_directory, read, root};

/// A workflow by the name of its file.
fn workflow(name: &str) -> Value {
    repository::yaml(&format!(".github/workflows/{name}.yml")).swap_remove(0)
}

fn steps(workflow: &Value, job: &str) -> Vec<Value> {
    workflow["jobs"][job]["steps"].as_array().unwrap_or_else(|| panic!("the job {job} has no steps")).clone()
}

/// The position of the step whose commands contain a text.
fn step_with(steps: &[Value], text: &str) -> usize {
    let found = steps.iter().position(|step| step["run"].as_str().is_some_and(|run| run.contains(text)));
    found.unwrap_or_else(|| panic!("no step has {text}"))
}

#[test]
fn a_release_of_one_controller_needs_images_of_the_others() {
    let tools = empty_directory("release/others");
    let registry_has = |lines: &str| script(&tools.join("crane"), lines);
    let others = || {
        let mut command = Command::new(root().join(".ci/others"));
        run(command.args(["registry.example/team", "gc-controller"]).env("PATH", path_with(&tools)))
    };
    registry_has("printf 'sha256:%064d\\n' 7");
    let listed: BTreeSet<String> = others().unwrap().lines().map(|l| l.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(listed, names().into_iter().filter(|name| name != "gc-controller").collect());
    registry_has("case $2 in *job-controller*) exit 1;; esac; printf 'sha256:%064d\\n' 7");
    let error = others().unwrap_err();
    assert!(error.contains("Nothing was pushed") && error.contains(" cronjob-controller/v"), "{error}");
    assert!(!error.contains("statefulset-controller/v"), "{error}");
}

#[test]
fn a_release_is_approved_and_checks_before_it_pushes_and_signs_right_after() {
    let release = workflow("release");
    // Without it, a failure in front of a pipe would not count.
    assert_eq!(release["defaults"]["run"]["shell"], "bash");
    assert_eq!(release["jobs"]["publish"]["environment"], "release");
    let steps = steps(&release, "publish");
    let with = |text: &str| step_with(&steps, text);
    let push = with("push=true");
    assert!(with(".ci/others ") < push && with(".ci/bake ") < push);
    assert_eq!(with("cosign sign --yes"), push + 1);
    assert!(with("deploy/render ") > push && with("gh release create") == steps.len() - 1);
}

#[test]
fn a_release_passes_the_ci_of_a_commit_which_skips_nothing() {
    let (release, ci) = (workflow("release"), workflow("ci"));
    assert!(strings(&release["jobs"]["publish"]["needs"]).contains(&"test"));
    assert_eq!(release["jobs"]["test"]["uses"], "./.github/workflows/ci.yml");
    assert!(ci["on"].as_object().unwrap().contains_key("workflow_call"));
    let steps = steps(&ci, "run");
    let at = steps.iter().position(|step| step["run"] == ".ci/run").expect("a step that is only .ci/run");
    assert_eq!(steps[at]["env"]["CI_TOOLS"], "required");
    assert!(step_with(&steps, "cargo install --locked cargo-deny@") < at);
    assert!(step_with(&steps, "KUBEBUILDER_ASSETS=") < at);
    // kubectl and helm would be downloaded.
    let tools = empty_directory("release/tools");
    for tool in ["bash", "dirname", "env"] {
        let found = run(Command::new("sh").args(["-c", "command -v \"$0\"", tool])).unwrap();
        std::os::unix::fs::symlink(found.trim(), tools.join(tool)).unwrap();
    }
    for tool in ["helm", "kubectl", "mdbook", "promtool", "shellcheck", "kube-apiserver", "cargo"] {
        script(&tools.join(tool), "echo format is checked; exit 1");
    }
    let output = || {
        let mut command = Command::new(root().join(".ci/run"));
        let output = command.env("PATH", &tools).env("KUBEBUILDER_ASSETS", &tools).env("CI_TOOLS", "required").output();
        let output = output.unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let without = output();
    assert!(without.contains("not installed: cargo-deny\n") && !without.contains("format is checked"), "{without}");
    script(&tools.join("cargo-deny"), "");
    let with = output();
    assert!(with.contains("format is checked"), "{with}");
}

#[test]
fn vulnerable_dependencies_fail_a_job_of_each_night_and_every_platform_is_checked() {
    let nightly = workflow("nightly");
    assert!(nightly["on"]["schedule"][0]["cron"].is_string());
    step_with(&steps(&nightly, "vulnerabilities"), "cargo deny --locked check");
    let checked = read("deny.toml");
    let plug_in = &workflow("release")["jobs"]["plug-in"]["strategy"]["matrix"]["include"];
    let dockerfile = text("images/Dockerfile");
    let of_images = dockerfile.split_whitespace().filter(|word| word.ends_with("-linux-musl"));
    let targets: BTreeSet<&str> =
        fields(plug_in, "/target").map(|target| target.as_str().unwrap()).chain(of_images).collect();
    assert_eq!(targets.len(), 5);
    for target in targets {
        assert!(checked.contains(&format!("  \"{target}\",\n")), "deny.toml has no {target}");
    }
}

#[test]
fn the_suite_of_every_controller_runs_on_a_kind_cluster_each_night() {
    let nightly = workflow("nightly");
    let steps = steps(&nightly, "kind");
    let command = steps[step_with(&steps, "deploy/kind/suite --build --suites ")]["run"].as_str().unwrap();
    let suites: BTreeSet<&str> = command.rsplit(' ').next().unwrap().split(',').collect();
    let of_controllers = names().into_iter().map(|name| name.replace("-controller", "").replace('-', "_"));
    assert_eq!(suites, of_controllers.collect::<BTreeSet<_>>().iter().map(String::as_str).collect());
    let known = read("e2e/tests/suites.rs");
    for suite in suites {
        assert!(known.contains(&format!("\nmod {suite};\n")), "there is no suite {suite}");
    }
}

#[test]
fn actions_and_base_images_are_pinned_and_kept_fresh() {
    let is_hex = |text: &str, length: usize| text.len() == length && text.bytes().all(|b| b.is_ascii_hexdigit());
    for name in ["ci", "nightly", "release"] {
        for line in read(&format!(".github/workflows/{name}.yml")).lines() {
            let Some((_, action)) = line.split_once("uses: ").filter(|(_, action)| !action.starts_with("./")) else {
                continue;
            };
            let (pinned, version) = action.split_once(" # v").unwrap_or_else(|| panic!("{name}: {line}: no version"));
            assert!(!version.is_empty() && is_hex(pinned.rsplit('@').next().unwrap(), 40), "{name}: {line}");
        }
    }
    let dockerfile = text("images/Dockerfile");
    let mut stages = vec!["scratch"];
    let mut pinned = Vec::new();
    for line in dockerfile.lines().filter_map(|line| line.strip_prefix("FROM ")) {
        let (image, stage) = line.rsplit_once(" AS ").unwrap();
        let image = image.rsplit(' ').next().unwrap();
        if !stages.contains(&image) {
            let (tag, digest) = image.split_once("@sha256:").unwrap_or_else(|| panic!("{line}: no digest"));
            assert!(is_hex(digest, 64), "{line}");
            pinned.push(tag);
        }
        stages.push(stage);
    }
    let toolchain = read("rust-toolchain.toml");
    let version = toolchain.split("channel = \"").nth(1).unwrap().split('"').next().unwrap();
    assert_eq!(pinned, [format!("rust:{version}-slim-bookworm")]);
    assert!(dockerfile.contains(&format!("ENV RUSTUP_TOOLCHAIN={version}\n")));

    let bot = repository::yaml(".github/dependabot.yml").swap_remove(0);
    let mut updated = BTreeSet::new();
    for update in bot["updates"].as_array().unwrap() {
        let one = strings(&update["directories"]).into_iter().chain(update["directory"].as_str());
        updated.extend(one.map(|directory| (update["package-ecosystem"].as_str().unwrap(), directory)));
    }
    let expected = [
        ("cargo", "/"),
        ("cargo", "/common/fuzz"),
        ("docker", "/deploy/images"),
        ("docker", "/e2e/tools/templates/images"),
        ("github-actions", "/"),
    ];
    assert_eq!(updated, BTreeSet::from(expected));
    for (_, directory) in expected.iter().filter(|(ecosystem, _)| *ecosystem == "docker") {
        assert!(root().join(&directory[1..]).join("Dockerfile").is_file(), "{directory} has no Dockerfile");
    }
}

/// A machine on which the steps of a release run: a copy of the files that they use, and programs that write down their calls.
struct Runner {
    checkout: PathBuf,
    tools: PathBuf,
    environment: BTreeMap<String, String>,
}

impl Runner {
    fn new(tag: &str) -> Self {
        let directory = empty_directory("release/runner");
        let (checkout, tools) = (directory.join("checkout"), directory.join("tools"));
        for path in [".ci", "deploy", "docs"] {
            copy_directory(&root().join(path), &checkout.join(path));
        }
        for path in ["README.md", "SECURITY.md", "CHANGELOG.md", "LICENSE"] {
            fs::copy(root().join(path), checkout.join(path)).unwrap();
        }
        for name in names() {
            fs::create_dir(checkout.join(&name)).unwrap();
            fs::copy(root().join(&name).join("Cargo.toml"), checkout.join(&name).join("Cargo.toml")).unwrap();
        }
        // Tests of their own look into images.
        script(&checkout.join(".ci/inspect"), "exit 0");
        fs::create_dir(&tools).unwrap();
        let (log, variables) = (directory.join("log"), directory.join("variables"));
        let environment = [
            ("CALLS", log.to_str().unwrap()),
            ("GITHUB_ENV", variables.to_str().unwrap()),
            ("GITHUB_REF_NAME", tag),
            ("GITHUB_SHA", "0a1b2c3"),
            ("GITHUB_ACTOR", "somebody"),
            ("GITHUB_SERVER_URL", "https://github.example"),
            ("GITHUB_REPOSITORY", "Team/Nonet"),
            ("GITHUB_WORKFLOW_REF", "Team/Nonet/.github/workflows/release.yml@refs/tags/v"),
            ("REGISTRY", "ghcr.io/Team/Nonet"),
            ("GH_TOKEN", "secret"),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        Self { checkout, tools, environment }
    }

    /// Installs a program that writes down its arguments.
    fn install(&self, name: &str, lines: &str) {
        script(&self.tools.join(name), &format!("echo \"{name} $*\" >>\"$CALLS\"\n{lines}"));
    }

    fn calls(&self) -> Vec<String> {
        fs::read_to_string(&self.environment["CALLS"]).unwrap().lines().map(str::to_owned).collect()
    }

    /// Runs a step as GitHub does, and takes over the variables that it sets for later steps.
    fn run(&mut self, step: &Value) {
        let Some(commands) = step["run"].as_str() else { return };
        let file = self.tools.join("step");
        fs::write(&file, commands).unwrap();
        fs::write(&self.environment["GITHUB_ENV"], "").unwrap();
        let mut command = Command::new("bash");
        command.args(["--noprofile", "--norc", "-eo", "pipefail"]).arg(file).current_dir(&self.checkout);
        run(command.envs(&self.environment).env("PATH", path_with(&self.tools)))
            .unwrap_or_else(|error| panic!("{}: {error}", step["name"]));
        let set = fs::read_to_string(&self.environment["GITHUB_ENV"]).unwrap();
        let set = set.lines().map(|line| line.split_once('=').unwrap_or_else(|| panic!("{line}")));
        self.environment.extend(set.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.checkout.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }
}

fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--help").output().is_ok()
}

#[test]
fn the_steps_of_a_release_make_its_files() {
    needs_kubectl!();
    let lacking = ["helm", "jq"].into_iter().find(|program| !is_installed(program));
    let lacking = lacking.map(|program| format!("{program} is not installed"));
    skips::note(this_test!(), lacking.as_deref());
    if lacking.is_some() {
        return;
    }
    let mut runner = Runner::new("v0.1.0");
    let digest = format!("sha256:{:064}", 7);
    runner.install("git", "echo 1700000000");
    let docker = format!(
        "case \"$*\" in\n\
         *plugin.output=*) for each in amd64 arm64; do mkdir -p target/plugin/linux_$each; echo $each >target/plugin/linux_$each/kubectl-nonet; done;;\n\
         *push=true*) for each in *-controller; do echo \"$each\"; done | \
         jq --raw-input '{{(.): {{\"containerimage.digest\": \"{digest}\"}}}}' | jq --slurp add >target/pushed.json;;\n\
         login*) cat >/dev/null;;\n\
         esac"
    );
    runner.install("docker", &docker);
    runner.install("cosign", "case $1 in sign-blob) touch SHA256SUMS.bundle;; esac");
    runner.install("gh", "");
    let helm = run(Command::new("sh").args(["-c", "command -v helm"])).unwrap();
    let helm = format!(
        "case $1 in registry) cat >/dev/null;; push) echo 'Digest: {digest}' >&2;; *) exec {} \"$@\";; esac",
        helm.trim()
    );
    runner.install("helm", &helm);
    // Other jobs build the plug-in for these systems.
    for path in ["darwin-arm64/kubectl-nonet", "darwin-amd64/kubectl-nonet", "windows-amd64/kubectl-nonet.exe"] {
        let path = runner.checkout.join("target/plugin").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        program(&path, "kubectl-nonet");
    }
    for step in steps(&workflow("release"), "publish") {
        runner.run(&step);
    }

    let registry = "ghcr.io/team/nonet";
    let plug_in = ["darwin-amd64", "darwin-arm64", "linux-amd64", "linux-arm64", "windows-amd64"];
    let mut expected: BTreeSet<String> = plug_in.map(|system| format!("kubectl-nonet-{system}.tar.gz")).into();
    for file in [
        "SHA256SUMS",
        "SHA256SUMS.bundle",
        "default.yaml",
        "deploy.tar.gz",
        "digests",
        "nonet-0.1.0.tgz",
        "nonet.yaml",
        "rendered.tar.gz",
    ] {
        expected.insert(file.to_owned());
    }
    let entries = fs::read_dir(runner.checkout.join("files")).unwrap();
    let made: BTreeSet<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert!(made.is_superset(&expected), "{:?} is missing", expected.difference(&made));
    run(Command::new("sha256sum")
        .args(["--check", "--quiet", "SHA256SUMS"])
        .current_dir(runner.checkout.join("files")))
    .unwrap();
    assert_eq!(runner.read("files/SHA256SUMS").lines().count(), made.len() - 2);

    // Images are named by their digests, and runbooks and links by the pages of the release.
    let default = runner.read("files/default.yaml");
    for name in names() {
        assert!(default.contains(&format!("image: {registry}/{name}:v0.1.0@{digest}\n")), "{name}");
    }
    let pages = "https://github.example/Team/Nonet/blob/v0.1.0/docs/troubleshooting.md";
    assert!(!runner.read("files/monitored.yaml").contains("nonet.invalid"));
    assert!(runner.read("files/monitored.yaml").contains(pages));

    let krew: Value = serde_saphyr::from_str(&runner.read("files/nonet.yaml")).unwrap();
    let platforms = fields(&krew["spec"]["platforms"], "/selector/matchLabels");
    let platforms: BTreeSet<String> = platforms
        .map(|labels| format!("{}-{}", labels["os"].as_str().unwrap(), labels["arch"].as_str().unwrap()))
        .collect();
    assert_eq!(platforms, plug_in.map(str::to_owned).into());
    for (path, program) in fields(&krew["spec"]["platforms"], "/uri").zip(fields(&krew["spec"]["platforms"], "/bin")) {
        let path = path.as_str().unwrap();
        let archive = path.strip_prefix("https://github.example/Team/Nonet/releases/download/v0.1.0/").unwrap();
        let is_windows = archive.contains("windows");
        assert_eq!(*program, if is_windows { "kubectl-nonet.exe" } else { "kubectl-nonet" }, "{archive}");
        let listed = run(Command::new("tar").arg("-tzf").arg(runner.checkout.join("files").join(archive))).unwrap();
        assert_eq!(listed.lines().collect::<Vec<_>>(), [program.as_str().unwrap(), "LICENSE"], "{archive}");
    }

    // Every image and the chart are signed by their digests, and the release is the last call.
    let calls = runner.calls();
    let signed = calls.iter().filter(|call| call.starts_with("cosign sign --yes ")).count();
    assert_eq!(signed, names().len() + 1, "{calls:#?}");
    assert!(calls.contains(&format!("cosign sign --yes {registry}/charts/nonet@{digest}")), "{calls:#?}");
    assert!(calls.contains(&format!("helm push files/nonet-0.1.0.tgz oci://{registry}/charts")), "{calls:#?}");
    let last = calls.last().unwrap();
    assert!(last.starts_with("gh release create v0.1.0 ") && last.contains("files/nonet.yaml"), "{last}");
}
