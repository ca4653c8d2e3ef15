//! A cluster with the namespace of the tests, and files with certificates.

use std::{fs, path::PathBuf};

pub(crate) use testkit::prelude::*;

pub(crate) const NAMESPACES: &str = "namespaces";
pub(crate) const ACCOUNTS: &str = "serviceaccounts";
pub(crate) const CONFIG_MAPS: &str = "configmaps";
pub(crate) const DEFAULT: &str = "default";
pub(crate) const ROOT_CA: &str = "kube-root-ca.crt";

/// A certificate of an authority.
pub(crate) const CA: &str = include_str!("../../../common/client/testdata/ca.crt");
/// The certificate of another authority.
pub(crate) const NEXT_CA: &str = include_str!("../../../common/client/testdata/next-ca.crt");
/// The file with [`CA`].
pub(crate) const CA_FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../common/client/testdata/ca.crt");

/// The number of namespaces in a new cluster: four of the API server, and the one of the tests.
pub(crate) const INITIAL_NAMESPACES: usize = 5;

/// A cluster whose bundle is [`CA`].
pub(crate) fn cluster() -> Cluster {
    cluster_with(CA_FILE)
}

/// A cluster with this value of `--root-ca-file`.
pub(crate) fn cluster_with(root_ca_file: &'static str) -> Cluster {
    let cluster = Cluster::new(serviceaccount_controller::LOOPS, ACCOUNTS, DEFAULT);
    cluster.tunable("root-ca-file", TunableValue::File(root_ca_file))
}

/// A file of a test, which is removed in the end.
pub(crate) struct TestFile(PathBuf);

impl TestFile {
    pub(crate) fn new(test: &str, content: impl AsRef<[u8]>) -> Self {
        let file = Self(std::env::temp_dir().join(format!("nonet-root-ca-{test}-{}", std::process::id())));
        file.write(content);
        file
    }

    /// The path, as a flag names it.
    pub(crate) fn path(&self) -> &'static str {
        self.0.to_str().unwrap().to_owned().leak()
    }

    pub(crate) fn write(&self, content: impl AsRef<[u8]>) {
        fs::write(&self.0, content).unwrap();
    }

    pub(crate) fn remove(&self) {
        drop(fs::remove_file(&self.0));
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Returns the data of the ConfigMap of the namespace; null without one.
pub(crate) async fn data(world: &World) -> Value {
    world.find(CONFIG_MAPS, ROOT_CA).await.map_or(Value::Null, |mut config_map| config_map["data"].take())
}

/// Creates namespaces with these names.
pub(crate) async fn create_namespaces(world: &World, names: impl IntoIterator<Item = String>) {
    for name in names {
        world.create(namespace(&name)).await;
    }
}

/// Counts the objects of this name in all namespaces.
pub(crate) async fn count_everywhere(world: &World, resource: &str, name: &str) -> usize {
    let all = world.sandbox.list(resource, None).await.unwrap();
    all.iter().filter(|object| object["metadata"]["name"] == name).count()
}
