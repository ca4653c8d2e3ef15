//! `kubectl nonet` explains what an object waits for, and predicts what controllers do, on any cluster. It checks a cluster that
//! runs Nonet, or that is to run Nonet, and releases or holds the Leases of Nonet.
//!
//! # What it promises
//!
//! A check writes nothing, and needs only read access. Its only POST requests are access reviews. A fact that cannot be
//! read becomes a finding with the status `unknown`, and never counts as ok.
//!
//! `release`, `hold`, `hand-over` and `way-back` patch the holders of Leases, and write nothing else. A release that would start a
//! second writer, or that cannot exclude a second writer, writes nothing.
//!
//! `plan` writes nothing. It predicts on a simulated copy of the objects that the caller may read.
//!
//! ```text
//! kubeconfig ──► connection ──► gather ──► Facts ──► check ──► findings ──► render ──► stdout
//!                                            │       (pure)
//!                                            └─────► check::release ──► hand_over ──► Leases
//! ```
//!
//! # Where things are
//!
//! | | |
//! | --- | --- |
//! | the command | [`command`] flags, subcommands and exit codes; [`complete`] them in a shell |
//! | reading | [`connection`] to the cluster of a kubeconfig, [`gather`] reads the [`facts`] |
//! | check | [`check`] turns facts into [`finding`]s; [`controllers`] of Nonet, [`remaining_loops`] and [`manager_flags`] of kube-controller-manager |
//! | release and hold | [`hand_over`] patches the Leases that the facts select |
//! | hand-over and way back | [`procedure`] checks, waits for the operator's switch, and releases or holds |
//! | explanations | [`why`] an object makes no progress |
//! | plan | [`plan`] runs the loops of all controllers on a simulated copy of the live objects |
//! | output | [`render`] as text or JSON |

pub mod check;
pub mod command;
pub mod complete;
pub mod connection;
pub mod controllers;
pub mod facts;
pub mod finding;
pub mod gather;
pub mod hand_over;
pub mod manager_flags;
pub mod plan;
pub mod procedure;
pub mod remaining_loops;
pub mod render;
pub mod why;
