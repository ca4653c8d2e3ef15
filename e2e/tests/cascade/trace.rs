//! A recorded run of upstream's collector: three Deployments, each deleted in another way.

use std::collections::BTreeMap;

use sandbox::Change;
use serde_json::Value;

use super::World;

/// What an object went through as far as its deletion goes, and which objects ended in which order. The random ends of the
/// names of Pods are left out, so objects that differ in nothing else are told as often as there are of them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Story {
    states: BTreeMap<String, Vec<Vec<String>>>,
    ended: Vec<String>,
}

#[derive(Default)]
struct Teller {
    states: BTreeMap<String, Vec<String>>,
    ended: Vec<String>,
}

fn family(resource: &str, name: &str) -> String {
    let name = if resource == "pods" { name.rsplit_once('-').map_or(name, |(family, _)| family) } else { name };
    format!("{resource} {name}")
}

impl Teller {
    fn step(&mut self, resource: &str, object: &Value, removed: bool) {
        if !["deployments", "replicasets", "pods"].contains(&resource) {
            return;
        }
        let meta = &object["metadata"];
        let name = meta["name"].as_str().unwrap();
        let mut owners = meta["ownerReferences"].clone();
        for owner in owners.as_array_mut().into_iter().flatten() {
            owner.as_object_mut().unwrap().remove("uid");
        }
        let going = !meta["deletionTimestamp"].is_null();
        let state = format!("going: {going}, finalizers: {}, owners: {owners}", meta["finalizers"]);
        let states = self.states.entry(format!("{resource}/{name}")).or_default();
        if !removed && states.last() != Some(&state) {
            states.push(state);
        }
        if removed {
            states.push("gone".to_owned());
            let family = family(resource, name);
            if self.ended.last() != Some(&family) {
                self.ended.push(family);
            }
        }
    }

    fn end(self) -> Story {
        let mut story = Story { ended: self.ended, ..Story::default() };
        for (object, states) in self.states {
            let (resource, name) = object.split_once('/').unwrap();
            story.states.entry(family(resource, name)).or_default().push(states);
        }
        story.states.values_mut().for_each(|all| all.sort());
        story
    }
}

fn recorded() -> Story {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/goldens/traces/gc-propagation.jsonl");
    let mut teller = Teller::default();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        teller.step(line["kind"].as_str().unwrap(), &line["object"], line["type"] == "DELETED");
    }
    teller.end()
}

#[tokio::test(start_paused = true)]
async fn deployments_deleted_in_each_way_go_as_upstream_lets_them_go() {
    let w = World::new(&["a", "b", "c"]).await;
    w.delete("a", "Background").await;
    w.delete("b", "Foreground").await;
    w.delete("c", "Orphan").await;
    let mut teller = Teller::default();
    for write in w.sandbox.writes().all() {
        let object = write.after().or_else(|| write.before());
        teller.step(&write.resource, &object.unwrap(), write.change == Change::Deleted);
    }
    let (expected, mut told) = (recorded(), teller.end());
    // Names end in a hash of the template, which the recording's user wrote otherwise.
    told.states = told.states.into_iter().map(|(name, states)| (unhashed(&name), unhashed_all(states))).collect();
    told.ended = told.ended.iter().map(|name| unhashed(name)).collect();
    let states = expected.states.into_iter().map(|(name, states)| (unhashed(&name), unhashed_all(states))).collect();
    let ended = expected.ended.iter().map(|name| unhashed(name)).collect();
    assert_eq!(told, Story { states, ended });
}

/// Names of ReplicaSets without their hash: what is between quotes or spaces and has the form `a-hash`.
fn unhashed(text: &str) -> String {
    let mut out = String::new();
    for word in text.split_inclusive(['"', ' ']) {
        let (body, end) = word.strip_suffix(['"', ' ']).map_or((word, ""), |body| (body, &word[body.len()..]));
        match body.split_once('-') {
            Some((name, hash)) if ["a", "b", "c"].contains(&name) && hash.len() >= 8 => out.push_str(name),
            _ => out.push_str(body),
        }
        out.push_str(end);
    }
    out
}

fn unhashed_all(all: Vec<Vec<String>>) -> Vec<Vec<String>> {
    all.into_iter().map(|states| states.iter().map(|state| unhashed(state)).collect()).collect()
}
