//! The context of a loop without a cluster, for unit tests that fill its caches themselves.

use std::{convert::Infallible, future::pending, sync::Arc};

use common::{
    api::Api,
    clock::Clock,
    events::EventRecorder,
    gate::closed_write_gate,
    metrics::Metrics,
    runtime::{LoopContext, LoopParts, SharedValues},
    settings::OperatorSettings,
};

/// Returns the context of a loop whose API server never answers, and whose write gate is closed.
pub fn context_without_server(clock: &Clock, settings: OperatorSettings) -> LoopContext {
    let silent = tower::service_fn(|_: http::Request<kube::client::Body>| {
        pending::<Result<http::Response<kube::client::Body>, Infallible>>()
    });
    let (_, gate) = closed_write_gate(clock.clone());
    LoopContext {
        api: Api::new(kube::Client::new(silent, "default"), clock.clone(), gate.clone(), "test"),
        recorder: EventRecorder::discarding_events("test", clock.clone()),
        settings: Arc::new(settings),
        metrics: Metrics::new(),
        sync_callbacks: None,
        write_sampler: None,
        shared_values: SharedValues::default(),
        parts: LoopParts::default(),
        clock: clock.clone(),
        write_gate: gate,
    }
}
