//! What clusterrole-controller promises for ClusterRoles, on any cluster.
//!
//! ClusterRoles have no namespace, so their names begin with the namespace of the scene.

use testkit::scene::prelude::*;

suite! {
    Suite::new("clusterrole")
        .controller(&clusterrole_controller::DEFINITION, &[])
        .sandbox(sandbox::Builder::without_rule_aggregation);
    EVERYWHERE.sample() => an_aggregated_role_grants_what_it_selects;
    EVERYWHERE =>
        rules_follow_the_selected_roles a_chain_of_roles_follows_its_end foreign_rules_are_removed
        a_role_at_rest_is_left_alone a_role_that_is_no_longer_aggregated_keeps_its_rules the_default_roles_are_filled;
    SIMULATED => roles_that_select_each_other_lose_the_rules_of_a_deleted_role a_recreated_role_is_filled_again;
}

/// Returns the label by which the role `by` of the scene selects.
fn label(c: &Context, by: &str) -> String {
    format!("{}/to-{by}", c.namespace())
}

/// Returns a role of the scene that the roles `selected_by` select, with a rule to get each of these resources.
fn plain(c: &Context, name: &str, selected_by: &[&str], resources: &[&str]) -> Value {
    let labels: serde_json::Map<String, Value> = selected_by.iter().map(|by| (label(c, by), json!("1"))).collect();
    let rule = |resource: &&str| json!({"apiGroups": ["example.com"], "resources": [resource], "verbs": ["get"]});
    let rules: Vec<Value> = resources.iter().map(rule).collect();
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": role(c, name), "labels": labels}, "rules": rules})
}

/// Returns a role of the scene that selects, and that the roles `selected_by` select.
fn aggregated(c: &Context, name: &str, selected_by: &[&str]) -> Value {
    let mut role = plain(c, name, selected_by, &[]);
    role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {label(c, name): "1"}}]});
    role
}

fn role(c: &Context, name: &str) -> String {
    format!("{}-{name}", c.namespace())
}

fn resources_of(role: &Value) -> Vec<&str> {
    let rules = role["rules"].as_array().into_iter().flatten();
    rules.map(|rule| rule["resources"][0].as_str().unwrap_or_default()).collect()
}

/// Waits until the rules of a role of the scene are about these resources.
async fn until_rules(c: &Context, name: &str, resources: &[&str]) -> Result<Value, Failure> {
    let what = format!("ClusterRole {name} to have rules for {resources:?}");
    c.until_object(CLUSTER_ROLES, &role(c, name), &what, |role| resources_of(role) == resources).await
}

/// CLUSTERROLE-8, CLUSTERROLE-10, CLUSTERROLE-19, CLUSTERROLE-21.
async fn an_aggregated_role_grants_what_it_selects(c: Context) -> Outcome {
    c.create(CLUSTER_ROLES, plain(&c, "b", &["view"], &["apples", "pears"])).await?;
    c.create(CLUSTER_ROLES, plain(&c, "a", &["view"], &["plums", "apples"])).await?;
    c.create(CLUSTER_ROLES, plain(&c, "c", &[], &["nuts"])).await?;
    let mut view = aggregated(&c, "view", &[]);
    view["metadata"]["annotations"] = json!({"note": "kept"});
    c.create(CLUSTER_ROLES, view).await?;
    let filled = until_rules(&c, "view", &["plums", "apples", "pears"]).await?;
    assert_eq!(filled["metadata"]["annotations"]["note"], "kept");
    assert!(filled["aggregationRule"].is_object());
    let managers = filled["metadata"]["managedFields"].as_array().unwrap();
    let owner = managers.iter().find(|entry| entry["fieldsV1"].get("f:rules").is_some()).unwrap();
    assert_eq!((text(owner, "manager"), text(owner, "operation")), ("clusterrole-aggregation-controller", "Apply"));
    Ok(())
}

