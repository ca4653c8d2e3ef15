//! Suite: leaders that stop or die in mid-rollout, and an API server that goes away.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::{process::ExitCode, time::Duration};

use common::clock::Instant;
use e2e::{
    cluster::Kind,
    process::Process,
    suite::{
        Context, Failure, Outcome, State, Suite, Test, deployment, is_ready, replica_set,
        resources::{DEPLOYMENTS, LEASES, PODS, REPLICA_SETS},
        run,
    },
};
use serde_json::{Value, json};

/// Elections that need not be waited for long.
const QUICK: &[&str] =
    &["--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s", "--leader-elect-retry-period=500ms"];
/// How long a process may take to end.
const ENDING: Duration = Duration::from_secs(30);
const DEPLOYMENT_CONTROLLER: &str = "deployment-controller";
const REPLICASET_CONTROLLER: &str = "replicaset-controller";

fn main() -> ExitCode {
    run(&suite())
}

/// The suite, for a program of its own and for the one that runs all of them.
pub(crate) fn suite() -> Suite {
    Suite {
        name: "failover",
        controllers: &[],
        starts_its_own: true,
        cluster: |cluster| cluster,
        // Controllers act on every namespace: two tests at once would share them.
        at_once: Some(1),
        tests: vec![
            Test::new("a_stopped_leader_is_followed_within_a_second", |c| Box::pin(stopped(c))),
            Test::new("a_successor_writes_without_reading_what_it_knows", |c| Box::pin(writes_at_once(c)))
                .only(&[Kind::Sandbox]),
            Test::new("who_finds_its_lease_held_stands_by_until_it_is_free", |c| Box::pin(held(c))),
            Test::new("a_killed_leader_is_followed", |c| Box::pin(killed(c))),
            Test::new("a_stopped_leader_leaves_no_pod_twice", |c| Box::pin(stopped_in_a_burst(c))),
            Test::new("a_leader_killed_in_a_burst_is_followed", |c| Box::pin(killed_in_a_burst(c))),
            Test::new("a_leader_that_hangs_is_followed_and_writes_no_more", |c| Box::pin(hangs(c))),
            Test::new("a_short_outage_is_sat_out", |c| Box::pin(short_outage(c))).only(&[Kind::Sandbox]),
            Test::new("a_long_outage_costs_the_lease_and_nothing_else", |c| Box::pin(long_outage(c)))
                .only(&[Kind::Sandbox]),
        ],
    }
}

/// Who holds the Lease of a controller.
async fn holder(c: &Context, controller: &str) -> Option<String> {
    let lease = c.client().get(LEASES, c.namespace(), controller).await.ok()?;
    lease["spec"]["holderIdentity"].as_str().filter(|h| !h.is_empty()).map(str::to_owned)
}

/// Waits until somebody other than `before` holds the Lease, and says who and how long that took.
async fn successor(c: &Context, controller: &str, before: &str, since: Instant) -> Result<(String, Duration), Failure> {
    let clock = c.cluster().clock();
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

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}})
}

/// A Deployment whose rollout goes Pod by Pod.
async fn slow_deployment(c: &Context) -> Result<Value, Failure> {
    c.create(DEPLOYMENTS, deployment("web").replicas(8).rolling(1, 0).script("sim/ready-after", "0.2")).await?;
    c.rolled_out("web").await
}

/// Waits until a rollout is halfway.
async fn halfway(c: &Context, d: &Value) -> Outcome {
    c.until("the rollout to be halfway", async || {
        let sets = c.replica_sets_of(d).await.ok()?;
        (sets.len() == 2 && sets[1]["status"]["readyReplicas"].as_i64() >= Some(3)).then_some(())
    })
    .await
}

