//! The cluster of the playground: API server, protection of storage, nodes, controllers, kubeconfigs.

use std::net::Ipv4Addr;

use anyhow::{Context as _, Result};
use common::{app::ProgramDefinition, clock::Clock};

use super::{NAME, flags::Flags, kubeconfig::KubeconfigFile, processes::Processes};
use crate::{
    cluster::{Directory, write_private},
    nodes::Nodes,
    rights::{self, Holder},
    sandbox::{ADMIN, Credential, Sandbox, Server, Tls, protection::Protection},
};

/// The parts of the cluster, in the order in which they are dropped.
pub(super) struct Ground {
    pub(super) nodes: Option<Nodes>,
    /// Removes the protection finalizers of storage, if no controller does.
    protection: Option<Protection>,
    pub(super) kubeconfig: KubeconfigFile,
    pub(super) server: Server,
    pub(super) sandbox: Sandbox,
    pub(super) directory: Directory,
    pub(super) clock: Clock,
}

impl Ground {
    /// Starts the API server and writes the kubeconfig. Starts the protection of storage unless a controller takes its place.
    pub(super) async fn start(flags: &Flags, has_protection: bool, clock: Clock) -> Result<Self> {
        let sandbox = Sandbox::builder()
            .clock(clock.clone())
            .rbac(flags.rbac)
            .keep_unknown_fields(flags.keep_unknown_fields)
            // kubectl reads the field managers.
            .managed_fields(true)
            // Subscribers get every write; no history of writes is kept.
            .writes(0)
            .build();
        let server = sandbox.serve((Ipv4Addr::LOCALHOST, flags.port).into(), Tls::On).await?;
        let directory = Directory::new(NAME)?;
        let path = flags.kubeconfig.clone().unwrap_or_else(|| directory.path().join("kubeconfig"));
        let kubeconfig = KubeconfigFile::write(&path, server.kubeconfig()).context("--kubeconfig")?;
        let protection = (!has_protection).then(|| Protection::start(sandbox.client(ADMIN), clock.clone()));
        Ok(Self { nodes: None, protection, kubeconfig, server, sandbox, directory, clock })
    }

    /// Starts the nodes, with sufficient rights also under `--rbac`.
    pub(super) async fn start_nodes(&mut self, count: u32) {
        let nodes = Nodes::builder().count(count).start(self.sandbox.client(ADMIN), self.clock.clone());
        nodes.ready().await;
        self.nodes = Some(nodes);
    }

    /// Switches a node off or on. Does nothing for a node that the playground has not started.
    pub(super) fn switch(&self, node: &str, is_off: bool) {
        let Some(nodes) = &self.nodes else { return };
        let switched = if is_off { nodes.kill(node) } else { nodes.restore(node) };
        if let Err(unknown) = switched {
            tracing::debug!(err = %unknown, "Node is not switched");
        }
    }

    /// Starts the controllers, each with its own user and its own kubeconfig.
    pub(super) async fn start_controllers(
        &self,
        chosen: &[&'static ProgramDefinition],
        rbac: bool,
    ) -> Result<Processes> {
        let mut launched = Vec::new();
        for definition in chosen {
            if rbac {
                let given =
                    rights::give(&self.sandbox.client(ADMIN), &self.clock, definition.name, Holder::default()).await;
                given.context("--rbac")?;
            }
            let text = self.server.kubeconfig_for(&rights::identity(definition.name), Credential::Token);
            let path = self.directory.path().join(format!("{}.kubeconfig", definition.name));
            write_private(&path, &text)?;
            launched.push((*definition, path));
        }
        Processes::start(&launched, &self.clock)
    }

    /// Stops the nodes and the API server, and removes the files.
    pub(super) async fn shutdown(self) {
        drop(self.nodes);
        drop(self.protection);
        drop(self.kubeconfig);
        self.server.shutdown().await;
    }
}