/// CLUSTERROLE-3, CLUSTERROLE-22.
async fn rules_follow_the_selected_roles(c: Context) -> Outcome {
    c.create(CLUSTER_ROLES, aggregated(&c, "view", &[])).await?;
    c.create(CLUSTER_ROLES, plain(&c, "a", &["view"], &["apples"])).await?;
    until_rules(&c, "view", &["apples"]).await?;
    c.merge(CLUSTER_ROLES, &role(&c, "a"), json!({"rules": plain(&c, "a", &[], &["pears"])["rules"]})).await?;
    until_rules(&c, "view", &["pears"]).await?;
    c.create(CLUSTER_ROLES, plain(&c, "b", &["view"], &["plums"])).await?;
    until_rules(&c, "view", &["pears", "plums"]).await?;
    c.merge(CLUSTER_ROLES, &role(&c, "a"), json!({"metadata": {"labels": {label(&c, "view"): null}}})).await?;
    until_rules(&c, "view", &["plums"]).await?;
    c.delete(CLUSTER_ROLES, &role(&c, "b"), "Background").await?;
    until_rules(&c, "view", &[]).await.map(drop)
}

/// CLUSTERROLE-12.
async fn a_chain_of_roles_follows_its_end(c: Context) -> Outcome {
    for (name, selected_by) in [("admin", &[][..]), ("edit", &["admin"]), ("view", &["edit"])] {
        c.create(CLUSTER_ROLES, aggregated(&c, name, selected_by)).await?;
    }
    c.create(CLUSTER_ROLES, plain(&c, "a", &["view"], &["apples"])).await?;
    for name in ["admin", "edit", "view"] {
        until_rules(&c, name, &["apples"]).await?;
    }
    c.delete(CLUSTER_ROLES, &role(&c, "a"), "Background").await?;
    for name in ["admin", "edit", "view"] {
        until_rules(&c, name, &[]).await?;
    }
    Ok(())
}

/// CLUSTERROLE-14, CLUSTERROLE-25.
async fn foreign_rules_are_removed(c: Context) -> Outcome {
    c.create(CLUSTER_ROLES, aggregated(&c, "view", &[])).await?;
    c.create(CLUSTER_ROLES, plain(&c, "a", &["view"], &["apples"])).await?;
    until_rules(&c, "view", &["apples"]).await?;
    let foreign = plain(&c, "view", &[], &["secrets", "apples"])["rules"].clone();
    c.merge(CLUSTER_ROLES, &role(&c, "view"), json!({"rules": foreign, "metadata": {"labels": {"l": "1"}}})).await?;
    let role = until_rules(&c, "view", &["apples"]).await?;
    c.check(role["metadata"]["labels"]["l"] == "1", "the label stays").await
}

/// CLUSTERROLE-18.
async fn a_role_at_rest_is_left_alone(c: Context) -> Outcome {
    c.create(CLUSTER_ROLES, aggregated(&c, "view", &[])).await?;
    c.create(CLUSTER_ROLES, plain(&c, "a", &["view"], &["apples"])).await?;
    let settled = until_rules(&c, "view", &["apples"]).await?;
    // Events of another role do not change the union.
    c.create(CLUSTER_ROLES, plain(&c, "b", &[], &["pears"])).await?;
    c.merge(CLUSTER_ROLES, &role(&c, "a"), json!({"metadata": {"labels": {"l": "1"}}})).await?;
    c.sleep(Duration::from_secs(3)).await;
    let version = |role: &Value| role["metadata"]["resourceVersion"].clone();
    let now = c.get(CLUSTER_ROLES, &role(&c, "view")).await?;
    c.check(version(&now) == version(&settled), "the role is not written").await
}

/// CLUSTERROLE-7.
async fn a_role_that_is_no_longer_aggregated_keeps_its_rules(c: Context) -> Outcome {
    c.create(CLUSTER_ROLES, aggregated(&c, "view", &[])).await?;
    c.create(CLUSTER_ROLES, aggregated(&c, "busy", &[])).await?;
    c.create(CLUSTER_ROLES, plain(&c, "a", &["view", "busy"], &["apples"])).await?;
    until_rules(&c, "view", &["apples"]).await?;
    c.merge(CLUSTER_ROLES, &role(&c, "view"), json!({"aggregationRule": null})).await?;
    c.delete(CLUSTER_ROLES, &role(&c, "a"), "Background").await?;
    // The controller is at work.
    until_rules(&c, "busy", &[]).await?;
    until_rules(&c, "view", &["apples"]).await.map(drop)
}

