//! Tests of the source of the bundle.

use crate::world::*;

fn unusable(world: &World) -> u64 {
    world.metric("nonet_root_ca_unusable")
}

/// SERVICEACCOUNT-28.
#[tokio::test(start_paused = true)]
async fn a_changed_file_reaches_every_namespace_when_two_reads_find_it() {
    let file = TestFile::new("changed", CA);
    let world = cluster_with(file.path()).start().await;
    create_namespaces(&world, (0..20).map(|number| format!("n{number}"))).await;
    world.settle().await;
    world.clear_log();
    file.write(NEXT_CA);
    world.wait(29).await;
    assert_eq!(world.own_write_lines(), [""; 0]);
    world.wait(32).await;
    assert_eq!((data(&world).await, world.own_writes().len()), (json!({"ca.crt": NEXT_CA}), INITIAL_NAMESPACES + 20));
    world.wait(3600).await;
    assert_eq!(world.own_writes().len(), INITIAL_NAMESPACES + 20);
}

/// SERVICEACCOUNT-28.
#[tokio::test(start_paused = true)]
async fn a_file_that_is_being_written_is_not_published() {
    let file = TestFile::new("half", CA);
    let world = cluster_with(file.path()).start().await;
    for text in [&NEXT_CA[..NEXT_CA.len() / 2], "", NEXT_CA, "\n", CA, &format!("{NEXT_CA}{CA}"), CA] {
        file.write(text);
        world.wait(30).await;
    }
    assert_eq!((data(&world).await, world.own_writes().len()), (json!({"ca.crt": CA}), 0));
}

/// SERVICEACCOUNT-30, SERVICEACCOUNT-31.
#[tokio::test(start_paused = true)]
async fn an_unusable_file_leaves_the_last_good_bundle_in_use() {
    let file = TestFile::new("bad", CA);
    let world = cluster_with(file.path()).start().await;
    let key = format!("{CA}-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
    let large = vec![b'#'; 2 << 20];
    for content in [b"".as_slice(), b"no PEM", &[0xff, 0xfe], key.as_bytes(), &large] {
        file.write(content);
        world.wait(120).await;
        assert_eq!(unusable(&world), 1);
        assert_eq!((world.loops().ready(), world.own_writes().len()), (Ok(()), 0));
    }
    file.remove();
    world.delete(CONFIG_MAPS, ROOT_CA).await;
    world.wait(120).await;
    assert_eq!((unusable(&world), data(&world).await), (1, json!({"ca.crt": CA})));
    file.write(CA);
    world.wait(31).await;
    assert_eq!(unusable(&world), 0);
}

/// SERVICEACCOUNT-29, SERVICEACCOUNT-30.
#[tokio::test(start_paused = true)]
async fn without_a_bundle_accounts_are_created_and_the_process_is_not_ready() {
    let file = TestFile::new("late", "");
    for (path, reason) in [
        (file.path(), "it has no PEM block CERTIFICATE"),
        ("/does/not/exist", "No such file"),
        ("/", "Is a directory"),
        ("", "the bundle cannot be used: it has no source; name a file with --root-ca-file"),
    ] {
        let world = cluster_with(path).start().await;
        world.wait(300).await;
        assert!(world.find(ACCOUNTS, DEFAULT).await.is_some());
        assert_eq!((data(&world).await, unusable(&world)), (Value::Null, 1));
        let why = world.loops().ready().unwrap_err();
        assert!(why.contains(reason) && !why.contains('\n'), "{why}");
        let explained = world.loops().explain(Some(&format!("{NAMESPACE}/{ROOT_CA}")));
        assert!(explained[1]["waiting"].to_string().contains("there is no usable bundle yet"), "{explained:#}");
        world.assert_count("create", CONFIG_MAPS, 0..=0);
    }
    let world = cluster_with(file.path()).start().await;
    file.write(CA);
    world.wait(62).await;
    assert_eq!((data(&world).await, world.loops().ready(), unusable(&world)), (json!({"ca.crt": CA}), Ok(()), 0));
}

/// SERVICEACCOUNT-6, SERVICEACCOUNT-29.
#[tokio::test(start_paused = true)]
async fn without_the_flag_the_bundle_is_the_authority_of_the_kubeconfig() {
    let kubeconfig = |cluster: String| {
        format!(
            "{{kind: Config, apiVersion: v1, current-context: c, clusters: [{{name: k, cluster: {cluster}}}], \
             users: [{{name: u, user: {{}}}}], contexts: [{{name: c, context: {{cluster: k, user: u}}}}]}}"
        )
    };
    let authority = TestFile::new("authority", NEXT_CA);
    let in_file = format!("{{server: 'https://h', certificate-authority: '{}'}}", authority.path());
    let file = TestFile::new("kubeconfig", kubeconfig(in_file));
    let set = |cluster: Cluster| cluster.tunable("kubeconfig", TunableValue::File(file.path()));
    let world = set(cluster_with("")).start().await;
    assert_eq!(data(&world).await, json!({"ca.crt": NEXT_CA}));
    let world = set(cluster()).start().await;
    assert_eq!(data(&world).await, json!({"ca.crt": CA}), "the flag has precedence");
    file.write(kubeconfig("{server: 'http://h'}".to_owned()));
    let world = set(cluster_with("")).start().await;
    let why = world.loops().ready().unwrap_err();
    assert!(why.contains("it has no certificate authority; name a file with --root-ca-file"), "{why}");
}
