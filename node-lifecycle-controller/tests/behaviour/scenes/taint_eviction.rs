//! What taint-eviction-controller promises for Pods on nodes that are tainted.
//!
//! Each test has a node of its own. Where a Pod has to leave after some time, the test compares the time of its deletion with the
//! time of the taint, so that a slow machine makes no test fail.

use jiff::{SignedDuration, Timestamp};
use testkit::scene::prelude::*;

use super::lost_node::{is_leaving, node, node_with_pod, pod, set_phase, taint, until_terminating};

/// Keys of taints.
const LEAVE: &str = "nonet.io/leave";
const OTHER: &str = "nonet.io/other";
/// How long it takes at most until a Pod is deleted that has to leave at once: long enough to see that one stays.
const SOON: Duration = Duration::from_secs(3);

suite! {
    Suite::new("taint_eviction")
        .controller(&node_lifecycle_controller::DEFINITION, &["--controllers=taint-eviction-controller"])
        .at_once(24);
    SIMULATED.sample() =>
        a_pod_leaves_a_node_it_does_not_tolerate each_pod_leaves_after_its_own_time;
    SIMULATED =>
        a_taint_that_goes_in_time_cancels_and_counts_anew_when_it_returns the_shortest_tolerated_time_counts
        a_toleration_that_is_added_in_time_cancels a_pod_leaves_in_time_after_its_node_is_deleted
        a_second_taint_does_not_change_the_time_unless_it_is_not_tolerated
        a_taint_in_the_place_of_another_does_not_change_the_time
        a_pod_in_the_place_of_another_has_a_time_of_its_own;
}

fn no_execute(key: &str) -> Value {
    json!({"key": key, "effect": "NoExecute"})
}

fn leave() -> Value {
    json!([no_execute(LEAVE)])
}

/// A toleration of a taint for so many seconds, or for ever.
fn toleration(key: &str, seconds: Option<i64>) -> Value {
    let mut toleration = json!({"key": key, "operator": "Exists", "effect": "NoExecute"});
    if let Some(seconds) = seconds {
        toleration["tolerationSeconds"] = json!(seconds);
    }
    toleration
}

fn tolerated(seconds: i64) -> Value {
    json!([toleration(LEAVE, Some(seconds))])
}

/// Taints the test's node, and says when.
async fn taint_now(c: &Context, taints: Value) -> Result<Timestamp, Failure> {
    let now = c.clock().now();
    taint(c, taints).await?;
    Ok(now)
}

/// Fails if the deletion of a Pod was requested less than `seconds` after `since`. Times of the server are whole seconds.
async fn check_waited(c: &Context, pod: &Value, since: Timestamp, seconds: i64) -> Outcome {
    let meta = &pod["metadata"];
    let end: Timestamp = meta["deletionTimestamp"].as_str().unwrap_or_default().parse()?;
    let grace = SignedDuration::from_secs(meta["deletionGracePeriodSeconds"].as_i64().unwrap_or_default());
    let waited = (end - grace).duration_since(since);
    let why = format!("Pod {} was deleted {waited:?} after its taint, not {seconds} s", meta["name"]);
    c.check(waited >= SignedDuration::from_secs(seconds - 1), &why).await
}

/// Waits until a Pod is terminating; the deletion has to come `seconds` or more after the taint.
async fn until_left(c: &Context, pod: &str, since: Timestamp, seconds: i64) -> Outcome {
    let pod = until_terminating(c, pod).await?;
    check_waited(c, &pod, since, seconds).await
}

/// Waits until the controller has a timer for a Pod.
async fn until_timed(c: &Context, pod: &str) -> Outcome {
    let key = format!("{}/{pod}", c.namespace());
    c.until("a timer", async || {
        c.environment().explain(&key).await.contains("deleted when its timer is due").then_some(())
    })
    .await
}

async fn until_cancelled(c: &Context, pod: &str) -> Outcome {
    let event = format!("Normal TaintManagerEviction Cancelling deletion of Pod {}/{pod}", c.namespace());
    c.until("an Event", async || c.events_of("Pod", pod).await.ok()?.contains(&event).then_some(())).await
}

async fn stays_for(c: &Context, pod: &str, long: Duration) -> Outcome {
    c.stays(&format!("Pod {pod} is not deleted"), long, async || !is_leaving(c, pod).await).await
}

