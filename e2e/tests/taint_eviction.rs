//! Suite: what taint-eviction-controller promises for Pods on nodes that are tainted.
//!
//! Each test has a node of its own. Where a Pod has to leave after some time, the test compares the time of its deletion with the
//! time of the taint, so that a slow machine makes no test fail.

use crate::lost_node::{clean, is_terminating, node, node_with_pod, pod, set_phase, taint, until_terminating};
use e2e::suite::prelude::*;
use jiff::{SignedDuration, Timestamp};

/// Keys of taints.
const LEAVE: &str = "nonet.io/leave";
const OTHER: &str = "nonet.io/other";
/// How long it takes at most until a Pod is deleted that has to leave at once: long enough to see that one stays.
const SOON: Duration = Duration::from_secs(3);

pub(crate) fn suite() -> Suite {
    let scenes = scenes! {
        SIMULATED =>
            a_pod_leaves_a_node_it_does_not_tolerate a_pod_stays_for_as_long_as_it_tolerates
            a_taint_that_goes_in_time_cancels a_pod_that_tolerates_for_ever_stays only_pods_that_do_not_tolerate_leave
            each_pod_leaves_after_its_own_time the_shortest_tolerated_time_counts
            one_taint_that_is_not_tolerated_is_enough the_first_toleration_that_matches_counts
            a_toleration_of_another_value_does_not_match a_toleration_of_another_effect_does_not_match
            taints_of_other_effects_evict_nobody a_pod_leaves_a_node_that_was_tainted_before
            a_toleration_that_is_added_in_time_cancels no_tolerated_time_is_no_toleration
            pods_that_have_finished_leave_too a_taint_that_returns_counts_anew
            a_pod_leaves_in_time_after_its_node_is_deleted a_second_taint_does_not_change_the_time
            a_taint_in_the_place_of_another_does_not_change_the_time
            a_pod_in_the_place_of_another_has_a_time_of_its_own;
    };
    Suite::new("taint_eviction", &[("node-lifecycle-controller", &["--controllers=taint-eviction-controller"])], scenes)
        .at_once(24)
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
    let now = c.cluster().clock().now();
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
        let [controller] = c.controllers() else { return None };
        controller.explain(&key).await.ok()?.contains("deleted when its timer is due").then_some(())
    })
    .await
}

async fn until_cancelled(c: &Context, pod: &str) -> Outcome {
    let event = format!("Normal TaintManagerEviction Cancelling deletion of Pod {}/{pod}", c.namespace());
    c.until("an Event", async || c.events_of("Pod", pod).await.ok()?.contains(&event).then_some(())).await
}

async fn stays_for(c: &Context, pod: &str, long: Duration) -> Outcome {
    c.stays(&format!("Pod {pod} is not deleted"), long, async || !is_terminating(c, pod).await).await
}

async fn a_pod_leaves_a_node_it_does_not_tolerate(c: Context) -> Outcome {
    node(&c).await?;
    pod(&c, "p", json!({"terminationGracePeriodSeconds": 7})).await?;
    taint(&c, leave()).await?;
    let pod = until_terminating(&c, "p").await?;
    let target = condition(&pod, "DisruptionTarget").cloned().unwrap_or_default();
    let expected = ["True", "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"];
    let found = ["status", "reason", "message"].map(|field| target[field].as_str().unwrap_or_default());
    c.check(found == expected, "its condition gives the reason").await?;
    c.check(target["observedGeneration"] == 1, "the condition is of the generation that was judged").await?;
    c.check(pod["metadata"]["deletionGracePeriodSeconds"] == 7, "it has its own grace period").await?;
    let marked = format!("Normal TaintManagerEviction Marking for deletion Pod {}/p", c.namespace());
    c.until("an Event", async || c.events_of("Pod", "p").await.ok()?.contains(&marked).then_some(())).await?;
    clean(&c).await
}

async fn a_pod_stays_for_as_long_as_it_tolerates(c: Context) -> Outcome {
    node_with_pod(&c, tolerated(4)).await?;
    let since = taint_now(&c, leave()).await?;
    until_left(&c, "p", since, 4).await?;
    clean(&c).await
}

async fn a_taint_that_goes_in_time_cancels(c: Context) -> Outcome {
    node_with_pod(&c, tolerated(6)).await?;
    taint(&c, leave()).await?;
    until_timed(&c, "p").await?;
    taint(&c, json!([])).await?;
    until_cancelled(&c, "p").await?;
    stays_for(&c, "p", Duration::from_secs(7)).await?;
    clean(&c).await
}

