//! How far Jobs are, as their status says: followed by a watch, which costs the API server less than asking.

use common::{
    api::Api,
    gate::{Keeper, gate},
    informer::{AnyInformer as _, Config, Informer},
    meta::Meta,
    object::{Object, Resource},
};
use serde::Deserialize;

use crate::{cluster::Cluster, suite::resources};

/// What is read of a Job.
#[derive(Debug, Deserialize)]
struct Job {
    metadata: Meta,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    succeeded: u32,
    /// Set once the Job is over and has counted everything.
    completion_time: Option<String>,
}

impl Object for Job {
    const RESOURCE: Resource = resources::JOBS;
    type Indexes = ();

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// The Jobs of a namespace.
pub(super) struct Progress {
    jobs: Informer<Job>,
    /// The gate of the client is open for as long as this lives.
    _keeper: Keeper,
}

impl Progress {
    /// Follows them from now on.
    pub(super) async fn follow(cluster: &Cluster, namespace: &str) -> Self {
        let clock = cluster.clock().clone();
        let (keeper, gate) = gate(clock.clone());
        keeper.open();
        let api = Api::new(cluster.client().clone(), clock, gate, super::NAME);
        let config = Config { namespace: namespace.to_owned(), ..Config::default() };
        let jobs = Informer::start(api, config, Vec::new());
        jobs.synced().await;
        Self { jobs, _keeper: keeper }
    }

    /// How many Pods have succeeded and are counted, and whether all Jobs are complete.
    pub(super) fn succeeded(&self) -> (u32, bool) {
        let all = self.jobs.store().all();
        let pods = all.iter().map(|job| job.status.succeeded).sum();
        (pods, all.iter().all(|job| job.status.completion_time.is_some()))
    }
}
