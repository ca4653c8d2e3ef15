//! Tests with refused writes, unreadable roles, policies that change rules, and missing rights.

use crate::world::*;

/// CLUSTERROLE-24.
#[tokio::test(start_paused = true)]
async fn a_refused_role_backs_off_and_is_tried_once_for_each_event() {
    let roles = [aggregated("view", &[]), aggregated("edit", &[]), plain("other", &[], &["pods"])];
    let world = world_with(cluster(), &roles).await;
    world.fault(on_writes_of("view", Action::Invalid));
    world.create(plain("pods", &["view", "edit"], &["pods"])).await;
    world.wait(3600).await;
    assert_eq!(resources(&world, "edit").await, ["pods"]);
    // 5 ms, 10 ms, 20 ms and so on up to 1000 s, and the event of the write to `edit`.
    world.assert_count("patch", CLUSTER_ROLES, 15..=25);
    let error = world.explain()["lastError"]["error"].as_str().unwrap().to_owned();
    assert!(error.starts_with("cannot write the rules: "), "{error}");
    world.clear_log();
    // A user updates another role ten times a second.
    for _ in 0..100 {
        world.touch(CLUSTER_ROLES, "other").await;
        world.wait(0.1).await;
    }
    world.assert_count("patch", CLUSTER_ROLES, 90..=102);
    world.clear_log();
    // Events that come at once lead to one attempt, or a few.
    world.hold("clusterroles");
    for _ in 0..100 {
        world.touch(CLUSTER_ROLES, "other").await;
    }
    world.release("clusterroles");
    world.wait(1).await;
    world.assert_count("patch", CLUSTER_ROLES, 1..=100);
    world.clear_log();
    world.wait(600).await;
    world.assert_count("patch", CLUSTER_ROLES, 0..=1);
    assert_eq!(resources(&world, "edit").await, ["pods"]);
    world.clear_faults();
    world.wait(1000).await;
    assert_eq!(resources(&world, "view").await, ["pods"]);
    assert!(world.metric_sum("nonet_sync_errors_total") > 0);
}

/// CLUSTERROLE-24.
#[tokio::test(start_paused = true)]
async fn a_server_that_answers_with_conflicts_for_ever_is_asked_seldom() {
    let world = world_with(cluster(), &[aggregated("view", &[])]).await;
    world.fault(on_writes_of("view", Action::Conflict));
    world.create(plain("pods", &["view"], &["pods"])).await;
    world.wait(600).await;
    world.assert_count("patch", CLUSTER_ROLES, 5..=40);
    world.clear_faults();
    world.wait(1000).await;
    assert_eq!(resources(&world, "view").await, ["pods"]);
}

/// CLUSTERROLE-25.
#[tokio::test(start_paused = true)]
async fn a_policy_that_changes_the_rules_again_causes_no_loop() {
    let world = world_with(cluster(), &[aggregated("view", &[])]).await;
    let patch = json!([{"op": "add", "path": "/rules/0/verbs", "value": ["list"]}]);
    world
        .sandbox
        .webhooks()
        .install(Webhook::new("policy", Operation::Update, "clusterroles").identity(CONTROLLER).patches(patch));
    world.create(plain("pods", &["view"], &["pods"])).await;
    world.wait(3600).await;
    assert_eq!(world.subject().await["rules"][0]["verbs"], json!(["list"]));
    world.assert_count("patch", CLUSTER_ROLES, 1..=3);
    world.clear_log();
    for _ in 0..50 {
        world.touch(CLUSTER_ROLES, "pods").await;
        world.wait(1).await;
    }
    world.assert_count("patch", CLUSTER_ROLES, 1..=51);
}

