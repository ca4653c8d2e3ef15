//! The page of metrics: the controllers register them on the sandbox, and nothing has to happen for a metric to be listed.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use common::{
    app::{self, LeadershipMode, ProgramDefinition, StartParameters, start_loops},
    clock::Clock,
    metrics::{MetricCatalogue, MetricDescription, Metrics, Stability},
    process::leader::{self, probation::ProbationSettings},
    settings::{OperatorSettings, SECOND_WRITER_SEARCH_PERIOD, TunableValue},
};
use jiff::Timestamp;

use super::markdown::{code, codes, head, plain, section, table, wrapped};
use crate::{controllers, sandbox::Sandbox};

const INTRODUCTION: &str = "The metrics of every controller, then those that each controller has beside them. Names that begin with \
    `nonet_` are Nonet's own. `/metrics` serves all of them in the text format of Prometheus, except \
    `kubernetes_healthcheck` and `kubernetes_healthchecks_total`, which are at `/metrics/slis`. A metric is served once it has a \
    sample.\n\nSome metrics depend on the flags: `nonet_leader_probations_total` on `--probation`, `nonet_shadow_differences` on \
    `--shadow`, `nonet_client_certificate_expiration_timestamp_seconds` on a client certificate in the kubeconfig, and the metrics of \
    leader election on `--leader-elect`. A metric that one control loop registers is missing where `--controllers` leaves the loop \
    out.\n\nThe help text of a metric begins with its stability, in upper case. `alpha` metrics may change in any release.";

/// Metrics that kube-controller-manager serves for every loop and that the controllers do not serve, with what to use instead. A
/// `*` matches any end of a name. The metrics of loops that Nonet does not run are not listed.
const MISSING: [(&str, &str); 8] = [
    (
        "`go_*`",
        "There is no Go runtime. `process_resident_memory_bytes` and `process_cpu_seconds_total` show the use of resources, and \
         `workqueue_unfinished_work_seconds` shows work that is stuck.",
    ),
    (
        "`process_virtual_memory_max_bytes`, `process_network_receive_bytes_total`, `process_network_transmit_bytes_total`",
        "The metrics of the container, from the kubelet.",
    ),
    (
        "`rest_client_transport_*`, `rest_client_exec_plugin_*`",
        "There are neither Go's HTTP transports nor credential plugins. `rest_client_requests_total` counts requests, and \
         `nonet_client_certificate_expiration_timestamp_seconds` shows when the client certificate expires.",
    ),
    (
        "`apiserver_*`, `aggregator_discovery_*`, `apiextensions_apiserver_*`",
        "`rest_client_requests_total` and `rest_client_request_duration_seconds` for reviews, which are requests with the method \
         `POST`. The others belong to parts of an API server that the controllers do not have.",
    ),
    ("`authenticated_user_requests`, `authentication_*`, `authorization_*`", "`nonet_rejected_requests_total`"),
    (
        "`registered_metrics_total`, `hidden_metrics_total`, `disabled_metrics_total`, \
         `cardinality_enforcement_unexpected_categorizations_total`",
        "Nothing: no metric is hidden, and the flags say which metrics are disabled.",
    ),
    (
        "`running_managed_controllers`",
        "Nothing: none of these loops sets it. `leader_election_master_status` shows which process runs them.",
    ),
    (
        "`kubernetes_build_info`",
        "`nonet_build_info`. Rules compare the versions of `kubernetes_build_info` over all components of a cluster.",
    ),
];

/// How long the controllers run.
const TIME: Duration = Duration::from_secs(60);

type Known = BTreeMap<&'static str, MetricDescription>;

/// Every metric that a controller registers.
async fn known(definition: &'static ProgramDefinition) -> Known {
    let clock = Clock::simulated(Timestamp::UNIX_EPOCH, 1);
    let catalogue = MetricCatalogue::default();
    for is_shadow in [false, true] {
        let sandbox = Sandbox::builder().clock(clock.clone()).build();
        let metrics = Metrics::with_catalogue(Arc::clone(&catalogue));
        app::register_metrics(definition, &clock, &metrics);
        let probation = Some(ProbationSettings { version: definition.version.to_owned(), probation_time: TIME });
        let election = leader::ElectionSettings {
            probation,
            leads_without_release: true,
            ..leader::ElectionSettings::new("default", definition.name, "one".to_owned())
        };
        let settings = OperatorSettings::new().with_shadow_mode(is_shadow);
        let gates = definition.feature_gates.iter();
        let settings = gates.fold(settings, |settings, gate| settings.with_feature_gate(gate.name, true));
        let TunableValue::Duration(second_writer_period) = SECOND_WRITER_SEARCH_PERIOD.default_value else { continue };
        let assembly = start_loops(StartParameters {
            metrics,
            settings: Arc::new(settings),
            leadership: LeadershipMode::Elected(election),
            second_writer_search_period: second_writer_period,
            ..StartParameters::new(sandbox.client(definition.name), clock.clone(), definition.loops)
        });
        clock.sleep(TIME).await;
        drop(assembly);
    }
    catalogue.lock().clone()
}

