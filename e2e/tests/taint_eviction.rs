//! Suite: what taint-eviction-controller promises for Pods on nodes that are tainted.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod lost_node;

use std::{process::ExitCode, time::Duration};

use e2e::suite::{Context, Outcome, Suite, Test, condition, resources::PODS, run};
use lost_node::{OURS, clean, is_going, node_with_pod, taint, until_going};
use serde_json::{Value, json};

fn main() -> ExitCode {
    run(&suite())
}

/// The suite, for a program of its own and for the one that runs all of them.
pub fn suite() -> Suite {
    Suite {
        name: "taint_eviction",
        controllers: &[("node-lifecycle-controller", &["--controllers=taint-eviction-controller"])],
        starts_its_own: false,
        cluster: |cluster| cluster,
        at_once: None,
        tests: vec![
            Test::new("a_pod_leaves_a_node_it_does_not_tolerate", |c| Box::pin(leaves(c))).only(OURS),
            Test::new("a_pod_stays_for_as_long_as_it_tolerates", |c| Box::pin(tolerates(c))).only(OURS),
            Test::new("a_taint_that_goes_in_time_cancels", |c| Box::pin(cancels(c))).only(OURS),
            Test::new("a_pod_that_tolerates_for_ever_stays", |c| Box::pin(stays(c))).only(OURS),
        ],
    }
}

/// A toleration of the test's taint for that long.
fn tolerated(seconds: u32) -> Value {
    json!([{"key": "nonet.io/leave", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}])
}

fn leave() -> Value {
    json!([{"key": "nonet.io/leave", "effect": "NoExecute"}])
}

async fn leaves(c: Context) -> Outcome {
    node_with_pod(&c, json!([])).await?;
    taint(&c, leave()).await?;
    let pod = until_going(&c, Duration::from_secs(10)).await?;
    let target = condition(&pod, "DisruptionTarget").cloned().unwrap_or_default();
    c.check(target["reason"] == "DeletionByTaintManager", "it says why").await?;
    let marked = format!("Normal TaintManagerEviction Marking for deletion Pod {}/p", c.namespace());
    c.until("an Event", async || c.events_of("Pod", "p").await.ok()?.contains(&marked).then_some(())).await?;
    clean(&c).await
}

async fn tolerates(c: Context) -> Outcome {
    node_with_pod(&c, tolerated(4)).await?;
    taint(&c, leave()).await?;
    c.stays("the Pod", Duration::from_secs(3), async || !is_going(&c).await).await?;
    until_going(&c, Duration::from_secs(10)).await?;
    clean(&c).await
}

async fn cancels(c: Context) -> Outcome {
    node_with_pod(&c, tolerated(4)).await?;
    taint(&c, leave()).await?;
    c.sleep(Duration::from_secs(2)).await;
    taint(&c, json!([])).await?;
    c.stays("the Pod", Duration::from_secs(5), async || !is_going(&c).await).await?;
    let cancelled = format!("Normal TaintManagerEviction Cancelling deletion of Pod {}/p", c.namespace());
    c.until("an Event", async || c.events_of("Pod", "p").await.ok()?.contains(&cancelled).then_some(())).await?;
    clean(&c).await
}

async fn stays(c: Context) -> Outcome {
    node_with_pod(&c, json!([{"operator": "Exists"}])).await?;
    taint(&c, leave()).await?;
    c.stays("the Pod", Duration::from_secs(3), async || !is_going(&c).await).await?;
    let pod = c.get(PODS, "p").await?;
    c.check(condition(&pod, "DisruptionTarget").is_none(), "nothing marks it").await?;
    clean(&c).await
}
