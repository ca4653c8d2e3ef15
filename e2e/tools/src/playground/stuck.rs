//! Stuck objects to try `kubectl nonet why` on.

use std::{fmt::Write as _, future::pending, os::unix::fs::symlink};

use anyhow::{Context as _, Result};
use futures::future::try_join_all;
use serde_json::json;

use super::{NAME, ground::Ground, print};
use crate::{
    sandbox::ADMIN,
    situations::{self, Place},
};

/// The name under which kubectl finds the plug-in.
pub(super) const PLUG_IN: &str = "kubectl-nonet";

/// Makes the objects stuck, prints what to try, and waits for ever.
pub(super) async fn show(ground: &Ground) -> Result<()> {
    let Some(nodes) = &ground.nodes else { return Ok(()) };
    let program = std::env::current_exe().context("cannot find this program")?;
    symlink(program, ground.directory.path().join(PLUG_IN)).context("cannot link the plug-in")?;
    let chosen = situations::all().context("--stuck")?;
    let chosen: Vec<_> = chosen.iter().filter_map(|each| Some((each.namespace.as_deref()?, each))).collect();
    let seconds = chosen.iter().map(|(_, each)| each.seconds()).max().unwrap_or_default();
    let mut text = format!(
        "{NAME}: objects get stuck, the last within {seconds} s. In another terminal:\n{}\nexport PATH={}:$PATH\n",
        ground.kubeconfig.export(),
        ground.directory.path().display()
    );
    for (namespace, situation) in &chosen {
        let _ = writeln!(text, "kubectl nonet why {} -n {namespace}", situation.ask);
    }
    text.push_str("kubectl nonet why --all-failing -A");
    print(&text)?;
    let builds = chosen.iter().map(async |(namespace, situation)| {
        ground
            .sandbox
            .create(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))
            .await?;
        let client = ground.sandbox.client(ADMIN);
        let place = Place { client, namespace, nodes, clock: &ground.clock };
        situation.build(&place).await.with_context(|| format!("--stuck: {}", situation.title))
    });
    try_join_all(builds).await?;
    pending().await
}
