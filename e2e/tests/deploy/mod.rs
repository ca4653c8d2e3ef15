//! What `deploy/` says of the controllers is true of their code, and what it renders keeps its promises.
mod alerts;
mod chart;
mod images;
mod kind;
mod kustomize;
mod overlays;
mod render;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use e2e::controllers;
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn text(path: &str) -> String {
    let path = root().join("deploy").join(path);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// A page for people, by its path in the repository.
fn page(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// The documents of a file.
fn yaml(path: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(&text(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn names() -> BTreeSet<String> {
    controllers::ALL.iter().map(|d| d.name.to_owned()).collect()
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn directories(path: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join("deploy").join(path)).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn every_controller_has_its_directories_and_each_patches_only_its_own_objects() {
    let with_base = || names().into_iter().chain(["base".to_owned()]).collect::<BTreeSet<_>>();
    assert_eq!(directories("controllers").into_iter().collect::<BTreeSet<_>>(), names());
    assert_eq!(directories("shadows").into_iter().collect::<BTreeSet<_>>(), with_base());
    for name in names() {
        // As a resource, and not as a component: its patches apply inside it.
        for of in ["controllers", "shadows"] {
            assert_eq!(yaml(&format!("{of}/{name}/kustomization.yaml"))[0]["kind"], "Kustomization", "{of}/{name}");
        }
        for of in ["rescue", "absence"] {
            let path = format!("controllers/{name}/{of}/kustomization.yaml");
            assert_eq!(yaml(&path)[0]["kind"], "Kustomization", "{path}");
        }
    }
}

#[test]
fn every_component_is_part_of_an_overlay() {
    let mut used = BTreeSet::new();
    for of in ["overlays", "examples", "kind"] {
        for overlay in directories(of).into_iter().filter(|name| root().join("deploy").join(of).join(name).is_dir()) {
            let kustomization = &yaml(&format!("{of}/{overlay}/kustomization.yaml"))[0];
            let listed = strings(&kustomization["components"]).into_iter();
            used.extend(listed.filter_map(|path| path.strip_prefix("../../components/")).map(str::to_owned));
        }
    }
    for component in directories("components") {
        assert!(used.contains(&component), "nobody builds {component}");
    }
}

#[test]
fn operators_find_every_directory_in_their_page() {
    let operating = page("docs/operating.md");
    for of in ["overlays", "components", "examples"] {
        for name in directories(of) {
            assert!(operating.contains(&format!("{of}/{name}`")), "docs/operating.md says nothing of {of}/{name}");
        }
    }
}

#[test]
fn clusters_for_nonet_switch_off_what_nonet_does() {
    for (path, text) in
        [("deploy/kind/cluster.yaml", text("kind/cluster.yaml")), ("docs/operating.md", page("docs/operating.md"))]
    {
        for each in controllers::ALL.iter().flat_map(|d| d.loops) {
            let item = format!("-{}", each.name);
            assert!(text.contains(&item), "{path}: no --controllers of kube-controller-manager contains {item}");
        }
    }
}

#[test]
fn the_component_of_gangs_opens_the_gates_and_the_api_that_they_need() {
    use job_controller::objects::{POD_GROUPS, WORKLOADS};
    let component = &yaml("components/gang-scheduling/kustomization.yaml")[0];
    let patch = |kind: &str| -> Value {
        let all = component["patches"].as_array().unwrap();
        let patch = all.iter().find(|patch| patch["target"]["kind"] == kind).unwrap();
        let operations: Value = serde_saphyr::from_str(patch["patch"].as_str().unwrap()).unwrap();
        operations[0]["value"].clone()
    };
    let gates = [&job_controller::GENERIC_WORKLOAD, &job_controller::WORKLOAD_WITH_JOB]
        .map(|gate| format!("{}=true", gate.name));
    assert_eq!(patch("Deployment"), format!("--feature-gates={}", gates.join(",")));
    let rule = patch("ClusterRole");
    assert_eq!(strings(&rule["apiGroups"]), [WORKLOADS.group()]);
    assert_eq!(strings(&rule["resources"]), [WORKLOADS.plural(), POD_GROUPS.plural()]);
    assert_eq!(strings(&rule["verbs"]), ["get", "list", "watch", "create"]);
}

/// What the code registers, and the suffixes under which it is served.
fn registered() -> BTreeMap<String, &'static [&'static str]> {
    let mut out = BTreeMap::new();
    let mut directories = vec![root().join("common")];
    directories.extend(names().into_iter().map(|name| root().join(name).join("src")));
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                // Tests register what nobody serves.
                let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
                for (call, suffixes) in [
                    ("counter(", &[""][..]),
                    // A counter of its own type.
                    ("family(", &[""]),
                    // A counter that the loop registers for its controller.
                    ("STALE_SYNC_SKIPS: Option<&'static str> = Some(", &[""]),
                    ("gauge(", &[""]),
                    ("histogram(", &["_bucket", "_sum", "_count"]),
                ] {
                    for rest in code.split(call).skip(1) {
                        let Some(rest) = rest.trim_start().strip_prefix('"') else { continue };
                        out.insert(rest.split('"').next().unwrap().to_owned(), suffixes);
                    }
                }
            }
        }
    }
    out
}

/// The words of an expression that can only be names of metrics: neither a function, nor a label, nor part of a string.
fn metrics(expression: &str) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    let mut rest = expression;
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':' || c == '$';
    // Parentheses behind these hold labels.
    let mut grouping = false;
    while let Some(c) = rest.chars().next() {
        match c {
            '{' | '[' => {
                let close = if c == '{' { '}' } else { ']' };
                let mut quoted = false;
                let end = rest.find(|c| {
                    quoted ^= c == '"';
                    c == close && !quoted
                });
                rest = &rest[end.expect("a closing brace") + 1..];
            }
            '(' if grouping => {
                grouping = false;
                rest = rest.split_once(')').expect("a closing parenthesis").1;
            }
            c if c.is_ascii_alphabetic() || c == '_' => {
                let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                let word = &rest[..end];
                rest = &rest[end..];
                grouping = matches!(word, "by" | "without" | "on" | "ignoring" | "group_left" | "group_right");
                let function = rest.trim_start().starts_with('(') || rest.trim_start().starts_with("by ");
                if !grouping && !function && !matches!(word, "and" | "or" | "unless" | "bool" | "offset") {
                    out.insert(word.to_owned());
                }
            }
            // A number with what is attached to it.
            c if c.is_ascii_digit() => rest = rest.trim_start_matches(|c| is_word(c) || c == '.'),
            c => rest = &rest[c.len_utf8()..],
        }
    }
    out
}

fn is_served(name: &str, registered: &BTreeMap<String, &'static [&'static str]>) -> bool {
    registered.iter().any(|(family, suffixes)| suffixes.iter().any(|suffix| name == format!("{family}{suffix}")))
}

