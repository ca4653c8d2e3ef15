//! What disruption-controller promises, on any cluster without another disruption controller.

use common::object::Resource;
use testkit::scene::prelude::*;

const BUDGETS: Resource = Resource::namespaced("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget");

suite! {
    Suite::new("disruption").controller(
        &disruption_controller::DEFINITION,
        &["--tune=stale-pod-disruption-timeout=3s"],
    );
    EVERYWHERE.sample() => evictions_leave_the_minimum;
    SIMULATED =>
        evictions_follow_the_size_of_the_owner a_custom_resource_has_its_size_in_its_scale
        a_budget_without_a_size_is_closed a_pod_that_stays_loses_its_disruption a_budget_at_rest_is_left_alone;
}

fn budget(name: &str, limit: Value) -> Value {
    let mut spec = json!({"selector": {"matchLabels": {"app": name}}});
    spec.as_object_mut().unwrap().extend(limit.as_object().unwrap().clone());
    json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec})
}

/// Creates ready Pods `NAME-0`, `NAME-1` and so on with the label `app=NAME`, and this controller.
async fn create_pods(c: &Context, name: &str, count: usize, owner: &Value) -> Outcome {
    for number in 0..count {
        let mut object: Value = pod(&format!("{name}-{number}"), name).into();
        // No scheduler binds them, and no kubelet overwrites their status.
        object["spec"]["schedulerName"] = json!("nobody");
        object["spec"]["terminationGracePeriodSeconds"] = json!(0);
        if !owner.is_null() {
            object["metadata"]["ownerReferences"] = json!([{"apiVersion": owner["apiVersion"], "kind": owner["kind"],
                "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "controller": true}]);
        }
        let created = c.create(PODS, object).await?;
        let status = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
        c.merge_status(PODS, text(&created["metadata"], "name"), status).await?;
    }
    Ok(())
}

/// Waits until the status shows these numbers of expected, desired and healthy Pods, and of allowed evictions.
async fn until_counts(c: &Context, name: &str, expected: [i64; 4]) -> Result<Value, Failure> {
    c.until_object(BUDGETS, name, &format!("the counts {expected:?}"), |budget| {
        let fields = ["expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed"];
        let is_observed = budget["status"]["observedGeneration"] == budget["metadata"]["generation"];
        is_observed && fields.map(|field| budget["status"][field].as_i64().unwrap_or(-1)) == expected
    })
    .await
}

/// Evicts a Pod; a refusal is its code.
async fn evict(c: &Context, name: &str) -> Result<(), u16> {
    let path = format!("{}/eviction", PODS.path(c.namespace(), name, ""));
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    let answer = c.client().send("POST", &path, "application/json", Some(&eviction)).await;
    answer.map(drop).map_err(|refused| refused.code)
}

/// DISRUPTION-8, DISRUPTION-28, DISRUPTION-32, DISRUPTION-44.
async fn evictions_leave_the_minimum(c: Context) -> Outcome {
    create_pods(&c, "web", 4, &Value::Null).await?;
    c.create(BUDGETS, budget("web", json!({"minAvailable": 2}))).await?;
    until_counts(&c, "web", [4, 2, 4, 2]).await?;
    for (name, left) in [("web-0", [3, 2, 3, 1]), ("web-1", [2, 2, 2, 0])] {
        assert_eq!(evict(&c, name).await, Ok(()));
        c.until_gone(PODS, name).await?;
        let budget = until_counts(&c, "web", left).await?;
        assert_eq!(budget["status"]["disruptedPods"].as_object().map_or(0, serde_json::Map::len), 0);
    }
    assert_eq!(evict(&c, "web-2").await, Err(429));
    c.get(PODS, "web-2").await?;
    Ok(())
}

/// DISRUPTION-10, DISRUPTION-12, DISRUPTION-59.
async fn evictions_follow_the_size_of_the_owner(c: Context) -> Outcome {
    let set = replica_set("web").replicas(0);
    let set = c.create(REPLICA_SETS, set).await?;
    c.scale(REPLICA_SETS, "web", 4).await?;
    create_pods(&c, "web", 4, &set).await?;
    c.create(BUDGETS, budget("web", json!({"maxUnavailable": "25%"}))).await?;
    until_counts(&c, "web", [4, 3, 4, 1]).await?;
    assert_eq!(evict(&c, "web-0").await, Ok(()));
    until_counts(&c, "web", [4, 3, 3, 0]).await?;
    assert_eq!(evict(&c, "web-1").await, Err(429));
    c.scale(REPLICA_SETS, "web", 3).await?;
    until_counts(&c, "web", [3, 2, 3, 1]).await?;
    assert_eq!(evict(&c, "web-1").await, Ok(()));
    Ok(())
}

/// Creates the definition of a kind of this name for the scene, with the subresource `scale` or without, and an object of size 3.
async fn create_custom_resource(c: &Context, has_scale: bool) -> Result<Value, Failure> {
    let group = format!("{}.example.com", c.namespace());
    let widgets = Resource::namespaced("example.com", "v1", "widgets", "Widget");
    let mut definition = custom_resource_definition(&widgets);
    definition["metadata"]["name"] = json!(format!("widgets.{group}"));
    definition["spec"]["group"] = json!(group);
    if has_scale {
        definition["spec"]["versions"][0]["subresources"] =
            json!({"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}});
    }
    c.client().create(DEFINITIONS, "", &definition).await?;
    let path = format!("/apis/{group}/v1/namespaces/{}/widgets", c.namespace());
    let widget = json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": "w"}, "spec": {"replicas": 3}});
    c.until("the kind to be served", async || {
        c.client().send("POST", &path, "application/json", Some(&widget)).await.ok()
    })
    .await
}

async fn delete_custom_resource(c: &Context) -> Outcome {
    let name = format!("widgets.{}.example.com", c.namespace());
    c.client().delete(DEFINITIONS, "", &name, &json!({"kind": "DeleteOptions", "apiVersion": "v1"})).await?;
    Ok(())
}

/// DISRUPTION-15, DISRUPTION-18, DISRUPTION-20.
async fn a_custom_resource_has_its_size_in_its_scale(c: Context) -> Outcome {
    let widget = create_custom_resource(&c, true).await?;
    create_pods(&c, "web", 3, &widget).await?;
    c.create(BUDGETS, budget("web", json!({"maxUnavailable": 1}))).await?;
    until_counts(&c, "web", [3, 2, 3, 1]).await?;
    assert_eq!(evict(&c, "web-0").await, Ok(()));
    until_counts(&c, "web", [3, 2, 2, 0]).await?;
    delete_custom_resource(&c).await
}

/// DISRUPTION-19, DISRUPTION-38, DISRUPTION-41, DISRUPTION-42.
async fn a_budget_without_a_size_is_closed(c: Context) -> Outcome {
    let widget = create_custom_resource(&c, false).await?;
    create_pods(&c, "web", 2, &widget).await?;
    c.create(BUDGETS, budget("web", json!({"minAvailable": "50%"}))).await?;
    let closed = c
        .until_object(BUDGETS, "web", "the failure", |budget| {
            condition(budget, "DisruptionAllowed").is_some_and(|found| {
                found["reason"] == "SyncFailed"
                    && text(found, "message").ends_with("does not implement the scale subresource")
            })
        })
        .await?;
    assert_eq!(closed["status"]["disruptionsAllowed"], 0);
    assert_eq!(evict(&c, "web-0").await, Err(429));
    c.merge(BUDGETS, "web", json!({"spec": {"minAvailable": 1}})).await?;
    let open = until_counts(&c, "web", [2, 1, 2, 1]).await?;
    assert_eq!(text(condition(&open, "DisruptionAllowed").unwrap(), "message"), "");
    delete_custom_resource(&c).await
}

/// DISRUPTION-48, DISRUPTION-50.
async fn a_pod_that_stays_loses_its_disruption(c: Context) -> Outcome {
    create_pods(&c, "web", 1, &Value::Null).await?;
    let now = c.clock().now().to_string();
    let now = format!("{}Z", now.split(['.', 'Z']).next().unwrap_or_default());
    let target = json!({"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "m",
        "lastTransitionTime": now});
    c.merge_status(PODS, "web-0", json!({"status": {"conditions": [target]}})).await?;
    let reset = c
        .until_object(PODS, "web-0", "the reset", |pod| {
            condition(pod, "DisruptionTarget").is_some_and(|target| target["status"] == "False")
        })
        .await?;
    let target = condition(&reset, "DisruptionTarget").unwrap();
    assert_eq!((&target["reason"], &target["message"]), (&Value::Null, &Value::Null));
    assert_eq!(condition(&reset, "Ready").unwrap()["status"], "True");
    Ok(())
}

/// DISRUPTION-36.
async fn a_budget_at_rest_is_left_alone(c: Context) -> Outcome {
    create_pods(&c, "web", 2, &Value::Null).await?;
    c.create(BUDGETS, budget("web", json!({"minAvailable": 1}))).await?;
    until_counts(&c, "web", [2, 1, 2, 1]).await?;
    c.left_alone(&[BUDGETS], async || {
        c.merge_status(PODS, "web-0", json!({"status": {"message": "seen"}})).await?;
        Ok(())
    })
    .await
}
