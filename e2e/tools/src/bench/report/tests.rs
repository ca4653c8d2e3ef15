//! Results of two subjects as a table, as JSON, as a chart, and compared with earlier ones.

use super::*;
use crate::bench::{
    NAME,
    subject::{NONET, PEER},
    timeline::{CONTROLLERS, Point},
};

/// A run of these processes: two phases that take the given seconds, with reactions after as many milliseconds as `reaction` says.
fn run_of(processes: &[&str], seconds: f64, idle: u64, reaction: u64) -> Run {
    let costs = |n: u32| Counters {
        cpu_seconds: 0.1 + 0.2 * f64::from(n),
        context_switches: 200,
        received_bytes: 2_000_000,
        answered_bytes: 500_000,
        requests: BTreeMap::from([("create pods".to_owned(), 50), ("list pods".to_owned(), 25)]),
    };
    let phase = Phase {
        name: "scale up",
        pods: 100,
        seconds: vec![("created", seconds)],
        controllers: processes.iter().zip(0..).map(|(name, n)| ((*name).to_owned(), costs(n))).collect(),
        other_cpu_seconds: BTreeMap::from([("kube-apiserver".to_owned(), 2.0 * seconds), (NAME.to_owned(), 2.0)]),
        ..Phase::default()
    };
    let restart = Phase { name: "restart", pods: 1, seconds: vec![("first Pod created", seconds)], ..phase.clone() };
    let memory = Memory { idle, idle_share: idle / 2, filled: idle + 100_000, rest: 0, peak: idle * 2, after: idle };
    let point =
        |second: u32| Point { at: f64::from(second), cores: f64::from(second % 5) * seconds, resident: 50_000_000 };
    let series = [CONTROLLERS, "kube-apiserver", NAME].map(|name| (name.to_owned(), (0..60).map(point).collect()));
    Run {
        phases: vec![phase, restart],
        memory: processes.iter().map(|name| ((*name).to_owned(), memory)).collect(),
        reactions: summary(&BTreeMap::from([("a", (1..=reaction).map(Duration::from_millis).collect())])),
        waits: Waits::default(),
        timeline: Timeline { series: series.into(), phases: vec![("fill <all>", 5.0), ("day", 30.0)] },
    }
}

fn run(seconds: f64) -> Run {
    run_of(&["a", "b"], seconds, 10_000_000, 200)
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
    let report = report(vec![(NONET, vec![run(0.5)]), (PEER, vec![run_of(&[PEER], 1.0, 40_000_000, 20)])]);
    let table = report.table();
    for (start, expected) in [
        ("Pods created a second", ["2.00", "100", "200"]),
        ("CPU, ms a Pod", ["4.00", "1.000", "4.000"]),
        ("CPU of kube-apiserver, ms a Pod", ["0.50", "20.000", "10.000"]),
        ("context switches a Pod", ["2.00", "2.00", "4.00"]),
        ("requests a Pod  ", ["2.00", "0.750", "1.500"]),
        ("requests a Pod: create", ["2.00", "0.500", "1.000"]),
        ("kB received by watches a Pod", ["2.00", "15.0", "30.0"]),
        ("requests a Pod: list", ["2.00", "0.250", "0.500"]),
        ("seconds until first Pod created", ["0.50", "1.00", "0.50"]),
        ("MB idle", ["0.50", "40.0", "20.0"]),
        ("MB idle, shared pages once", ["0.50", "20.0", "10.0"]),
        ("bytes a cached Pod", ["2.00", "1000", "2000"]),
        ("a, median", ["10.00", "10.0", "100.0"]),
        ("a, p99", ["10.42", "19.0", "198.0"]),
        ("CPU of the bench and its nodes, s", ["1.00", "4.00", "4.00"]),
        ("create pods", ["2.00", "100", "200"]),
        ("CPU of the controllers, s", ["4.00", "0.20", "0.80"]),
        ("CPU of all of these, s", ["0.67", "4.20", "2.80"]),
        ("MB received by watches", ["2.00", "3.00", "6.00"]),
        ("requests of the controllers", ["2.00", "150", "300"]),
    ] {
        assert_eq!(words(&table, start)[..3], expected, "{start}: {table}");
    }
    let whole = table.split("whole workload").nth(1).unwrap();
    assert_eq!(words(whole, "CPU of kube-apiserver, s")[..3], ["0.50", "4.00", "2.00"]);
    let by_controller = table.split("Nonet, by controller").nth(1).unwrap();
    // Requests, MB watched, MB at most, MB cached, MB idle, CPU: of both phases.
    assert_eq!(words(by_controller, "b ")[..6], ["150", "3.00", "20.0", "10.1", "10.0", "0.60"]);
    assert_eq!(words(by_controller, "all ")[..6], ["300", "6.00", "40.0", "20.2", "20.0", "0.80"]);
    assert!(!table.contains("kube-controller-manager, by controller"), "{table}");
    let json = report.json();
    assert_eq!(json["figures"]["scale up"]["Pods created a second"]["ratio"], 2.0);
    assert_eq!(json["figures"]["memory"]["bytes a cached Pod"][PEER]["median"], 1000.0);
    assert_eq!(json["figures"]["by controller"]["all: requests"]["ratio"], 2.0);
    let run = &json["subjects"][0]["runs"][0];
    assert_eq!(run["phases"][0]["controllers"]["b"]["requests"]["create pods"], 50);
    assert_eq!(run["reactions"]["a"]["p99"], 198.0);
}

