//! Suite: an API server that goes away in the middle of rollouts.

use e2e::suite::prelude::*;

use crate::failover::{
    DEPLOYMENT_CONTROLLER, ENDING, QUICK, REPLICASET_CONTROLLER, check_limits, halfway, slow_deployment,
};

pub(crate) fn suite() -> Suite {
    let scenes = scenes! {
        SANDBOX => a_short_outage_is_sat_out a_long_outage_costs_the_lease_and_nothing_else;
    };
    // Every controller of a test acts on every namespace, and an outage is one of all tests.
    Suite::new("outage").scenes(scenes).at_once(1)
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

async fn a_short_outage_is_sat_out(c: Context) -> Outcome {
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

async fn a_long_outage_costs_the_lease_and_nothing_else(c: Context) -> Outcome {
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