async fn a_pod_that_tolerates_for_ever_stays(c: Context) -> Outcome {
    node_with_pod(&c, json!([{"operator": "Exists"}])).await?;
    taint(&c, leave()).await?;
    stays_for(&c, "p", SOON).await?;
    let pod = c.get(PODS, "p").await?;
    c.check(condition(&pod, "DisruptionTarget").is_none(), "nothing marks it").await?;
    clean(&c).await
}

async fn only_pods_that_do_not_tolerate_leave(c: Context) -> Outcome {
    node_with_pod(&c, json!([])).await?;
    pod(&c, "tolerates", json!({"tolerations": [toleration(LEAVE, None)]})).await?;
    pod(&c, "elsewhere", json!({"nodeName": "nonet-elsewhere"})).await?;
    taint(&c, leave()).await?;
    until_terminating(&c, "p").await?;
    stays_for(&c, "tolerates", SOON).await?;
    c.check(!is_terminating(&c, "elsewhere").await, "a Pod of another node stays").await?;
    clean(&c).await
}

async fn each_pod_leaves_after_its_own_time(c: Context) -> Outcome {
    node(&c).await?;
    for seconds in [2, 5, 600] {
        pod(&c, &format!("p{seconds}"), json!({ "tolerations": tolerated(seconds) })).await?;
    }
    let since = taint_now(&c, leave()).await?;
    until_left(&c, "p2", since, 2).await?;
    until_left(&c, "p5", since, 5).await?;
    c.check(!is_terminating(&c, "p600").await, "the third one stays").await?;
    clean(&c).await
}

async fn the_shortest_tolerated_time_counts(c: Context) -> Outcome {
    node_with_pod(&c, json!([toleration(LEAVE, Some(600)), toleration(OTHER, Some(2))])).await?;
    pod(&c, "half", json!({"tolerations": [toleration(LEAVE, None), toleration(OTHER, Some(2))]})).await?;
    let since = taint_now(&c, json!([no_execute(LEAVE), no_execute(OTHER)])).await?;
    for pod in ["p", "half"] {
        until_left(&c, pod, since, 2).await?;
    }
    clean(&c).await
}

async fn one_taint_that_is_not_tolerated_is_enough(c: Context) -> Outcome {
    node_with_pod(&c, tolerated(600)).await?;
    taint(&c, leave()).await?;
    until_timed(&c, "p").await?;
    taint(&c, json!([no_execute(LEAVE), no_execute(OTHER)])).await?;
    until_terminating(&c, "p").await?;
    until_cancelled(&c, "p").await?;
    clean(&c).await
}

async fn the_first_toleration_that_matches_counts(c: Context) -> Outcome {
    let (short, every) = (toleration(LEAVE, Some(2)), json!({"operator": "Exists"}));
    node_with_pod(&c, json!([short, every])).await?;
    pod(&c, "ever", json!({"tolerations": [every, short]})).await?;
    let since = taint_now(&c, leave()).await?;
    until_left(&c, "p", since, 2).await?;
    stays_for(&c, "ever", SOON).await?;
    clean(&c).await
}

async fn a_toleration_of_another_value_does_not_match(c: Context) -> Outcome {
    let of = |value: &str| json!([{"key": LEAVE, "operator": "Equal", "value": value, "effect": "NoExecute"}]);
    node_with_pod(&c, of("red")).await?;
    for (name, tolerations) in [("blue", of("blue")), ("any", json!([toleration(LEAVE, None)]))] {
        pod(&c, name, json!({ "tolerations": tolerations })).await?;
    }
    taint(&c, json!([{"key": LEAVE, "value": "blue", "effect": "NoExecute"}])).await?;
    until_terminating(&c, "p").await?;
    stays_for(&c, "blue", SOON).await?;
    c.check(!is_terminating(&c, "any").await, "a toleration of every value matches").await?;
    // Another value is another taint.
    taint(&c, json!([{"key": LEAVE, "value": "green", "effect": "NoExecute"}])).await?;
    until_terminating(&c, "blue").await?;
    c.check(!is_terminating(&c, "any").await, "a toleration of every value matches").await?;
    clean(&c).await
}

async fn a_toleration_of_another_effect_does_not_match(c: Context) -> Outcome {
    node_with_pod(&c, json!([{"key": LEAVE, "operator": "Exists", "effect": "NoSchedule"}])).await?;
    pod(&c, "every-effect", json!({"tolerations": [{"key": LEAVE, "operator": "Exists"}]})).await?;
    taint(&c, leave()).await?;
    until_terminating(&c, "p").await?;
    stays_for(&c, "every-effect", SOON).await?;
    clean(&c).await
}

