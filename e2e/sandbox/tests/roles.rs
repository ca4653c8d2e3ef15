//! Who may write which rules, and what an aggregated role grants.

#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use common::clock::Clock;
use sandbox::{Builder, Sandbox};
use serde_json::{Value, json};

const CLUSTER_ROLES: &str = "clusterroles.rbac.authorization.k8s.io";

fn builder() -> Builder {
    Sandbox::builder().clock(Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap(), 7)).rbac(true)
}

fn rule(group: &str, resource: &str, verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": [resource], "verbs": verbs})
}

fn on_roles(verbs: &[&str]) -> Value {
    rule("rbac.authorization.k8s.io", "clusterroles", verbs)
}

fn role(name: &str, rules: Value) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules})
}

fn aggregated(name: &str, label: &str) -> Value {
    let mut role = role(name, Value::Null);
    role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {label: "1"}}]});
    role
}

#[tokio::test(start_paused = true)]
async fn a_role_grants_no_more_than_its_writer_has() {
    let sandbox = builder().build();
    let me = sandbox.acting_as("me");
    let mine = [on_roles(&["create", "patch"]), rule("", "pods", &["get", "list"]), rule("apps", "*", &["*"])];
    sandbox.grant("me", json!(mine)).await.unwrap();
    me.create(role("mine", json!([rule("", "pods", &["list"]), rule("apps", "deployments/scale", &["get"])])))
        .await
        .unwrap();
    let more = json!([rule("", "pods", &["get", "delete", "watch"]), rule("", "nodes", &["get"]),
        {"apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"], "verbs": ["delete"]},
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]);
    let refused = me.create(role("more", more.clone())).await.unwrap_err();
    let missing = "is attempting to grant RBAC permissions not currently held:\n\
                   {APIGroups:[\"\"], Resources:[\"nodes\"], Verbs:[\"get\"]}\n\
                   {APIGroups:[\"\"], Resources:[\"pods\"], ResourceNames:[\"a\"], Verbs:[\"delete\"]}\n\
                   {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\" \"watch\"]}\n\
                   {NonResourceURLs:[\"/metrics\"], Verbs:[\"get\"]}";
    assert_eq!((refused.code, &*refused.reason), (403, "Forbidden"));
    assert_eq!(
        refused.message,
        format!("{CLUSTER_ROLES} \"more\" is forbidden: user \"me\" (groups=[\"system:authenticated\"]) {missing}")
    );
    let change = async |patch: Value| me.merge(CLUSTER_ROLES, None, "mine", None, patch).await;
    assert_eq!(change(json!({"rules": more.clone()})).await.unwrap_err().code, 403);
    change(json!({"rules": [rule("", "pods", &["get"])]})).await.unwrap();
    // The garbage collector writes owners and finalizers of any role.
    sandbox.create(role("strong", more.clone())).await.unwrap();
    let finalize =
        |name: &'static str| me.merge(CLUSTER_ROLES, None, name, None, json!({"metadata": {"finalizers": ["a/b"]}}));
    finalize("strong").await.unwrap();
    let label = me.merge(CLUSTER_ROLES, None, "strong", None, json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(label.unwrap_err().code, 403);
    sandbox.grant("me", json!([on_roles(&["create", "patch", "escalate"])])).await.unwrap();
    me.create(role("more", more)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_aggregated_role_needs_every_right_of_its_writer() {
    let sandbox = builder().build();
    let me = sandbox.acting_as("me");
    sandbox.grant("me", json!([rule("*", "*", &["*"])])).await.unwrap();
    sandbox.create(aggregated("view", "views")).await.unwrap();
    // The verb `*` includes `escalate`.
    me.create(aggregated("mine", "any")).await.unwrap();
    sandbox.grant("me", json!([on_roles(&["create", "patch"])])).await.unwrap();
    for refused in [
        me.create(aggregated("other", "any")).await.unwrap_err(),
        me.merge(CLUSTER_ROLES, None, "view", None, json!({"aggregationRule": null})).await.unwrap_err(),
    ] {
        assert!(
            refused.message.ends_with("must have cluster-admin privileges to use the aggregationRule"),
            "{refused}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_aggregated_role_grants_what_it_selects_unless_a_controller_fills_it() {
    for (server, reads) in [(builder(), true), (builder().without_rule_aggregation(), false)] {
        let sandbox = server.build();
        let mut pods = role("pods", json!([rule("", "pods", &["list"])]));
        pods["metadata"]["labels"] = json!({"views": "1"});
        sandbox.create(pods).await.unwrap();
        sandbox.create(aggregated("view", "views")).await.unwrap();
        let subjects = json!([{"kind": "User", "name": "me", "apiGroup": "rbac.authorization.k8s.io"}]);
        let mut binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "me"}, "subjects": subjects});
        binding["roleRef"] = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"});
        sandbox.create(binding).await.unwrap();
        let me = sandbox.acting_as("me");
        assert_eq!(me.list("pods", Some("default")).await.is_ok(), reads);
        let filled = json!({"rules": [rule("", "pods", &["list"])]});
        sandbox.merge(CLUSTER_ROLES, None, "view", None, filled).await.unwrap();
        me.list("pods", Some("default")).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_apply_creates_only_with_the_right_to_create_and_without_a_uid() {
    let sandbox = builder().build();
    let me = sandbox.acting_as("me");
    let map = |uid: Value| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "x", "namespace": "default", "uid": uid}})
    };
    sandbox.grant("me", json!([rule("", "configmaps", &["patch"])])).await.unwrap();
    let refused = me.apply(map(Value::Null)).await.unwrap_err();
    assert!(refused.message.contains("\"me\" cannot create resource \"configmaps\""), "{refused}");
    sandbox.grant("me", json!([rule("", "configmaps", &["patch", "create"])])).await.unwrap();
    let refused = me.apply(map(json!("gone"))).await.unwrap_err();
    let why = "uid mismatch: the provided object specified uid gone, and no existing object was found";
    assert_eq!(refused.message, format!("Operation cannot be fulfilled on configmaps \"x\": {why}"));
    me.apply(map(Value::Null)).await.unwrap();
}
