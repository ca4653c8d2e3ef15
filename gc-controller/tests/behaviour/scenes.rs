//! What gc-controller promises for objects with owners, on any cluster.

use common::object::Resource;
use testkit::scene::prelude::*;

const WIDGETS: Resource = Resource::namespaced("gc.example.com", "v1", "widgets", "Widget");
const GADGETS: Resource = Resource::namespaced("gc.example.com", "v1", "gadgets", "Gadget");
/// The values of `kubectl delete --cascade`.
pub(crate) const POLICIES: [&str; 3] = ["Background", "Foreground", "Orphan"];

suite! {
    Suite::new("gc")
        .controller(&gc_controller::DEFINITION, &["--tune=gc-discovery-period=2s"])
        .beside(&["replicaset-controller"]);
    SIMULATED.sample() =>
        dependents_of_dependents_are_deleted_in_each_way custom_resources_are_deleted_in_each_way;
    SIMULATED =>
        stateful_sets_are_deleted_in_each_way a_living_owner_keeps_its_dependent custom_resources_come_and_go;
}

pub(crate) fn map(name: &str, owners: &[&Value]) -> Value {
    let reference = |owner: &&Value| {
        let meta = &owner["metadata"];
        json!({"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"]})
    };
    let references: Vec<Value> = owners.iter().map(reference).collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": references}})
}

/// Whether an object names another as an owner.
pub(crate) fn is_of(object: &Value, owner: &Value) -> bool {
    let references = object["metadata"]["ownerReferences"].as_array();
    references.is_some_and(|all| all.iter().any(|reference| reference["uid"] == owner["metadata"]["uid"]))
}

/// Gives an object an owner that it blocks, as a controller does.
pub(crate) fn owned(mut object: Value, owner: &Value) -> Value {
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
    }]);
    object
}

/// Deletes an object, and sees what becomes of its dependents of a kind.
pub(crate) async fn delete_with(
    c: &Context,
    resource: Resource,
    owner: &Value,
    dependents: Resource,
    policy: &str,
) -> Outcome {
    let name = owner["metadata"]["name"].as_str().unwrap();
    let of = |objects: Vec<Value>| objects.into_iter().filter(|o| is_of(o, owner)).collect::<Vec<_>>();
    let before = c
        .until(&format!("{dependents} of {name}"), async || {
            Some(of(c.list(dependents.clone()).await.ok()?)).filter(|all| !all.is_empty())
        })
        .await?;
    c.delete(resource.clone(), name, policy).await?;
    c.until_gone(resource, name).await?;
    let left = c.list(dependents.clone()).await?;
    if policy == "Foreground" {
        c.check(of(left).is_empty(), "the owner goes last").await?;
    } else if policy == "Orphan" {
        c.check(of(left).is_empty(), "dependents are released first").await?;
    }
    let is_left = |object: &Value, all: &[Value]| all.iter().any(|o| o["metadata"]["uid"] == object["metadata"]["uid"]);
    if policy == "Orphan" {
        return c
            .stays("what was released", Duration::from_secs(1), async || {
                c.list(dependents.clone()).await.is_ok_and(|all| before.iter().all(|object| is_left(object, &all)))
            })
            .await;
    }
    c.until_list(dependents.clone(), &format!("{dependents} of {name} to be gone"), |all| {
        !before.iter().any(|object| is_left(object, all))
    })
    .await
    .map(drop)
}

/// A name for each policy.
pub(crate) fn named(policy: &str) -> String {
    format!("for-{}", policy.to_lowercase())
}

/// A StatefulSet with a Pod of its own. Only the garbage collector acts on them.
async fn stateful_sets_are_deleted_in_each_way(c: Context) -> Outcome {
    for policy in POLICIES {
        let (name, labels) = (named(policy), json!({"app": named(policy)}));
        let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name},
            "spec": {"replicas": 1, "serviceName": name, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "img:1"}]}}}});
        let owner = c.create(STATEFUL_SETS, owner).await?;
        c.create(PODS, owned(pod(&format!("{name}-0"), &name).build(), &owner)).await?;
        delete_with(&c, STATEFUL_SETS, &owner, PODS, policy).await?;
    }
    Ok(())
}

