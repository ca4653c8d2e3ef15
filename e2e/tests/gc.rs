//! Suite: what gc-controller promises for whatever has an owner.

use common::object::Resource;
use e2e::{cluster, suite::prelude::*};

const MAPS: Resource = Resource::namespaced("", "v1", "configmaps", "ConfigMap");
const DEFINITIONS: Resource =
    Resource::cluster_scoped("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition");
const WIDGETS: Resource = Resource::namespaced("gc.example.com", "v1", "widgets", "Widget");

const GADGETS: Resource = Resource::namespaced("gc.example.com", "v1", "gadgets", "Gadget");
const STATEFUL_SETS: Resource = Resource::namespaced("apps", "v1", "statefulsets", "StatefulSet");
/// As `kubectl delete --cascade` asks for them.
const POLICIES: [&str; 3] = ["Background", "Foreground", "Orphan"];

pub(crate) fn suite() -> Suite {
    let scenes = scenes! {
        SIMULATED =>
            dependents_follow_their_owner dependents_go_first_in_the_foreground dependents_are_released
            deployments_are_deleted_in_each_way jobs_are_deleted_in_each_way cron_jobs_are_deleted_in_each_way
            stateful_sets_are_deleted_in_each_way custom_resources_are_deleted_in_each_way
            a_living_owner_keeps_its_dependent custom_resources_come_and_go owner_references_ask_for_rights;
    };
    Suite::new(
        "gc",
        &[
            ("replicaset-controller", &[]),
            ("deployment-controller", &[]),
            ("job-controller", &[]),
            ("cronjob-controller", &[]),
            ("gc-controller", &["--tune=gc-discovery-period=2s"]),
        ],
        scenes,
    )
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
        c.get(resource.clone(), name).await.is_err_and(|refused| refused.code == 404).then_some(())
    })
    .await
}

/// Whether an object names another as an owner.
fn is_of(object: &Value, owner: &Value) -> bool {
    let references = object["metadata"]["ownerReferences"].as_array();
    references.is_some_and(|all| all.iter().any(|reference| reference["uid"] == owner["metadata"]["uid"]))
}

/// Gives an object an owner that it blocks, as a controller does.
fn owned(mut object: Value, owner: &Value) -> Value {
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
    }]);
    object
}

/// Deletes an object, and sees what becomes of its dependents of a kind.
async fn delete_with(c: &Context, resource: Resource, owner: &Value, dependents: Resource, policy: &str) -> Outcome {
    let name = owner["metadata"]["name"].as_str().unwrap();
    let of = |objects: Vec<Value>| objects.into_iter().filter(|o| is_of(o, owner)).collect::<Vec<_>>();
    let before = c
        .until(&format!("{dependents} of {name}"), async || {
            Some(of(c.list(dependents.clone()).await.ok()?)).filter(|all| !all.is_empty())
        })
        .await?;
    c.delete(resource.clone(), name, policy).await?;
    gone(c, resource, name).await?;
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
fn named(policy: &str) -> String {
    format!("for-{}", policy.to_lowercase())
}

async fn deployments_are_deleted_in_each_way(c: Context) -> Outcome {
    for policy in POLICIES {
        let owner = c.create(DEPLOYMENTS, deployment(&named(policy))).await?;
        c.rolled_out(&named(policy)).await?;
        delete_with(&c, DEPLOYMENTS, &owner, REPLICA_SETS, policy).await?;
    }
    Ok(())
}

async fn jobs_are_deleted_in_each_way(c: Context) -> Outcome {
    for policy in POLICIES {
        let owner = c.create(JOBS, job(&named(policy))).await?;
        delete_with(&c, JOBS, &owner, PODS, policy).await?;
    }
    Ok(())
}

async fn cron_jobs_are_deleted_in_each_way(c: Context) -> Outcome {
    for policy in POLICIES {
        let template = job(&named(policy)).build()["spec"].clone();
        let owner = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": named(policy)},
            "spec": {"schedule": "0 0 1 1 *", "suspend": true, "jobTemplate": {"spec": template}}});
        let owner = c.create(CRON_JOBS, owner).await?;
        // As `kubectl create job --from` does it.
        let started = c.create(JOBS, owned(job(&named(policy)).build(), &owner)).await?;
        c.until("a Pod of the Job", async || {
            c.list(PODS).await.ok()?.iter().any(|pod| is_of(pod, &started)).then_some(())
        })
        .await?;
        delete_with(&c, CRON_JOBS, &owner, JOBS, policy).await?;
        let pods = c.list(PODS).await?.into_iter().filter(|pod| is_of(pod, &started)).count();
        if policy == "Foreground" {
            c.check(pods == 0, "what its dependents own goes before them").await?;
        } else if policy == "Orphan" {
            c.check(pods == 1, "what its dependents own stays theirs").await?;
        }
    }
    Ok(())
}

/// A StatefulSet with a Pod of its own that nobody but the collector cares for.
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

