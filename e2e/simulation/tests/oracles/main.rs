//! Every oracle can turn red: with no controller at all, or with an impostor that writes what no controller may.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that panics fails")]

// Written by `cargo run -p e2e --bin generate`: modules.
mod cronjob;
mod daemonset;
mod deployment;
mod endpointslice;
mod gc;
mod job;
mod judge;
mod replicaset;
mod statefulset;
// End: modules.

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::{Value, json};
use simulation::{
    impostor::{Act, objections, violated},
    json::{name, uid},
    scenario::{Owner, What},
    scenarios::SUITES,
    world::World,
};

fn violations(suite: &str, acts: &[Act]) -> Vec<&'static str> {
    let suite = SUITES.iter().find(|known| known.name == suite).expect("the suite exists");
    violated(suite, acts).unwrap()
}

/// What an oracle of a suite says of these acts.
fn said(suite: &str, oracle: &str, acts: &[Act]) -> Vec<String> {
    let suite = SUITES.iter().find(|known| known.name == suite).expect("the suite exists");
    let all = objections(suite, acts).unwrap().into_iter();
    all.filter(|(name, _)| *name == oracle).map(|(_, what)| what).collect()
}

/// The sources with tests in which oracles turn red, besides those of this directory.
const OTHER_TESTS: [&str; 6] = [
    "tests/simulation.rs",
    "src/accounts.rs",
    "src/hub.rs",
    "src/scenarios/node_health_invariants.rs",
    "src/scenarios/node_lifecycle_invariants.rs",
    "src/scenarios/statefulset_invariants/tests.rs",
];

/// The text of every source with tests in which oracles turn red.
fn sources() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let here = fs::read_dir(root.join("tests/oracles")).unwrap().map(|entry| entry.unwrap().path());
    let here = here.filter(|path| !path.ends_with("main.rs"));
    here.chain(OTHER_TESTS.map(|path| root.join(path))).map(|path| fs::read_to_string(path).unwrap()).collect()
}

#[test]
fn every_oracle_has_a_test_that_names_it() {
    // Files that define oracles end with their tests.
    let sources = sources();
    let tests_of = |source| str::split_once(source, "mod tests {").map_or(source, |(_, tests)| tests);
    let tests: Vec<&str> = sources.iter().map(|source| tests_of(source)).collect();
    let is_named = |oracle: &&str| tests.iter().any(|tests| tests.contains(&format!("\"{oracle}\"")));
    let of_suites = SUITES.iter().flat_map(|suite| {
        let invariants = suite.invariants.iter().copied().flatten().map(|invariant| invariant.name);
        invariants.chain(suite.promises.iter().copied().flatten().map(|promise| promise.name))
    });
    let oracles = of_suites.chain(simulation::judge::ORACLES.iter().map(|oracle| oracle.name));
    let unnamed: BTreeSet<&str> = oracles.filter(|oracle| !is_named(oracle)).collect();
    assert_eq!(unnamed, BTreeSet::new());
}

/// The oracles of a suite.
#[derive(Clone, Copy)]
struct Oracles(&'static str);

impl Oracles {
    /// Asserts that an oracle is violated by the last of these acts in this world, and not by those before it.
    fn notice(&self, oracle: &str, world: &[Act], acts: &[Act]) {
        let acts = [world, acts].concat();
        let (_, earlier) = acts.split_last().expect("something is done");
        let before = violations(self.0, earlier);
        assert!(!before.contains(&oracle), "{oracle}: violated before: {before:?}");
        let after = violations(self.0, &acts);
        assert!(after.contains(&oracle), "{oracle}: {after:?}");
    }

    /// Asserts that the last of these acts in this world has an oracle say that, and that those before it do not.
    fn notice_that(&self, oracle: &str, words: &str, world: &[Act], acts: &[Act]) {
        let acts = [world, acts].concat();
        let (_, earlier) = acts.split_last().expect("something is done");
        let before = said(self.0, oracle, earlier);
        assert!(!before.iter().any(|what| what.contains(words)), "{oracle}: said before: {before:?}");
        let after = said(self.0, oracle, &acts);
        assert!(after.iter().any(|what| what.contains(words)), "{oracle}: nothing of {words:?}: {after:?}");
    }

    /// Asserts that these acts in this world do not violate an oracle.
    fn allow(&self, oracle: &str, world: &[Act], acts: &[Act]) {
        let found = violations(self.0, &[world, acts].concat());
        assert!(!found.contains(&oracle), "{oracle}: {found:?}");
    }
}

/// The author of an act.
#[derive(Clone, Copy)]
enum Actor {
    User,
    /// An impostor that writes under this controller's name.
    Impostor(&'static str),
}

impl Actor {
    fn acts(self, what: impl Fn(&World) -> What + 'static) -> Act {
        match self {
            Self::User => Act::user(what),
            Self::Impostor(controller) => Act::impostor(controller, what),
        }
    }

    fn creates(self, object: impl Fn(&World) -> Value + 'static) -> Act {
        self.acts(move |world| What::Create(object(world)))
    }

    fn patches(self, resource: &'static str, name: &'static str, patch: Value) -> Act {
        self.acts(move |_| What::merge(resource, name, patch.clone()))
    }

    fn patches_status(self, resource: &'static str, name: &'static str, status: Value) -> Act {
        let patch = json!({ "status": status });
        self.acts(move |_| What::MergeStatus(resource.to_owned(), name.to_owned(), patch.clone()))
    }

    fn deletes(self, resource: &'static str, name: &'static str) -> Act {
        self.deletes_with(resource, name, json!({}))
    }

    fn deletes_with(self, resource: &'static str, name: &'static str, options: Value) -> Act {
        self.acts(move |_| What::Delete(resource.to_owned(), name.to_owned(), options.clone()))
    }
}

/// Acts of a user that leave an object terminating, because a finalizer holds it.
fn terminating(resource: &'static str, name: &'static str) -> Vec<Act> {
    let held = json!({"metadata": {"finalizers": ["example.com/held"]}});
    vec![Actor::User.patches(resource, name, held), Actor::User.deletes(resource, name)]
}

/// The owner references of an object with this controller.
fn controlled_by(owner: &Value) -> Value {
    json!([{"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": name(owner), "uid": uid(owner),
        "controller": true, "blockOwnerDeletion": true}])
}

/// The owner references of an object with a controller of that kind which no test creates.
fn controlled_by_another(kind: &str) -> Value {
    json!([{"apiVersion": "apps/v1", "kind": kind, "name": "other", "uid": "6c3cbd2f-8c0f-4a8e-a4f6-5d3f0a0f0001",
        "controller": true}])
}

/// A Pod of the application `web`.
fn pod(name: &str, owner_references: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "web"}, "ownerReferences": owner_references},
        "spec": {"containers": [{"name": "c", "image": "img:1"}]}})
}

/// Replaces fields of an object's specification.
fn with_spec(mut object: Value, spec: &Value) -> Value {
    for (field, value) in spec.as_object().expect("fields") {
        object["spec"][field] = value.clone();
    }
    object
}
