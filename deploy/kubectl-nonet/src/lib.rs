//! `kubectl nonet`: checks a cluster that runs Nonet, or is about to.
//!
//! # What it promises
//!
//! It writes nothing, and needs read access alone. Its only POST requests are access reviews. A fact that cannot be read
//! is a finding with a status of its own, and never counts as good.
//!
//! ```text
//! kubeconfig ──► connection ──► gather ──► Facts ──► check ──► findings ──► render ──► stdout
//!                                                    (pure)
//! ```
//!
//! # Where things are
//!
//! | | |
//! | --- | --- |
//! | the command | [`command`] flags, subcommands and exit codes |
//! | reading | [`connection`] to the cluster of a kubeconfig, [`gather`] of [`facts`] |
//! | judging | [`check`] facts, into [`finding`]s; [`controllers`] of Nonet, [`manager_flags`] of kube-controller-manager |
//! | showing | [`render`] as text or JSON |

pub mod check;
pub mod command;
pub mod connection;
pub mod controllers;
pub mod facts;
pub mod finding;
pub mod gather;
pub mod manager_flags;
pub mod render;
