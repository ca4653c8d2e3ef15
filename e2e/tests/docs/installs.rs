//! The documented ways to install, to release and to remove: each names what it installs and nothing else, and the lines that are
//! typed on nodes do what the page says.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use e2e::{controllers, skips};
use serde_json::json;

use super::{check, empty_directory, files, markdown, pages, read, repository::yaml, root};

const OPERATING: &str = "docs/operating.md";
const UPGRADING: &str = "docs/upgrading.md";

/// The text of a page from a line that begins with `from` up to the next line that begins with `until`.
fn part(page: &str, from: &str, until: &str) -> String {
    let text = read(page);
    let start = text.lines().position(|line| line.starts_with(from)).unwrap_or_else(|| panic!("{page}: no {from}"));
    let rest = text.lines().skip(start + 1).take_while(|line| !line.starts_with(until));
    rest.collect::<Vec<_>>().join("\n") + "\n"
}

/// The words of a text that are names of controllers, also with `nonet-` before them.
fn controllers_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    let names = words.map(|word| word.strip_prefix("nonet-").unwrap_or(word));
    names.filter(|name| controllers::ALL.iter().any(|d| d.name == *name)).map(str::to_owned).collect()
}

/// The subset that each block installs, releases and switches off is the same.
#[test]
fn every_example_has_a_block_that_installs_checks_and_releases_exactly_its_controllers() {
    let section = part(OPERATING, "### Install an example", "## ");
    // Each example begins with a bold title.
    let blocks: Vec<&str> = section.split("\n**").skip(1).collect();
    let examples = fs::read_dir(root().join("deploy/examples")).unwrap();
    let mut wrong = Vec::new();
    for entry in examples {
        let directory = format!("deploy/examples/{}", entry.unwrap().file_name().into_string().unwrap());
        let kustomization = &yaml(&format!("{directory}/kustomization.yaml"))[0];
        let namespace = kustomization["namespace"].as_str().unwrap();
        let resources = kustomization["resources"].as_array().unwrap().iter().map(|path| path.as_str().unwrap());
        let of_controllers = resources.filter_map(|path| path.strip_prefix("../../controllers/"));
        let names: BTreeSet<String> = of_controllers.filter(|name| !name.contains('/')).map(str::to_owned).collect();
        let apply = format!("$ kubectl apply -k {directory}\n");
        let Some(block) = blocks.iter().find(|block| block.contains(&apply)) else {
            wrong.push(format!("{OPERATING} has no block with {apply}"));
            continue;
        };
        let rollout = |name: &String| format!("$ kubectl -n {namespace} rollout status deployment/nonet-{name}\n");
        let mut needed: Vec<String> = names.iter().map(rollout).collect();
        needed.push(format!("$ kubectl nonet check -n {namespace} --before hand-over\n"));
        needed.push(format!("$ kubectl nonet check -n {namespace}\n"));
        if namespace != "kube-system" {
            needed.push("$ kubectl apply -k deploy/namespace\n".to_owned());
            if block.contains("kube-system") {
                wrong.push(format!("{directory}: its block names kube-system"));
            }
        }
        let missing = needed.iter().filter(|line| !block.contains(*line));
        wrong.extend(missing.map(|line| format!("{directory}: {line} is missing")));
        let patched =
            block.split(&format!("`kubectl -n {namespace} patch lease ")).nth(1).and_then(|rest| rest.split_once(' '));
        let empties = "--type merge -p '{\"spec\":{\"holderIdentity\":\"\"}}'`";
        if !patched.is_some_and(|(name, rest)| names.contains(name) && rest.starts_with(empties)) {
            wrong.push(format!("{directory}: its block has no release without the plug-in"));
        }
        let prefix = format!("$ kubectl nonet release -n {namespace} ");
        let released = block.lines().find_map(|line| line.strip_prefix(&prefix)).unwrap_or_default();
        if controllers_in(released) != names {
            wrong.push(format!("{directory}: {prefix}{released} is not for {names:?}"));
        }
        let applied = block.lines().filter(|line| line.starts_with("$ kubectl apply")).count();
        if applied != 1 + usize::from(namespace != "kube-system") {
            wrong.push(format!("{directory}: its block applies {applied} directories"));
        }
        let loops = controllers::ALL.iter().filter(|d| names.contains(d.name)).flat_map(|d| d.loops);
        let off: BTreeSet<String> = loops.map(|each| format!("-{}", each.name)).collect();
        let flag = block.split('`').find_map(|span| span.strip_prefix("--controllers=*,bootstrapsigner,tokencleaner,"));
        let found: BTreeSet<String> = flag.unwrap_or_default().split(',').map(str::to_owned).collect();
        if found != off {
            wrong.push(format!("{directory}: the flag switches off {found:?}, and not {off:?}"));
        }
    }
    check(wrong);
}

