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

use super::markdown::{code, codes, head, plain, section, table};
use crate::{controllers, sandbox::Sandbox};

const INTRODUCTION: &str = "The metrics of every controller, then those that each controller has beside them. Names that begin with \
    `nonet_` are Nonet's own. `/metrics` serves all of them in the text format of Prometheus, except \
    `kubernetes_healthcheck` and `kubernetes_healthchecks_total`, which are at `/metrics/slis`. A metric is served once it has a \
    sample.\n\nSome metrics depend on the flags: `nonet_leader_probations_total` on `--probation`, `nonet_shadow_differences` on \
    `--shadow`, `nonet_client_certificate_expiration_timestamp_seconds` on a client certificate in the kubeconfig, and the metrics of \
    leader election on `--leader-elect`. A metric that one control loop registers is missing where `--controllers` leaves the loop \
    out.\n\nThe help text of a metric begins with its stability, in upper case. `alpha` metrics may change in any release.";

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
        let TunableValue::Duration(second_writer_period) = SECOND_WRITER_SEARCH_PERIOD.default_value else { continue };
        let assembly = start_loops(StartParameters {
            metrics,
            settings: Arc::new(OperatorSettings::new().with_shadow_mode(is_shadow)),
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

    #[tokio::test(start_paused = true)]
    async fn every_metric_of_the_alerts_is_listed() {
        let alerts = fs::read_to_string(super::super::root().join("deploy/components/monitoring/alerts.yaml")).unwrap();
        let page = page().await;
        let words = alerts.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let is_metric = |word: &&str| {
            let prefixes = ["nonet_", "leader_election_", "rest_client_", "workqueue_"];
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
