//! The types of which a loop consists, for `use common::prelude::*`.

pub use nonet_client::{
    consistency::{Ledger, LedgerOwner, PendingWrites, WaitPolicy},
    events::{EventRecorder, EventType, InvolvedObject},
    informer::{AnyInformer, Informer, SharedInformer, handler_from_method},
    owners::{ConcernedOwners, concerned_owners, controlling_owner, find_concerned_owners, find_potential_adopters},
    store::{ByController, CacheEvent, ChangeOrigin, IndexValue, OrphansByNamespace, Store},
};
pub use nonet_control::{
    controller::{Controller, Loop, NoSnapshot, SyncPlan, debounce_for_pods},
    io::{
        ChildClaim, GroupConcurrency, Io, ObjectRole, Precondition, Refusal, RefusalClass, Request, RequestBody,
        Requeue, RetryPolicy, SyncError, SyncErrorClass,
    },
    periodic_key,
    queue::{BackoffSettings, Priority, Queue, QueueKey},
    runtime::{LoopContext, LoopDefinition, RunningLoop},
};
pub use nonet_objects::{
    intern::Text,
    map::{HashMap, HashSet},
    meta::{Meta, NamespacedName, OwnerRef, ResourceVersion, Uid},
    object::{Object, Resource},
    refs::{DependentClaims, HasMeta, Owner},
    selector::Selector,
};
pub use nonet_platform::clock::{Clock, Instant};