/// GC-5, GC-21, GC-47, GC-55.
async fn custom_resources_are_deleted_in_each_way(c: Context) -> Outcome {
    c.create(DEFINITIONS, custom_resource_definition(&GADGETS)).await?;
    for policy in POLICIES {
        let gadget = json!({"apiVersion": "gc.example.com/v1", "kind": "Gadget", "metadata": {"name": named(policy)}});
        let owner = c.until("the kind to be served", async || c.create(GADGETS, gadget.clone()).await.ok()).await?;
        let below = json!({"apiVersion": "gc.example.com/v1", "kind": "Gadget",
            "metadata": {"name": format!("below-{}", named(policy))}});
        c.create(GADGETS, owned(below, &owner)).await?;
        c.create(CONFIG_MAPS, owned(map(&named(policy), &[]), &owner)).await?;
        // A kind that has just come is known after the next look at what there is.
        c.sleep(Duration::from_secs(3)).await;
        delete_with(&c, GADGETS, &owner, GADGETS, policy).await?;
        let map = async || c.get(CONFIG_MAPS, &named(policy)).await;
        if policy == "Orphan" {
            c.check(map().await.is_ok_and(|map| !is_of(&map, &owner)), "dependents of other kinds are released")
                .await?;
        } else {
            c.until_gone(CONFIG_MAPS, &named(policy)).await?;
        }
    }
    c.delete(DEFINITIONS, "gadgets.gc.example.com", "Background").await?;
    c.until_gone(DEFINITIONS, "gadgets.gc.example.com").await
}

/// A Deployment with a ReplicaSet of two Pods, without its controller.
/// GC-21, GC-47, GC-55.
async fn dependents_of_dependents_are_deleted_in_each_way(c: Context) -> Outcome {
    for policy in POLICIES {
        let owner = c.create(DEPLOYMENTS, deployment(&named(policy))).await?;
        c.create(REPLICA_SETS, owned(replica_set(&named(policy)).replicas(2).build(), &owner)).await?;
        c.until_list(PODS, "two ready Pods", |pods| pods.len() == 2 && pods.iter().all(is_ready)).await?;
        delete_with(&c, DEPLOYMENTS, &owner, REPLICA_SETS, policy).await?;
        match policy {
            "Background" => drop(c.until_list(PODS, "everything to be gone", <[Value]>::is_empty).await?),
            "Foreground" => c.check(c.list(PODS).await?.is_empty(), "the owner goes last").await?,
            _ => {
                let is_kept = async || c.list(PODS).await.is_ok_and(|pods| pods.len() == 2);
                c.stays("the Pods", Duration::from_secs(2), is_kept).await?;
            }
        }
    }
    Ok(())
}

/// GC-20, GC-21.
async fn a_living_owner_keeps_its_dependent(c: Context) -> Outcome {
    let a = c.create(CONFIG_MAPS, map("a", &[])).await?;
    let b = c.create(CONFIG_MAPS, map("b", &[])).await?;
    c.create(CONFIG_MAPS, map("c", &[&a, &b])).await?;
    c.delete(CONFIG_MAPS, "a", "Background").await?;
    c.until("the reference to a to be removed", async || {
        let c = c.get(CONFIG_MAPS, "c").await.ok()?;
        let left = c["metadata"]["ownerReferences"].as_array()?;
        (left.len() == 1 && left[0]["name"] == "b").then_some(())
    })
    .await?;
    c.delete(CONFIG_MAPS, "b", "Background").await?;
    c.until_gone(CONFIG_MAPS, "c").await
}

/// GC-5.
async fn custom_resources_come_and_go(c: Context) -> Outcome {
    for round in ["first", "second"] {
        c.create(DEFINITIONS, custom_resource_definition(&WIDGETS)).await?;
        let widget = json!({"apiVersion": "gc.example.com/v1", "kind": "Widget", "metadata": {"name": round}});
        let widget = c.until("the kind to be served", async || c.create(WIDGETS, widget.clone()).await.ok()).await?;
        c.create(CONFIG_MAPS, map(round, &[&widget])).await?;
        c.delete(WIDGETS, round, "Background").await?;
        c.until_gone(CONFIG_MAPS, round).await?;
        c.delete(DEFINITIONS, "widgets.gc.example.com", "Background").await?;
        c.until_gone(DEFINITIONS, "widgets.gc.example.com").await?;
    }
    Ok(())
}
