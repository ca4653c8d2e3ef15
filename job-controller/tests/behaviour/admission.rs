//! Admission webhooks that change the labels of new Pods.

use sandbox::{Operation, Webhook};
use serde_json::{Value, json};

use crate::world::{TestCluster, job, job_with_spec};

const POLICY: &str = "policy";

/// Installs a policy that changes the label that the selector requires, creates a Job, and waits 15 minutes.
async fn cluster_with_unselected_pods(object: Value) -> TestCluster {
    let world = TestCluster::new().await;
    let path = "/metadata/labels/batch.kubernetes.io~1controller-uid";
    let patch = json!([{"op": "add", "path": path, "value": "other"}]);
    world.sandbox.webhooks().install(Webhook::new(POLICY, Operation::Create, "pods").patches(patch));
    world.create_object(object).await;
    world.wait_seconds(900).await;
    // One Pod after 0 s, 1 s, 3 s, 7 s, ... 511 s and 811 s.
    assert_eq!((world.request_count("create", "pods"), world.pods().await), (11, Vec::new()));
    world
}

/// JOB-94.
#[tokio::test(start_paused = true)]
async fn pods_whose_labels_are_changed_are_deleted_and_tried_with_growing_pauses() {
    for spec in [json!({}), json!({"completionMode": "Indexed"})] {
        let mut spec = spec;
        spec["completions"] = json!(3);
        spec["parallelism"] = json!(3);
        let world = cluster_with_unselected_pods(job_with_spec("sum", &[("exit", "0"), ("after", "5")], spec)).await;
        let events = world.events().await;
        let reported = "Error creating: pod \"sum-";
        assert!(
            events.iter().all(|event| event.starts_with("Warning FailedCreate ") && event.contains(reported)),
            "{events:?}"
        );
        assert!(events[0].contains("was stored with labels that the selector does not match"), "{events:?}");
        assert_eq!(world.job_status("sum").await["failed"], Value::Null, "a deleted Pod is not a failure");
        let explained = world.loops.as_ref().unwrap().explain(Some("shop/sum")).to_string();
        assert!(explained.contains("no Pods are created: admission changes them"), "{explained}");
        assert!(explained.contains("the next attempt is in 211s"), "{explained}");
        // An event of the Job that leaves its spec as it is does not end the pause.
        world.sandbox.webhooks().remove(POLICY);
        world.touch_job("sum").await;
        world.wait_seconds(200).await;
        assert_eq!(world.pods().await.len(), 0);
        world.wait_seconds(20).await;
        assert_eq!(
            (world.job_status("sum").await["succeeded"].clone(), world.request_count("create", "pods")),
            (json!(3), 14)
        );
        world.wait_until_settled().await;
    }
}

/// JOB-94.
#[tokio::test(start_paused = true)]
async fn a_change_of_the_job_ends_the_pause() {
    let world = cluster_with_unselected_pods(job("sum", &[("exit", "0"), ("after", "60")])).await;
    world.sandbox.webhooks().remove(POLICY);
    world.patch_job_spec("sum", json!({"activeDeadlineSeconds": 9999})).await;
    world.wait_seconds(2).await;
    assert_eq!(world.active_pod_names().await.len(), 1);
}