/// CLUSTERROLE-16.
async fn roles_that_select_each_other_lose_the_rules_of_a_deleted_role(c: Context) -> Outcome {
    c.create(CLUSTER_ROLES, aggregated(&c, "one", &["two"])).await?;
    c.create(CLUSTER_ROLES, aggregated(&c, "two", &["one"])).await?;
    c.create(CLUSTER_ROLES, plain(&c, "a", &["one"], &["apples"])).await?;
    c.create(CLUSTER_ROLES, plain(&c, "b", &["two"], &["pears"])).await?;
    until_rules(&c, "one", &["apples", "pears"]).await?;
    until_rules(&c, "two", &["pears", "apples"]).await?;
    c.delete(CLUSTER_ROLES, &role(&c, "a"), "Background").await?;
    for name in ["one", "two"] {
        until_rules(&c, name, &["pears"]).await?;
    }
    Ok(())
}

/// CLUSTERROLE-23.
async fn a_recreated_role_is_filled_again(c: Context) -> Outcome {
    c.create(CLUSTER_ROLES, plain(&c, "a", &["view"], &["apples"])).await?;
    for _ in 0..3 {
        c.create(CLUSTER_ROLES, aggregated(&c, "view", &[])).await?;
        until_rules(&c, "view", &["apples"]).await?;
        c.delete(CLUSTER_ROLES, &role(&c, "view"), "Background").await?;
    }
    c.create(CLUSTER_ROLES, plain(&c, "view", &[], &["pears"])).await?;
    c.stays("its own rules", Duration::from_secs(2), async || {
        c.get(CLUSTER_ROLES, &role(&c, "view")).await.is_ok_and(|role| resources_of(&role) == ["pears"])
    })
    .await
}

/// Creates the default roles as a real API server does at its start. The sandbox has none.
async fn create_default_roles(c: &Context) -> Outcome {
    let label = |name: &str| format!("rbac.authorization.k8s.io/aggregate-to-{name}");
    for (name, selected_by) in [("view", Some("edit")), ("edit", Some("admin")), ("admin", None)] {
        let mut role = plain(c, name, &[], &[]);
        role["metadata"] = json!({"name": name, "labels": {}});
        role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {label(name): "true"}}]});
        if let Some(selected_by) = selected_by {
            role["metadata"]["labels"][label(selected_by)] = json!("true");
        }
        let mut source = plain(c, name, &[], &[name]);
        source["metadata"] = json!({"name": format!("system:aggregate-to-{name}"), "labels": {label(name): "true"}});
        c.create(CLUSTER_ROLES, role).await?;
        c.create(CLUSTER_ROLES, source).await?;
    }
    Ok(())
}

/// CLUSTERROLE-28, CLUSTERROLE-29.
async fn the_default_roles_are_filled(c: Context) -> Outcome {
    if [Kind::Virtual, Kind::Sandbox].contains(&c.kind()) {
        create_default_roles(&c).await?;
    }
    let rules = async |name: &str| {
        let what = format!("ClusterRole {name} to have rules");
        let role = c.until_object(CLUSTER_ROLES, name, &what, |role| !resources_of(role).is_empty()).await?;
        Ok::<_, Failure>(role["rules"].as_array().unwrap().clone())
    };
    let (mut below, mut roles) = (Vec::new(), Vec::new());
    for name in ["view", "edit", "admin"] {
        let rules = rules(name).await?;
        let source = c.get(CLUSTER_ROLES, &format!("system:aggregate-to-{name}")).await?;
        for rule in source["rules"].as_array().unwrap().iter().chain(&below) {
            assert!(rules.contains(rule), "{name} has {rule}");
        }
        below = rules;
        roles.push(c.get(CLUSTER_ROLES, name).await?);
    }
    c.sleep(Duration::from_secs(3)).await;
    for role in roles {
        let now = c.get(CLUSTER_ROLES, name(&role)).await?;
        assert_eq!(now["metadata"]["resourceVersion"], role["metadata"]["resourceVersion"], "{}", name(&role));
    }
    Ok(())
}
