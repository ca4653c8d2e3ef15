//! Tests of the requests with which rules are written.

use parking_lot::Mutex;

use crate::world::*;

/// CLUSTERROLE-19, CLUSTERROLE-20, CLUSTERROLE-22.
#[tokio::test(start_paused = true)]
async fn the_rules_are_applied_by_force_at_the_version_that_was_judged() {
    let requests: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
    let seen = Arc::clone(&requests);
    let filter: RequestFilter = Arc::new(move |request| {
        if request.method() == Method::PATCH {
            let media = request.headers()["content-type"].to_str().unwrap();
            seen.lock().push((format!("{} {media}", request.uri()), serde_json::from_slice(request.body()).unwrap()));
        }
        None
    });
    let labelled =
        merged(aggregated("view", &[]), json!({"metadata": {"annotations": {"a": "b"}, "labels": {"l": "1"}}}));
    let mut pods = plain("pods", &["view"], &["pods"]);
    pods["rules"] = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": []},
        {"verbs": ["get"], "nonResourceURLs": ["/metrics"]}]);
    let world = world_with(cluster().filter(filter), &[labelled]).await;
    let before = world.subject().await;
    world.create_and_settle(pods).await;
    let metadata = |role: &Value| json!({"name": "view", "uid": role["metadata"]["uid"], "resourceVersion": role["metadata"]["resourceVersion"]});
    let (kind, api_version) = ("ClusterRole", "rbac.authorization.k8s.io/v1");
    let target = "/apis/rbac.authorization.k8s.io/v1/clusterroles/view?fieldManager=clusterrole-aggregation-controller\
                  &force=true application/apply-patch+yaml";
    let written = json!([allows("get", "pods"), {"verbs": ["get"], "nonResourceURLs": ["/metrics"]}]);
    let body = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata(&before), "rules": written});
    assert_eq!(*requests.lock(), [(target.to_owned(), body)]);
    let before = world.subject().await;
    world.delete_and_settle(CLUSTER_ROLES, "pods").await;
    let body = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata(&before), "rules": []});
    assert_eq!(requests.lock()[1..], [(target.to_owned(), body)]);
}

/// CLUSTERROLE-21, CLUSTERROLE-25.
#[tokio::test(start_paused = true)]
async fn another_writer_of_rules_is_answered_once_for_each_change() {
    let world = world_with(cluster(), &[aggregated("view", &[]), plain("pods", &["view"], &["pods"])]).await;
    for index in 0..20 {
        let foreign =
            json!({"rules": [allows("get", &format!("foreign{index}"))], "metadata": {"labels": {"kept": "1"}}});
        world.patch(CLUSTER_ROLES, "view", foreign).await;
        world.wait(1).await;
        assert_eq!(resources(&world, "view").await, ["pods"]);
    }
    world.wait(3600).await;
    assert_eq!(patch_count(&world), 20);
    let role = world.subject().await;
    assert_eq!((&role["metadata"]["labels"]["kept"], &role["aggregationRule"].is_object()), (&json!("1"), &true));
    let managers = role["metadata"]["managedFields"].as_array().unwrap();
    let owners: Vec<_> = managers.iter().filter(|entry| entry["fieldsV1"].get("f:rules").is_some()).collect();
    assert!(owners.len() == 1 && owners[0]["manager"] == "clusterrole-aggregation-controller", "{managers:?}");
}

/// CLUSTERROLE-22, CLUSTERROLE-38.
#[tokio::test(start_paused = true)]
async fn foreign_rules_of_a_role_that_selects_nothing_are_removed() {
    let world = world_with(cluster(), &[aggregated("view", &[])]).await;
    world.assert_wrote_nothing();
    world.patch_and_settle(CLUSTER_ROLES, "view", json!({"rules": [allows("get", "secrets")]})).await;
    assert_eq!(resources(&world, "view").await, [""; 0]);
    world.wait(3600).await;
    assert_eq!(patch_count(&world), 1);
}

/// What happens to `view` while its write is on its way.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Meanwhile {
    Changed,
    Deleted,
    Recreated,
}

/// CLUSTERROLE-23, CLUSTERROLE-37.
#[tokio::test(start_paused = true)]
async fn a_role_that_was_changed_deleted_or_recreated_meanwhile_is_not_written() {
    for meanwhile in [Meanwhile::Changed, Meanwhile::Deleted, Meanwhile::Recreated] {
        let world = world_with(cluster(), &[aggregated("view", &[])]).await;
        world.fault(on_writes_of("view", Action::Latency(Duration::from_secs(1))).times(1));
        world.create(plain("pods", &["view"], &["pods"])).await;
        world.wait(0.5).await;
        match meanwhile {
            Meanwhile::Changed => world.label(CLUSTER_ROLES, "view", json!({"a": "b"})).await,
            Meanwhile::Deleted | Meanwhile::Recreated => world.delete(CLUSTER_ROLES, "view").await,
        }
        if meanwhile == Meanwhile::Recreated {
            world.create(plain("view", &[], &["nodes"])).await;
        }
        world.wait(60).await;
        let role = world.find(CLUSTER_ROLES, "view").await;
        let rules = role.map(|role| role["rules"][0]["resources"][0].as_str().unwrap_or_default().to_owned());
        let (rules_then, patches) = match meanwhile {
            Meanwhile::Changed => (Some("pods"), 2),
            Meanwhile::Deleted => (None, 1),
            Meanwhile::Recreated => (Some("nodes"), 1),
        };
        assert_eq!((rules.as_deref(), patch_count(&world)), (rules_then, patches), "{meanwhile:?}");
        assert_eq!(world.metric_sum("nonet_sync_errors_total"), 0, "{meanwhile:?}");
    }
}

/// CLUSTERROLE-7.
#[tokio::test(start_paused = true)]
async fn a_role_that_is_no_longer_aggregated_keeps_its_rules() {
    let world = world_with(cluster(), &[aggregated("view", &[]), plain("pods", &["view"], &["pods"])]).await;
    world.patch_and_settle(CLUSTER_ROLES, "view", json!({"aggregationRule": null})).await;
    world.delete_and_settle(CLUSTER_ROLES, "pods").await;
    assert_eq!(resources(&world, "view").await, ["pods"]);
    world.assert_wrote_nothing();
}

/// CLUSTERROLE-5.
#[tokio::test(start_paused = true)]
async fn a_retry_for_a_role_that_is_no_longer_aggregated_sends_nothing() {
    let world = world_with(cluster(), &[aggregated("view", &[])]).await;
    world.fault(on_writes_of("view", Action::Invalid));
    world.create(plain("pods", &["view"], &["pods"])).await;
    world.wait(60).await;
    assert!(patch_count(&world) > 5);
    let twice = json!([allows("get", "nodes"), allows("get", "nodes")]);
    world.patch(CLUSTER_ROLES, "view", json!({"aggregationRule": null, "rules": twice})).await;
    world.clear_faults();
    world.clear_log();
    world.wait(1000).await;
    assert_eq!((patch_count(&world), world.subject().await["rules"].clone()), (0, twice));
}