async fn check_limits(c: &Context, states: &[State]) -> Outcome {
    for (step, state) in states.iter().enumerate() {
        let (size, ready) = (state.size(), state.ready());
        c.check(size <= 9, &format!("step {step}: {size} Pods wanted where 9 are allowed")).await?;
        c.check(ready >= 8, &format!("step {step}: {ready} Pods ready where 8 are promised")).await?;
    }
    Ok(())
}

/// COMMON-43.
async fn stopped(c: Context) -> Outcome {
    let _sets = c.start(REPLICASET_CONTROLLER, &[]).await?;
    let (mut leader, _standby, name) = pair(&c, DEPLOYMENT_CONTROLLER, &[]).await?;
    let d = slow_deployment(&c).await?;
    let recorder = c.record().await?;
    c.merge(DEPLOYMENTS, "web", image("img:2")).await?;
    halfway(&c, &d).await?;
    let since = c.cluster().clock().monotonic_now();
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
async fn writes_at_once(c: Context) -> Outcome {
    let (mut leader, standby) = (
        c.start_as("first", REPLICASET_CONTROLLER, &[]).await?,
        c.start_as("second", REPLICASET_CONTROLLER, &[]).await?,
    );
    let sandbox = c.cluster().sandbox().unwrap();
    c.create(REPLICA_SETS, replica_set("many").replicas(KNOWN)).await?;
    c.until("all Pods to be available", async || {
        let set = c.get(REPLICA_SETS, "many").await.ok()?;
        (set["status"]["availableReplicas"] == KNOWN).then_some(())
    })
    .await?;
    let requests = sandbox.requests();
    let of_standby = |verb, resource| requests.count(Some("second"), Some(verb), Some(resource));
    assert_eq!(of_standby("create", "pods"), 0, "a standby writes nothing");
    requests.clear();
    let clock = c.cluster().clock();
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
    c.until("one Pod of the new set", async || {
        let set = c.get(REPLICA_SETS, "next").await.ok()?;
        (set["status"]["availableReplicas"] == 1).then_some(())
    })
    .await?;
    c.check(sandbox.count("pods") == KNOWN as usize + 1, "a Pod too many, or one too few").await
}

/// COMMON-57.
async fn held(c: Context) -> Outcome {
    let held = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": REPLICASET_CONTROLLER},
        "spec": {"holderIdentity": "held-for-hand-over"}});
    c.create(LEASES, held).await?;
    let _controller = c.start(REPLICASET_CONTROLLER, QUICK).await?;
    c.create(REPLICA_SETS, replica_set("web").replicas(2)).await?;
    let nothing = async || c.list(PODS).await.is_ok_and(|pods| pods.is_empty());
    c.stays("a standby writes nothing", Duration::from_secs(5), nothing).await?;
    c.merge(LEASES, REPLICASET_CONTROLLER, json!({"spec": {"holderIdentity": ""}})).await?;
    c.until("the Pods", async || {
        let set = c.get(REPLICA_SETS, "web").await.ok()?;
        (set["status"]["availableReplicas"] == 2).then_some(())
    })
    .await
}

/// COMMON-42.
async fn killed(c: Context) -> Outcome {
    let _sets = c.start(REPLICASET_CONTROLLER, QUICK).await?;
    let (mut leader, _standby, name) = pair(&c, DEPLOYMENT_CONTROLLER, QUICK).await?;
    let d = slow_deployment(&c).await?;
    let recorder = c.record().await?;
    c.merge(DEPLOYMENTS, "web", image("img:2")).await?;
    halfway(&c, &d).await?;
    let since = c.cluster().clock().monotonic_now();
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
    c.until("300 Pods to be available", async || {
        let set = c.get(REPLICA_SETS, "web").await.ok()?;
        (set["status"]["availableReplicas"] == 300 && set["status"]["replicas"] == 300).then_some(())
    })
    .await
}

