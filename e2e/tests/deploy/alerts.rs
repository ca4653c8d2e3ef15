//! The alerts fire where they should, and stay silent about the series of other programs.

use std::{collections::BTreeSet, fs, process::Command};

use e2e::skips;
use serde_json::{Value, json};

use super::{
    alerts, all_alerts, fields, groups_of_alerts,
    images::run,
    kustomize::{self, needs_kubectl, this_test},
    metrics, names,
    overlays::{of_kind, selects},
    text,
};
use crate::repository::{self, empty_directory, read, root};

/// The cases for `promtool test rules`, of which the last file is written from the table of controllers.
const RULE_TESTS: [&str; 2] = ["rule-tests.yaml", "absence.yaml"];

/// The directory of the cases.
const DIRECTORY: &str = "e2e/tests/deploy/alerts";

/// Keeps the series of Nonet among those of all programs that serve the same metrics.
const OWN_SERIES: &str = "and on (cluster, namespace, job, instance) nonet_build_info";

/// The address that a release replaces by the address of its own pages.
const PAGES: &str = "https://nonet.invalid/";

#[test]
fn every_alert_has_a_firing_and_a_silent_case() {
    let (mut firing, mut silent) = (BTreeSet::new(), BTreeSet::new());
    for cases in RULE_TESTS.map(|file| repository::yaml(&format!("{DIRECTORY}/{file}")).swap_remove(0)) {
        for case in fields(&cases["tests"], "/alert_rule_test").flat_map(|cases| cases.as_array().unwrap()) {
            let expected = case["exp_alerts"].as_array().unwrap_or_else(|| panic!("{case}: exp_alerts"));
            let cases = if expected.is_empty() { &mut silent } else { &mut firing };
            cases.insert(case["alertname"].to_string());
        }
    }
    let all: BTreeSet<String> = all_alerts().iter().map(|rule| rule["alert"].to_string()).collect();
    assert_eq!(firing, all, "alerts with a firing case");
    assert_eq!(silent, all, "alerts with a silent case");
}

/// The rules of all installed files in the format of Prometheus, with only the summary as annotation.
fn plain_rules() -> Value {
    let mut groups = groups_of_alerts();
    for rule in groups.iter_mut().flat_map(|group| group["rules"].as_array_mut().unwrap()) {
        rule["annotations"] = json!({"summary": rule["annotations"]["summary"]});
    }
    json!({ "groups": groups })
}

#[test]
fn alerts_fire_and_stay_silent_in_promtool() {
    let lacking = Command::new("promtool").arg("--version").output().is_err().then_some("promtool is not installed");
    skips::note(this_test!(), lacking);
    if lacking.is_some() {
        return;
    }
    let directory = empty_directory("rule-tests");
    // JSON is valid YAML.
    fs::write(directory.join("rules.yaml"), plain_rules().to_string()).unwrap();
    for file in RULE_TESTS {
        fs::copy(root().join(DIRECTORY).join(file), directory.join(file)).unwrap();
    }
    let tests = RULE_TESTS.map(|file| ["test", "rules", file]);
    for arguments in [["check", "rules", "rules.yaml"]].into_iter().chain(tests) {
        run(Command::new("promtool").args(arguments).current_dir(&directory)).unwrap();
    }
}

#[test]
fn alerts_judge_only_series_of_nonet() {
    for rule in all_alerts() {
        let expression = rule["expr"].as_str().unwrap();
        let shared: usize = metrics(expression)
            .iter()
            .filter(|name| !name.starts_with("nonet_"))
            .map(|name| expression.matches(name.as_str()).count())
            .sum();
        // Series of replicas that have ended are selected by a series of Nonet about the same Lease.
        let of_own_lease =
            "max by (cluster, namespace, name) (nonet_leader_election_held) == 1 and on (cluster, namespace, name) ";
        let own = expression.matches(OWN_SERIES).count() + expression.matches(of_own_lease).count();
        assert_eq!(own, shared, "{expression}");
    }
}

