//! The rights of controllers, as the manifests of `deploy/` give them.

use std::{fs, path::Path};

use common::app::Definition;
use serde_json::Value;

use crate::{
    controllers::NAMESPACE,
    sandbox::{Refused, Sandbox},
};

/// One directory for each controller.
const CONTROLLERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/controllers");
/// The files of a controller that rights depend on.
const FILES: [&str; 2] = ["serviceaccount.yaml", "rbac.yaml"];

/// Why rights cannot be given.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// A manifest cannot be read.
    #[error("cannot read {0}: {1}")]
    File(String, std::io::Error),
    /// A manifest is no YAML.
    #[error("cannot read {0}: {1}")]
    Yaml(String, String),
    /// The API server does not take it.
    #[error("cannot apply {0}: {1}")]
    Refused(String, Box<Refused>),
}

/// Gives a controller the rights of its manifests.
pub(super) async fn give(sandbox: &Sandbox, definition: &Definition) -> Result<(), Error> {
    for file in FILES {
        let path = Path::new(CONTROLLERS).join(definition.name).join(file);
        let shown = path.display().to_string();
        let text = fs::read_to_string(&path).map_err(|e| Error::File(shown.clone(), e))?;
        for object in objects(&text).map_err(|e| Error::Yaml(shown.clone(), e))? {
            sandbox.apply(object).await.map_err(|e| Error::Refused(shown.clone(), Box::new(e)))?;
        }
    }
    Ok(())
}

/// The objects of a file, put into the namespace that the overlays put them into.
fn objects(text: &str) -> Result<Vec<Value>, String> {
    let mut objects: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|e| e.to_string().replace('\n', " "))?;
    for object in &mut objects {
        let kind = object["kind"].as_str().unwrap_or_default();
        if !kind.starts_with("Cluster") {
            object["metadata"]["namespace"] = NAMESPACE.into();
        }
        for subject in object.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten() {
            if subject["kind"] == "ServiceAccount" {
                subject["namespace"] = NAMESPACE.into();
            }
        }
    }
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers;

    #[tokio::test]
    async fn a_controller_may_what_its_manifests_say_and_nothing_else() {
        let sandbox = Sandbox::builder().rbac(true).build();
        for definition in controllers::ALL {
            give(&sandbox, definition).await.unwrap();
            let client = sandbox.client(&controllers::identity(definition.name));
            let send = |request: http::request::Builder| {
                let (client, request) = (client.clone(), request.body(Vec::new()).unwrap());
                async move { client.request_text(request).await }
            };
            let ask = |path: &str| send(http::Request::get(path));
            // CronJobs are all about Jobs.
            let pods = definition.name != "cronjob-controller";
            ask(if pods { "/api/v1/pods" } else { "/apis/batch/v1/cronjobs" }).await.unwrap();
            ask(&format!("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{}", definition.name))
                .await
                .map_or_else(|e| assert!(e.to_string().contains("not found"), "{e}"), drop);
            // Whatever there is may have an owner: the garbage collector reads everything, and creates nothing of it.
            let (secrets, post) = ("/api/v1/namespaces/default/secrets", http::Request::post);
            let refused = if definition.name == "gc-controller" { send(post(secrets)) } else { ask(secrets) };
            let error = refused.await.unwrap_err().to_string();
            assert!(error.contains("forbidden"), "{}: {error}", definition.name);
        }
    }
}