async fn stopped_in_a_burst(c: Context) -> Outcome {
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

async fn killed_in_a_burst(c: Context) -> Outcome {
    let (mut leader, _standby, _) = pair(&c, REPLICASET_CONTROLLER, QUICK).await?;
    bursting(&c).await?;
    leader.kill()?;
    leader.ended(ENDING).await?;
    all_there(&c).await?;
    // Requests on their way when the leader died may have made more: those are removed again.
    c.until("no Pod too many", async || {
        let pods = c.list(PODS).await.ok()?;
        (pods.len() == 300 && pods.iter().all(is_ready)).then_some(())
    })
    .await
}

/// COMMON-49.
async fn hangs(c: Context) -> Outcome {
    let (mut leader, _standby, name) = pair(&c, REPLICASET_CONTROLLER, QUICK).await?;
    c.create(REPLICA_SETS, replica_set("web").replicas(3)).await?;
    let since = c.cluster().clock().monotonic_now();
    leader.pause()?;
    successor(&c, REPLICASET_CONTROLLER, &name, since).await?;
    c.scale(REPLICA_SETS, "web", 5).await?;
    c.until("the successor to work", async || {
        let set = c.get(REPLICA_SETS, "web").await.ok()?;
        (set["status"]["availableReplicas"] == 5).then_some(())
    })
    .await?;
    let before = c.list(PODS).await?.len();
    leader.resume()?;
    let status = leader.ended(ENDING).await?;
    assert_eq!(status.code(), Some(1), "who has lost the Lease ends");
    c.sleep(Duration::from_secs(1)).await;
    assert_eq!((before, c.list(PODS).await?.len()), (5, 5));
    Ok(())
}

/// The states of a namespace, from the log of the sandbox's writes since a version.
fn states_since(c: &Context, version: u64) -> Vec<State> {
    let mut state = State::default();
    let mut states = Vec::new();
    for write in c.cluster().sandbox().unwrap().writes().since(version) {
        let objects = match write.resource.as_str() {
            "replicasets" => &mut state.replica_sets,
            "pods" => &mut state.pods,
            _ => continue,
        };
        match write.after() {
            Some(after) => objects.insert(write.name.clone(), after),
            None => objects.remove(&write.name),
        };
        states.push(state.clone());
    }
    states
}

async fn short_outage(c: Context) -> Outcome {
    let controllers = [c.start(DEPLOYMENT_CONTROLLER, &[]).await?, c.start(REPLICASET_CONTROLLER, &[]).await?];
    let sandbox = c.cluster().sandbox().unwrap();
    let version = sandbox.resource_version();
    let d = slow_deployment(&c).await?;
    let settled = states_since(&c, version).len();
    c.merge(DEPLOYMENTS, "web", image("img:2")).await?;
    halfway(&c, &d).await?;
    sandbox.faults().go_down_for(Duration::from_secs(5));
    c.sleep(Duration::from_secs(6)).await;
    c.rolled_out("web").await?;
    for controller in &controllers {
        controller.check()?;
    }
    check_limits(&c, &states_since(&c, version)[settled..]).await
}

async fn long_outage(c: Context) -> Outcome {
    let mut controllers = [c.start(DEPLOYMENT_CONTROLLER, QUICK).await?, c.start(REPLICASET_CONTROLLER, QUICK).await?];
    let sandbox = c.cluster().sandbox().unwrap();
    let version = sandbox.resource_version();
    let d = slow_deployment(&c).await?;
    let settled = states_since(&c, version).len();
    c.merge(DEPLOYMENTS, "web", image("img:2")).await?;
    halfway(&c, &d).await?;
    sandbox.faults().go_down();
    for controller in &mut controllers {
        let status = controller.ended(ENDING).await?;
        assert_eq!(status.code(), Some(1), "who cannot renew the Lease ends");
    }
    sandbox.faults().come_up();
    // What a kubelet does.
    for controller in &mut controllers {
        controller.restart()?;
        controller.ready(ENDING).await?;
    }
    c.rolled_out("web").await?;
    check_limits(&c, &states_since(&c, version)[settled..]).await
}
