//! The foundation of every controller.
//!
//! # What it promises
//!
//! A controller defines the objects that it reads, the keys that each event concerns, and the sync of a key. This crate does
//! the rest. It fills the caches, which never go back in time. Only one worker syncs a key at a time. No decision is made from a
//! cache that lacks the controller's own writes. Nothing is written without the Lease. A failure or a panic delays only one key.
//! Metrics and debug endpoints report everything.
//!
//! ```text
//!             informer ──► store (indexes) ──────► observe ──► decide ──► act ──► io ──► api ──► gate ──► API server
//! API server ───┤                                     ▲        (pure)                    │       (leader?)
//!               └─ handlers ──► queue ──► worker ─────┘                                  └──► ledger, Events, account
//! ```
//!
//! # A whole loop
//!
//! This loop deletes each `ConfigMap` after the time in its data. `observe`, `decide` and `act` are the whole controller;
//! `start` connects it to a cache and a queue.
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//!
//! use common::{controller::Decision, prelude::*, store::CacheEntry};
//! use jiff::Timestamp;
//!
//! const CONFIG_MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
//!
//! // Objects: the fields of a kind that this controller reads.
//! #[derive(serde::Deserialize)]
//! struct ConfigMap {
//!     metadata: Meta,
//!     #[serde(default)]
//!     data: Data,
//! }
//!
//! #[derive(Default, serde::Deserialize)]
//! struct Data {
//!     expires: Option<Timestamp>,
//! }
//!
//! impl Object for ConfigMap {
//!     const RESOURCE: Resource = CONFIG_MAPS;
//!     type Indexes = ();
//!     fn meta(&self) -> &Meta {
//!         &self.metadata
//!     }
//! }
//!
//! // The pure half: snapshot and plan.
//! struct Snapshot {
//!     config_map: Arc<ConfigMap>,
//!     now: Timestamp,
//! }
//!
//! #[derive(Debug, PartialEq)]
//! enum Plan {
//!     Keep,
//!     WaitFor(Duration),
//!     Delete,
//! }
//!
//! impl SyncPlan for Plan {
//!     fn situation(&self) -> String {
//!         if *self == Self::Keep { "it does not expire" } else { "it expires" }.to_owned()
//!     }
//!     fn requeue_after(&self) -> Option<Duration> {
//!         if let Self::WaitFor(remaining) = self { Some(*remaining) } else { None }
//!     }
//! }
//!
//! struct ExpiryController {
//!     config_maps: Arc<Store<ConfigMap>>,
//! }
//!
//! impl Controller for ExpiryController {
//!     type Key = NamespacedName;
//!     type Snapshot = Snapshot;
//!     type Plan = Plan;
//!
//!     fn observe(&self, key: &NamespacedName, now: Timestamp) -> Result<Snapshot, NoSnapshot> {
//!         let config_map = self.config_maps.get_decoded(&key.namespace, &key.name).ok_or(NoSnapshot::Gone)?;
//!         Ok(Snapshot { config_map, now })
//!     }
//!
//!     fn decide(Snapshot { config_map, now }: &Snapshot) -> Plan {
//!         match config_map.data.expires {
//!             None => Plan::Keep,
//!             Some(expires) if expires > *now => Plan::WaitFor(expires.duration_since(*now).unsigned_abs()),
//!             Some(_) => Plan::Delete,
//!         }
//!     }
//!
//!     async fn act(snapshot: &Snapshot, plan: &Plan, io: Io<'_, Self>) -> Result<Requeue, SyncError> {
//!         if *plan == Plan::Delete {
//!             let delete = Request::delete(CONFIG_MAPS, &snapshot.config_map.metadata).with_reason("it has expired");
//!             io.send(delete).await.map_err(|refusal| SyncError::from_refusal("deleting the ConfigMap", &refusal))?;
//!         }
//!         Ok(Requeue::AfterPlannedDelay)
//!     }
//! }
//!
//! fn start(context: LoopContext) -> Arc<dyn RunningLoop> {
//!     let queue = context.new_queue("expiring_config_maps");
//!     let keys = queue.clone();
//!     let config_maps = context.watch_shared::<ConfigMap>(Box::new(move |event, origin| {
//!         if let Some(config_map) = event.cached() {
//!             keys.add(config_map.metadata.key(), origin);
//!         }
//!     }));
//!     Loop::start("config-map-expiry", context, Arc::new(ExpiryController { config_maps }), queue, 1)
//! }
//!
//! // What the loop does with a ConfigMap, without an API server.
//! let json = r#"{"metadata": {"namespace": "shop", "name": "sale", "uid": "u1", "resourceVersion": "7"},
//!     "data": {"expires": "2030-01-02T00:00:00Z"}}"#;
//! let config_maps = Arc::new(Store::default());
//! config_maps.put_entry(CacheEntry::Decoded(Arc::new(serde_json::from_str(json)?)), &mut Vec::new());
//! let controller = ExpiryController { config_maps };
//!
//! let decision_at = |now: &str| {
//!     let now: Timestamp = now.parse().unwrap();
//!     let snapshot = controller.observe(&NamespacedName::new("shop", "sale"), now).unwrap();
//!     Decision::<ExpiryController>::with_forecast(&snapshot, now)
//! };
//! assert_eq!(decision_at("2030-01-01T23:59:00Z").plan, Plan::WaitFor(Duration::from_secs(60)));
//! assert_eq!(decision_at("2030-01-02T00:00:00Z").explain().actions, ["delete ConfigMap sale: it has expired"]);
//! # let _: fn(LoopContext) -> Arc<dyn RunningLoop> = start;
//! # Ok::<(), serde_json::Error>(())
//! ```
//!
//! # Where things are
//!
//! This directory has five crates. Each depends only on crates above it in the table. This crate re-exports the modules that
//! controllers use; [`prelude`] has the types of a loop, and [`process`] the modules around the loops.
//!
//! | crate | modules |
//! | --- | --- |
//! | `objects`: what objects mean | [`meta`], [`object`] decoding, [`partial_object`] for objects of any kind, [`head`] (the part read first), [`wire`] (protobuf), [`pods`], [`refs`], [`selector`], [`conditions`], [`revision`], [`template`], [`hash`], [`quantity`], [`intstr`], [`taints`], [`json`], [`intern`] (shared strings), [`map`], [`parsed`] texts, [`duration`] in Go's format |
//! | `platform`: the process and its machine | [`clock`] for time and randomness, [`watched`] values, [`process::pace`] of wake-ups, [`metrics`], [`process::panics`], [`process::version`] |
//! | `client`: the API server | [`process::client`] connections, [`api`] requests and error classes, [`gate`] for writes, [`informer`], [`store`], [`discovery`] of resources, [`selector_index`] (objects by selector), [`name_sorted_list`], [`succession`], [`consistency`], [`process::history`] (lost changes), [`ca_bundle`] (checks of certificate authorities), [`events`], [`process::batch`] for slow start |
//! | `control`: the loop | [`controller`] workers with a [`queue`], [`io`] of a sync, [`runtime`] (the dependencies of a loop), [`process::leader`] election, [`settings`], [`explain`] for `/debug/explain`, [`pod_creation_pauses`], [`ca_bundle_file`] (certificate authorities to publish) |
//! | `service`: the process | [`app`] from flags to drain, [`process::logging`], [`process::server`], [`second_writer`], [`process::built_in_flags`] |
//!
//! This crate knows no particular controller. Its only global state is the table of interned strings, the seed of the hash maps
//! and, per thread, the numbers of the protobuf fields that each projection reads.

pub mod prelude;
pub mod process;

pub use nonet_client::{
    api, ca_bundle, consistency, discovery, events, gate, informer, name_sorted_list, owners, selector_index, store,
    succession,
};
pub use nonet_control::{ca_bundle_file, controller, explain, io, pod_creation_pauses, queue, runtime, settings};
pub use nonet_objects::{
    conditions, duration, hash, head, intern, intstr, json, map, meta, object, parsed, partial_object, pods, quantity,
    refs, revision, selector, taints, template, wire,
};
pub use nonet_platform::{clock, metrics, watched};
pub use nonet_service::{app, second_writer};