#[test]
fn names_of_metrics_are_told_from_everything_else() {
    let found = |expression: &str| metrics(expression).into_iter().collect::<Vec<_>>();
    assert_eq!(
        found("histogram_quantile(0.99, sum by (name, le) (rate(a_bucket{job=~\"$job\", x!=\"}\"}[5m])))"),
        ["a_bucket"]
    );
    assert_eq!(found("sum(a_total) by (x) / on (x) b > 1e3 or c offset 5m"), ["a_total", "b", "c"]);
}

#[test]
fn every_controller_has_an_alert_for_its_absence_and_nothing_else_has() {
    for name in names() {
        let path = format!("controllers/{name}/absence/rule.yaml");
        let [rule] = &alerts(&path)[..] else { panic!("{path}: one alert") };
        assert_eq!(rule["alert"], "NonetControllerIsAbsent");
        let status = format!("leader_election_master_status{{name=\"{name}\"}}");
        let own_series = "and on (cluster, namespace, job, instance) nonet_build_info";
        assert_eq!(rule["expr"], format!("absent({status} {own_series})"));
        assert_eq!(rule["annotations"]["summary"], format!("{name} is absent"));
    }
    // Those of all installations would be wrong where a controller is left out.
    for rule in alerts("components/monitoring/alerts.yaml") {
        assert!(!rule["expr"].as_str().unwrap().contains("absent("), "{rule}");
    }
}

/// The alerts of a file.
fn alerts(path: &str) -> Vec<Value> {
    let groups = yaml(path)[0]["spec"]["groups"].as_array().unwrap().clone();
    groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

/// The alerts of all files.
fn all_alerts() -> Vec<Value> {
    let absence = names().into_iter().map(|name| format!("controllers/{name}/absence/rule.yaml"));
    absence.chain(["components/monitoring/alerts.yaml".to_owned()]).flat_map(|path| alerts(&path)).collect()
}

/// The anchor of a heading, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[test]
fn every_alert_has_a_section_of_its_own_in_the_page_about_troubles() {
    const PAGE: &str = "docs/troubleshooting.md";
    let text = page(PAGE);
    let sections: BTreeSet<&str> = text.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    let mut named = BTreeSet::new();
    for rule in all_alerts() {
        let alert = rule["alert"].as_str().unwrap();
        assert!(sections.contains(alert), "{PAGE} has no section for {alert}");
        let url = format!("https://nonet.invalid/{PAGE}#{}", anchor(alert));
        assert_eq!(rule["annotations"]["runbook_url"], url, "{alert}");
        named.insert(alert.to_owned());
    }
    let outdated: Vec<_> = sections.iter().filter(|of| of.starts_with("Nonet") && !named.contains(**of)).collect();
    assert!(outdated.is_empty(), "sections of {PAGE} for alerts that do not exist: {outdated:?}");
}

#[test]
fn the_alert_about_tainted_nodes_compares_their_share_with_the_flag() {
    let rule = all_alerts().into_iter().find(|rule| rule["alert"] == "NonetManyNodesTainted").unwrap();
    let asked = metrics(rule["expr"].as_str().unwrap());
    assert!(asked.contains("nonet_node_taint_alarm_share"), "{asked:?}");
}

#[test]
fn alerts_and_dashboard_ask_for_metrics_that_are_served() {
    let registered = registered();
    assert!(registered.len() > 30, "{registered:?}");
    let mut expressions = Vec::new();
    for rule in all_alerts() {
        expressions.push(rule["expr"].as_str().unwrap().to_owned());
        assert!(rule["annotations"]["summary"].is_string(), "{rule}");
    }
    let alerts = expressions.len();
    let dashboard: Value = serde_json::from_str(&text("components/monitoring/dashboard.json")).unwrap();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            expressions.push(target["expr"].as_str().unwrap().to_owned());
        }
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        let query = variable["query"].as_str().unwrap();
        if let Some(of) = query.strip_prefix("label_values(") {
            expressions.push(of.rsplit_once(',').unwrap().0.to_owned());
        }
    }
    assert!(alerts >= names().len() + 10 && expressions.len() >= alerts + 15);
    for expression in expressions {
        let asked = metrics(&expression);
        assert!(!asked.is_empty(), "{expression}");
        for name in asked {
            assert!(is_served(&name, &registered), "{name} is served by nobody: {expression}");
        }
    }
}
