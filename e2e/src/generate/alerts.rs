//! The cases of the alert about absent controllers for `promtool test rules`.

use super::{File, MARK, by_port, fill_each};

/// The controller that is absent at first. The foreign series of the cases have its name.
const ABSENT: &str = "gc-controller";

/// The file.
pub(super) fn files() -> [File; 1] {
    let others = by_port().into_iter().filter(|controller| controller.name != ABSENT);
    let text = format!("# {MARK}.\n{ABSENT_AT_FIRST}{}{CASES}", fill_each(PRESENT, others));
    [File { path: "e2e/tests/deploy/alerts/absence.yaml".to_owned(), text }]
}

const ABSENT_AT_FIRST: &str = r#"# Cases of the alert about absent controllers; rule-tests.yaml has those of all other alerts.
rule_files: [rules.yaml]
evaluation_interval: 1m
tests:
  - name: absent controllers
    interval: 1m
    input_series:
      # All controllers but gc-controller are there at first. gc-controller has a shadow, and a foreign program has a Lease with its
      # name. Each of the others has a standby and a leader.
      - {series: 'nonet_build_info{namespace="kube-system", job="kube-system/nonet", instance="i", controller="gc-controller"}', values: '_x11 1x20'}
      - {series: 'leader_election_master_status{namespace="kube-system", job="kube-system/nonet", instance="i", name="gc-controller"}', values: '_x11 0x20'}
      - {series: 'nonet_build_info{namespace="kube-system", job="gc-controller-shadow", instance="s", controller="gc-controller"}', values: '1x30'}
      - {series: 'leader_election_master_status{namespace="other", job="other", instance="o", name="gc-controller"}', values: '1x30'}
"#;

const PRESENT: &str = r#"      - {series: 'nonet_build_info{namespace="kube-system", job="kube-system/nonet", instance="NAME-1", controller="NAME"}', values: '1x30'}
      - {series: 'leader_election_master_status{namespace="kube-system", job="kube-system/nonet", instance="NAME-1", name="NAME"}', values: '0x30'}
      - {series: 'nonet_build_info{namespace="kube-system", job="NAME", instance="NAME-2", controller="NAME"}', values: '1x30'}
      - {series: 'leader_election_master_status{namespace="kube-system", job="NAME", instance="NAME-2", name="NAME"}', values: '1x30'}
"#;

const CASES: &str = r#"    alert_rule_test:
      - {alertname: NonetControllerIsAbsent, eval_time: 9m, exp_alerts: []}
      - alertname: NonetControllerIsAbsent
        eval_time: 10m
        exp_alerts:
          - exp_labels: {severity: critical, name: gc-controller}
            exp_annotations: {summary: "gc-controller is absent"}
      - {alertname: NonetControllerIsAbsent, eval_time: 15m, exp_alerts: []}
"#;