#[test]
fn alerts_keep_clusters_and_namespaces_apart() {
    for rule in alerts("components/monitoring/alerts.yaml") {
        let expression = rule["expr"].as_str().unwrap();
        let groupings: Vec<&str> = expression.split(" by (").skip(1).collect();
        assert!(!groupings.is_empty(), "{expression}");
        for grouping in groupings {
            assert!(grouping.starts_with("cluster, namespace, "), "{expression}");
        }
    }
    // These alerts have no labels but those of the rule.
    for name in names() {
        let rule = &alerts(&format!("controllers/{name}/absence/rule.yaml"))[0];
        assert_eq!(rule["labels"], json!({"severity": "critical", "name": name}));
    }
}

#[test]
fn prometheus_finds_replicas_by_their_pods() {
    needs_kubectl!();
    let monitored = kustomize::build("overlays/monitored");
    assert!(of_kind(&monitored, "Service").is_empty(), "EndpointSlices are written by one of the scraped controllers");
    let [monitor] = of_kind(&monitored, "PodMonitor")[..] else { panic!("one PodMonitor") };
    let selector = &monitor["spec"]["selector"];
    let is_selected = |labels: &Value| {
        let among = |requirement: &Value| {
            assert_eq!(requirement["operator"], "In");
            requirement["values"].as_array().unwrap().contains(&labels[requirement["key"].as_str().unwrap()])
        };
        selects(&selector["matchLabels"], labels) && selector["matchExpressions"].as_array().unwrap().iter().all(among)
    };
    let port = &monitor["spec"]["podMetricsEndpoints"][0]["port"];
    for path in ["overlays/default", "overlays/shadow"] {
        let objects = kustomize::build(path);
        let deployments = of_kind(&objects, "Deployment");
        assert_eq!(deployments.len(), names().len(), "{path}");
        for deployment in deployments {
            let template = &deployment["spec"]["template"];
            assert!(is_selected(&template["metadata"]["labels"]), "{path}: {}", deployment["metadata"]["name"]);
            assert_eq!(template["spec"]["containers"][0]["ports"][0]["name"], *port, "{path}");
        }
    }
    // They listen on loopback only.
    for path in ["overlays/rescue", "static-pods"] {
        for pod in of_kind(&kustomize::build(path), "Pod") {
            assert!(!is_selected(&pod["metadata"]["labels"]), "{path}: {}", pod["metadata"]["name"]);
        }
    }
}

#[test]
fn the_dashboard_has_rows_and_shows_one_cluster() {
    let dashboard: Value = serde_json::from_str(&text("components/monitoring/dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    assert!(panels[0]["type"] == "row" && fields(&dashboard["panels"], "/type").filter(|of| *of == "row").count() > 3);
    let mut taken = BTreeSet::new();
    for panel in panels {
        let place = &panel["gridPos"];
        let [x, y, width, height] = ["x", "y", "w", "h"].map(|key| place[key].as_u64().unwrap());
        for cell in (x..x + width).flat_map(|x| (y..y + height).map(move |y| (x, y))) {
            assert!(taken.insert(cell) && cell.0 < 24, "{} lies on another panel", panel["title"]);
        }
        for expression in fields(&panel["targets"], "/expr").map(|expression| expression.as_str().unwrap()) {
            let of_cluster = expression.matches("{cluster=\"$cluster\", ").count();
            assert!(of_cluster > 0 && of_cluster == expression.matches('{').count(), "{expression}");
        }
    }
    let variables: Vec<&Value> = fields(&dashboard["templating"]["list"], "/name").collect();
    assert_eq!(variables, ["datasource", "cluster", "namespace", "job"]);
    for link in fields(&dashboard["links"], "/url").map(|url| url.as_str().unwrap()) {
        let page = link.strip_prefix(PAGES).unwrap().split('#').next().unwrap();
        assert!(root().join(page).is_file(), "{link}");
    }
}

#[test]
fn a_release_points_runbooks_at_its_own_pages() {
    for rule in all_alerts() {
        let annotations = &rule["annotations"];
        assert!(annotations["runbook_url"].as_str().unwrap().starts_with(PAGES), "{annotations}");
    }
    let workflow = read(".github/workflows/release.yml");
    let replacement = format!("s|{PAGES}|$GITHUB_SERVER_URL/$GITHUB_REPOSITORY/blob/$GITHUB_REF_NAME/|");
    let replaced = workflow.find(&replacement).expect("the release replaces the address of the pages");
    assert!(replaced < workflow.find("deploy/render ").unwrap() && replaced < workflow.find("helm package").unwrap());
    assert!(read("docs/operating.md").contains(&format!("s|{PAGES}|")));
}
