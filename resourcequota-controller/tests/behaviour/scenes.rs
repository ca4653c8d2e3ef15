//! What resourcequota-controller promises, on any cluster without another resource quota controller.

use testkit::scene::prelude::*;

suite! {
    Suite::new("resourcequota")
        .controller(&resourcequota_controller::DEFINITION, &["--resource-quota-sync-period=10s"])
        .sandbox(sandbox::Builder::without_quota_controller);
    EVERYWHERE.sample() => a_full_quota_refuses_until_an_object_is_gone;
    SIMULATED =>
        usage_is_the_sum_over_the_pods a_custom_resource_is_counted scopes_select_pods
        new_limits_apply_at_once a_quota_at_rest_is_left_alone;
}

fn quota(name: &str, hard: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": {"hard": hard}})
}

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}})
}

/// Returns a Pod that no scheduler binds, with these requests.
fn quiet_pod(name: &str, requests: Value) -> Value {
    let mut object: Value = pod(name, name).into();
    object["spec"]["schedulerName"] = json!("nobody");
    object["spec"]["terminationGracePeriodSeconds"] = json!(0);
    object["spec"]["containers"][0]["resources"] = json!({ "requests": requests });
    object
}

/// Waits until the usage of a quota is this.
async fn until_used(c: &Context, name: &str, used: Value) -> Result<Value, Failure> {
    c.until_object(RESOURCE_QUOTAS, name, &format!("the usage {used}"), |quota| quota["status"]["used"] == used).await
}

/// RESOURCEQUOTA-12, RESOURCEQUOTA-13, RESOURCEQUOTA-16, RESOURCEQUOTA-57, RESOURCEQUOTA-68.
async fn a_full_quota_refuses_until_an_object_is_gone(c: Context) -> Outcome {
    c.create(SECRETS, secret("a")).await?;
    c.create(RESOURCE_QUOTAS, quota("few", json!({"count/secrets": "2"}))).await?;
    until_used(&c, "few", json!({"count/secrets": "1"})).await?;
    c.create(SECRETS, secret("b")).await?;
    let refused = c.client().create(SECRETS, c.namespace(), &secret("c")).await.unwrap_err();
    assert_eq!((refused.code, refused.message.contains("exceeded quota: few")), (403, true), "{refused:?}");
    c.delete(SECRETS, "a", "Background").await?;
    until_used(&c, "few", json!({"count/secrets": "1"})).await?;
    c.create(SECRETS, secret("c")).await?;
    until_used(&c, "few", json!({"count/secrets": "2"})).await?;
    Ok(())
}

/// RESOURCEQUOTA-22, RESOURCEQUOTA-29, RESOURCEQUOTA-66.
async fn usage_is_the_sum_over_the_pods(c: Context) -> Outcome {
    for name in ["a", "b", "c"] {
        c.create(PODS, quiet_pod(name, json!({"cpu": "500m", "memory": "1.5Gi"}))).await?;
    }
    c.create(
        RESOURCE_QUOTAS,
        quota("sum", json!({"pods": "9", "requests.cpu": "9", "memory": "90Gi", "limits.cpu": "1"})),
    )
    .await?;
    let used = |pods, cpu, memory| json!({"pods": pods, "requests.cpu": cpu, "memory": memory, "limits.cpu": "0"});
    until_used(&c, "sum", used("3", "1500m", "4608Mi")).await?;
    c.delete(PODS, "a", "Background").await?;
    until_used(&c, "sum", used("2", "1", "3Gi")).await?;
    c.merge_status(PODS, "b", json!({"status": {"phase": "Succeeded"}})).await?;
    until_used(&c, "sum", used("1", "500m", "1536Mi")).await?;
    Ok(())
}

