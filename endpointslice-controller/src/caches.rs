//! The caches that loops of one process share.

use std::sync::Arc;

use common::{
    informer::Listened,
    intern::Text,
    meta::Meta,
    runtime::Context,
    store::{Index, IndexValue},
};

use crate::objects::{Endpoints, Node, Pod, SERVICE_NAME, Service, Slice};

/// Position of the index of slices by Service.
pub(crate) const SLICES_BY_SERVICE: usize = 0;

/// Services.
pub(crate) fn services(context: &Context) -> Arc<Listened<Service>> {
    context.shared.get_or_make(|| Listened::start(context.api.clone(), context.caches(), &[]))
}

/// Pods. Which Service selects them is in [`crate::members`].
pub(crate) fn pods(context: &Context) -> Arc<Listened<Pod>> {
    context.shared.get_or_make(|| Listened::start(context.api.clone(), context.caches(), &[]))
}

/// Nodes.
pub(crate) fn nodes(context: &Context) -> Arc<Listened<Node>> {
    context.shared.get_or_make(|| Listened::start(context.api.clone(), context.caches(), &[]))
}

/// Endpoints.
pub(crate) fn endpoints(context: &Context) -> Arc<Listened<Endpoints>> {
    context.shared.get_or_make(|| Listened::start(context.api.clone(), context.caches(), &[]))
}

/// Slices of the loops of this crate.
pub(crate) fn slices(context: &Context) -> Arc<Listened<Slice>> {
    let by_service = Index { name: "service", of: |meta, _: Option<&Slice>| service_of(meta) };
    context.shared.get_or_make(|| Listened::start(context.api.clone(), context.caches(), &[by_service]))
}

fn service_of(meta: &Meta) -> Option<IndexValue> {
    meta.labels.get(SERVICE_NAME).map(|name| service_value(&meta.namespace, name))
}

/// What slices of that Service are filed under.
pub(crate) fn service_value(namespace: &str, name: &str) -> IndexValue {
    IndexValue::Text(Text::new(&format!("{namespace}/{name}")))
}
