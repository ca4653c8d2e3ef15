//! Results of two subjects as a table, as JSON, and compared with earlier ones.

use std::time::Duration;

use super::*;
use crate::bench::{requests::Requests, subject::NONET};

const PEER: &str = "kube-controller-manager";

fn run(seconds: f64, idle: u64) -> Run {
    let mut requests = Requests::default();
    requests.add("create pods".to_owned(), 100);
    requests.add("list pods".to_owned(), 50);
    let phase = Phase {
        name: "scale up",
        amount: Amount::pods(100),
        seconds: vec![("created", seconds)],
        cpu_seconds: BTreeMap::from([("a".to_owned(), 0.1), ("b".to_owned(), 0.3)]),
        server_cpu_seconds: BTreeMap::from([("kube-apiserver".to_owned(), 2.0 * seconds)]),
        context_switches: Some(400),
        requests,
        resident: BTreeMap::new(),
        latency: Latency::of((1..=200).map(Duration::from_millis).collect()),
        details: None,
    };
    let restart = Phase {
        name: "restart",
        amount: Amount::pods(1),
        seconds: vec![("first Pod created", seconds)],
        latency: None,
        ..phase.clone()
    };
    let memory = Memory { idle, filled: idle + 100_000, rest: 0, peak: idle * 2, after: idle };
    Run {
        phases: vec![phase, restart],
        memory: BTreeMap::from([("a".to_owned(), memory)]),
        whole: None,
        timeline: Timeline::default(),
    }
}

fn setup() -> Setup {
    Setup {
        cluster: "sandbox".to_owned(),
        workload: "one-deployment".to_owned(),
        controllers: vec!["a", "b"],
        pods: 100,
        nodes: 2,
        cores: 2,
        optimized: true,
    }
}

