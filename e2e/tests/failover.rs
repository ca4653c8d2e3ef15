//! Suite: leaders that stop or die in mid-rollout.

use common::clock::Instant;
use e2e::{process::Process, suite::prelude::*};

/// Elections that need not be waited for long.
pub(crate) const QUICK: &[&str] =
    &["--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=500ms"];
/// How long a process may take to end.
pub(crate) const ENDING: Duration = Duration::from_secs(30);
pub(crate) const DEPLOYMENT_CONTROLLER: &str = "deployment-controller";
pub(crate) const REPLICASET_CONTROLLER: &str = "replicaset-controller";

pub(crate) fn suite() -> Suite {
    let scenes = scenes! {
        EVERYWHERE =>
            a_stopped_leader_is_followed_within_a_second who_finds_its_lease_held_stands_by_until_it_is_free
            a_killed_leader_is_followed a_stopped_leader_leaves_no_pod_twice a_leader_killed_in_a_burst_is_followed
            a_leader_that_hangs_is_followed_and_writes_no_more;
        SANDBOX =>
            a_successor_writes_without_reading_what_it_knows;
    };
    Suite::new("failover")
        .scenes(scenes)
        // Controllers act on every namespace: two tests at once would share them.
        .at_once(1)
}

/// Who holds the Lease of a controller.
async fn holder(c: &Context, controller: &str) -> Option<String> {
    let lease = c.client().get(LEASES, c.namespace(), controller).await.ok()?;
    lease["spec"]["holderIdentity"].as_str().filter(|h| !h.is_empty()).map(str::to_owned)
}

/// Waits until somebody other than `before` holds the Lease, and says who and how long that took.
async fn successor(c: &Context, controller: &str, before: &str, since: Instant) -> Result<(String, Duration), Failure> {
    let clock = c.clock();
    loop {
        if let Some(now) = holder(c, controller).await.filter(|h| h != before) {
            return Ok((now, clock.monotonic_now() - since));
        }
        if clock.monotonic_now() - since > Duration::from_secs(60) {
            return c.fail(&format!("nobody followed {before} as {controller}")).await;
        }
        clock.sleep(Duration::from_millis(5)).await;
    }
}

/// A leader and its standby.
async fn pair(c: &Context, controller: &str, flags: &[&str]) -> Result<(Process, Process, String), Failure> {
    let leader = c.start(controller, flags).await?;
    let holds = c.until("the first replica to lead", async || holder(c, controller).await).await?;
    let standby = c.start(controller, flags).await?;
    assert_eq!(holder(c, controller).await.as_ref(), Some(&holds));
    Ok((leader, standby, holds))
}

/// A Deployment whose rollout goes Pod by Pod.
pub(crate) async fn slow_deployment(c: &Context) -> Result<Value, Failure> {
    c.create(DEPLOYMENTS, deployment("web").replicas(8).rolling(1, 0).script("sim/ready-after", "0.2")).await?;
    c.rolled_out("web").await
}

/// Waits until a rollout is halfway.
pub(crate) async fn halfway(c: &Context, d: &Value) -> Outcome {
    c.until("the rollout to be halfway", async || {
        let sets = c.replica_sets_of(d).await.ok()?;
        (sets.len() == 2 && sets[1]["status"]["readyReplicas"].as_i64() >= Some(3)).then_some(())
    })
    .await
}

pub(crate) async fn check_limits(c: &Context, states: &[State]) -> Outcome {
    for (step, state) in states.iter().enumerate() {
        let (size, ready) = (state.size(), state.ready());
        c.check(size <= 9, &format!("step {step}: {size} Pods wanted where 9 are allowed")).await?;
        c.check(ready >= 8, &format!("step {step}: {ready} Pods ready where 8 are promised")).await?;
    }
    Ok(())
}

/// COMMON-43.
async fn a_stopped_leader_is_followed_within_a_second(c: Context) -> Outcome {
    let _sets = c.start(REPLICASET_CONTROLLER, &[]).await?;
    let (mut leader, _standby, name) = pair(&c, DEPLOYMENT_CONTROLLER, &[]).await?;
    let d = slow_deployment(&c).await?;
    let recorder = c.record().await?;
    c.merge(DEPLOYMENTS, "web", image("img:2")).await?;
    halfway(&c, &d).await?;
    let since = c.clock().monotonic_now();
    leader.terminate()?;
    let (_, took) = successor(&c, DEPLOYMENT_CONTROLLER, &name, since).await?;
    c.check(took < Duration::from_secs(1), &format!("the standby took over after {took:?}")).await?;
    let status = leader.ended(ENDING).await?;
    assert!(status.success(), "a stopped leader ends in order: {status}");
    c.rolled_out("web").await?;
    check_limits(&c, &recorder.stop().await?).await
}

/// How many Pods a standby knows when it takes over.
const KNOWN: u32 = 2000;

