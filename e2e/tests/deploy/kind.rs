//! `deploy/kind/suite` checks before it creates, and deletes what it has created when a step fails.
//!
//! kind, Docker, kubectl and cargo are programs of this test that write down how they were called.

use std::{fs, path::PathBuf, process::Command};

use super::{
    deploy,
    images::{programs, run, script},
    names,
};
use crate::repository::empty_directory;

/// What the script uses besides kind, Docker, kubectl and cargo.
const TOOLS: &str = "basename bash cat cut date dirname env git grep gzip head install mkdir mktemp mv od rm sed seq sh \
    sha256sum stat tail tar tee tr uname";

/// A machine of its own: what is installed there, and what was called.
struct Machine {
    directory: PathBuf,
}

impl Machine {
    /// Everything is installed, and every call succeeds.
    fn new(name: &str) -> Self {
        let directory = empty_directory(&format!("kind/{name}"));
        for each in ["bin", "binaries"] {
            fs::create_dir(directory.join(each)).unwrap();
        }
        let machine = Self { directory };
        for tool in TOOLS.split_whitespace() {
            let found = run(Command::new("sh").args(["-c", "command -v \"$0\"", tool])).unwrap();
            std::os::unix::fs::symlink(found.trim(), machine.directory.join("bin").join(tool)).unwrap();
        }
        machine.install("kind", "case $2 in nodes) echo node-0;; esac");
        machine.install("docker", "case $1 in version) echo amd64;; exec) echo registry.k8s.io/pause:3.10;; esac");
        // Deployments by name, and the Pod that leads each.
        let deployments: Vec<String> = names().iter().map(|name| format!("deployment.apps/nonet-{name}\\n")).collect();
        let deployments = format!("*'get deployments'*) printf '{}';;", deployments.concat());
        let lines = format!("case \"$*\" in {deployments} *'get lease '*) echo \"nonet-$7-0\";; esac");
        machine.install("kubectl", &lines);
        machine.install("cargo", "");
        programs(&machine.directory.join("binaries"));
        machine
    }

    /// Installs a program that writes down its arguments.
    fn install(&self, name: &str, lines: &str) {
        let log = self.log();
        script(&self.directory.join("bin").join(name), &format!("echo \"{name} $*\" >>'{}'\n{lines}", log.display()));
    }

    fn log(&self) -> PathBuf {
        self.directory.join("log")
    }

    fn suite(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(deploy("kind/suite"));
        command.args(["--name", "test", "--archives"]).arg(self.directory.join("archives"));
        command.arg("--binaries").arg(self.directory.join("binaries")).args(arguments);
        run(command
            .env("PATH", self.directory.join("bin"))
            .env("SOURCE_DATE_EPOCH", "1700000000")
            .env_remove("KUBECONFIG"))
    }

    /// How many clusters were created, and how many were deleted.
    fn clusters(&self) -> (usize, usize) {
        (self.calls(CREATE).len(), self.calls(DELETE).len())
    }

    /// The calls of a program.
    fn calls(&self, of: &str) -> Vec<String> {
        let log = fs::read_to_string(self.log()).unwrap_or_default();
        log.lines().filter(|line| line.starts_with(of)).map(str::to_owned).collect()
    }
}

const CREATE: &str = "kind create cluster --name test";
const DELETE: &str = "kind delete cluster --name test";

#[test]
fn all_steps_leave_no_cluster_behind() {
    let machine = Machine::new("all");
    let said = machine.suite(&[]).unwrap();
    for step in ["create", "load", "apply", "rescue", "suite", "delete"] {
        assert!(said.contains(&format!("== {step}\n")), "{step} is missing:\n{said}");
    }
    assert_eq!(machine.calls(CREATE).len(), 1);
    assert_eq!(machine.calls("kind load image-archive --name test").len(), names().len());
    // No Lease exists in this cluster, and nobody is there to release one.
    let applied: Vec<String> = machine.calls("kubectl ").into_iter().filter(|call| call.contains(" apply ")).collect();
    // The ConfigMaps with the authority of the API server come first.
    let ends = ["apply -f -", "apply -f -", "deploy/kind/controllers", "deploy/kind/rescue"];
    assert!(
        applied.len() == ends.len() && applied.iter().zip(ends).all(|(call, end)| call.ends_with(end)),
        "{applied:?}"
    );
    assert_eq!(machine.calls("cargo test").len(), 1);
    assert_eq!(machine.calls("kind ").last().unwrap(), DELETE);
}

