//! The pages of `docs/install`, which `e2e/operations` types on a cluster: each installs, hands over, releases and removes one set of
//! controllers, shows a line to expect after each command, and stays short. Lines that are typed on nodes do what the page says.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use e2e::{controllers, skips};
use kubectl_nonet::remaining_loops;
use serde_json::json;

use super::{check, empty_directory, markdown, pages, read, repository::yaml, root};

const OPERATING: &str = "docs/operating.md";
const DEPLOY: &str = "docs/reference/deploy.md";
const KUBEADM: &str = "docs/install/kubeadm.md";
/// The page for clusters without kube-controller-manager, which the suite `whole` types.
const WITHOUT_NODES: &str = "docs/install/without-nodes.md";
/// A page fits on two screens.
const LINES_OF_TWO_SCREENS: usize = 150;
/// Commands that print nothing if they succeed, or whose answer is a file.
const SILENT: [&str; 10] = [
    "deploy/images/set ",
    "deploy/render ",
    "export ",
    "cp ",
    "rm ",
    "for ",
    "mkdir ",
    "kill ",
    "systemctl ",
    "kubectl -n kube-system get configmap kubeadm-config ",
];

/// The pages of `docs/install`.
fn install_pages() -> Vec<String> {
    let pages: Vec<String> = pages().into_iter().filter(|page| page.starts_with("docs/install/")).collect();
    assert!(pages.len() >= 6, "{pages:?}");
    pages
}

/// The section of a page that removes the controllers.
fn removal(page: &str) -> &'static str {
    if page == WITHOUT_NODES { "Remove" } else { "Give back and remove" }
}

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

/// The end of the flag that switches the loops of these controllers off.
fn loops_off(names: &BTreeSet<String>) -> BTreeSet<String> {
    let of_names = controllers::ALL.iter().filter(|definition| names.contains(definition.name));
    of_names.flat_map(|definition| definition.loops).map(|each| format!("-{}", each.name)).collect()
}

/// The controllers of a kustomization of `deploy/`.
fn controllers_of(kustomization: &str) -> BTreeSet<String> {
    let resources = yaml(kustomization)[0]["resources"].as_array().unwrap().clone();
    let paths =
        resources.iter().filter_map(|path| path.as_str()?.strip_prefix("../../controllers/").map(str::to_owned));
    paths.filter(|name| !name.contains('/')).collect()
}

/// The lists for `--controllers` that a page shows in its blocks and commands.
fn lists_of(page: &str) -> Vec<String> {
    let text = read(page);
    let ends = |c: char| c == '"' || c == '\'' || c.is_whitespace();
    let lists = text.match_indices("*,").map(|(start, _)| text[start..].split(ends).next().unwrap().to_owned());
    lists.filter(|list| !list.contains("...")).collect()
}

#[test]
fn every_page_of_installation_goes_from_the_first_command_to_removal() {
    let mut wrong = Vec::new();
    for page in install_pages() {
        let text = read(&page);
        let lines = text.lines().count();
        if lines > LINES_OF_TWO_SCREENS {
            wrong.push(format!("{page} has {lines} lines, which are more than two screens"));
        }
        let hand_over = !["docs/install/fresh.md", WITHOUT_NODES].contains(&page.as_str());
        let hand_over = hand_over.then_some("Hand over");
        let sections = ["Install", "Upgrade one controller", "Roll back", removal(&page)];
        for section in sections.into_iter().chain(hand_over) {
            if !text.contains(&format!("\n## {section}\n")) {
                wrong.push(format!("{page} has no section {section}"));
            }
        }
        for fence in markdown::parse(&text).fences.into_iter().filter(|fence| fence.language == "console") {
            let lines: Vec<&String> = fence.lines.iter().filter(|line| !line.starts_with("  ")).collect();
            let command = |line: &String| line.strip_prefix(['$', '#']).map(|line| line.trim_start().to_owned());
            for (index, typed) in lines.iter().enumerate().filter_map(|(index, line)| Some((index, command(line)?))) {
                let is_answered = lines.get(index + 1).is_some_and(|next| command(next).is_none() && **next != "...");
                if !is_answered && !SILENT.iter().any(|silent| typed.starts_with(silent)) {
                    wrong.push(format!("{page}:{}: no line to expect below {typed}", fence.line));
                }
            }
        }
        for namespace in ["-n nonet", "-n kube-system"].into_iter().filter(|other| text.contains(other)) {
            if text.contains("-n nonet") && namespace == "-n kube-system" {
                wrong.push(format!("{page} names two namespaces"));
            }
        }
    }
    check(wrong);
}

