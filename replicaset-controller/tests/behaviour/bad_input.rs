//! Malformed objects, as only a faulty server would send them.

use crate::world::*;

/// REPLICASET-46, REPLICASET-83.
#[tokio::test(start_paused = true)]
async fn a_malformed_set_backs_off_alone() {
    let bad = with_spec(replica_set("bad", 77), json!({"minReadySeconds": 55}));
    // The back-off starts at 5 ms and doubles, so that only few attempts happen in a minute.
    let malformed = conformance::Malformed { objects: vec![bad, replica_set("good", 3)], failures: 10..=15 };
    const SELECTOR: &str = "\"selector\":{\"matchLabels\":{\"app\":\"bad\"}}";
    malformed
        .backs_off_alone(
            &cluster(),
            &[
                (&[("\"replicas\":77", "\"replicas\":-77")], "spec.replicas is -77"),
                (&[("\"replicas\":77", "\"replicas\":\"many\"")], "invalid type"),
                (&[("\"minReadySeconds\":55", "\"minReadySeconds\":-1")], "spec.minReadySeconds is -1"),
                (&[(SELECTOR, "\"selector\":null")], "spec.selector is missing"),
                (&[(SELECTOR, "\"selector\":{}")], "spec.selector selects every Pod"),
                (&[("\"labels\":{\"app\":\"bad\"}", "\"labels\":{\"app\":7}")], "Pod template cannot be read"),
            ],
            async |world, error| {
                assert_eq!((world.pods().await.len(), world.count("create", "pods")), (3, 3), "{error}");
                assert_eq!(world.loops().explain(Some("shop/bad"))[0]["state"], "failing", "{error}");
            },
        )
        .await;
}

/// REPLICASET-48.
#[tokio::test(start_paused = true)]
async fn a_malformed_pod_stops_its_own_set_and_no_other() {
    let guaranteed = json!({"cpu": "1", "memory": "1Gi"});
    let resources = json!({"limits": guaranteed, "requests": guaranteed});
    let mut world = cluster().lies(&[("\"qosClass\":\"Guaranteed\"", "\"conditions\":7")]).stopped().await;
    let mut bad = replica_set("bad", 2);
    bad["spec"]["template"]["spec"]["containers"][0]["resources"] = resources.clone();
    let mut orphan = orphan_pod("orphan", "good");
    orphan["spec"]["containers"][0]["resources"] = resources;
    for object in [bad, orphan, replica_set("good", 3)] {
        world.create(object).await;
    }
    world.start();
    world.wait(60).await;
    let pods = world.pods().await;
    let count = |app: &str| pods.iter().filter(|pod| pod["metadata"]["labels"]["app"] == app).count();
    // The malformed orphan is not adopted, and does not delay the other Pods.
    assert_eq!((count("bad"), count("good")), (2, 4));
    assert_eq!(world.loops().explain(Some("shop/bad"))[0]["state"], "failing");
    assert_eq!(world.loops().explain(Some("shop/good"))[0]["state"], "settled");
}
