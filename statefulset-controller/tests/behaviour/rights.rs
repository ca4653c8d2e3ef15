//! Missing rights, on a server with the admission plugin `OwnerReferencesPermissionEnforcement`.

use crate::world::*;

const UNDELETABLE: &str = "cannot set an ownerRef on a resource you can't delete";
const UNFINALIZABLE: &str =
    "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on";

/// Returns RBAC rules that allow all requests of the controller, with two exceptions: it may delete only resources in
/// `deletable`, and change finalizers only of resources in `finalizable`.
fn rules(deletable: &[&str], finalizable: &[&str]) -> Value {
    let resources = ["pods", "statefulsets", "statefulsets/status", "controllerrevisions", CLAIMS, "events"];
    let rule = |resources: &[&str], verbs: &[&str]| json!({"apiGroups": ["*"], "resources": resources, "verbs": verbs});
    json!([
        rule(&resources, &["get", "list", "watch", "create", "update", "patch"]),
        rule(deletable, &["delete"]),
        rule(finalizable, &["update"]),
    ])
}

fn all() -> Value {
    rules(&["pods", "controllerrevisions", CLAIMS], &["statefulsets/finalizers", "pods/finalizers"])
}

/// STATEFULSET-89.
#[tokio::test(start_paused = true)]
async fn a_scale_down_reports_a_denied_claim_owner_and_continues_once_it_is_granted() {
    let without = rules(&["pods", "controllerrevisions"], &["statefulsets/finalizers", "pods/finalizers"]);
    let world = cluster().rights(without).start().await;
    world.create_and_settle(set(2, claims("Retain", "Retain"))).await;
    world.clear_log();
    let policy = json!({"whenDeleted": "Retain", "whenScaled": "Delete"});
    world.change(json!({"replicas": 1, "persistentVolumeClaimRetentionPolicy": policy})).await;
    world.wait(60).await;
    assert_eq!(world.names("pods").await, ["web-0", "web-1"], "the claim would outlive its Pod");
    let event = format!(
        "Warning FailedUpdate Update Pod web-1 in StatefulSet web failed error: could not update claim data-web-1 for delete policy ownerRefs: {CLAIMS} \"data-web-1\" is forbidden: {UNDELETABLE}"
    );
    let tries = world.count("patch", CLAIMS);
    assert!((4..=14).contains(&tries), "it backs off: {tries}");
    assert_eq!(world.repetitions_of(&event).await, tries.cast_signed(), "{:#?}", world.events().await);
    world.sandbox.grant(CONTROLLER, all()).await.unwrap();
    world.wait(120).await;
    assert_eq!(world.names("pods").await, ["web-0"]);
    assert_eq!(owners(&world.get(CLAIMS, "data-web-1").await), ["Pod web-1"]);
}

/// STATEFULSET-89.
#[tokio::test(start_paused = true)]
async fn denied_adoptions_are_reported_in_one_event_per_sync() {
    let without = rules(&["controllerrevisions", CLAIMS], &["statefulsets/finalizers", "pods/finalizers"]);
    let world = cluster().rights(without).start().await;
    for ordinal in 0..3 {
        let name = format!("web-{ordinal}");
        let labels = json!({"statefulset.kubernetes.io/pod-name": name});
        world.create(merged(orphan_pod(&name, "web"), json!({"metadata": {"labels": labels}}))).await;
    }
    world.settle().await;
    world.clear_log();
    world.create(web(3)).await;
    world.wait(60).await;
    let tries = world.count("patch", "pods");
    assert!((4..=14).contains(&(tries / 3)), "it backs off: {tries}");
    let event = "Warning FailedUpdate Error: cannot adopt Pod shop/web-";
    assert_eq!(world.repetitions_of(event).await, (tries / 3).cast_signed(), "{:#?}", world.events().await);
    let events = world.events().await;
    assert!(events.iter().any(|e| e.contains(UNDELETABLE) && e.ends_with("(and 2 more)")), "{events:#?}");
    world.sandbox.grant(CONTROLLER, all()).await.unwrap();
    world.wait(120).await;
    assert_eq!(owners(&world.get("pods", "web-2").await), ["StatefulSet web"]);
}

/// STATEFULSET-89.
#[tokio::test(start_paused = true)]
async fn a_denied_revision_is_reported() {
    let world = cluster().rights(rules(&["pods", "controllerrevisions", CLAIMS], &["pods/finalizers"])).start().await;
    world.create(web(1)).await;
    world.wait(20).await;
    let events = world.events().await;
    let start = "Warning FailedCreate Error creating ControllerRevision web-";
    assert!(events.iter().any(|e| e.starts_with(start) && e.contains(UNFINALIZABLE)), "{events:#?}");
    world.sandbox.grant(CONTROLLER, all()).await.unwrap();
    world.wait(60).await;
    assert_eq!(world.status().await["readyReplicas"], 1);
}
