//! Stuck objects to try `kubectl nonet why` on.

use std::{fmt::Write as _, future::pending, os::unix::fs::symlink};

use futures::future::try_join_all;
use serde_json::json;

use super::{Error, NAME, ground::Ground, print};
use crate::{
    sandbox::ADMIN,
    situations::{self, Place},
};

/// The name under which kubectl finds the plug-in.
pub(super) const PLUG_IN: &str = "kubectl-nonet";

/// Makes the objects stuck, prints what to try, and waits for ever.
pub(super) async fn show(ground: &Ground) -> Result<(), Error> {
    let failed = |why: &dyn std::fmt::Display| Error::Stuck(why.to_string());
    let Some(nodes) = &ground.nodes else { return Ok(()) };
    let program = std::env::current_exe().map_err(|why| Error::Io("cannot find this program", why))?;
    symlink(program, ground.directory.path().join(PLUG_IN)).map_err(|why| Error::Io("cannot link the plug-in", why))?;
    let chosen = situations::all().map_err(|why| failed(&why))?;
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
            .await
            .map_err(|why| failed(&why))?;
        let client = ground.sandbox.client(ADMIN);
        let place = Place { client, namespace, nodes, clock: &ground.clock };
        situation.build(&place).await.map_err(|why| failed(&format!("{}: {why}", situation.title)))
    });
    try_join_all(builds).await?;
    pending().await
}
