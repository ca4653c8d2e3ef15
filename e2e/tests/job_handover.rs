//! Suite: Jobs that change hands between kube-controller-manager and job-controller, again and again, in mid-flight.
//!
//! Where the binary of kube-controller-manager does not lie beside those of etcd and kube-apiserver, a second job-controller
//! takes its part.

use std::collections::BTreeSet;

use e2e::suite::{handover::Hands, prelude::*};

use crate::job::is_finished;

pub(crate) fn suite() -> Suite {
    let scenes = scenes! {
        SIMULATED =>
            jobs_go_back_and_forth what_upstream_left_at_rest_stays_at_rest;
    };
    Suite::new("job_handover").scenes(scenes).at_once(1)
}

fn hands() -> Hands {
    Hands::find("job-controller", "job-controller")
}

fn names(pods: &[Value]) -> BTreeSet<String> {
    pods.iter().map(|pod| pod["metadata"]["uid"].to_string()).collect()
}

async fn jobs_go_back_and_forth(c: Context) -> Outcome {
    let hands = hands();
    let plain = job("plain").set("spec/completions", 24).set("spec/parallelism", 3);
    c.create(JOBS, plain.script("sim/exit", "0").script("sim/after", "0.7")).await?;
    let indexed =
        job("indexed").set("spec/completions", 16).set("spec/parallelism", 2).set("spec/completionMode", "Indexed");
    c.create(JOBS, indexed.script("sim/exit", "0").script("sim/after", "0.7")).await?;
    let limited = job("limited")
        .set("spec/completions", 4)
        .set("spec/parallelism", 4)
        .set("spec/completionMode", "Indexed")
        .set("spec/backoffLimitPerIndex", 1);
    c.create(JOBS, limited.script("sim/exit", "0").script("sim/exit-index-2", "3").script("sim/after", "1")).await?;
    let failing = job("failing").set("spec/backoffLimit", 1);
    c.create(JOBS, failing.script("sim/exit", "1").script("sim/after", "1")).await?;
    let running = c.create(JOBS, job("running").set("spec/completions", 5).set("spec/parallelism", 5)).await?;
    let mut worker = hands.theirs(&c).await?;
    c.until("five Pods that run", async || (c.get(JOBS, "running").await.ok()?["status"]["ready"] == 5).then_some(()))
        .await?;
    let first = names(&c.pods_of(&running).await?);
    for turn in 0..10 {
        c.sleep(Duration::from_millis(700 + 130 * turn)).await;
        worker = hands.change(&c, worker).await?;
    }
    for (name, succeeded, failed) in [("plain", 24, 0), ("indexed", 16, 0), ("limited", 3, 2), ("failing", 0, 2)] {
        let job = c.until_object(JOBS, name, &format!("Job {name} to finish"), is_finished).await?;
        let number = |field: &str| job["status"][field].as_i64().unwrap_or(0);
        assert_eq!((number("succeeded"), number("failed")), (succeeded, failed), "{name}: {}", job["status"]);
        let pods = c.pods_of(&job).await?;
        let over = |phase: &str| pods.iter().filter(|pod| pod["status"]["phase"] == phase).count() as i64;
        assert_eq!((over("Succeeded"), over("Failed")), (succeeded, failed), "{name}: a Pod too many, or one too few");
        assert!(pods.iter().all(|pod| pod["metadata"].get("finalizers").is_none()), "{name}");
    }
    let job = c.get(JOBS, "running").await?;
    assert_eq!((&job["status"]["active"], job["status"].get("failed")), (&json!(5), None));
    assert_eq!(names(&c.pods_of(&running).await?), first, "no Pod was restarted");
    worker.end().await
}

async fn what_upstream_left_at_rest_stays_at_rest(c: Context) -> Outcome {
    let hands = hands();
    let theirs = hands.theirs(&c).await?;
    let limited =
        job("limited").set("spec/completions", 3).set("spec/parallelism", 3).set("spec/completionMode", "Indexed");
    c.create(JOBS, limited.set("spec/backoffLimitPerIndex", 2)).await?;
    c.create(JOBS, job("suspended").set("spec/suspend", true)).await?;
    c.create(JOBS, job("done").script("sim/exit", "0")).await?;
    c.until("all Jobs to be at rest", async || {
        let running = c.get(JOBS, "limited").await.ok()?["status"]["ready"] == 3;
        let suspended = condition(&c.get(JOBS, "suspended").await.ok()?, "Suspended").is_some();
        (running && suspended && is_finished(&c.get(JOBS, "done").await.ok()?)).then_some(())
    })
    .await?;
    c.sleep(Duration::from_secs(2)).await;
    theirs.end().await?;
    let before = c.versions(&[JOBS, PODS]).await?;
    let ours = hands.ours(&c).await?;
    c.sleep(Duration::from_secs(5)).await;
    assert_eq!(c.versions(&[JOBS, PODS]).await?, before);
    ours.end().await
}
