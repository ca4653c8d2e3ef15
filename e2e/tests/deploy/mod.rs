//! What `deploy/` says of the controllers is true of their code, and what it renders keeps its promises.
mod alerts;
mod chart;
mod hosted;
mod images;
mod kind;
mod kustomize;
mod overlays;
mod release;
mod render;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
};

use e2e::controllers;
use serde_json::Value;

use crate::{
    docs::{markdown, prose},
    repository::{self, read, root, sources},
};

/// A file or directory in `deploy/`.
fn deploy(path: &str) -> PathBuf {
    root().join("deploy").join(path)
}

/// The text of a file in `deploy/`.
fn text(path: &str) -> String {
    read(&format!("deploy/{path}"))
}

/// The documents of a file in `deploy/`.
fn yaml(path: &str) -> Vec<Value> {
    repository::yaml(&format!("deploy/{path}"))
}

/// The values of a field in the items of a list.
fn fields<'a>(list: &'a Value, pointer: &'a str) -> impl Iterator<Item = &'a Value> {
    list.as_array().into_iter().flatten().filter_map(move |item| item.pointer(pointer))
}

fn names() -> BTreeSet<String> {
    controllers::ALL.iter().map(|d| d.name.to_owned()).collect()
}

fn strings(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn directories(path: &str) -> Vec<String> {
    let entries = fs::read_dir(deploy(path)).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn every_controller_has_its_directories_and_each_patches_only_its_own_objects() {
    assert_eq!(directories("controllers").into_iter().collect::<BTreeSet<_>>(), names());
    let shadows = names().into_iter().chain(["base".to_owned()]).collect::<BTreeSet<_>>();
    assert_eq!(directories("shadows").into_iter().collect::<BTreeSet<_>>(), shadows);
    for name in names() {
        // As a resource, and not as a component: its patches apply inside it.
        for of in ["controllers/NAME", "shadows/NAME", "controllers/NAME/rescue", "controllers/NAME/absence"] {
            let path = format!("{}/kustomization.yaml", of.replace("NAME", &name));
            assert_eq!(yaml(&path)[0]["kind"], "Kustomization", "{path}");
        }
    }
}

#[test]
fn operators_find_every_directory_in_a_page() {
    let pages: String = prose().map(|(_, _, line)| line + "\n").collect();
    for of in ["overlays", "components", "examples"] {
        for name in directories(of) {
            let is_named = [format!("{of}/{name}`"), format!("| `{name}`"), format!(", `{name}`")];
            assert!(is_named.iter().any(|text| pages.contains(text)), "no page says anything of {of}/{name}");
        }
    }
}

#[test]
fn clusters_for_nonet_switch_off_what_nonet_does() {
    let cluster = text("kind/cluster.yaml");
    for each in controllers::ALL.iter().flat_map(|d| d.loops) {
        let item = format!("-{}", each.name);
        assert!(cluster.contains(&item), "deploy/kind/cluster.yaml: --controllers does not contain {item}");
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
}

/// What the code registers, and the suffixes under which it is served.
fn registered() -> BTreeMap<String, &'static [&'static str]> {
    let mut out = BTreeMap::new();
    let is_product = |path: &String| path.starts_with("common/") || path.contains("-controller/src/");
    for path in sources().into_iter().filter(is_product) {
        let text = read(&path);
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
            let calls =
                code.split(call).skip(1).filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next());
            out.extend(calls.map(|name| (name.to_owned(), suffixes)));
        }
    }
    out
}

/// The words of an expression that can only be names of metrics: neither a function, nor a label, nor part of a string.
fn metrics(expression: &str) -> BTreeSet<String> {
    const GROUPINGS: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
    const OPERATORS: [&str; 5] = ["and", "or", "unless", "bool", "offset"];
    let mut text: String = expression.split('"').step_by(2).collect();
    for (open, close) in [('{', '}'), ('[', ']')] {
        while let Some(start) = text.find(open) {
            let end = start + text[start..].find(close).expect("a closing brace");
            text.replace_range(start..=end, " ");
        }
    }
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_:$".contains(c);
    let text = text.replace('(', " ( ").replace(')', " ) ").replace(|c| !is_word(c) && c != '(' && c != ')', " ");
    let tokens: Vec<&str> = text.split_whitespace().collect();
    let (mut names, mut is_grouping) = (BTreeSet::new(), false);
    for (at, token) in tokens.iter().enumerate() {
        let next = tokens.get(at + 1).copied().unwrap_or_default();
        is_grouping = (is_grouping || GROUPINGS.contains(token) && next == "(") && *token != ")";
        let is_word = token.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let is_name = is_word && !OPERATORS.contains(token) && !GROUPINGS.contains(token);
        let is_function = next == "(" || next == "by";
        if is_name && !is_grouping && !is_function {
            names.insert((*token).to_owned());
        }
    }
    names
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

/// The groups of alerts in a file.
fn groups(path: &str) -> Vec<Value> {
    yaml(path)[0]["spec"]["groups"].as_array().unwrap().clone()
}

/// The alerts of a file.
fn alerts(path: &str) -> Vec<Value> {
    groups(path).iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

/// The groups of alerts of all files.
fn groups_of_alerts() -> Vec<Value> {
    let absence = names().into_iter().map(|name| format!("controllers/{name}/absence/rule.yaml"));
    absence.chain(["components/monitoring/alerts.yaml".to_owned()]).flat_map(|path| groups(&path)).collect()
}

/// The alerts of all files.
fn all_alerts() -> Vec<Value> {
    groups_of_alerts().iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

#[test]
fn every_alert_has_a_section_of_its_own_in_the_page_about_troubles() {
    const PAGE: &str = "docs/troubleshooting.md";
    let text = read(PAGE);
    let sections: BTreeSet<&str> = text.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    let mut named = BTreeSet::new();
    for rule in all_alerts() {
        let alert = rule["alert"].as_str().unwrap();
        assert!(sections.contains(alert), "{PAGE} has no section for {alert}");
        let url = format!("https://nonet.invalid/{PAGE}#{}", markdown::anchor(alert));
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
    assert!(asked.contains("nonet_node_taint_alarm_ratio"), "{asked:?}");
}

#[test]
fn alerts_and_dashboard_ask_for_metrics_that_are_served() {
    let registered = registered();
    assert!(registered.len() > 30, "{registered:?}");
    let is_served = |name: &str| {
        registered.iter().any(|(family, suffixes)| suffixes.iter().any(|suffix| name == format!("{family}{suffix}")))
    };
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let rules = all_alerts();
    assert!(rules.iter().all(|rule| rule["annotations"]["summary"].is_string()));
    let mut expressions: Vec<String> = rules.iter().map(|rule| text(&rule["expr"])).collect();
    let alerts = expressions.len();
    let dashboard: Value = serde_json::from_str(&self::text("components/monitoring/dashboard.json")).unwrap();
    for targets in fields(&dashboard["panels"], "/targets") {
        expressions.extend(fields(targets, "/expr").map(text));
    }
    for query in fields(&dashboard["templating"]["list"], "/query").map(text) {
        expressions.extend(query.strip_prefix("label_values(").map(|of| of.rsplit_once(',').unwrap().0.to_owned()));
    }
    assert!(alerts >= names().len() + 10 && expressions.len() >= alerts + 15);
    for expression in expressions {
        let asked = metrics(&expression);
        assert!(!asked.is_empty(), "{expression}");
        for name in asked {
            assert!(is_served(&name), "{name} is served by nobody: {expression}");
        }
    }
}
