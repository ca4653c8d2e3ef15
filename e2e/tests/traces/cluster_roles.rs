//! ClusterRoles that are aggregated.

use common::settings::OperatorSettings;
use e2e::sandbox::Sandbox;
use serde_json::{Value, json};

use super::{Step, recorded, signature::Signature};
use crate::world::World;

/// The rules of each role of the recording, in their order.
fn story(steps: &[Step]) -> Signature {
    let mut story = Signature::default();
    for step in steps.iter().filter(|step| step.name().starts_with("trace-")) {
        let state = if step.removed { json!("gone") } else { step.object["rules"].clone() };
        story.push(step.name(), state);
    }
    story
}

fn role(name: &str, rules: &[Value], more: &Value) -> Value {
    let mut role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": format!("trace-{name}")}, "rules": rules});
    role.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    role
}

fn labelled(name: &str, rules: &[Value]) -> Value {
    let metadata = json!({"name": format!("trace-{name}"), "labels": {"trace": name}});
    role(name, rules, &json!({ "metadata": metadata }))
}

fn rule(resource: &str, verbs: &[&str]) -> Value {
    json!({"apiGroups": [""], "resources": [resource], "verbs": verbs})
}

/// CLUSTERROLE-8, CLUSTERROLE-10, CLUSTERROLE-13.
#[tokio::test(start_paused = true)]
async fn the_rules_of_a_role_follow_those_that_it_selects() {
    let mut world = World::new("roles", "2026-11-30T12:01:36.2Z", Sandbox::builder()).await;
    world.start_loops("controllers", OperatorSettings::new(), clusterrole_controller::LOOPS);
    let create = async |role: Value| {
        world.sandbox.create(role).await.unwrap();
        world.pass(1).await;
    };
    let merge = async |name: &str, patch: Value| {
        world.sandbox.merge("clusterroles.rbac.authorization.k8s.io", None, name, None, patch).await.unwrap();
        world.pass(1).await;
    };
    let selectors = json!([{"matchLabels": {"trace": "view"}}, {"matchLabels": {"trace": "edit"}}]);
    let selectors = json!({"aggregationRule": {"clusterRoleSelectors": selectors}});
    create(labelled("edit", &[rule("secrets", &["get"]), rule("pods", &["get"])])).await;
    create(role("sum", &[rule("nodes", &["get"])], &selectors)).await;
    create(labelled("view", &[rule("pods", &["get"]), rule("services", &["get", "list"])])).await;
    merge("trace-sum", json!({"rules": [rule("nodes", &["get"])]})).await;
    merge("trace-view", json!({"metadata": {"labels": {"trace": "none"}}})).await;
    world.sandbox.delete("clusterroles.rbac.authorization.k8s.io", None, "trace-edit").await.unwrap();
    world.pass(2).await;
    let writes = world.sandbox.writes().all();
    let steps: Vec<Step> =
        writes.iter().filter(|write| write.resource == "clusterroles").map(|write| Step::written(write)).collect();
    let theirs = story(&recorded("clusterrole-aggregated"));
    assert_eq!(theirs.values("trace-sum").len(), 7);
    story(&steps).assert_same(&theirs);
}
