//! The oracles of the garbage collector: ConfigMap `root` owns Secret `leaf`.

use super::{
    Actor::{Impostor, User},
    *,
};

const ORACLES: Oracles = Oracles("gc");
const CONTROLLER: Actor = Impostor("gc-controller");
const MAPS: &str = "configmaps";
const SECRETS: &str = "secrets";

fn object(kind: &'static str, name: &'static str, metadata: Value) -> Act {
    User.creates(move |_| {
        let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": metadata});
        object["metadata"]["name"] = json!(name);
        object
    })
}

fn owned(owners: &[&'static str]) -> Act {
    let owner = |name: &&'static str| Owner { resource: MAPS, name, blocked: true };
    let owners: Vec<Owner> = owners.iter().map(owner).collect();
    User.acts(move |_| What::Own(SECRETS.to_owned(), "leaf".to_owned(), owners.clone()))
}

fn family() -> Vec<Act> {
    let objects = [("ConfigMap", "root"), ("ConfigMap", "other"), ("Secret", "leaf")];
    objects.map(|(kind, name)| object(kind, name, json!({}))).into_iter().chain([owned(&["root"])]).collect()
}

fn user_deletes_root(propagation: &str) -> Act {
    User.deletes_with(MAPS, "root", json!({ "propagationPolicy": propagation }))
}

fn finalizers(finalizers: Value) -> Act {
    CONTROLLER.patches(MAPS, "root", json!({"metadata": {"finalizers": finalizers}}))
}

fn disowns() -> Act {
    CONTROLLER.patches(SECRETS, "leaf", json!({"metadata": {"ownerReferences": null}}))
}

fn deletes_leaf() -> Act {
    CONTROLLER.deletes(SECRETS, "leaf")
}

#[test]
fn objects_that_are_deleted_and_have_an_owner_or_need_none_are_noticed() {
    let oracle = "owners-keep-the-owned";
    ORACLES.notice(oracle, &family(), &[deletes_leaf()]);
    ORACLES.notice(oracle, &[object("Secret", "leaf", json!({}))], &[deletes_leaf()]);
    let unknown = json!({"ownerReferences": [{"apiVersion": "example.com/v1", "kind": "Nothing", "name": "root",
        "uid": "6c3cbd2f-8c0f-4a8e-a4f6-5d3f0a0f0001"}]});
    ORACLES.notice(oracle, &[object("Secret", "leaf", unknown)], &[deletes_leaf()]);
    ORACLES.allow(oracle, &family(), &[user_deletes_root("Background"), deletes_leaf()]);
    ORACLES.allow(oracle, &family(), &[user_deletes_root("Foreground"), deletes_leaf()]);
}

#[test]
fn owners_that_go_before_their_dependents_are_noticed() {
    for (oracle, propagation, frees) in
        [("the-blocked-go-last", "Foreground", deletes_leaf()), ("orphans-are-released-first", "Orphan", disowns())]
    {
        let world = [family(), vec![user_deletes_root(propagation)]].concat();
        ORACLES.notice(oracle, &world, &[finalizers(json!(null))]);
        ORACLES.allow(oracle, &world, &[frees, finalizers(json!(null))]);
    }
}

#[test]
fn finalizers_of_others_and_of_objects_that_are_not_deleted_are_noticed() {
    let oracle = "other-finalizers-stay";
    let held = |finalizers: Value| object("ConfigMap", "root", json!({ "finalizers": finalizers }));
    ORACLES.notice(oracle, &[held(json!(["example.com/held"]))], &[finalizers(json!(null))]);
    ORACLES.notice(oracle, &[held(json!(["orphan"]))], &[finalizers(json!(null))]);
    ORACLES.allow(oracle, &[held(json!(["orphan"]))], &[User.deletes(MAPS, "root"), finalizers(json!(null))]);
}

#[test]
fn references_that_are_lost_or_made_up_are_noticed() {
    let oracle = "right-references-stay";
    ORACLES.notice(oracle, &family(), &[disowns()]);
    ORACLES.allow(oracle, &family(), &[user_deletes_root("Orphan"), disowns()]);
    let adds = CONTROLLER.acts(|world| {
        let root = world.get(MAPS, "default", "root").unwrap();
        What::merge(SECRETS, "leaf", json!({"metadata": {"ownerReferences": controlled_by(root)}}))
    });
    ORACLES.notice(oracle, &[family(), vec![owned(&[])]].concat(), &[adds]);
}

#[test]
fn a_deleted_event_is_noticed() {
    let event = User.creates(|_| {
        json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "seen"},
            "involvedObject": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": "root"}})
    });
    ORACLES.notice("events-are-not-its-business", &[event], &[CONTROLLER.deletes("events", "seen")]);
}

#[test]
fn a_collector_that_does_nothing_leaves_something() {
    for propagation in ["Background", "Foreground", "Orphan"] {
        ORACLES.notice("nothing-is-left", &family(), &[user_deletes_root(propagation)]);
    }
    let world = [family(), vec![owned(&["root", "other"])]].concat();
    ORACLES.notice("nothing-is-left", &world, &[user_deletes_root("Background")]);
    ORACLES.allow("nothing-is-left", &family(), &[user_deletes_root("Background"), deletes_leaf()]);
}