#[test]
fn everything_that_is_missing_is_said_before_a_cluster_is_made() {
    let machine = Machine::new("missing");
    for tool in ["kind", "kubectl", "cargo"] {
        fs::remove_file(machine.directory.join("bin").join(tool)).unwrap();
    }
    fs::remove_file(machine.directory.join("binaries/gc-controller")).unwrap();
    // An ELF header of the machine 0xb7, which is arm64.
    let mut foreign = vec![0; 64];
    foreign[..4].copy_from_slice(b"\x7fELF");
    foreign[18] = 0xb7;
    fs::write(machine.directory.join("binaries/job-controller"), foreign).unwrap();
    let error = machine.suite(&["--suites", "deployment,nothing"]).unwrap_err();
    for missing in [
        "kind is not installed",
        "kubectl is not installed",
        "cargo is not installed",
        "has no gc-controller: pass --build",
        "job-controller is built for arm64, and the nodes are amd64",
        "there is no suite nothing",
    ] {
        assert!(error.contains(missing), "{missing} is not in:\n{error}");
    }
    assert!(!machine.directory.join("archives").exists());
}

#[test]
fn a_cluster_that_a_failed_run_has_made_is_deleted_unless_it_is_to_be_kept() {
    let machine = Machine::new("failed");
    machine.install("kubectl", "case \"$*\" in *' apply '*) echo refused >&2; exit 1;; esac");
    let error = machine.suite(&[]).unwrap_err();
    assert!(error.contains("refused") && error.contains("deleting the cluster"), "{error}");
    assert_eq!(machine.calls("kind ").last().unwrap(), DELETE);
    assert!(machine.calls("cargo").is_empty(), "the suite ran after a failure");

    fs::remove_file(machine.log()).unwrap();
    let error = machine.suite(&["--keep"]).unwrap_err();
    assert!(error.contains("the cluster is still there"), "{error}");
    assert_eq!(machine.clusters(), (1, 0));

    // One that is not of this run stays.
    machine.install("kind", "case $2 in clusters) echo test;; nodes) echo node-0;; esac");
    fs::remove_file(machine.log()).unwrap();
    machine.suite(&["load", "apply"]).unwrap_err();
    assert_eq!(machine.clusters(), (0, 0));
}

#[test]
fn a_cluster_of_that_name_is_neither_used_nor_deleted() {
    let machine = Machine::new("taken");
    machine.install("kind", "case $2 in clusters) printf 'other\\ntest\\n';; esac");
    let error = machine.suite(&[]).unwrap_err();
    assert!(error.contains("a kind cluster test exists already"), "{error}");
    assert_eq!(machine.clusters(), (0, 0));
    machine.install("kind", "case $2 in clusters) echo other;; esac");
    assert!(machine.suite(&["apply"]).unwrap_err().contains("there is no kind cluster test"));
}

/// The provider of `e2e/operations` knows each verb of its help, and no other one.
#[test]
fn the_provider_of_kind_knows_every_verb() {
    let machine = Machine::new("provider");
    machine.install("kubectl", "echo node-0");
    let manifest = machine.directory.join("manifest.yaml");
    fs::write(&manifest, "  - command:\n    - kube-controller-manager\n    - --controllers=*\n    - --v=2\n").unwrap();
    // An edit of a manifest in a node is one of that file.
    let edit = "[ $1 != exec ] || [ \"$3\" != sed ] || sed -i \"$5\" \"$6\" \"$7\" \"$8\" \"$MANIFEST\"";
    machine.install("docker", edit);
    let call = |arguments: &[&str]| {
        let mut command = Command::new(deploy("kind/provider"));
        command.args(arguments).env("PATH", machine.directory.join("bin")).env("MANIFEST", &manifest).output().unwrap()
    };
    let help = run(Command::new(deploy("../e2e/operations")).arg("--help")).unwrap();
    let verbs = help.lines().filter_map(|line| line.trim_start().split_once("  ")).map(|(verb, _)| verb.trim());
    let verbs: Vec<&str> =
        verbs.filter(|verb| verb.starts_with(|c: char| c.is_ascii_lowercase()) && !verb.contains('/')).collect();
    assert_eq!(verbs.len(), 7, "{verbs:?}");
    for verb in verbs {
        let arguments: Vec<&str> = verb.split(' ').collect();
        assert_ne!(call(&arguments).status.code(), Some(2), "{verb}");
    }
    assert_eq!(call(&["nothing"]).status.code(), Some(2));
    assert!(call(&["kcm", "*,-job-controller"]).status.success());
    let expected = "  - command:\n    - kube-controller-manager\n    - --controllers=*,-job-controller\n    - --v=2\n";
    assert_eq!(fs::read_to_string(&manifest).unwrap(), expected);
}
