//! What serviceaccount-controller promises for namespaces, on any cluster.

use testkit::scene::prelude::*;

suite! {
    Suite::new("serviceaccount")
        .controller(&serviceaccount_controller::DEFINITION, &[concat!("--root-ca-file=", env!("CARGO_MANIFEST_DIR"), "/../common/client/testdata/ca.crt")]);
    EVERYWHERE.sample() =>
        a_new_namespace_has_its_account;
    SIMULATED.sample() =>
        what_others_change_in_the_config_map_is_put_right;
    SIMULATED =>
        a_new_namespace_has_the_bundle what_is_deleted_comes_back the_content_of_others_is_kept
        a_namespace_at_rest_is_left_alone a_terminating_namespace_gets_nothing_new;
}

const CA: &str = include_str!("../../../common/client/testdata/ca.crt");
const ACCOUNT: &str = "default";
const ROOT_CA: &str = "kube-root-ca.crt";

fn is_right(config_map: &Value) -> bool {
    let description = config_map["metadata"]["annotations"]["kubernetes.io/description"].as_str().unwrap_or_default();
    config_map["data"] == json!({"ca.crt": CA}) && !description.is_empty()
}

/// Waits until the namespace of the scene has both objects.
async fn complete(c: &Context) -> Result<[Value; 2], Failure> {
    let account = c.until_object(SERVICE_ACCOUNTS, ACCOUNT, "the account", |_| true).await?;
    let config_map = c.until_object(CONFIG_MAPS, ROOT_CA, "the ConfigMap", is_right).await?;
    Ok([account, config_map])
}

/// SERVICEACCOUNT-1.
async fn a_new_namespace_has_its_account(c: Context) -> Outcome {
    let account = c.until_object(SERVICE_ACCOUNTS, ACCOUNT, "the account", |_| true).await?;
    assert_eq!((&account["secrets"], &account["metadata"]["labels"]), (&Value::Null, &Value::Null));
    Ok(())
}

/// SERVICEACCOUNT-8.
async fn a_new_namespace_has_the_bundle(c: Context) -> Outcome {
    let [_, config_map] = complete(&c).await?;
    let description = config_map["metadata"]["annotations"]["kubernetes.io/description"].as_str().unwrap();
    assert!(description.starts_with("Contains a CA bundle that can be used to verify the kube-apiserver"));
    assert_eq!(
        config_map["metadata"]["managedFields"][0]["manager"].as_str().unwrap_or("kube-controller-manager"),
        "kube-controller-manager"
    );
    Ok(())
}

/// SERVICEACCOUNT-11, SERVICEACCOUNT-27, SERVICEACCOUNT-32.
async fn what_others_change_in_the_config_map_is_put_right(c: Context) -> Outcome {
    complete(&c).await?;
    for patch in [
        json!({"data": {"ca.crt": "x"}}),
        json!({"data": {"other": "x", "more": "y"}}),
        json!({"data": null}),
        json!({"data": {"ca.crt": null}}),
        json!({"data": null, "binaryData": {"ca.crt": "AAAA"}}),
        json!({"data": {"ca.crt": null, "other": "x"}, "binaryData": {"ca.crt": "AAAA"}}),
        json!({"metadata": {"annotations": {"kubernetes.io/description": null}}}),
    ] {
        let wrong = c.merge(CONFIG_MAPS, ROOT_CA, patch).await?;
        assert!(!is_right(&wrong));
        c.until_object(CONFIG_MAPS, ROOT_CA, "the repair", is_right).await?;
    }
    Ok(())
}

/// SERVICEACCOUNT-11.
async fn the_content_of_others_is_kept(c: Context) -> Outcome {
    complete(&c).await?;
    let marks = json!({"metadata": {"labels": {"team": "a"}, "annotations": {"note": "kept"}}, "binaryData": {"b": "AAAA"},
        "data": {"other": "x"}});
    c.merge(CONFIG_MAPS, ROOT_CA, marks).await?;
    let repaired = c.until_object(CONFIG_MAPS, ROOT_CA, "the repair", is_right).await?;
    assert_eq!(repaired["metadata"]["labels"], json!({"team": "a"}));
    assert_eq!(
        (&repaired["metadata"]["annotations"]["note"], &repaired["binaryData"]),
        (&json!("kept"), &json!({"b": "AAAA"}))
    );
    Ok(())
}

/// SERVICEACCOUNT-2, SERVICEACCOUNT-9.
async fn what_is_deleted_comes_back(c: Context) -> Outcome {
    let [account, config_map] = complete(&c).await?;
    c.delete(SERVICE_ACCOUNTS, ACCOUNT, "Background").await?;
    c.delete(CONFIG_MAPS, ROOT_CA, "Background").await?;
    let [new_account, new_config_map] = complete(&c).await?;
    assert_ne!(new_account["metadata"]["uid"], account["metadata"]["uid"]);
    assert_ne!(new_config_map["metadata"]["uid"], config_map["metadata"]["uid"]);
    Ok(())
}

/// SERVICEACCOUNT-1, SERVICEACCOUNT-10.
async fn a_namespace_at_rest_is_left_alone(c: Context) -> Outcome {
    complete(&c).await?;
    c.left_alone(&[SERVICE_ACCOUNTS, CONFIG_MAPS], async || {
        let patch = json!({"metadata": {"labels": {"seen": "yes"}}});
        c.client().patch(NAMESPACES, "", c.namespace(), "", PatchKind::Merge, &patch).await?;
        Ok(())
    })
    .await
}

/// SERVICEACCOUNT-25.
async fn a_terminating_namespace_gets_nothing_new(c: Context) -> Outcome {
    complete(&c).await?;
    // The finalizer keeps the namespace where a namespace controller empties it.
    c.merge(SERVICE_ACCOUNTS, ACCOUNT, json!({"metadata": {"finalizers": ["test.example/kept"]}})).await?;
    c.client().delete(NAMESPACES, "", c.namespace(), &json!({"kind": "DeleteOptions", "apiVersion": "v1"})).await?;
    drop(c.delete(CONFIG_MAPS, ROOT_CA, "Background").await);
    c.until_gone(CONFIG_MAPS, ROOT_CA).await?;
    let is_gone = async || c.get(CONFIG_MAPS, ROOT_CA).await.is_err();
    c.stays("no ConfigMap", Duration::from_secs(3), is_gone).await?;
    c.merge(SERVICE_ACCOUNTS, ACCOUNT, json!({"metadata": {"finalizers": null}})).await.map(drop).map_err(Failure::from)
}