fn row(name: &str, of: &MetricDescription) -> Vec<String> {
    let stability = match of.stability {
        Stability::Alpha => "alpha",
        Stability::Beta => "beta",
        Stability::Stable => "stable",
        Stability::Unstated => "",
    };
    vec![code(name), of.kind.to_owned(), codes(of.label_names.iter().copied()), stability.to_owned(), plain(&of.help)]
}

fn metric_table<'a>(metrics: impl IntoIterator<Item = (&'a &'static str, &'a MetricDescription)>) -> String {
    let rows: Vec<_> = metrics.into_iter().map(|(name, of)| row(name, of)).collect();
    table(&["metric", "type", "labels", "stability", "help"], &rows)
}

/// The selector with which the dashboard of kubernetes-mixin shows kube-controller-manager and the controllers.
fn mixin_selector() -> String {
    let mut jobs = vec!["kube-controller-manager"];
    jobs.extend(controllers::ALL.iter().map(|definition| definition.name));
    format!("job=~\"{}\"", jobs.join("|"))
}

fn about_mixin() -> String {
    format!(
        "The dashboard of kubernetes-mixin for kube-controller-manager shows the controllers, too, with this value of \
         `kubeControllerManagerSelector`: `{}`. The panel of goroutines stays empty. Use the value for the dashboard only: with it, \
         the alert `KubeControllerManagerDown` is silent while any of the controllers runs.",
        mixin_selector()
    )
}