/// RESOURCEQUOTA-4, RESOURCEQUOTA-8, RESOURCEQUOTA-84, RESOURCEQUOTA-96.
async fn a_custom_resource_is_counted(c: Context) -> Outcome {
    let group = format!("{}.example.com", c.namespace());
    let widgets = common::object::Resource::namespaced("example.com", "v1", "widgets", "Widget");
    let mut definition = custom_resource_definition(&widgets);
    definition["metadata"]["name"] = json!(format!("widgets.{group}"));
    definition["spec"]["group"] = json!(group);
    c.client().create(DEFINITIONS, "", &definition).await?;
    let path = format!("/apis/{group}/v1/namespaces/{}/widgets", c.namespace());
    let widget = json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": "w"}});
    c.until("the kind to be served", async || {
        c.client().send("POST", &path, "application/json", Some(&widget)).await.ok()
    })
    .await?;
    let name = format!("count/widgets.{group}");
    c.create(RESOURCE_QUOTAS, quota("widgets", json!({&name: "5"}))).await?;
    until_used(&c, "widgets", json!({&name: "1"})).await?;
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
    c.client().send("DELETE", &format!("{path}/w"), "application/json", Some(&options)).await?;
    until_used(&c, "widgets", json!({&name: "0"})).await?;
    c.client().delete(DEFINITIONS, "", &format!("widgets.{group}"), &options).await?;
    Ok(())
}

/// RESOURCEQUOTA-48, RESOURCEQUOTA-51, RESOURCEQUOTA-52.
async fn scopes_select_pods(c: Context) -> Outcome {
    let scoped = |name: &str, scopes: Value| {
        let mut object = quota(name, json!({"pods": "9"}));
        object["spec"]["scopes"] = scopes;
        object
    };
    let mut short = quiet_pod("short", json!({"cpu": "1"}));
    short["spec"]["activeDeadlineSeconds"] = json!(600);
    c.create(PODS, short).await?;
    c.create(PODS, quiet_pod("best-effort", json!({}))).await?;
    for (name, scopes, count) in [
        ("terminating", json!(["Terminating"]), "1"),
        ("not-terminating", json!(["NotTerminating"]), "1"),
        ("not-best-effort", json!(["NotBestEffort", "NotTerminating"]), "0"),
    ] {
        c.create(RESOURCE_QUOTAS, scoped(name, scopes)).await?;
        until_used(&c, name, json!({"pods": count})).await?;
    }
    c.delete(PODS, "best-effort", "Background").await?;
    until_used(&c, "not-terminating", json!({"pods": "0"})).await?;
    Ok(())
}

/// RESOURCEQUOTA-9, RESOURCEQUOTA-56, RESOURCEQUOTA-57.
async fn new_limits_apply_at_once(c: Context) -> Outcome {
    c.create(RESOURCE_QUOTAS, quota("limits", json!({"count/secrets": "0", "services": "5"}))).await?;
    until_used(&c, "limits", json!({"count/secrets": "0", "services": "0"})).await?;
    assert_eq!(c.client().create(SECRETS, c.namespace(), &secret("a")).await.unwrap_err().code, 403);
    c.merge(RESOURCE_QUOTAS, "limits", json!({"spec": {"hard": {"count/secrets": "1", "services": null}}})).await?;
    let changed = until_used(&c, "limits", json!({"count/secrets": "0"})).await?;
    assert_eq!(changed["status"]["hard"], json!({"count/secrets": "1"}));
    c.create(SECRETS, secret("a")).await?;
    Ok(())
}

/// RESOURCEQUOTA-61.
async fn a_quota_at_rest_is_left_alone(c: Context) -> Outcome {
    c.create(PODS, quiet_pod("a", json!({"cpu": "1"}))).await?;
    c.create(RESOURCE_QUOTAS, quota("rest", json!({"pods": "9", "cpu": "9"}))).await?;
    until_used(&c, "rest", json!({"pods": "1", "cpu": "1"})).await?;
    c.left_alone(&[RESOURCE_QUOTAS], async || {
        c.merge_status(PODS, "a", json!({"status": {"message": "seen"}})).await?;
        Ok(())
    })
    .await
}
