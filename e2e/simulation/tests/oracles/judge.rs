//! The oracles of runs as a whole, in runs of ReplicaSets that go wrong because of what users do.

use simulation::{
    judge::judge,
    outcome::Outcome,
    perturbation::Perturbation,
    run::{Run, run},
    scenario::{Scenario, Step, Suite, When, after},
};

use super::*;

const MAPS: &str = "configmaps";

static SUITE: Suite = Suite {
    name: "whole-runs",
    programs: &[&replicaset_controller::DEFINITION],
    tunes: &[],
    gates: &[],
    scenarios,
    invariants: &[],
    promises: &[],
    interferences: &[],
};

fn map() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map"}})
}

fn scenarios() -> Vec<Scenario> {
    let replicas = |replicas: i64| {
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "c", "image": "img:1"}]}}}})
    };
    let mut late = pod("late", json!([]));
    late["metadata"]["annotations"] = json!({"sim/exit": "0", "sim/after": "1800"});
    late["spec"]["restartPolicy"] = json!("Never");
    let in_vain = Step { when: When::Shows(MAPS, "map", "/data/count", 1), what: What::delete_now(MAPS, "map") };
    let create = |object: Value| after(0.1, What::Create(object));
    let scenario = |name, about, steps| Scenario { name, about, steps };
    vec![
        scenario("one", "a ReplicaSet of one", vec![create(replicas(1))]),
        scenario("many", "a ReplicaSet of fifty", vec![create(replicas(50))]),
        scenario("refused", "a user deletes what is not there", vec![after(0.1, What::delete_now(MAPS, "map"))]),
        scenario("in-vain", "a user waits for what never happens", vec![create(map()), in_vain]),
        scenario("late", "a Pod ends half an hour after everything else", vec![create(late)]),
    ]
}

fn outcome(scenario: &str) -> Outcome {
    let scenarios = scenarios();
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
fn more_work_and_another_end_than_in_the_unperturbed_run_are_noticed() {
    let (one, many) = (outcome("one"), outcome("many"));
    assert_eq!(judged(&one, &one), None);
    assert_eq!(judged(&one, &many), Some("work-is-bounded"));
    assert_eq!(judged(&many, &one), Some("ends-the-same"));
}
