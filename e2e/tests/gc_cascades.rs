//! Suite: cascades through the objects of other controllers, and the rights that owner references need.

use common::object::Resource;
use e2e::{cluster, suite::prelude::*};

use crate::gc::{POLICIES, delete_with, is_of, map, named, owned};

pub(crate) fn suite() -> Suite {
    let scenes = scenes! {
        SIMULATED =>
            deployments_are_deleted_in_each_way jobs_are_deleted_in_each_way cron_jobs_are_deleted_in_each_way
            owner_references_ask_for_rights;
    };
    Suite::new("gc_cascades")
        .controller(&gc_controller::DEFINITION, &[])
        .beside(&["replicaset-controller", "deployment-controller", "job-controller", "cronjob-controller"])
        .scenes(scenes)
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
    let owner = c.create(CONFIG_MAPS, map("owner", &[])).await?;
    c.until("the role to hold", async || weak.get(CONFIG_MAPS, c.namespace(), "owner").await.ok()).await?;
    let blocking = |kind: &str| {
        let mut object = map("x", &[&owner]);
        object["metadata"]["ownerReferences"][0]["kind"] = json!(kind);
        object["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = json!(true);
        object
    };
    let own = async || {
        let patch = json!({"metadata": {"ownerReferences": map("x", &[&owner])["metadata"]["ownerReferences"]}});
        weak.patch(CONFIG_MAPS, c.namespace(), "y", "", PatchKind::Merge, &patch).await
    };
    // What users see, to the letter.
    let refused = [
        (
            weak.create(CONFIG_MAPS, c.namespace(), &blocking("ConfigMap")).await,
            "configmaps \"x\" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>",
        ),
        (
            weak.create(CONFIG_MAPS, c.namespace(), &blocking("Boat")).await,
            "configmaps \"x\" is forbidden: cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion v1 Kind Boat: no matches for kind \"Boat\" in version \"v1\"",
        ),
        (
            {
                weak.create(CONFIG_MAPS, c.namespace(), &map("y", &[])).await?;
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
    weak.create(CONFIG_MAPS, c.namespace(), &blocking("ConfigMap")).await?;
    Ok(())
}