/// The overlays, examples and manifests that any page tells to apply.
#[test]
fn no_documented_command_leads_without_a_release() {
    let mut wrong = Vec::new();
    for page in pages() {
        let text = read(&page);
        for (number, line) in (1..).zip(text.lines()) {
            let (is_typed, place) = (line.trim_start().starts_with("$ "), format!("{page}:{number}: {line}"));
            let is_command = line.trim_start().starts_with(['$', '#']) || line.contains('`');
            let names_one_of = |parts: &[&str]| parts.iter().any(|part| line.contains(part));
            let leads = ["deploy/kind/controllers", "deploy/kind/rescue", "overlays/hold", "/hold`", "requireHold="];
            // The page of changes and the decisions name what is gone.
            let is_history = page == "CHANGELOG.md" || page.starts_with("docs/decisions/");
            if is_command && !is_history && names_one_of(&leads)
                || is_typed && names_one_of(&["--lead-without-release", "leadAtOnce=true"])
            {
                wrong.push(place);
            } else if is_typed && line.contains("--reuse-values") {
                wrong.push(format!("{place}: a newer chart's defaults are lost"));
            }
        }
    }
    check(wrong);
}

/// A chart's installation that one page shows gets the file of values again in each later command.
#[test]
fn every_command_that_changes_a_release_of_the_chart_names_the_values() {
    let mut count = 0;
    for page in [OPERATING, UPGRADING] {
        let changes = |line: &&str| line.starts_with("$ helm install ") || line.starts_with("$ helm upgrade ");
        for line in read(page).lines().filter(changes) {
            assert!(line.contains(" -f nonet.yaml"), "{page}: {line}");
            count += 1;
        }
    }
    assert!(count >= 3, "no page installs and upgrades the chart");
    assert!(read(UPGRADING).contains("$ helm rollback nonet "), "{UPGRADING} does not roll back");
}

#[test]
fn the_table_of_ports_is_that_of_the_static_pods() {
    let table = part(OPERATING, "## Install as static Pods", "## ");
    for definition in controllers::ALL {
        let manifest = &yaml(&format!("deploy/static-pods/{}.yaml", definition.name))[0];
        let port = &manifest["spec"]["containers"][0]["ports"][0]["hostPort"];
        let row = format!("| {port} | {} |", definition.name);
        assert!(table.lines().any(|line| line == row), "{OPERATING} has no row {row}");
    }
}

/// A node whose directory `/etc/kubernetes` is a directory of this test.
struct Node {
    etc: PathBuf,
}

impl Node {
    /// A control-plane node with static Pods of Nonet, whose manifests have these names.
    fn new(name: &str, file_of: fn(&str) -> String) -> Self {
        let etc = empty_directory(&format!("node/{name}"));
        fs::create_dir(etc.join("manifests")).unwrap();
        for own in ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"] {
            fs::write(etc.join("manifests").join(format!("{own}.yaml")), format!("# {own}\n")).unwrap();
        }
        for definition in controllers::ALL {
            let manifest = root().join(format!("deploy/static-pods/{}.yaml", definition.name));
            fs::copy(manifest, etc.join("manifests").join(file_of(definition.name))).unwrap();
            let credentials = etc.join("nonet").join(definition.name);
            fs::create_dir_all(&credentials).unwrap();
            fs::write(credentials.join("kubeconfig"), "").unwrap();
        }
        Self { etc }
    }

    /// Types a line of a page. Returns whether it succeeded.
    fn type_line(&self, line: &str) -> bool {
        let line = line.replace("/etc/kubernetes", self.etc.to_str().unwrap());
        Command::new("bash").args(["-c", &line]).current_dir(&self.etc).output().unwrap().status.success()
    }

    fn manifests(&self) -> Vec<String> {
        let entries = fs::read_dir(self.etc.join("manifests")).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn has_credentials(&self) -> bool {
        self.etc.join("nonet").exists()
    }
}

