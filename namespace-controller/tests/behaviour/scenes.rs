//! What namespace-controller promises, on any cluster without another namespace controller.

use common::object::Resource;
use testkit::scene::prelude::*;

const HOLD: &str = "example.com/hold";

suite! {
    Suite::new("namespace")
        .controller(&namespace_controller::DEFINITION, &[])
        .sandbox(sandbox::Builder::without_namespace_controller);
    EVERYWHERE.sample() => a_namespace_is_emptied_and_goes;
    SIMULATED =>
        a_finalizer_holds_the_namespace_and_is_named the_last_pod_goes_before_other_content
        finalizers_and_labels_of_others_stay a_namespace_with_a_long_name_goes an_active_namespace_is_left_alone;
}

fn name_of(object: &Value) -> &str {
    text(&object["metadata"], "name")
}

/// Creates a namespace beside that of the scene.
async fn create_namespace(c: &Context, name: &str) -> Result<String, Failure> {
    let name = format!("{}-{name}", c.namespace());
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": "a"}}});
    c.client().create(NAMESPACES, "", &body).await?;
    Ok(name)
}

async fn create_in(c: &Context, namespace: &str, resource: Resource, name: &str, finalizers: &[&str]) -> Outcome {
    let mut object =
        json!({"apiVersion": "v1", "kind": resource.kind(), "metadata": {"name": name, "finalizers": finalizers}});
    if resource == PODS {
        object["spec"] = json!({"containers": [{"name": "c", "image": "img:1"}], "terminationGracePeriodSeconds": 0});
    }
    c.client().create(resource, namespace, &object).await?;
    Ok(())
}

async fn delete_namespace(c: &Context, name: &str) -> Outcome {
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
    c.client().delete(NAMESPACES, "", name, &options).await?;
    Ok(())
}

async fn until_gone(c: &Context, name: &str) -> Outcome {
    let is_gone = async || c.client().get(NAMESPACES, "", name).await.is_err_and(|refused| refused.code == 404);
    c.until(&format!("namespace {name} to be gone"), async || is_gone().await.then_some(())).await
}

/// Waits until a condition of the namespace is true and has this text in its message.
async fn until_condition(c: &Context, name: &str, kind: &str, message: &str) -> Outcome {
    c.until(&format!("{kind} of namespace {name}: {message}"), async || {
        let namespace = c.client().get(NAMESPACES, "", name).await.ok()?;
        let found = condition(&namespace, kind)?;
        (found["status"] == "True" && text(found, "message").contains(message)).then_some(())
    })
    .await
}

async fn release(c: &Context, namespace: &str, resource: Resource, name: &str) -> Outcome {
    let patch = json!({"metadata": {"finalizers": null}});
    c.client().patch(resource, namespace, name, "", PatchKind::Merge, &patch).await?;
    Ok(())
}

/// NAMESPACE-9, NAMESPACE-14, NAMESPACE-36.
async fn a_namespace_is_emptied_and_goes(c: Context) -> Outcome {
    let name = create_namespace(&c, "full").await?;
    for number in 0..12 {
        create_in(&c, &name, CONFIG_MAPS, &format!("m{number}"), &[]).await?;
    }
    create_in(&c, &name, SECRETS, "s", &[]).await?;
    create_in(&c, &name, SERVICE_ACCOUNTS, "a", &[]).await?;
    delete_namespace(&c, &name).await?;
    until_gone(&c, &name).await?;
    // A new namespace of the same name has none of it.
    create_namespace(&c, "full").await?;
    for (resource, lost) in [(CONFIG_MAPS, "m0"), (SECRETS, "s")] {
        assert!(c.client().list(resource, &name, "").await?.iter().all(|object| name_of(object) != lost));
    }
    delete_namespace(&c, &name).await?;
    until_gone(&c, &name).await
}

/// NAMESPACE-30, NAMESPACE-31.
async fn a_finalizer_holds_the_namespace_and_is_named(c: Context) -> Outcome {
    let name = create_namespace(&c, "held").await?;
    create_in(&c, &name, CONFIG_MAPS, "held", &[HOLD]).await?;
    create_in(&c, &name, CONFIG_MAPS, "free", &[]).await?;
    delete_namespace(&c, &name).await?;
    until_condition(&c, &name, "NamespaceFinalizersRemaining", "example.com/hold in 1 resource instances").await?;
    until_condition(&c, &name, "NamespaceContentRemaining", "configmaps. has 1 resource instances").await?;
    release(&c, &name, CONFIG_MAPS, "held").await?;
    until_gone(&c, &name).await
}

/// NAMESPACE-12, NAMESPACE-62.
async fn the_last_pod_goes_before_other_content(c: Context) -> Outcome {
    let name = create_namespace(&c, "pods").await?;
    create_in(&c, &name, PODS, "p", &[HOLD]).await?;
    create_in(&c, &name, CONFIG_MAPS, "m", &[]).await?;
    delete_namespace(&c, &name).await?;
    until_condition(&c, &name, "NamespaceContentRemaining", "pods. has 1 resource instances").await?;
    assert_eq!(c.client().list(CONFIG_MAPS, &name, "").await?.iter().filter(|map| is_terminating(map)).count(), 0);
    release(&c, &name, PODS, "p").await?;
    until_gone(&c, &name).await
}

/// NAMESPACE-37.
async fn finalizers_and_labels_of_others_stay(c: Context) -> Outcome {
    let name = create_namespace(&c, "others").await?;
    let patch = json!({"metadata": {"finalizers": [HOLD]}});
    c.client().patch(NAMESPACES, "", &name, "", PatchKind::Merge, &patch).await?;
    create_in(&c, &name, CONFIG_MAPS, "m", &[]).await?;
    delete_namespace(&c, &name).await?;
    let left = c
        .until("the namespace to be finalized", async || {
            let left = c.client().get(NAMESPACES, "", &name).await.ok()?;
            left["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty).then_some(left)
        })
        .await?;
    assert_eq!((&left["metadata"]["labels"]["team"], &left["metadata"]["finalizers"]), (&json!("a"), &json!([HOLD])));
    assert_eq!(left["status"]["phase"], "Terminating");
    release(&c, "", NAMESPACES, &name).await?;
    until_gone(&c, &name).await
}

async fn a_namespace_with_a_long_name_goes(c: Context) -> Outcome {
    let fill = "x".repeat(63 - c.namespace().len() - 1);
    let name = create_namespace(&c, &fill).await?;
    assert_eq!(name.len(), 63);
    create_in(&c, &name, CONFIG_MAPS, &"m".repeat(253), &[]).await?;
    delete_namespace(&c, &name).await?;
    until_gone(&c, &name).await
}

/// NAMESPACE-1.
async fn an_active_namespace_is_left_alone(c: Context) -> Outcome {
    create_in(&c, c.namespace(), CONFIG_MAPS, "m", &[]).await?;
    let before = c.client().get(NAMESPACES, "", c.namespace()).await?;
    c.left_alone(&[CONFIG_MAPS], async || Ok(())).await?;
    assert_eq!(c.client().get(NAMESPACES, "", c.namespace()).await?["metadata"], before["metadata"]);
    Ok(())
}