#[test]
fn several_runs_are_shown_by_their_median_and_spread() {
    let runs = |seconds: &[f64]| seconds.iter().map(|seconds| run(*seconds)).collect::<Vec<_>>();
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
fn one_subject_has_no_ratio_and_one_run_no_spread() {
    let table = report(vec![(NONET, vec![run(0.5)])]).table();
    assert!(!table.contains("ratio") && !table.contains("..") && !table.contains("earlier"), "{table}");
    assert_eq!(words(&table, "Pods created a second")[0], "200");
}

#[test]
fn an_earlier_result_adds_a_column_with_its_ratio() {
    let earlier = report(vec![(NONET, vec![run(0.5)])]).json().to_string();
    let mut now = report(vec![(NONET, vec![run(1.0)]), (PEER, vec![run(1.0)])]);
    let costs = now.results[0].runs[0].phases[0].controllers.get_mut("a").unwrap();
    costs.requests.insert("watch pods".to_owned(), 1);
    now.baseline = Some(("earlier.json".into(), Baseline::parse(&earlier, &setup(), NONET).unwrap()));
    let table = now.table();
    assert!(table.contains("to earlier: Nonet now / Nonet in earlier.json"), "{table}");
    assert_eq!(words(&table, "Pods created a second")[..2], ["0.50", "1.00"]);
    assert_eq!(words(&table, "requests a Pod: watch")[..2], ["-", "-"]);
    assert_eq!(now.json()["figures"]["scale up"]["Pods created a second"]["toEarlier"], 0.5);
}

#[test]
fn a_file_that_cannot_be_compared_is_refused_in_one_line() {
    let earlier = report(vec![(NONET, vec![run(0.5)])]).json();
    let of_peer = report(vec![(PEER, vec![run(0.5)])]).json();
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

/// Fails if an element is closed that is not the innermost open one.
fn assert_well_formed(svg: &str) {
    let mut open = Vec::new();
    for part in svg.split('<').skip(1) {
        let (tag, text) = part.split_once('>').expect("a tag ends");
        assert!(!text.contains('>') && tag.matches('"').count().is_multiple_of(2), "{part}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "{part}");
        } else if !tag.ends_with('/') && !tag.starts_with('?') {
            open.push(tag.split_whitespace().next().unwrap());
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn the_chart_is_well_formed_and_the_same_for_the_same_samples() {
    let both = || report(vec![(NONET, vec![run(0.1), run(9.0)]), (PEER, vec![run(0.4)])]);
    let svg = both().svg().unwrap();
    assert_well_formed(&svg);
    assert_eq!(svg, both().svg().unwrap());
    for text in
        ["Nonet", "kube-apiserver (kube-controller-manager)", "fill &lt;all&gt;", "Memory of the controllers, MB"]
    {
        assert!(svg.contains(text), "{text}: {svg}");
    }
    // The bench is shown only where it holds the API server; the second run is not shown.
    assert!(!svg.contains("nodes and bench"), "{svg}");
    let other = report(vec![(NONET, vec![run(0.2)]), (PEER, vec![run(0.4)])]);
    assert_ne!(svg, other.svg().unwrap());
}

#[test]
fn a_report_without_samples_has_empty_panels() {
    assert_well_formed(&report(vec![(NONET, vec![Run::default()])]).svg().unwrap());
    assert_well_formed(&report(Vec::new()).svg().unwrap());
}