/// The commands of the blocks of a section, in their order. Those of root begin with `# `, all others with `$ `.
fn lines_of(section: &str) -> Vec<String> {
    let fences = markdown::parse(section).fences.into_iter().filter(|fence| fence.language == "console");
    let lines = fences.flat_map(|fence| fence.lines).filter(|line| line.starts_with("# ") || line.starts_with("$ "));
    lines.map(|line| line.split("    #").next().unwrap().trim_end().to_owned()).collect()
}

#[test]
fn the_removal_of_static_pods_keeps_the_credentials_until_the_pods_are_gone() {
    let lines = lines_of(&part(UPGRADING, "### Remove static Pods", "##"));
    let [manifests, wait, rights, credentials] = lines.as_slice() else { panic!("four commands: {lines:?}") };
    let (manifests, credentials) = (manifests.strip_prefix("# ").unwrap(), credentials.strip_prefix("# ").unwrap());
    assert!(
        wait.contains(" wait pods ") && wait.contains("--for=delete") && wait.contains("component=static-pod"),
        "{wait}"
    );
    assert!(rights.starts_with("$ kubectl delete -k "), "{rights}");
    // The names by deploy/render and releases, and those by `kubectl kustomize -o`.
    let by_render: fn(&str) -> String = |name| format!("static-pod-{name}.yaml");
    let by_kustomize: fn(&str) -> String = |name| format!("v1_pod_nonet-{name}.yaml");
    for (name, file_of) in [("render", by_render), ("kustomize", by_kustomize)] {
        let node = Node::new(name, file_of);
        assert_eq!(node.manifests().len(), 4 + controllers::ALL.len());
        assert!(node.type_line(manifests), "{manifests}");
        assert_eq!(
            node.manifests(),
            ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"].map(|own| format!("{own}.yaml"))
        );
        assert!(node.has_credentials(), "the Pods may still run");
        assert!(!node.type_line(manifests), "a second time, nothing matches, and the line has to fail");
        assert!(node.type_line(credentials) && !node.has_credentials(), "{credentials}");
    }
}

/// The install and the upgrade write and name the same files.
#[test]
fn static_pods_have_the_same_names_in_every_page() {
    let copies = |page: &str, section: &str, until: &str| -> Vec<String> {
        let lines = lines_of(&part(page, section, until));
        let lines = lines.iter().filter_map(|line| line.strip_prefix("# "));
        lines.filter(|line| line.starts_with("cp ")).map(str::to_owned).collect()
    };
    let install = copies(OPERATING, "## Install as static Pods", "## ");
    assert_eq!(install[0], "cp rendered/static-pod-*-controller.yaml /etc/kubernetes/manifests/");
    let node = Node::new("upgrade", |name| format!("static-pod-{name}.yaml"));
    fs::create_dir(node.etc.join("rendered")).unwrap();
    fs::write(node.etc.join("rendered/static-pod-gc-controller.yaml"), "new\n").unwrap();
    let before = node.manifests();
    let upgrade = copies(UPGRADING, "### With static Pods", "##");
    assert_eq!(upgrade.len(), 2, "{upgrade:?}");
    for line in upgrade {
        assert!(node.type_line(&line.replace(" ~/", " ./")), "{line}");
    }
    // No second manifest of the same Pod, which the kubelet would start, too.
    assert_eq!(node.manifests(), before);
    assert_eq!(fs::read_to_string(node.etc.join("manifests/static-pod-gc-controller.yaml")).unwrap(), "new\n");
}

