//! The chart of known samples.

use std::collections::BTreeMap;

use super::*;
use crate::bench::{
    report::{Run, Setup},
    timeline::Timeline,
};

fn run(factor: f64) -> Run {
    let point =
        |second: u32| Point { at: f64::from(second), cores: f64::from(second % 5) * factor, resident: 50_000_000 };
    let points: Vec<Point> = (0..60).map(point).collect();
    let names = [CONTROLLERS, "kube-apiserver", NAME].map(str::to_owned);
    Run {
        phases: Vec::new(),
        memory: BTreeMap::new(),
        whole: None,
        timeline: Timeline {
            series: names.into_iter().map(|name| (name, points.clone())).collect(),
            phases: vec![("fill <all>", 5.0), ("day", 30.0)],
        },
    }
}

fn report(runs: Vec<(&'static str, Vec<Run>)>) -> Report {
    let setup = Setup {
        cluster: "envtest".to_owned(),
        workload: "cluster".to_owned(),
        controllers: Vec::new(),
        pods: 1000,
        nodes: 20,
        cores: 2,
        optimized: true,
    };
    let results = runs.into_iter().map(|(name, runs)| Results { name, runs }).collect();
    Report { setup, results, baseline: None }
}

/// The names of open elements after each tag; fails if one is closed that is not the innermost.
fn assert_well_formed(svg: &str) {
    let mut open = Vec::new();
    for part in svg.split('<').skip(1) {
        let (tag, text) = part.split_once('>').expect("a tag ends");
        assert!(!text.contains('>'), "{part}");
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
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
    let both = || report(vec![("Nonet", vec![run(0.1), run(9.0)]), ("kube-controller-manager", vec![run(0.4)])]);
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
    let other = report(vec![("Nonet", vec![run(0.2)]), ("kube-controller-manager", vec![run(0.4)])]);
    assert_ne!(svg, other.svg().unwrap());
}

#[test]
fn a_report_without_samples_has_empty_panels() {
    let mut empty = run(1.0);
    empty.timeline = Timeline::default();
    assert_well_formed(&report(vec![("Nonet", vec![empty])]).svg().unwrap());
    assert_well_formed(&report(Vec::new()).svg().unwrap());
}