/// COMMON-53, COMMON-54.
async fn a_successor_writes_without_reading_what_it_knows(c: Context) -> Outcome {
    let (mut leader, standby) = (
        c.start_as("first", REPLICASET_CONTROLLER, &[]).await?,
        c.start_as("second", REPLICASET_CONTROLLER, &[]).await?,
    );
    let sandbox = c.cluster().sandbox().unwrap();
    c.create(REPLICA_SETS, replica_set("many").replicas(KNOWN)).await?;
    c.until_object(REPLICA_SETS, "many", "all Pods to be available", |set| set["status"]["availableReplicas"] == KNOWN)
        .await?;
    let requests = sandbox.requests();
    let of_standby = |verb, resource| requests.count(Some("second"), Some(verb), Some(resource));
    assert_eq!(of_standby("create", "pods"), 0, "a standby writes nothing");
    requests.clear();
    let clock = c.clock();
    let since = clock.monotonic_now();
    leader.terminate()?;
    assert!(leader.ended(ENDING).await?.success());
    c.create(REPLICA_SETS, replica_set("next")).await?;
    c.until("the successor's first Pod", async || (of_standby("create", "pods") > 0).then_some(())).await?;
    let took = clock.monotonic_now() - since;
    standby.check()?;
    println!("the successor's first write came {took:?} after SIGTERM, {KNOWN} Pods known");
    for resource in ["pods", "replicasets.apps", "replicationcontrollers"] {
        for verb in ["list", "watch"] {
            assert_eq!(of_standby(verb, resource), 0, "{verb} {resource}");
        }
    }
    c.until_object(REPLICA_SETS, "next", "one Pod of the new set", |set| set["status"]["availableReplicas"] == 1)
        .await?;
    c.check(sandbox.count("pods") == KNOWN as usize + 1, "a Pod too many, or one too few").await
}

/// COMMON-57.
async fn who_finds_its_lease_held_stands_by_until_it_is_free(c: Context) -> Outcome {
    let held = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": REPLICASET_CONTROLLER},
        "spec": {"holderIdentity": "held-for-hand-over"}});
    c.create(LEASES, held).await?;
    let _controller = c.start(REPLICASET_CONTROLLER, QUICK).await?;
    c.create(REPLICA_SETS, replica_set("web").replicas(2)).await?;
    let nothing = async || c.list(PODS).await.is_ok_and(|pods| pods.is_empty());
    c.stays("a standby writes nothing", Duration::from_secs(5), nothing).await?;
    c.merge(LEASES, REPLICASET_CONTROLLER, json!({"spec": {"holderIdentity": ""}})).await?;
    c.until_object(REPLICA_SETS, "web", "the Pods", |set| set["status"]["availableReplicas"] == 2).await.map(drop)
}

/// COMMON-42.
async fn a_killed_leader_is_followed(c: Context) -> Outcome {
    let _sets = c.start(REPLICASET_CONTROLLER, QUICK).await?;
    let (mut leader, _standby, name) = pair(&c, DEPLOYMENT_CONTROLLER, QUICK).await?;
    let d = slow_deployment(&c).await?;
    let recorder = c.record().await?;
    c.merge(DEPLOYMENTS, "web", image("img:2")).await?;
    halfway(&c, &d).await?;
    let since = c.clock().monotonic_now();
    leader.kill()?;
    leader.ended(ENDING).await?;
    let (_, took) = successor(&c, DEPLOYMENT_CONTROLLER, &name, since).await?;
    // The duration of the Lease, one pause between attempts, and what a loaded machine adds.
    c.check(took < Duration::from_secs(8), &format!("the standby took over after {took:?}")).await?;
    c.rolled_out("web").await?;
    check_limits(&c, &recorder.stop().await?).await
}

/// Waits until a set of 300 has been partly created.
async fn bursting(c: &Context) -> Result<Value, Failure> {
    let set = c.create(REPLICA_SETS, replica_set("web").replicas(300)).await?;
    c.until("the first Pods of many", async || (!c.list(PODS).await.ok()?.is_empty()).then_some(())).await?;
    Ok(set)
}

async fn all_there(c: &Context) -> Outcome {
    c.until_object(REPLICA_SETS, "web", "300 Pods to be available", |set| {
        set["status"]["availableReplicas"] == 300 && set["status"]["replicas"] == 300
    })
    .await
    .map(drop)
}

async fn a_stopped_leader_leaves_no_pod_twice(c: Context) -> Outcome {
    let (mut leader, _standby, _) = pair(&c, REPLICASET_CONTROLLER, &[]).await?;
    let recorder = c.record().await?;
    bursting(&c).await?;
    leader.terminate()?;
    let status = leader.ended(ENDING).await?;
    assert!(status.success(), "a stopped leader ends in order: {status}");
    all_there(&c).await?;
    let states = recorder.stop().await?;
    let most = states.iter().map(State::active).max().unwrap();
    c.check(most == 300, &format!("{most} Pods were there at once")).await
}

async fn a_leader_killed_in_a_burst_is_followed(c: Context) -> Outcome {
    let (mut leader, _standby, _) = pair(&c, REPLICASET_CONTROLLER, QUICK).await?;
    bursting(&c).await?;
    leader.kill()?;
    leader.ended(ENDING).await?;
    all_there(&c).await?;
    // Requests on their way when the leader died may have made more: those are removed again.
    c.until_list(PODS, "no Pod too many", |pods| pods.len() == 300 && pods.iter().all(is_ready)).await.map(drop)
}

/// COMMON-49.
async fn a_leader_that_hangs_is_followed_and_writes_no_more(c: Context) -> Outcome {
    let (mut leader, _standby, name) = pair(&c, REPLICASET_CONTROLLER, QUICK).await?;
    c.create(REPLICA_SETS, replica_set("web").replicas(3)).await?;
    let since = c.clock().monotonic_now();
    leader.pause()?;
    successor(&c, REPLICASET_CONTROLLER, &name, since).await?;
    c.scale(REPLICA_SETS, "web", 5).await?;
    c.until_object(REPLICA_SETS, "web", "the successor to work", |set| set["status"]["availableReplicas"] == 5).await?;
    let before = c.list(PODS).await?.len();
    leader.resume()?;
    let status = leader.ended(ENDING).await?;
    assert_eq!(status.code(), Some(1), "who has lost the Lease ends");
    c.sleep(Duration::from_secs(1)).await;
    assert_eq!((before, c.list(PODS).await?.len()), (5, 5));
    Ok(())
}