/// CLUSTERROLE-15, CLUSTERROLE-39.
#[tokio::test(start_paused = true)]
async fn an_unreadable_role_or_selector_fails_only_the_roles_that_reach_it() {
    for (lies, error) in [
        (
            &[("\"resources\":[\"bad\"]", "\"resources\":7")],
            "clusterroles.rbac.authorization.k8s.io bad cannot be read: invalid type: integer `7`",
        ),
        (
            &[("\"matchLabels\":{\"to-bad\":\"1\"}", "\"matchLabels\":{\"to-bad\":\"-\"}")],
            "ClusterRole bad: aggregationRule.clusterRoleSelectors: selector: \"-\" is not a valid label value for \"to-bad\"",
        ),
    ] {
        let mut world = cluster().lies(lies).stopped().await;
        let mut bad = aggregated("bad", &["edit", "view"]);
        bad["rules"] = json!([allows("get", "bad")]);
        let pods = plain("pods", &["view", "edit", "admin"], &["pods"]);
        for role in [aggregated("admin", &[]), aggregated("edit", &[]), aggregated("view", &[]), bad, pods] {
            world.create(role).await;
        }
        world.start();
        world.wait(60).await;
        world.assert_all_lies_were_told();
        assert_eq!(resources(&world, "admin").await, ["pods"]);
        assert_eq!((resources(&world, "edit").await.len(), resources(&world, "view").await.len()), (0, 0));
        for name in ["view", "edit", "bad"] {
            let explained = world.loops().explain(Some(name))[0].take();
            assert!(explained["waiting"][0].as_str().unwrap_or_default().contains(error), "{name}: {explained:#}");
            // The error is reported, and the sync backs off.
            let failures = explained["lastError"]["failures"].as_u64().unwrap_or_default();
            assert!((5..=20).contains(&failures), "{name}: {explained:#}");
        }
        assert_eq!(patch_count(&world), 1);
    }
}

/// CLUSTERROLE-23, CLUSTERROLE-26.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_or_a_stale_cache_leads_to_the_same_rules() {
    for action in [Action::CutBefore, Action::CutAfter, Action::InternalError, Action::TooManyRequests(2)] {
        let world = world_with(cluster(), &[aggregated("view", &[])]).await;
        world.delay("clusterroles", 5);
        world.fault(on_writes_of("view", action.clone()).times(1));
        world.create(plain("pods", &["view"], &["pods"])).await;
        world.wait(60).await;
        assert_eq!(resources(&world, "view").await, ["pods"], "{action:?}");
        world.assert_count("patch", CLUSTER_ROLES, 1..=12);
    }
}

/// CLUSTERROLE-18, COMMON-35.
#[tokio::test(start_paused = true)]
async fn a_sync_waits_until_the_cache_shows_the_last_write() {
    let world = world_with(cluster(), &[aggregated("view", &[])]).await;
    world.delay("clusterroles", 5);
    world.create(plain("pods", &["view"], &["pods"])).await;
    world.wait(1).await;
    // Its event arrives before that of the write for the first role.
    world.create(plain("nodes", &["view"], &["nodes"])).await;
    world.wait(60).await;
    assert_eq!(resources(&world, "view").await, ["nodes", "pods"]);
    assert_eq!(patch_count(&world), 2);
}

/// CLUSTERROLE-27, CLUSTERROLE-33, CLUSTERROLE-34, CLUSTERROLE-40.
#[tokio::test(start_paused = true)]
async fn rules_need_the_verb_escalate_and_with_it_the_token_can_write_any() {
    let rights = |verbs: &[&str]| json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": verbs}]);
    let roles = [aggregated("view", &[]), plain("pods", &["view"], &["pods"])];
    let world = world_with(cluster().rights(rights(&["list", "watch", "patch"])), &roles).await;
    assert_eq!(resources(&world, "view").await, [""; 0]);
    let error = world.explain()["lastError"]["error"].as_str().unwrap().to_owned();
    assert!(error.contains("is attempting to grant RBAC permissions not currently held"), "{error}");
    let world = world_with(cluster().rights(rights(&["list", "watch", "patch", "escalate"])), &roles).await;
    assert_eq!(resources(&world, "view").await, ["pods"]);
    let own_role = format!("granted:{CONTROLLER}");
    let everything = json!({"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
    let token = world.sandbox.acting_as(CONTROLLER);
    assert!(token.list("secrets", Some(NAMESPACE)).await.is_err());
    token.merge(CLUSTER_ROLES, None, &own_role, None, everything).await.unwrap();
    token.list("secrets", Some(NAMESPACE)).await.unwrap();
}