async fn custom_resources_are_deleted_in_each_way(c: Context) -> Outcome {
    c.create(DEFINITIONS, definition(GADGETS)).await?;
    for policy in POLICIES {
        let gadget = json!({"apiVersion": "gc.example.com/v1", "kind": "Gadget", "metadata": {"name": named(policy)}});
        let owner = c.until("the kind to be served", async || c.create(GADGETS, gadget.clone()).await.ok()).await?;
        let below = json!({"apiVersion": "gc.example.com/v1", "kind": "Gadget",
            "metadata": {"name": format!("below-{}", named(policy))}});
        c.create(GADGETS, owned(below, &owner)).await?;
        c.create(MAPS, owned(map(&named(policy), &[]), &owner)).await?;
        // A kind that has just come is known after the next look at what there is.
        c.sleep(Duration::from_secs(3)).await;
        delete_with(&c, GADGETS, &owner, GADGETS, policy).await?;
        let map = async || c.get(MAPS, &named(policy)).await;
        if policy == "Orphan" {
            c.check(map().await.is_ok_and(|map| !is_of(&map, &owner)), "dependents of other kinds are released")
                .await?;
        } else {
            gone(&c, MAPS, &named(policy)).await?;
        }
    }
    c.delete(DEFINITIONS, "gadgets.gc.example.com", "Background").await?;
    gone(&c, DEFINITIONS, "gadgets.gc.example.com").await
}

async fn rolled_out(c: &Context) -> Result<Value, Failure> {
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

async fn dependents_follow_their_owner(c: Context) -> Outcome {
    rolled_out(&c).await?;
    c.delete(DEPLOYMENTS, "web", "Background").await?;
    nothing_left(&c).await
}

async fn dependents_go_first_in_the_foreground(c: Context) -> Outcome {
    rolled_out(&c).await?;
    c.delete(DEPLOYMENTS, "web", "Foreground").await?;
    gone(&c, DEPLOYMENTS, "web").await?;
    assert!(c.list(REPLICA_SETS).await?.is_empty() && c.list(PODS).await?.is_empty(), "the owner goes last");
    Ok(())
}

async fn dependents_are_released(c: Context) -> Outcome {
    rolled_out(&c).await?;
    c.delete(DEPLOYMENTS, "web", "Orphan").await?;
    gone(&c, DEPLOYMENTS, "web").await?;
    let sets = c.list(REPLICA_SETS).await?;
    assert!(sets.len() == 1 && sets[0]["metadata"].get("ownerReferences").is_none(), "{sets:#?}");
    c.stays("the Pods", Duration::from_secs(2), async || c.list(PODS).await.is_ok_and(|pods| pods.len() == 2)).await
}

async fn a_living_owner_keeps_its_dependent(c: Context) -> Outcome {
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

fn definition(resource: Resource) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.to_string()},
        "spec": {"group": "gc.example.com", "scope": "Namespaced", "names": {"plural": resource.plural(), "kind": resource.kind()},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}
    })
}

async fn custom_resources_come_and_go(c: Context) -> Outcome {
    for round in ["first", "second"] {
        c.create(DEFINITIONS, definition(WIDGETS)).await?;
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

/// The admission plugin `OwnerReferencesPermissionEnforcement` is on, so that the suites hold the roles of `deploy/`.
async fn owner_references_ask_for_rights(c: Context) -> Outcome {
    const GROUP: &str = "rbac.authorization.k8s.io";
    let of_group = |plural, kind| Resource::namespaced(GROUP, "v1", plural, kind);
    let user = format!("weak-{}", c.namespace());
    let kubeconfig = c.cluster().kubeconfig_for(&user)?;
    let weak = Client::new(cluster::connect(&kubeconfig).await?);
    let role = |rules: &Value| json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Role", "metadata": {"name": "weak"}, "rules": rules});
    let maps = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "patch"]});
    c.create(of_group("roles", "Role"), role(&json!([maps]))).await?;
    let binding = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "RoleBinding", "metadata": {"name": "weak"},
        "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": "weak"},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": user}]});
    c.create(of_group("rolebindings", "RoleBinding"), binding).await?;
    let owner = c.create(MAPS, map("owner", &[])).await?;
    c.until("the role to hold", async || weak.get(MAPS, c.namespace(), "owner").await.ok()).await?;
    let blocking = |kind: &str| {
        let mut object = map("x", &[&owner]);
        object["metadata"]["ownerReferences"][0]["kind"] = json!(kind);
        object["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = json!(true);
        object
    };
    let own = async || {
        let patch = json!({"metadata": {"ownerReferences": map("x", &[&owner])["metadata"]["ownerReferences"]}});
        weak.patch(MAPS, c.namespace(), "y", "", PatchKind::Merge, &patch).await
    };
    // What users see, to the letter.
    let refused = [
        (
            weak.create(MAPS, c.namespace(), &blocking("ConfigMap")).await,
            "configmaps \"x\" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>",
        ),
        (
            weak.create(MAPS, c.namespace(), &blocking("Boat")).await,
            "configmaps \"x\" is forbidden: cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion v1 Kind Boat: no matches for kind \"Boat\" in version \"v1\"",
        ),
        (
            {
                weak.create(MAPS, c.namespace(), &map("y", &[])).await?;
                own().await
            },
            "configmaps \"y\" is forbidden: cannot set an ownerRef on a resource you can't delete: , <nil>",
        ),
    ];
    for (answer, expected) in refused {
        let refused = answer.err().ok_or_else(|| Failure::new(format!("not refused: {expected}")))?;
        assert_eq!((refused.code, &*refused.reason, &*refused.message), (403, "Forbidden", expected));
    }
    let more = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "patch", "delete"]});
    let finalizers = json!({"apiGroups": [""], "resources": ["configmaps/finalizers"], "verbs": ["update"]});
    c.merge(of_group("roles", "Role"), "weak", json!({"rules": [more, finalizers]})).await?;
    c.until("the owner to be accepted", async || own().await.ok()).await?;
    weak.create(MAPS, c.namespace(), &blocking("ConfigMap")).await?;
    Ok(())
}
