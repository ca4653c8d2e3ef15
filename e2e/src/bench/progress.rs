//! The progress of Jobs, from their status. A watch costs the API server less than repeated reads.

use common::{
    api::Api,
    gate::{WriteGateKeeper, closed_write_gate},
    informer::{AnyInformer as _, Informer, InformerConfig},
    meta::Meta,
    object::{Object, Resource},
};
use serde::Deserialize;

use crate::{cluster::Cluster, suite::resources};

/// The projection of a Job.
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
    /// Set when the Job is complete and all Pods are counted.
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
    /// Keeps the gate of the client open.
    _keeper: WriteGateKeeper,
}

impl Progress {
    /// Starts to watch them.
    pub(super) async fn follow(cluster: &Cluster, namespace: &str) -> Self {
        let clock = cluster.clock().clone();
        let (keeper, gate) = closed_write_gate(clock.clone());
        keeper.open_without_deadline();
        let api = Api::new(cluster.client().clone(), clock, gate, super::NAME);
        let config = InformerConfig { namespace: namespace.to_owned(), ..InformerConfig::default() };
        let jobs = Informer::start(api, config, Vec::new());
        jobs.wait_until_synced().await;
        Self { jobs, _keeper: keeper }
    }

    /// The number of succeeded and counted Pods, and whether all Jobs are complete.
    pub(super) fn succeeded(&self) -> (u32, bool) {
        let all = self.jobs.store().all_decoded();
        let pods = all.iter().map(|job| job.status.succeeded).sum();
        (pods, all.iter().all(|job| job.status.completion_time.is_some()))
    }
}
