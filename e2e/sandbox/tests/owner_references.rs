//! The admission plugin `OwnerReferencesPermissionEnforcement`, through requests.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use common::clock::Clock;
use http::Method;
use sandbox::{Refused, Sandbox};
use serde_json::{Value, json};

const UNDELETABLE: &str = "cannot set an ownerRef on a resource you can't delete: , <nil>";
const UNFINALIZABLE: &str =
    "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>";

/// A sandbox with the plugin, on which `me` may do everything with ConfigMaps and Pods but delete them.
async fn world() -> Sandbox {
    let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap(), 7);
    let sandbox = Sandbox::builder().clock(clock).rbac(true).owner_references_permission_enforcement(true).build();
    grant(&sandbox, &[]).await;
    sandbox
}

/// Gives `me` more verbs, each with a resource of the core group.
async fn grant(sandbox: &Sandbox, more: &[(&str, &str)]) {
    let rule = |resource: &str, verbs: &[&str]| json!({"apiGroups": [""], "resources": [resource], "verbs": verbs});
    let mut rules: Vec<Value> = vec![
        rule("configmaps", &["get", "create", "update", "patch"]),
        rule("pods", &["get", "create", "update", "patch"]),
        rule("pods/status", &["patch"]),
    ];
    rules.extend(more.iter().map(|(resource, verb)| rule(resource, &[verb])));
    sandbox.grant("me", rules.into()).await.unwrap();
}

fn map(name: &str, references: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "ownerReferences": references}})
}

fn reference(kind: &str, uid: &str, blocks: bool) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "name": "owner", "uid": uid, "blockOwnerDeletion": blocks})
}

async fn own(sandbox: &Sandbox, name: &str, references: Value) -> Result<Value, Refused> {
    let patch = json!({"metadata": {"ownerReferences": references}});
    sandbox.acting_as("me").merge("configmaps", Some("default"), name, None, patch).await
}

/// The refusal's reason, behind the name of the object.
fn why(result: Result<Value, Refused>, object: &str) -> String {
    let refused = result.unwrap_err();
    assert_eq!((refused.code, &*refused.reason), (403, "Forbidden"), "{refused}");
    let start = format!("{object} is forbidden: ");
    refused.message.strip_prefix(&start).unwrap_or_else(|| panic!("{refused}")).to_owned()
}

