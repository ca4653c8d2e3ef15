//! Writes that the sandbox refuses, and rows that are too long for a text.

use std::sync::Arc;

use serde_json::{Value, json};
use simulation::world::Logged;

use super::{Act, failures_of, notation, play, suite};

/// What an invariant of DaemonSets says of the last write of these acts with other states of its object.
fn says_of_fabricated(oracle: &str, acts: &str, change: fn(&mut Value)) -> Option<String> {
    let (suite, notation) = (suite("daemonset"), notation(include_str!("daemonset.txt")));
    let invariant = suite.invariants.iter().copied().flatten().find(|known| known.name == oracle).unwrap();
    let mut world = play(suite, &Act::read(&notation, acts).unwrap()).unwrap().world;
    let last = world.log().iter().rfind(|logged| logged.by("daemonset-controller")).unwrap();
    let before = Value::clone(&last.after().unwrap());
    let mut after = before.clone();
    change(&mut after);
    let fabricated = Logged { at: last.at, write: Arc::new(last.write.with_states(before, after)) };
    world.apply(fabricated.clone());
    (invariant.check)(&world, &fabricated)
}

#[test]
fn writes_that_no_server_allows_are_noticed() {
    let (oracle, acts) = ("revisions-are-templates", "set({}); stores(a, 1)");
    assert_eq!(says_of_fabricated(oracle, acts, |_| ()), None);
    let said = says_of_fabricated(oracle, acts, |revision| {
        revision["data"]["spec"]["template"]["spec"]["hostNetwork"] = json!(true);
    });
    assert_eq!(said.as_deref(), Some("the data of revision agent-a was changed"));
    let (oracle, acts) = ("daemon-statuses-make-sense", "set({}); says({collisionCount: 2})");
    assert_eq!(says_of_fabricated(oracle, acts, |_| ()), None);
    let said = says_of_fabricated(oracle, acts, |set| set["status"]["collisionCount"] = json!(1));
    assert_eq!(said.as_deref(), Some("collisionCount of agent goes from 2 to 1"));
}

#[test]
fn a_status_that_names_more_than_500_pods_is_noticed() {
    let names = |count: usize| {
        let uids: Vec<String> = (0..count).map(|uid| format!("u{uid}")).collect();
        format!("says({{uncountedTerminatedPods: {{succeeded: [{}]}}}})", uids.join(", "))
    };
    let oracle = "lists-are-sound";
    let row = format!("suite job\noracle {oracle}\n  notice job({{}}); {}; {}\n", names(500), names(501));
    let definitions = include_str!("job.txt").split_once("\nsuite job\n").unwrap().0;
    assert_eq!(failures_of(&format!("{definitions}\n{row}")), Vec::<String>::new());
}