/// NODE-48, NODE-55.
async fn a_pod_leaves_a_node_it_does_not_tolerate(c: Context) -> Outcome {
    node(&c).await?;
    pod(&c, "p", json!({"terminationGracePeriodSeconds": 7})).await?;
    taint(&c, leave()).await?;
    let pod = until_terminating(&c, "p").await?;
    let target = condition(&pod, "DisruptionTarget").cloned().unwrap_or_default();
    let expected = ["True", "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"];
    let found = ["status", "reason", "message"].map(|field| target[field].as_str().unwrap_or_default());
    c.check(found == expected, "its condition gives the reason").await?;
    // An API server before 1.34 drops the generation.
    let is_of_generation = target["observedGeneration"] == 1 || c.server_minor().await? < 34;
    c.check(is_of_generation, "the condition is of the generation that was judged").await?;
    c.check(pod["metadata"]["deletionGracePeriodSeconds"] == 7, "it has its own grace period").await?;
    let marked = format!("Normal TaintManagerEviction Marking for deletion Pod {}/p", c.namespace());
    c.until("an Event", async || c.events_of("Pod", "p").await.ok()?.contains(&marked).then_some(())).await
}

/// NODE-51.
async fn a_taint_that_goes_in_time_cancels_and_counts_anew_when_it_returns(c: Context) -> Outcome {
    node_with_pod(&c, tolerated(6)).await?;
    taint(&c, leave()).await?;
    until_timed(&c, "p").await?;
    taint(&c, json!([])).await?;
    until_cancelled(&c, "p").await?;
    stays_for(&c, "p", Duration::from_secs(7)).await?;
    let since = taint_now(&c, leave()).await?;
    until_left(&c, "p", since, 6).await
}

/// The first toleration that matches the taint counts.
/// NODE-48, NODE-49.
async fn each_pod_leaves_after_its_own_time(c: Context) -> Outcome {
    let of = |field: &str, value: &str| {
        let mut toleration = json!({"key": LEAVE, "operator": "Equal", "value": "blue", "effect": "NoExecute"});
        toleration[field] = json!(value);
        toleration
    };
    let leave = |seconds| toleration(LEAVE, Some(seconds));
    let every = json!({"operator": "Exists"});
    // The Pods, their tolerations, and the seconds after which they leave, if they do.
    let pods = [
        ("intolerant", json!([]), Some(0)),
        ("no-time", json!([leave(0)]), Some(0)),
        ("negative", json!([leave(-5)]), Some(0)),
        ("short", json!([leave(2)]), Some(2)),
        ("longer", json!([leave(5)]), Some(5)),
        ("long", json!([leave(600)]), None),
        ("ever", json!([toleration(LEAVE, None)]), None),
        ("every-taint", json!([every]), None),
        ("short-first", json!([leave(2), every]), Some(2)),
        ("every-first", json!([every, leave(2)]), None),
        ("other-key", json!([toleration(OTHER, None)]), Some(0)),
        ("value", json!([of("value", "blue")]), None),
        ("other-value", json!([of("value", "red")]), Some(0)),
        ("other-effect", json!([of("effect", "NoSchedule")]), Some(0)),
        ("every-effect", json!([{"key": LEAVE, "operator": "Exists"}]), None),
        ("succeeded", json!([]), Some(0)),
        ("failed", json!([]), Some(0)),
    ];
    let phases = [("succeeded", "Succeeded"), ("failed", "Failed")];
    node(&c).await?;
    for (name, tolerations, _) in &pods {
        pod(&c, name, json!({ "tolerations": tolerations })).await?;
    }
    for (pod, phase) in phases {
        set_phase(&c, pod, phase).await?;
    }
    pod(&c, "elsewhere", json!({"nodeName": "nonet-elsewhere"})).await?;
    let tainted = |value: &str, effect: &str| json!([{"key": LEAVE, "value": value, "effect": effect}]);
    for effect in ["NoSchedule", "PreferNoSchedule"] {
        taint(&c, tainted("blue", effect)).await?;
        stays_for(&c, "intolerant", SOON).await?;
    }
    let since = taint_now(&c, tainted("blue", "NoExecute")).await?;
    for (name, _, seconds) in &pods {
        let Some(seconds) = seconds else { continue };
        until_left(&c, name, since, *seconds).await?;
        if *seconds == 0 {
            let events = c.events_of("Pod", name).await?;
            c.check(!events.iter().any(|event| event.contains("Cancelling")), "there was no timer").await?;
        }
    }
    for (pod, phase) in phases {
        c.check(c.get(PODS, pod).await?["status"]["phase"] == phase, "its phase is as it was").await?;
    }
    stays_for(&c, "elsewhere", SOON).await?;
    for (name, ..) in pods.iter().filter(|(_, _, seconds)| seconds.is_none()) {
        let pod = c.get(PODS, name).await?;
        let is_left_alone = !is_leaving(&c, name).await && condition(&pod, "DisruptionTarget").is_none();
        c.check(is_left_alone, &format!("{name} stays, and nothing marks it")).await?;
    }
    // Another value is another taint. A Pod that comes to a tainted node leaves it, too.
    let since = taint_now(&c, tainted("green", "NoExecute")).await?;
    pod(&c, "late", json!({ "tolerations": tolerated(2) })).await?;
    until_left(&c, "value", since, 0).await?;
    until_left(&c, "late", since, 2).await?;
    c.check(!is_leaving(&c, "ever").await, "a toleration of every value matches").await
}

