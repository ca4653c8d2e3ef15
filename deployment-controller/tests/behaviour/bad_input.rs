//! Malformed objects, as only a faulty server would send them.

use crate::world::*;

/// DEPLOYMENT-39, DEPLOYMENT-63, DEPLOYMENT-89.
#[tokio::test(start_paused = true)]
async fn a_malformed_deployment_backs_off_alone() {
    const UNAVAILABLE: &str = "\"maxUnavailable\":\"77%\"";
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "77%"}});
    let bad = with_spec(renamed(web(77), NAMESPACE, "bad"), json!({ "strategy": strategy }));
    let good = with_spec(web(1), json!({"strategy": {"type": "Recreate"}}));
    // The back-off doubles from 5 ms, so there are few attempts in a minute.
    let malformed = conformance::Malformed { objects: vec![bad, good], failures: 10..=15 };
    malformed
        .backs_off_alone(
            &cluster(),
            &[
                (&[("\"replicas\":77", "\"replicas\":-77")], "spec.replicas is -77"),
                (&[("\"replicas\":77", "\"replicas\":\"many\"")], "invalid type"),
                (
                    &[("\"selector\":{\"matchLabels\":{\"app\":\"bad\"}}", "\"selector\":null")],
                    "spec.selector is missing",
                ),
                (&[(UNAVAILABLE, "\"maxUnavailable\":\"300%\"")], "maxUnavailable: 300% is out of range"),
                (&[(UNAVAILABLE, "\"maxUnavailable\":\"x%\"")], "\"x%\" is not an integer"),
                (
                    &[("\"type\":\"RollingUpdate\"", "\"type\":\"BlueGreen\"")],
                    "unexpected deployment strategy type: BlueGreen",
                ),
                (&[("\"labels\":{\"app\":\"bad\"}", "\"labels\":{\"app\":7}")], "cannot be read"),
            ],
            async |world, error| {
                assert_eq!(world.status().await["observedGeneration"], 1, "{error}");
                assert_eq!(world.count("create", REPLICA_SETS), 1, "{error}");
            },
        )
        .await;
}