#[test]
fn every_page_of_installation_switches_off_releases_and_removes_the_same_controllers() {
    let all: BTreeSet<String> = controllers::ALL.iter().map(|definition| definition.name.to_owned()).collect();
    let mut wrong = Vec::new();
    for page in install_pages() {
        let is_alone = page.ends_with("garbage-collector.md");
        let names =
            if is_alone { controllers_of("deploy/examples/garbage-collector/kustomization.yaml") } else { all.clone() };
        let expected = loops_off(&names);
        let lists = lists_of(&page);
        let off =
            lists.iter().map(|list| list.split(',').filter(|word| word.starts_with('-')).map(str::to_owned).collect());
        let off: Vec<BTreeSet<String>> = off.collect();
        let has_manager = page != WITHOUT_NODES;
        if has_manager && !off.contains(&expected) || off.iter().any(|found| !found.is_empty() && *found != expected) {
            wrong.push(format!("{page} does not switch off {expected:?}: {off:?}"));
        }
        // A Lease that is left holds a later installation; the namespace `nonet` takes its Lease with it.
        let removed = controllers_in(&part(&page, &format!("## {}", removal(&page)), "## "));
        let is_removed =
            if is_alone { read(&page).contains("$ kubectl delete -k deploy/namespace\n") } else { removed == names };
        if !is_removed {
            wrong.push(format!("{page} leaves Leases"));
        }
    }
    check(wrong);
}

/// The loops that a kube-controller-manager keeps for nodes that join are none of Nonet's, and their names are right.
#[test]
fn the_loops_for_nodes_that_join_are_not_loops_of_nonet() {
    let page = read(OPERATING);
    let list = page.lines().find_map(|line| line.strip_prefix("--controllers=bootstrap-")).unwrap();
    let known: Vec<&str> = remaining_loops::ALL.iter().map(|each| each.name).collect();
    let wrong =
        format!("bootstrap-{list}").split(',').filter(|name| !known.contains(name)).map(str::to_owned).collect();
    check(wrong);
}

#[test]
fn each_controller_gets_credentials_on_a_node() {
    let count = controllers::ALL.len();
    assert!(read(KUBEADM).contains(&format!(" -name kubeconfig -size +0 | wc -l\n{count}\n")), "{count} controllers");
}