/// A log of an API server: time in seconds, user, verb and resource of each event.
fn audit_log(name: &str, events: &[(u32, &str, &str, &str)]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("audit-{name}.log"));
    let line = |(second, user, verb, resource): &(u32, &str, &str, &str)| {
        let (group, resource) = resource.split_once('/').unwrap();
        // The Lease of the controller by default; `leases of web` is another one.
        let (resource, name) = resource.split_once(" of ").unwrap_or((resource, "gc-controller"));
        let event = json!({
            "stage": "ResponseComplete", "verb": verb, "user": {"username": format!("system:serviceaccount:{user}")},
            "objectRef": {"apiGroup": group, "resource": resource, "namespace": "nonet", "name": name},
            "requestReceivedTimestamp": format!("2026-01-01T00:00:{second:02}.000000Z")
        });
        format!("{event}\n")
    };
    fs::write(&path, events.iter().map(line).collect::<String>()).unwrap();
    path
}

/// What `e2e/operations` learns from an audit log. 0: no such write; 1: one was found; 2: the log cannot show any.
#[test]
fn an_audit_log_shows_writes_before_a_release_and_after_a_hand_over() {
    let lacking = Command::new("python3").arg("--version").output().is_err().then_some("python3 is not installed");
    skips::note("docs::an_audit_log_shows_writes", lacking);
    if lacking.is_some() {
        return;
    }
    let judge = |log: &Path, since: u32, whose: &[&str]| {
        let since = format!("2026-01-01T00:00:{since:02}.000000Z");
        let output = Command::new(root().join("e2e/audit-log")).arg(log).args(["--since", &since]).args(whose).output();
        output.unwrap().status.code().unwrap()
    };
    let (nonet, built_in) = ("nonet:nonet-gc-controller", "kube-system:generic-garbage-collector");
    let off = ["--built-in", "*,-garbage-collector-controller"];
    let right = [
        (1, nonet, "create", "coordination.k8s.io/leases"),
        (2, nonet, "create", "authentication.k8s.io/tokenreviews"),
        (3, built_in, "delete", "/pods"),
        (4, nonet, "list", "/pods"),
        (5, built_in, "watch", "/pods"),
        (6, "kube-system:job-controller", "create", "/pods"),
    ];
    // Of the log with another event: what it shows of writes before the release, and after the hand-over.
    let with = |event: (u32, &str, &str, &str)| {
        let log = audit_log("changed", &[&right[..], &[event]].concat());
        (judge(&log, 0, &["--nonet", "1"]), judge(&log, 4, &off))
    };
    assert_eq!(with((7, nonet, "delete", "/pods")), (1, 0));
    assert_eq!(with((7, nonet, "delete", "coordination.k8s.io/leases")).0, 1);
    assert_eq!(with((7, nonet, "update", "coordination.k8s.io/leases of web")).0, 1);
    assert_eq!(with((7, built_in, "delete", "/pods")), (0, 1));
    let log = audit_log("right", &right);
    assert_eq!((judge(&log, 0, &["--nonet", "1"]), judge(&log, 4, &off)), (0, 0));
    assert_eq!(judge(&log, 0, &["--nonet", "2"]), 2, "the other controller has written nothing");
    assert_eq!(judge(&log, 4, &["--built-in", "*,bootstrapsigner"]), 2);
    let silent = audit_log("silent", &right[5..]);
    assert_eq!((judge(&silent, 0, &["--nonet", "1"]), judge(&silent, 4, &off)), (2, 2));
}

#[test]
fn the_life_of_an_installation_finds_its_lines_in_the_pages() {
    assert!(files().contains(&"e2e/operations".to_owned()));
    let script = read("e2e/operations");
    // The texts by which the script finds the block of the example and the line of the way back.
    for text in ["**The garbage collector** in a namespace", "**Jobs and CronJobs**"] {
        assert!(script.contains(text) && read(OPERATING).lines().any(|line| line.starts_with(text)), "{text}");
    }
    let operating = read(OPERATING);
    let off = operating.lines().filter(|line| line.starts_with("`--controllers="));
    assert_eq!(off.filter(|line| line.contains(",-garbage-collector-controller`.")).count(), 1);
    let way_back = part(UPGRADING, "## The way back", "## ");
    assert_eq!(way_back.lines().filter(|line| line.starts_with("1. `kubectl nonet hold")).count(), 1);
    let readme = part("README.md", "## In your cluster", "## ");
    assert_eq!(lines_of(&readme).iter().filter(|line| line.starts_with("$ kubectl nonet release")).count(), 1);
}
