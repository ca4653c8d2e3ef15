//! The key of the orphan loop: a Pod, or all Pods of a Job.

use std::{fmt, sync::Arc};

use common::prelude::*;

/// One Pod, or all Pods of one Job, that may carry a leftover finalizer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OrphanKey {
    /// The Pod with this name.
    Pod {
        /// `metadata.namespace` of the Pod.
        namespace: Text,
        /// `metadata.name` of the Pod.
        name: Arc<str>,
    },
    /// The Pods that the Job with this UID controls.
    Job {
        /// `metadata.namespace` of the Job.
        namespace: Text,
        /// `metadata.name` of the Job.
        name: Text,
        /// `metadata.uid` of the Job.
        uid: Uid,
    },
}

impl OrphanKey {
    pub(crate) fn for_pod(meta: &Meta) -> Self {
        Self::Pod { namespace: meta.namespace.clone(), name: Arc::clone(&meta.name) }
    }

    pub(crate) fn for_job(meta: &Meta) -> Self {
        Self::for_owner(&meta.namespace, &meta.name, &meta.uid)
    }

    pub(crate) fn for_owner(namespace: &Text, name: &str, uid: &Uid) -> Self {
        Self::Job { namespace: namespace.clone(), name: Text::new(name), uid: uid.clone() }
    }
}

impl fmt::Display for OrphanKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod { namespace, name } => write!(f, "{namespace}/{name}"),
            Self::Job { namespace, name, uid } => write!(f, "{namespace}/{name}/{uid}"),
        }
    }
}

impl QueueKey for OrphanKey {
    fn parse(text: &str) -> Option<Self> {
        let (namespace, rest) = text.split_once('/')?;
        let namespace = Text::new(namespace);
        match rest.split_once('/') {
            Some((name, uid)) => Some(Self::Job { namespace, name: Text::new(name), uid: Uid::new(uid) }),
            None if rest.is_empty() => None,
            None => Some(Self::Pod { namespace, name: Arc::from(rest) }),
        }
    }

    fn tenant(&self) -> &str {
        match self {
            Self::Pod { namespace, .. } | Self::Job { namespace, .. } => namespace,
        }
    }
}
