//! The oracles of runs as a whole, in runs of ReplicaSets that go wrong because of what users do.

use simulation::{
    judge::judge,
    notation::Notation,
    outcome::Outcome,
    perturbation::Perturbation,
    run::{Run, run},
    scenario::Suite,
};

static SUITE: Suite = Suite {
    name: "whole-runs",
    programs: &[&replicaset_controller::DEFINITION],
    tunes: &[],
    gates: &[],
    text: r#"
let set(REPLICAS) = {apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: web}, spec: {replicas: REPLICAS,
    selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: "img:1"}]}}}}
let map() = {apiVersion: v1, kind: ConfigMap, metadata: {name: map}}
suite whole-runs
scenario one: a ReplicaSet of one
  create set(1)
scenario many: a ReplicaSet of fifty
  create set(50)
scenario refused: a user deletes what is not there
  delete configmaps/map now
scenario in-vain: a user waits for what never happens
  create map()
  shows configmaps/map /data/count 1: delete configmaps/map now
scenario late: a Pod ends half an hour after everything else
  create {apiVersion: v1, kind: Pod, metadata: {name: late, annotations: {sim/exit: "0", sim/after: "1800"}},
    spec: {restartPolicy: Never, containers: [{name: c, image: "img:1"}]}}
scenario elsewhere: a user works in a namespace that it has created, which the status of a cluster-wide object allows
  create {apiVersion: v1, kind: Namespace, metadata: {name: team}}
  create {apiVersion: v1, kind: Node, metadata: {name: extra}, status: {capacity: {pods: "1"}}}
  create set(1) + {metadata: {namespace: team}}
  reaches replicasets.apps/team/web /status/readyReplicas 1: merge replicasets.apps/team/web {spec: {replicas: 2}}
  merge nodes/extra {metadata: {labels: {set: "$replicasets.apps/team/web:/metadata/name"}}}
  observed nodes/extra: delete replicasets.apps/team/web
"#,
    invariants: &[],
    promises: &[],
    interferences: &[],
};

fn outcome(scenario: &str) -> Outcome {
    let scenarios = Notation::read(SUITE.text).unwrap().scenarios(SUITE.name).unwrap();
    let scenario = scenarios.iter().find(|known| known.name == scenario).unwrap();
    let perturbation = &Perturbation::default();
    run(Run { suite: &SUITE, scenario, perturbation, seed: 1, without: None, told: false }).unwrap()
}

fn judged(unperturbed: &Outcome, outcome: &Outcome) -> Option<&'static str> {
    judge(&Perturbation::default(), unperturbed, outcome).map(|violation| violation.oracle)
}

#[test]
fn a_user_who_is_refused_or_waits_in_vain_and_a_late_write_are_noticed() {
    for (scenario, oracle) in
        [("one", None), ("refused", Some("users-are-served")), ("in-vain", Some("gets-there")), ("late", Some("rests"))]
    {
        assert_eq!(outcome(scenario).violation.map(|violation| violation.oracle), oracle, "{scenario}");
    }
}

#[test]
fn steps_work_in_other_namespaces_and_on_cluster_wide_objects() {
    let outcome = outcome("elsewhere");
    assert_eq!(outcome.violation, None);
    assert!(outcome.end.keys().any(|object| object.contains(r#""namespace":"team""#)), "{:?}", outcome.end);
}

#[test]
fn more_work_and_another_end_than_in_the_unperturbed_run_are_noticed() {
    let (one, many) = (outcome("one"), outcome("many"));
    assert_eq!(judged(&one, &one), None);
    assert_eq!(judged(&one, &many), Some("work-is-bounded"));
    assert_eq!(judged(&many, &one), Some("ends-the-same"));
}
