//! Suite: what gc-controller promises for whatever has an owner.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::{process::ExitCode, time::Duration};

use common::object::Resource;
use e2e::{
    cluster::Kind,
    suite::{
        Context, Outcome, Suite, Test, deployment,
        resources::{DEPLOYMENTS, PODS, REPLICA_SETS},
        run,
    },
};
use serde_json::{Value, json};

/// Clusters without a garbage collector.
const OURS: &[Kind] = &[Kind::Sandbox, Kind::Envtest];

const MAPS: Resource = Resource { group: "", version: "v1", plural: "configmaps", kind: "ConfigMap", namespaced: true };
const DEFINITIONS: Resource = Resource {
    group: "apiextensions.k8s.io",
    version: "v1",
    plural: "customresourcedefinitions",
    kind: "CustomResourceDefinition",
    namespaced: false,
};
const WIDGETS: Resource =
    Resource { group: "gc.example.com", version: "v1", plural: "widgets", kind: "Widget", namespaced: true };

fn main() -> ExitCode {
    run(&Suite {
        name: "gc",
        controllers: &[
            ("replicaset-controller", &[]),
            ("deployment-controller", &[]),
            ("gc-controller", &["--tune=gc-discovery-period=2s"]),
        ],
        starts_its_own: false,
        cluster: |cluster| cluster,
        at_once: None,
        tests: vec![
            Test::new("dependents_follow_their_owner", |c| Box::pin(background(c))).only(OURS),
            Test::new("dependents_go_first_in_the_foreground", |c| Box::pin(foreground(c))).only(OURS),
            Test::new("dependents_are_released", |c| Box::pin(orphan(c))).only(OURS),
            Test::new("a_living_owner_keeps_its_dependent", |c| Box::pin(two_owners(c))).only(OURS),
            Test::new("custom_resources_come_and_go", |c| Box::pin(custom(c))).only(OURS),
        ],
    })
}

fn map(name: &str, owners: &[&Value]) -> Value {
    let reference = |owner: &&Value| {
        let meta = &owner["metadata"];
        json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"]})
    };
    let references: Vec<Value> = owners.iter().map(reference).collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": references}})
}

async fn gone(c: &Context, resource: Resource, name: &str) -> Outcome {
    c.until(&format!("{resource} {name} to be gone"), async || {
        c.get(resource, name).await.is_err_and(|refused| refused.code == 404).then_some(())
    })
    .await
}

async fn rolled_out(c: &Context) -> Result<Value, e2e::suite::Failure> {
    c.create(DEPLOYMENTS, deployment("web").replicas(2)).await?;
    c.rolled_out("web").await
}

async fn nothing_left(c: &Context) -> Outcome {
    c.until("everything to be gone", async || {
        for resource in [DEPLOYMENTS, REPLICA_SETS, PODS] {
            if !c.list(resource).await.ok()?.is_empty() {
                return None;
            }
        }
        Some(())
    })
    .await
}

async fn background(c: Context) -> Outcome {
    rolled_out(&c).await?;
    c.delete(DEPLOYMENTS, "web", "Background").await?;
    nothing_left(&c).await
}

async fn foreground(c: Context) -> Outcome {
    rolled_out(&c).await?;
    c.delete(DEPLOYMENTS, "web", "Foreground").await?;
    gone(&c, DEPLOYMENTS, "web").await?;
    assert!(c.list(REPLICA_SETS).await?.is_empty() && c.list(PODS).await?.is_empty(), "the owner goes last");
    Ok(())
}

async fn orphan(c: Context) -> Outcome {
    rolled_out(&c).await?;
    c.delete(DEPLOYMENTS, "web", "Orphan").await?;
    gone(&c, DEPLOYMENTS, "web").await?;
    let sets = c.list(REPLICA_SETS).await?;
    assert!(sets.len() == 1 && sets[0]["metadata"].get("ownerReferences").is_none(), "{sets:#?}");
    c.stays("the Pods", Duration::from_secs(2), async || c.list(PODS).await.is_ok_and(|pods| pods.len() == 2)).await
}

async fn two_owners(c: Context) -> Outcome {
    let a = c.create(MAPS, map("a", &[])).await?;
    let b = c.create(MAPS, map("b", &[])).await?;
    c.create(MAPS, map("c", &[&a, &b])).await?;
    c.delete(MAPS, "a", "Background").await?;
    c.until("the reference to a to be removed", async || {
        let c = c.get(MAPS, "c").await.ok()?;
        let left = c["metadata"]["ownerReferences"].as_array()?;
        (left.len() == 1 && left[0]["name"] == "b").then_some(())
    })
    .await?;
    c.delete(MAPS, "b", "Background").await?;
    gone(&c, MAPS, "c").await
}

async fn custom(c: Context) -> Outcome {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.gc.example.com"},
        "spec": {"group": "gc.example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}
    });
    for round in ["first", "second"] {
        c.create(DEFINITIONS, definition.clone()).await?;
        let widget = json!({"apiVersion": "gc.example.com/v1", "kind": "Widget", "metadata": {"name": round}});
        let widget = c.until("the kind to be served", async || c.create(WIDGETS, widget.clone()).await.ok()).await?;
        c.create(MAPS, map(round, &[&widget])).await?;
        c.delete(WIDGETS, round, "Background").await?;
        gone(&c, MAPS, round).await?;
        c.delete(DEFINITIONS, "widgets.gc.example.com", "Background").await?;
        gone(&c, DEFINITIONS, "widgets.gc.example.com").await?;
    }
    Ok(())
}
