//! Suite: terminating namespaces that change hands between kube-controller-manager and namespace-controller.
//!
//! Where the binary of kube-controller-manager does not lie beside those of etcd and kube-apiserver, a second namespace-controller
//! takes its part.

use std::collections::BTreeSet;

use common::object::Resource;
use e2e::{
    sandbox,
    suite::{handover::Hands, prelude::*},
};

const COUNT: usize = 50;
/// The number of namespaces that are released after each change of hands.
const RELEASED: usize = 17;

pub(crate) fn suite() -> Suite {
    let scenes = scenes! { SIMULATED => terminating_namespaces_go_back_and_forth; };
    Suite::new("namespace_handover").scenes(scenes).sandbox(sandbox::Builder::without_namespace_controller)
}

async fn create_namespace(c: &Context, namespace: &str) -> Outcome {
    let object = |kind: &str, metadata: Value| json!({"apiVersion": "v1", "kind": kind, "metadata": metadata});
    c.client().create(NAMESPACES, "", &object("Namespace", json!({"name": namespace}))).await?;
    let held = json!({"name": "held", "finalizers": ["example.com/hold"]});
    for (resource, metadata) in
        [(CONFIG_MAPS, held), (CONFIG_MAPS, json!({"name": "free"})), (SECRETS, json!({"name": "free"}))]
    {
        c.client().create(resource.clone(), namespace, &object(resource.kind(), metadata)).await?;
    }
    Ok(())
}

/// The namespaces of the scene that have objects of a resource, or that exist.
async fn namespaces_with(c: &Context, resource: Resource) -> Result<BTreeSet<String>, Failure> {
    let field = if resource.is_namespaced() { "namespace" } else { "name" };
    let all = c.client().list(resource, "", "").await?;
    let names = all.iter().map(|object| text(&object["metadata"], field).to_owned());
    Ok(names.filter(|name| name.starts_with(&format!("{}-", c.namespace()))).collect())
}

async fn terminating_namespaces_go_back_and_forth(c: Context) -> Outcome {
    let hands = Hands::find("namespace-controller", "namespace-controller");
    let mut held: BTreeSet<String> = (10..10 + COUNT).map(|n| format!("{}-{n}", c.namespace())).collect();
    for namespace in &held {
        create_namespace(&c, namespace).await?;
    }
    let mut worker = hands.theirs(&c).await?;
    for namespace in &held {
        c.client().delete(NAMESPACES, "", namespace, &json!({})).await?;
    }
    c.until("the first content to be deleted", async || {
        (namespaces_with(&c, SECRETS).await.ok()?.len() < COUNT).then_some(())
    })
    .await?;
    while !held.is_empty() {
        worker = hands.change(&c, worker).await?;
        let rest: BTreeSet<String> = held.iter().skip(RELEASED).cloned().collect();
        for namespace in held.difference(&rest) {
            let patch = json!({"metadata": {"finalizers": null}});
            c.client().patch(CONFIG_MAPS, namespace, "held", "", PatchKind::Merge, &patch).await?;
        }
        held = rest;
        let left = c
            .until("the released namespaces to be gone", async || {
                namespaces_with(&c, NAMESPACES).await.ok().filter(|left| left.len() <= held.len())
            })
            .await?;
        assert_eq!(left, held, "a namespace went too early");
        assert_eq!(
            namespaces_with(&c, CONFIG_MAPS).await?,
            held,
            "content was left behind, or went in spite of its finalizer"
        );
    }
    assert!(namespaces_with(&c, SECRETS).await?.is_empty());
    worker.end().await
}