#[tokio::test(start_paused = true)]
async fn only_users_that_may_delete_an_object_change_its_owners() {
    let sandbox = world().await;
    let me = sandbox.acting_as("me");
    let free = || json!([reference("Pod", "a", false)]);
    me.create(map("made", free())).await.unwrap();
    me.create(map("x", json!([]))).await.unwrap();
    assert_eq!(why(own(&sandbox, "x", free()).await, "configmaps \"x\""), UNDELETABLE);
    assert_eq!(why(own(&sandbox, "made", json!([])).await, "configmaps \"made\""), UNDELETABLE);
    // Writes that leave the references as they are need no right.
    own(&sandbox, "made", free()).await.unwrap();
    me.merge("configmaps", Some("default"), "made", None, json!({"data": {"a": "b"}})).await.unwrap();
    // PUT, server-side apply and dry runs are checked, too.
    let path = "/api/v1/namespaces/default/configmaps/x";
    let put = me.send(Method::PUT, path, "application/json", Some(&map("x", free()))).await;
    assert_eq!(why(put, "configmaps \"x\""), UNDELETABLE);
    let applied = me.apply(map("x", free())).await;
    assert_eq!(why(applied, "configmaps \"x\""), UNDELETABLE);
    let patch = json!({"metadata": {"ownerReferences": free()}});
    let dry = format!("{path}?dryRun=All");
    let dry = me.send(Method::PATCH, &dry, "application/merge-patch+json", Some(&patch)).await;
    assert_eq!(why(dry, "configmaps \"x\""), UNDELETABLE);
    grant(&sandbox, &[("configmaps", "delete")]).await;
    own(&sandbox, "x", free()).await.unwrap();
    own(&sandbox, "x", json!([])).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn only_users_that_may_set_the_finalizers_of_an_owner_block_its_deletion() {
    let sandbox = world().await;
    let me = sandbox.acting_as("me");
    let blocking = || json!([reference("Pod", "a", true)]);
    assert_eq!(why(me.create(map("x", blocking())).await, "configmaps \"x\""), UNFINALIZABLE);
    let mut generated = map("", blocking());
    generated["metadata"]["generateName"] = json!("x-");
    let refused = me.create(generated).await.unwrap_err();
    assert!(refused.message.starts_with("configmaps \"x-") && refused.message.ends_with(UNFINALIZABLE), "{refused}");
    // A change of references and a blocked owner need one right each.
    me.create(map("y", json!([reference("Pod", "a", false)]))).await.unwrap();
    grant(&sandbox, &[("pods/finalizers", "update")]).await;
    me.create(map("x", blocking())).await.unwrap();
    assert_eq!(why(own(&sandbox, "y", blocking()).await, "configmaps \"y\""), UNDELETABLE);
    grant(&sandbox, &[("configmaps", "delete")]).await;
    assert_eq!(why(own(&sandbox, "y", blocking()).await, "configmaps \"y\""), UNFINALIZABLE);
    // A reference that blocked before needs no right again.
    let kept = json!([reference("Pod", "a", true), reference("Pod", "b", false)]);
    own(&sandbox, "x", kept).await.unwrap();
    let service = json!([reference("Pod", "a", true), reference("Service", "b", true)]);
    assert_eq!(why(own(&sandbox, "x", service).await, "configmaps \"x\""), UNFINALIZABLE);
    grant(&sandbox, &[("configmaps", "delete"), ("pods/finalizers", "update")]).await;
    own(&sandbox, "y", blocking()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_owner_of_a_kind_that_is_not_served_cannot_be_blocked() {
    let sandbox = world().await;
    let me = sandbox.acting_as("me");
    let mut unknown = reference("Boat", "a", true);
    unknown["apiVersion"] = json!("example.com/v1");
    let expected = "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion example.com/v1 Kind Boat: no matches for kind \"Boat\" in version \"example.com/v1\"";
    assert_eq!(why(me.create(map("x", json!([unknown]))).await, "configmaps \"x\""), expected);
    // The kind of the owner is not looked up for a user that may set the finalizers of everything.
    let everything = json!([{"apiGroups": ["*"], "resources": ["*/finalizers"], "verbs": ["update"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}]);
    sandbox.grant("me", everything).await.unwrap();
    me.create(map("x", json!([unknown]))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn validation_and_conflicts_come_before_the_plugin() {
    let sandbox = world().await;
    let me = sandbox.acting_as("me");
    me.create(map("x", json!([]))).await.unwrap();
    let nameless = json!([{"apiVersion": "v1", "kind": "Pod", "name": "", "uid": "a"}]);
    let refused = own(&sandbox, "x", nameless).await.unwrap_err();
    assert_eq!(refused.code, 422, "what is invalid is not admitted to begin with: {refused}");
    let stale = json!({"metadata": {"resourceVersion": "1", "ownerReferences": [reference("Pod", "a", false)]}});
    let refused = me.merge("configmaps", Some("default"), "x", None, stale).await.unwrap_err();
    assert_eq!(refused.code, 409, "{refused}");
}

#[tokio::test(start_paused = true)]
async fn the_status_of_a_pod_is_exempt_and_keeps_its_owners() {
    let sandbox = world().await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    sandbox.create(pod).await.unwrap();
    let patch = json!({"metadata": {"ownerReferences": [reference("Service", "a", true)]}, "status": {"message": "m"}});
    let me = sandbox.acting_as("me");
    let written = me.merge("pods", Some("default"), "p", Some("status"), patch).await.unwrap();
    assert_eq!((&written["metadata"]["ownerReferences"], &written["status"]["message"]), (&Value::Null, &json!("m")));
}

#[tokio::test(start_paused = true)]
async fn users_ask_for_the_rights_of_their_requests_and_of_what_the_plugin_checks() {
    let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap(), 7);
    let sandbox = Sandbox::builder().clock(clock).record_rights(true).owner_references_permission_enforcement(true);
    let sandbox = sandbox.build();
    let mut known = Vec::new();
    let mut asked = || -> Vec<String> {
        let rights = sandbox.rights_asked_by("me");
        let new = rights.iter().map(ToString::to_string).filter(|right| !known.contains(right)).collect::<Vec<_>>();
        known.extend(new.clone());
        new
    };
    let mut set = reference("ReplicaSet", "a", true);
    set["apiVersion"] = json!("apps/v1");
    sandbox.acting_as("me").create(map("x", json!([set]))).await.unwrap();
    assert_eq!(asked(), ["create configmaps", "update replicasets.apps/finalizers"]);
    sandbox.acting_as("me").merge("configmaps", Some("default"), "x", None, json!({"data": {"a": "b"}})).await.unwrap();
    assert_eq!(asked(), ["patch configmaps"]);
    own(&sandbox, "x", json!([set, reference("Pod", "b", true)])).await.unwrap();
    assert_eq!(asked(), ["delete configmaps", "update pods/finalizers"]);
    own(&sandbox, "x", Value::Null).await.unwrap();
    assert_eq!(asked(), [""; 0]);
    assert!(sandbox.rights_asked_by("you").is_empty());
}