async fn taints_of_other_effects_evict_nobody(c: Context) -> Outcome {
    node_with_pod(&c, json!([])).await?;
    let others: Vec<Value> =
        ["NoSchedule", "PreferNoSchedule"].iter().map(|effect| json!({"key": LEAVE, "effect": effect})).collect();
    taint(&c, json!(others)).await?;
    stays_for(&c, "p", SOON).await?;
    clean(&c).await
}

async fn a_pod_leaves_a_node_that_was_tainted_before(c: Context) -> Outcome {
    node(&c).await?;
    taint(&c, leave()).await?;
    pod(&c, "p", json!({})).await?;
    until_terminating(&c, "p").await?;
    let since = c.cluster().clock().now();
    pod(&c, "later", json!({ "tolerations": tolerated(2) })).await?;
    until_left(&c, "later", since, 2).await?;
    clean(&c).await
}

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
    stays_for(&c, "p", Duration::from_secs(7)).await?;
    clean(&c).await
}

async fn no_tolerated_time_is_no_toleration(c: Context) -> Outcome {
    node_with_pod(&c, tolerated(0)).await?;
    pod(&c, "negative", json!({ "tolerations": tolerated(-5) })).await?;
    taint(&c, leave()).await?;
    for pod in ["p", "negative"] {
        until_terminating(&c, pod).await?;
        let events = c.events_of("Pod", pod).await?;
        c.check(!events.iter().any(|event| event.contains("Cancelling")), "there was no timer").await?;
    }
    clean(&c).await
}

async fn pods_that_have_finished_leave_too(c: Context) -> Outcome {
    node_with_pod(&c, json!([])).await?;
    pod(&c, "failed", json!({})).await?;
    for (pod, phase) in [("p", "Succeeded"), ("failed", "Failed")] {
        set_phase(&c, pod, phase).await?;
    }
    taint(&c, leave()).await?;
    for (pod, phase) in [("p", "Succeeded"), ("failed", "Failed")] {
        let left = until_terminating(&c, pod).await?;
        c.check(left["status"]["phase"] == phase, "its phase is as it was").await?;
    }
    clean(&c).await
}

async fn a_taint_that_returns_counts_anew(c: Context) -> Outcome {
    node_with_pod(&c, tolerated(4)).await?;
    taint(&c, leave()).await?;
    until_timed(&c, "p").await?;
    taint(&c, json!([])).await?;
    until_cancelled(&c, "p").await?;
    c.sleep(Duration::from_secs(2)).await;
    let since = taint_now(&c, leave()).await?;
    until_left(&c, "p", since, 4).await?;
    clean(&c).await
}

async fn a_pod_leaves_in_time_after_its_node_is_deleted(c: Context) -> Outcome {
    node_with_pod(&c, tolerated(4)).await?;
    let since = taint_now(&c, leave()).await?;
    until_timed(&c, "p").await?;
    c.delete(NODES, c.namespace(), "Background").await?;
    until_left(&c, "p", since, 4).await?;
    clean(&c).await
}

async fn a_second_taint_does_not_change_the_time(c: Context) -> Outcome {
    node_with_pod(&c, json!([toleration(LEAVE, Some(5)), toleration(OTHER, Some(1))])).await?;
    let since = taint_now(&c, leave()).await?;
    until_timed(&c, "p").await?;
    taint(&c, json!([no_execute(LEAVE), no_execute(OTHER)])).await?;
    until_left(&c, "p", since, 5).await?;
    clean(&c).await
}

async fn a_taint_in_the_place_of_another_does_not_change_the_time(c: Context) -> Outcome {
    node_with_pod(&c, json!([toleration(LEAVE, Some(4)), toleration(OTHER, Some(600))])).await?;
    let since = taint_now(&c, leave()).await?;
    until_timed(&c, "p").await?;
    taint(&c, json!([no_execute(LEAVE), no_execute(OTHER)])).await?;
    taint(&c, json!([no_execute(OTHER)])).await?;
    until_left(&c, "p", since, 4).await?;
    let events = c.events_of("Pod", "p").await?;
    c.check(!events.iter().any(|event| event.contains("Cancelling")), "the timer was kept").await?;
    clean(&c).await
}

async fn a_pod_in_the_place_of_another_has_a_time_of_its_own(c: Context) -> Outcome {
    node_with_pod(&c, tolerated(3)).await?;
    taint(&c, leave()).await?;
    until_timed(&c, "p").await?;
    c.merge(PODS, "p", json!({"metadata": {"finalizers": null}})).await?;
    let now = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
    c.client().delete(PODS, c.namespace(), "p", &now).await?;
    let since = c.cluster().clock().now();
    pod(&c, "p", json!({ "tolerations": tolerated(6) })).await?;
    until_left(&c, "p", since, 6).await?;
    clean(&c).await
}