#[test]
fn the_table_of_subsets_is_that_of_the_examples() {
    let table = part(OPERATING, "### Subsets", "## ");
    let examples = fs::read_dir(root().join("deploy/examples")).unwrap();
    let names = examples.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut wrong = Vec::new();
    // The example for another control plane has all controllers.
    for name in names.filter(|name| name != "hosted") {
        let directory = format!("deploy/examples/{name}");
        let kustomization = format!("{directory}/kustomization.yaml");
        let namespace = yaml(&kustomization)[0]["namespace"].as_str().unwrap().to_owned();
        let names = controllers_of(&kustomization);
        let Some(row) = table.lines().find(|line| line.starts_with(&format!("| `{directory}`"))) else {
            wrong.push(format!("{OPERATING} has no row for {directory}"));
            continue;
        };
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let found: BTreeSet<String> = cells[3].trim_matches(['`', ',']).split(',').map(str::to_owned).collect();
        if cells[1] != format!("`{namespace}`") || controllers_in(cells[2]) != names || found != loops_off(&names) {
            wrong.push(format!("{row}: it is {namespace}, {names:?}, {:?}", loops_off(&names)));
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
    for page in install_pages() {
        let changes = |line: &&str| line.starts_with("$ helm install ") || line.starts_with("$ helm upgrade ");
        for line in read(&page).lines().filter(changes) {
            assert!(line.contains(" -f nonet.yaml"), "{page}: {line}");
            count += 1;
        }
    }
    assert!(count >= 2, "no page installs and upgrades the chart");
}

#[test]
fn the_table_of_ports_is_that_of_the_static_pods() {
    let table = part(DEPLOY, "## Ports", "## ");
    for definition in controllers::ALL {
        let manifest = &yaml(&format!("deploy/static-pods/{}.yaml", definition.name))[0];
        let port = &manifest["spec"]["containers"][0]["ports"][0]["hostPort"];
        let row = format!("| {port} | {} |", definition.name);
        assert!(table.lines().any(|line| line == row), "{DEPLOY} has no row {row}");
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
    let lines = lines_of(&part(KUBEADM, "The order matters", "##"));
    let [manifests, wait, rights, credentials, leases] = lines.as_slice() else { panic!("five commands: {lines:?}") };
    let (manifests, credentials) = (manifests.strip_prefix("# ").unwrap(), credentials.strip_prefix("# ").unwrap());
    assert!(wait.contains(" get pods ") && read(KUBEADM).contains("\nNo resources found in "), "{wait}");
    assert!(rights.starts_with("$ kubectl delete -k ") && leases.contains(" delete lease "), "{rights}, {leases}");
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

/// The lines that make credentials renew them, too.
#[test]
fn credentials_that_cannot_be_renewed_stay_as_they_are() {
    let node = Node::new("renewal", |name| format!("static-pod-{name}.yaml"));
    let kubeconfig = node.etc.join("nonet/clusterrole-controller/kubeconfig");
    fs::write(&kubeconfig, "valid\n").unwrap();
    let page = markdown::parse(&read(KUBEADM));
    let fence =
        page.fences.iter().find(|fence| fence.lines.iter().any(|line| line.starts_with("# for name in "))).unwrap();
    let lines = fence.lines.iter().skip_while(|line| !line.starts_with("# for name in "));
    let until = fence.lines.iter().filter(|line| *line == "  done");
    assert_eq!(until.count(), 1);
    let mut command: String = lines.take_while(|line| *line != "  done").map(|line| line.clone() + "\n").collect();
    command.replace_range(..2, "");
    // `kubeadm` fails, and the shell goes on after a failure, as that of an operator does.
    let typed = format!("kubeadm() {{ return 1; }}\n{command}done | grep -x 'clusterrole-controller: FAILED'");
    assert!(node.type_line(&typed), "{typed}");
    assert_eq!(fs::read_to_string(kubeconfig).unwrap(), "valid\n");
}

/// The install and the upgrade write and name the same files.
#[test]
fn an_upgrade_and_a_rollback_of_a_static_pod_leave_one_manifest_of_it() {
    let node = Node::new("upgrade", |name| format!("static-pod-{name}.yaml"));
    fs::create_dir(node.etc.join("rendered")).unwrap();
    fs::write(node.etc.join("rendered/static-pod-job-controller.yaml"), "new\n").unwrap();
    let (before, manifest) = (node.manifests(), node.etc.join("manifests/static-pod-job-controller.yaml"));
    let old = fs::read_to_string(&manifest).unwrap();
    for (section, copies, after) in [("## Upgrade one controller", 2, "new\n"), ("## Roll back", 1, old.as_str())] {
        let lines = lines_of(&part(KUBEADM, section, "##"));
        let lines: Vec<&str> =
            lines.iter().filter_map(|line| line.strip_prefix("# ")).filter(|line| line.starts_with("cp ")).collect();
        assert_eq!(lines.len(), copies, "{lines:?}");
        for line in lines {
            assert!(node.type_line(&line.replace(" ~/", " ./")), "{line}");
        }
        assert_eq!(fs::read_to_string(&manifest).unwrap(), after, "{section}");
        // No second manifest of the same Pod, which the kubelet would start, too.
        assert_eq!(node.manifests(), before);
    }
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

/// The program that types the pages on a cluster reads them as this test does.
#[test]
fn the_life_of_an_installation_types_every_command_of_the_pages() {
    for page in install_pages() {
        let name = page.strip_prefix("docs/install/").and_then(|name| name.strip_suffix(".md")).unwrap();
        let output = Command::new(root().join("e2e/operations")).args(["--list", name]).output().unwrap();
        assert!(output.status.success(), "{page}: {}", String::from_utf8_lossy(&output.stderr));
        let found = String::from_utf8(output.stdout).unwrap();
        let found: Vec<&str> = found.lines().filter(|line| line.starts_with("$ ") || line.starts_with("# ")).collect();
        assert_eq!(found, lines_of(&read(&page)), "{page}");
        assert!(found.len() > 10, "{page}");
    }
}