pub(super) async fn page() -> String {
    let mut all: Vec<(&str, Known)> = Vec::new();
    for definition in controllers::ALL {
        all.push((definition.name, known(definition).await));
    }
    let lacking = |name: &str, of: &MetricDescription| -> Vec<&str> {
        all.iter().filter(|(_, known)| known.get(name) != Some(of)).map(|(controller, _)| *controller).collect()
    };
    let mut shared = Vec::new();
    let mut frequent: BTreeMap<String, Vec<(&&str, &MetricDescription)>> = BTreeMap::new();
    for (name, of) in all.iter().rev().flat_map(|(_, known)| known).collect::<BTreeMap<_, _>>() {
        match lacking(name, of).as_slice() {
            [] => shared.push((name, of)),
            few if few.len() * 2 < all.len() => frequent.entry(few.join(", ")).or_default().push((name, of)),
            _ => {}
        }
    }
    let mut text = head("Metrics", INTRODUCTION);
    section(&mut text, "## Every controller", &metric_table(shared));
    for (controllers, metrics) in frequent {
        section(&mut text, &format!("## Every controller but {controllers}"), &metric_table(metrics));
    }
    for (controller, known) in &all {
        let is_own = |(name, of): &(&&str, &MetricDescription)| lacking(name, of).len() * 2 >= all.len();
        let own = metric_table(known.iter().filter(is_own));
        let own = if own.is_empty() { "It has no metrics beside those above.\n".to_owned() } else { own };
        section(&mut text, &format!("## {controller}"), &own);
    }
    let rows: Vec<_> = MISSING.iter().map(|(missing, instead)| vec![(*missing).to_owned(), plain(instead)]).collect();
    let missing = table(&["metric", "use instead"], &rows);
    section(&mut text, "## Metrics of kube-controller-manager that are missing", &missing);
    section(&mut text, "## The dashboard of kubernetes-mixin", &(wrapped(&about_mixin()) + "\n"));
    text
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use super::*;

    /// The names in the sources that look like names of metrics: literals in files that register any.
    fn literals(text: &str) -> impl Iterator<Item = &str> {
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let looks_like_one = |word: &&str| {
            word.matches('_').count() >= 2
                && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        };
        code.split('"').skip(1).step_by(2).filter(looks_like_one)
    }

    /// Literals of such files that are labels, values of labels and names of queues.
    const OTHER: [&str; 5] = [
        "garbage_collector_graph_changes",
        "noexec_taint_pod",
        "pod_garbage_collector",
        "pod_management_policy",
        "recreate_terminating_or_failed",
    ];

    #[tokio::test(start_paused = true)]
    async fn no_name_in_the_code_is_missing() {
        let mut listed: BTreeSet<&str> = BTreeSet::new();
        for definition in controllers::ALL {
            listed.extend(known(definition).await.keys());
        }
        let mut missing = Vec::new();
        for path in super::super::events::sources(&super::super::root()) {
            let text = fs::read_to_string(&path).unwrap();
            if !["Stability::", "Alpha", "STALE_SYNC_SKIPS"].iter().any(|sign| text.contains(sign)) {
                continue;
            }
            let unknown = literals(&text).filter(|name| !listed.contains(name) && !OTHER.contains(name));
            missing.extend(unknown.map(|name| format!("{}: {name}", path.display())));
        }
        assert!(missing.is_empty(), "no metrics of docs/reference/metrics.md:\n{}", missing.join("\n"));
    }

    /// What the dashboard of kubernetes-mixin for kube-controller-manager asks for, at its commit aa38e2b: metrics with the labels
    /// that its expressions use besides those of a scrape.
    const MIXIN: [(&str, &[&str]); 8] = [
        ("workqueue_adds_total", &["name"]),
        ("workqueue_depth", &["name"]),
        ("workqueue_queue_duration_seconds", &["name"]),
        ("rest_client_requests_total", &["code"]),
        ("rest_client_request_duration_seconds", &["verb"]),
        ("process_resident_memory_bytes", &[]),
        ("process_cpu_seconds_total", &[]),
        ("go_goroutines", &[]),
    ];

    fn is_listed_as_missing(name: &str) -> bool {
        let patterns = MISSING.iter().flat_map(|(missing, _)| missing.split(", "));
        patterns.map(|pattern| pattern.trim_matches('`')).any(|pattern| match pattern.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == pattern,
        })
    }

    /// COMMON-82, COMMON-99.
    #[tokio::test(start_paused = true)]
    async fn a_metric_of_upstream_is_served_or_listed_as_missing() {
        let mut served: BTreeSet<&str> = BTreeSet::new();
        for definition in controllers::ALL {
            let known = known(definition).await;
            for (name, labels) in MIXIN {
                let names_of_labels = known.get(name).map(|metric| metric.label_names);
                let has_labels = |names: &[&str]| labels.iter().all(|label| names.contains(label));
                let is_there = names_of_labels.map_or_else(|| is_listed_as_missing(name), has_labels);
                assert!(is_there, "{}: {name}", definition.name);
            }
            served.extend(known.keys());
        }
        let upstream = include_str!("upstream-metrics.txt").lines().filter(|line| !line.starts_with('#'));
        let upstream: BTreeSet<&str> = upstream.flat_map(str::split_whitespace).collect();
        assert!(upstream.len() > 80, "{upstream:?}");
        for name in &upstream {
            assert!(
                served.contains(name) != is_listed_as_missing(name),
                "{name} is either served or listed as missing"
            );
        }
        let instead = MISSING.iter().flat_map(|(_, instead)| instead.split('`').skip(1).step_by(2));
        let page = page().await;
        for name in instead.filter(|name| name.contains('_') && !is_listed_as_missing(name)) {
            assert!(page.contains(&format!("\n| `{name}` | ")), "{name} is not in a table of the page");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn own_metrics_are_named_by_their_kind_and_base_unit() {
        for definition in controllers::ALL {
            for (name, metric) in known(definition).await {
                let is_counter = metric.kind == "counter";
                let has_odd_unit =
                    ["_share", "_percent", "_milliseconds", "_ms", "_minutes"].iter().any(|end| name.ends_with(end));
                let is_own = name.starts_with("nonet_");
                assert!(
                    !is_own || is_counter == name.ends_with("_total") && !has_odd_unit,
                    "{name} of {}",
                    definition.name
                );
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn every_metric_of_the_alerts_is_listed() {
        let alerts = fs::read_to_string(super::super::root().join("deploy/components/monitoring/alerts.yaml")).unwrap();
        let page = page().await;
        let words = alerts.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let is_metric = |word: &&str| {
            let prefixes = ["nonet_", "leader_election_", "process_", "rest_client_", "workqueue_"];
            prefixes.iter().any(|prefix| word.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty()))
        };
        // The page lists a histogram without the suffix of its series.
        let used: BTreeSet<&str> =
            words.filter(is_metric).map(|word| word.strip_suffix("_bucket").unwrap_or(word)).collect();
        assert!(used.len() > 9, "{used:?}");
        for name in used {
            assert!(page.contains(&format!("`{name}`")), "{name}");
        }
    }
}