/// NODE-48.
async fn the_shortest_tolerated_time_counts(c: Context) -> Outcome {
    node_with_pod(&c, json!([toleration(LEAVE, Some(600)), toleration(OTHER, Some(2))])).await?;
    pod(&c, "half", json!({"tolerations": [toleration(LEAVE, None), toleration(OTHER, Some(2))]})).await?;
    let since = taint_now(&c, json!([no_execute(LEAVE), no_execute(OTHER)])).await?;
    for pod in ["p", "half"] {
        until_left(&c, pod, since, 2).await?;
    }
    Ok(())
}

/// NODE-51.
async fn a_toleration_that_is_added_in_time_cancels(c: Context) -> Outcome {
    node_with_pod(&c, tolerated(6)).await?;
    taint(&c, leave()).await?;
    until_timed(&c, "p").await?;
    // Tolerations may be added and not changed: the new one has to come first.
    let pod = c.get(PODS, "p").await?;
    let mut all = vec![json!({"key": LEAVE, "operator": "Exists"})];
    all.extend(pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default());
    c.merge(PODS, "p", json!({"spec": {"tolerations": all}})).await?;
    until_cancelled(&c, "p").await?;
    stays_for(&c, "p", Duration::from_secs(7)).await
}

/// NODE-53.
async fn a_pod_leaves_in_time_after_its_node_is_deleted(c: Context) -> Outcome {
    node_with_pod(&c, tolerated(4)).await?;
    let since = taint_now(&c, leave()).await?;
    until_timed(&c, "p").await?;
    c.delete(NODES, c.namespace(), "Background").await?;
    until_left(&c, "p", since, 4).await
}

/// NODE-50, NODE-51.
async fn a_second_taint_does_not_change_the_time_unless_it_is_not_tolerated(c: Context) -> Outcome {
    node_with_pod(&c, json!([toleration(LEAVE, Some(5)), toleration(OTHER, Some(1))])).await?;
    pod(&c, "one", json!({ "tolerations": tolerated(600) })).await?;
    let since = taint_now(&c, leave()).await?;
    for pod in ["p", "one"] {
        until_timed(&c, pod).await?;
    }
    taint(&c, json!([no_execute(LEAVE), no_execute(OTHER)])).await?;
    until_terminating(&c, "one").await?;
    until_cancelled(&c, "one").await?;
    until_left(&c, "p", since, 5).await
}

/// NODE-50.
async fn a_taint_in_the_place_of_another_does_not_change_the_time(c: Context) -> Outcome {
    node_with_pod(&c, json!([toleration(LEAVE, Some(4)), toleration(OTHER, Some(600))])).await?;
    let since = taint_now(&c, leave()).await?;
    until_timed(&c, "p").await?;
    taint(&c, json!([no_execute(LEAVE), no_execute(OTHER)])).await?;
    taint(&c, json!([no_execute(OTHER)])).await?;
    until_left(&c, "p", since, 4).await?;
    let events = c.events_of("Pod", "p").await?;
    c.check(!events.iter().any(|event| event.contains("Cancelling")), "the timer was kept").await
}

/// NODE-52.
async fn a_pod_in_the_place_of_another_has_a_time_of_its_own(c: Context) -> Outcome {
    node_with_pod(&c, tolerated(3)).await?;
    taint(&c, leave()).await?;
    until_timed(&c, "p").await?;
    c.merge(PODS, "p", json!({"metadata": {"finalizers": null}})).await?;
    let now = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
    c.client().delete(PODS, c.namespace(), "p", &now).await?;
    let since = c.clock().now();
    pod(&c, "p", json!({ "tolerations": tolerated(6) })).await?;
    until_left(&c, "p", since, 6).await
}
