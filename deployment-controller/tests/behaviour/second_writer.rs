//! A leader detects a second writer of its Deployments, without false alarms.

use crate::{restore::start_elected, world::*};

/// DEPLOYMENT-72.
#[tokio::test(start_paused = true)]
async fn only_writes_of_a_second_writer_raise_the_alarm() {
    let mut world = cluster().server(|server| server.managed_fields(true)).start().await;
    world.crash();
    let names = ["web", "api", "db"];
    for name in names {
        world.create(renamed(web(2), NAMESPACE, name)).await;
    }
    let assembly = start_elected(&world);
    let is_found = || {
        let line = "nonet_second_writer{controller=\"deployment-controller\",evidence=\"writes\"} 1";
        assembly.metrics().render_prometheus().contains(line)
    };
    world.wait(180).await;
    // Writes of this loop, of a user and of the other loops raise no alarm.
    for replicas in [1, 4, 2, 5, 3, 4] {
        for name in names {
            world.patch(DEPLOYMENTS, name, json!({"spec": {"replicas": replicas}})).await;
        }
        world.wait(30).await;
    }
    world.wait(120).await;
    assert!(!is_found());

    for name in names {
        let path = format!(
            "/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}/status?fieldManager=kube-controller-manager"
        );
        let patch = json!({"status": {"collisionCount": 1}});
        let kind = "application/merge-patch+json";
        world.sandbox.send(Method::PATCH, &path, kind, Some(&patch)).await.unwrap();
        world.wait(20).await;
    }
    world.wait(30).await;
    assert!(is_found());
    let events = world.sandbox.list("events", Some("kube-system")).await.unwrap();
    let found: Vec<_> = events.iter().filter(|event| event["reason"] == "SecondWriterFound").collect();
    assert_eq!(found.len(), 1, "{events:#?}");
    assert_eq!(found[0]["involvedObject"]["name"], "deployment-controller");
}