fn report(results: Vec<(&'static str, Vec<Run>)>) -> Report {
    let results = results.into_iter().map(|(name, runs)| Results { name, runs }).collect();
    Report { setup: setup(), results, baseline: None }
}

/// The words of the first line that begins with `start`, last word first.
fn words(table: &str, start: &str) -> Vec<String> {
    let line = table.lines().find(|line| line.trim_start().starts_with(start)).unwrap();
    line.split_whitespace().rev().map(str::to_owned).collect()
}

#[test]
fn ratios_are_nonet_out_of_the_peer() {
    let report = report(vec![(NONET, vec![run(0.5, 10_000_000)]), (PEER, vec![run(1.0, 40_000_000)])]);
    let table = report.table();
    for (start, expected) in [
        ("Pods created a second", ["2.00", "100", "200"]),
        ("CPU, ms a Pod", ["1.00", "4.000", "4.000"]),
        ("CPU of kube-apiserver, ms a Pod", ["0.50", "20.000", "10.000"]),
        ("context switches a Pod", ["1.00", "4.00", "4.00"]),
        ("requests a Pod: create", ["1.00", "1.000", "1.000"]),
        ("requests a Pod: list", ["1.00", "0.500", "0.500"]),
        ("ms from Pod event to slice, median", ["1.00", "100.0", "100.0"]),
        ("ms from Pod event to slice, p99", ["1.00", "198.0", "198.0"]),
        ("seconds until first Pod created", ["0.50", "1.00", "0.50"]),
        ("MB idle", ["0.25", "40.0", "10.0"]),
        ("bytes a cached Pod", ["1.00", "1000", "1000"]),
        ("CPU of the controllers, s", ["1.00", "0.80", "0.80"]),
        ("CPU of all of these, s", ["0.58", "4.80", "2.80"]),
        ("requests of the controllers", ["1.00", "300", "300"]),
    ] {
        assert_eq!(words(&table, start)[..3], expected, "{start}");
    }
    let whole = table.split("whole workload").nth(1).unwrap();
    assert_eq!(words(whole, "CPU of kube-apiserver, s")[..3], ["0.50", "4.00", "2.00"]);
    let json = report.json();
    assert_eq!(json["figures"]["scale up"]["Pods created a second"]["ratio"], 2.0);
    assert_eq!(json["subjects"][0]["runs"][0]["phases"][0]["requests"]["create pods"], 100);
    assert_eq!(json["figures"]["memory"]["bytes a cached Pod"][PEER]["median"], 1000.0);
}

#[test]
fn several_runs_are_shown_by_their_median_and_spread() {
    let runs = |seconds: &[f64]| seconds.iter().map(|seconds| run(*seconds, 10_000_000)).collect::<Vec<_>>();
    let report = report(vec![(NONET, runs(&[0.5, 2.0, 1.0])), (PEER, runs(&[1.0, 4.0, 2.0]))]);
    let table = report.table();
    assert!(table.contains("medians of 3 runs (minimum..maximum)"), "{table}");
    assert_eq!(words(&table, "Pods created a second")[..5], ["2.00", "(25..100)", "50", "(50..200)", "100"]);
    let json = report.json();
    assert_eq!(json["subjects"][1]["runs"].as_array().map(Vec::len), Some(3));
    let expected = json!({"median": 100.0, "min": 50.0, "max": 200.0});
    assert_eq!(json["figures"]["scale up"]["Pods created a second"][NONET], expected);
}

#[test]
fn figures_are_divided_by_the_number_of_things_that_the_phase_handles() {
    let mut collected = run(0.5, 10_000_000);
    collected.phases[0].amount = Amount::objects(50);
    let report = report(vec![(NONET, vec![collected])]);
    let table = report.table();
    for line in ["objects created a second", "CPU, ms an object", "requests an object: create"] {
        assert!(table.contains(line), "{line}: {table}");
    }
    let phase = &report.json()["subjects"][0]["runs"][0]["phases"][0];
    assert_eq!((&phase["count"], &phase["unit"]), (&json!(50), &json!("Object")));
}

#[test]
fn one_subject_has_no_ratio_and_one_run_no_spread() {
    let table = report(vec![(NONET, vec![run(0.5, 10_000_000)])]).table();
    assert!(!table.contains("ratio") && !table.contains("..") && !table.contains("earlier"), "{table}");
    assert_eq!(words(&table, "Pods created a second")[0], "200");
}

#[test]
fn an_earlier_result_adds_a_column_with_its_ratio() {
    let earlier = report(vec![(NONET, vec![run(0.5, 10_000_000)])]).json().to_string();
    let mut now = report(vec![(NONET, vec![run(1.0, 10_000_000)]), (PEER, vec![run(1.0, 10_000_000)])]);
    now.results[0].runs[0].phases[0].requests.add("watch pods".to_owned(), 1);
    let baseline = Baseline::parse(&earlier, &setup(), NONET).unwrap();
    now.baseline = Some(("earlier.json".into(), baseline));
    let table = now.table();
    assert!(table.contains("to earlier: Nonet now / Nonet in earlier.json"), "{table}");
    assert_eq!(words(&table, "Pods created a second")[..2], ["0.50", "1.00"]);
    assert_eq!(words(&table, "requests a Pod: watch")[..2], ["-", "-"]);
    assert_eq!(now.json()["figures"]["scale up"]["Pods created a second"]["toEarlier"], 0.5);
}

#[test]
fn a_file_that_cannot_be_compared_is_refused_in_one_line() {
    let earlier = report(vec![(NONET, vec![run(0.5, 10_000_000)])]).json();
    let of_peer = report(vec![(PEER, vec![run(0.5, 10_000_000)])]).json();
    let mut of_other_setup = earlier.clone();
    of_other_setup["setup"]["pods"] = json!(5000);
    of_other_setup["setup"]["cluster"] = json!("envtest");
    for (text, expected) in [
        ("{\n".to_owned(), "not JSON"),
        ("[]".to_owned(), "not a result of this version of the bench"),
        (json!({"setup": setup(), "figures": {}}).to_string(), "not a result of this version of the bench"),
        (of_peer.to_string(), "without figures of Nonet"),
        (of_other_setup.to_string(), "another setup: cluster \"envtest\", now \"sandbox\"; pods 5000, now 100"),
    ] {
        let why = Baseline::parse(&text, &setup(), NONET).unwrap_err();
        assert!(why.contains(expected) && !why.contains('\n'), "{why}");
    }
    let why = Baseline::read("/nowhere/b.json".as_ref(), &setup(), NONET).unwrap_err();
    assert!(why.starts_with("/nowhere/b.json: cannot be read"), "{why}");
}

/// The run of a workload that measures each process by itself.
fn detailed(processes: &[&str], milliseconds: u64) -> Run {
    let mut run = run(1.0, 10_000_000);
    run.memory = processes.iter().map(|name| ((*name).to_owned(), run.memory["a"])).collect();
    for phase in &mut run.phases {
        let cpu = phase.cpu_seconds.values().copied().collect::<Vec<_>>();
        phase.cpu_seconds = processes.iter().map(|name| (*name).to_owned()).zip(cpu).collect();
        phase.details = Some(Details {
            requests: processes.iter().map(|name| ((*name).to_owned(), phase.requests.clone())).collect(),
            watch_bytes: processes.iter().map(|name| ((*name).to_owned(), 1_500_000)).collect(),
            bench_cpu_seconds: 2.0,
            ..Details::default()
        });
    }
    let reactions = Reactions::from([("a", vec![Duration::from_millis(milliseconds)])]);
    run.whole = Some(Whole { reactions: summary(&reactions), waits: NodeWaits::default() });
    run
}

#[test]
fn a_detailed_run_has_a_line_for_each_controller_and_ratios_of_the_sums() {
    let report = report(vec![(NONET, vec![detailed(&["a", "b"], 5)]), (PEER, vec![detailed(&[PEER], 20)])]);
    let table = report.table();
    let by_controller = table.split("Nonet, by controller").nth(1).unwrap();
    // Requests, MB watched, MB at most, MB at rest, MB idle, CPU: of both phases.
    assert_eq!(words(by_controller, "b ")[..6], ["300", "3.00", "20.0", "0.0", "10.0", "0.60"]);
    assert_eq!(words(by_controller, "all ")[..6], ["600", "6.00", "40.0", "0.0", "20.0", "0.80"]);
    assert!(!table.contains("kube-controller-manager, by controller"), "{table}");
    for (start, expected) in [
        ("a, p99", ["0.25", "20.0", "5.0"]),
        ("MB received by watches", ["2.00", "3.00", "6.00"]),
        ("CPU of the bench and its nodes, s", ["1.00", "4.00", "4.00"]),
        ("create pods", ["1.00", "200", "200"]),
    ] {
        assert_eq!(words(&table, start)[..3], expected, "{start}");
    }
    let json = report.json();
    assert_eq!(json["figures"]["by controller"]["all: requests"]["ratio"], 2.0);
    assert_eq!(json["subjects"][0]["runs"][0]["phases"][0]["details"]["requests"]["b"]["create pods"], 100);
    assert_eq!(json["subjects"][0]["runs"][0]["whole"]["reactions"]["a"]["p99"], 5.0);
}
