//! What is accepted as helm, where it works, and what it inherits.

use super::*;
use crate::helm::testing::Role;

const LEAKY: Role = Role {
    name: "leaky",
    test: "helm::tests::opening::as_leaky_parent",
};

#[tokio::test]
async fn versions() {
    for (printed, expected) in [("v4.3.1", "4.3.1"), ("v4.3", "4.3.0"), ("v5.0.0", "5.0.0")] {
        let (helm, _) = Fake::with_version(&format!("printf {printed}"), "").open().await;
        assert_eq!(helm.version().to_string(), expected);
    }

    let old = Fake::with_version("printf v3.22.0", "")
        .try_open()
        .await
        .expect_err("too old");
    assert!(
        matches!(&old, OpenError::TooOld { found, .. } if *found == Version::new(3, 22, 0)),
        "{old}"
    );
    assert!(old.to_string().contains("helm 3.22.0 at /"), "{old}");

    let other = Fake::with_version("echo BusyBox", "")
        .try_open()
        .await
        .expect_err("no version");
    assert!(
        other
            .to_string()
            .ends_with("printed something unexpected: its version cannot be read from that"),
        "{other}"
    );

    let broken = Fake::with_version("echo 'Error: no' >&2; exit 7", "")
        .try_open()
        .await
        .expect_err("broken");
    assert!(
        broken
            .to_string()
            .ends_with("does not work as helm: helm version failed: no"),
        "{broken}"
    );
}

#[tokio::test]
async fn a_missing_binary() {
    let fake = Fake::new("");
    std::fs::remove_file(fake.file("helm")).expect("the fake goes");
    let error = fake.try_open().await.expect_err("nothing there");
    assert!(
        matches!(&error, OpenError::Missing { binary } if *binary == fake.file("helm")),
        "{error}"
    );
}

#[tokio::test]
async fn a_file_that_cannot_be_run() {
    let fake = Fake::new("");
    std::fs::set_permissions(fake.file("helm"), std::fs::Permissions::from_mode(0o600)).expect("new rights");
    let error = fake.try_open().await.expect_err("not executable");
    assert!(matches!(error, OpenError::Unusable { .. }), "{error}");
}

#[tokio::test]
async fn the_working_directory_is_ours_alone() {
    let fake = Fake::new("");
    std::fs::create_dir(fake.file("work")).expect("a folder with the usual rights");
    let _ = fake.open().await;
    assert_eq!(mode(&fake.file("work")), 0o700);
    assert_eq!(mode(&fake.file("work/home")), 0o700);

    let fake = Fake::new("");
    fake.write("work");
    let error = fake.try_open().await.expect_err("a file is in the way");
    assert!(
        matches!(&error, OpenError::WorkDir { path, .. } if *path == fake.file("work")),
        "{error}"
    );
}

#[tokio::test]
async fn only_the_right_variables_reach_helm() {
    LEAKY
        .play(
            &[],
            &[
                ("HELM_KUBEASUSER", "someone"),
                ("HELM_NAMESPACE", "elsewhere"),
                ("HELM_DRIVER", "memory"),
                ("KUBECONFIG", "/other/kubeconfig"),
                ("POD_NAMESPACE", "elsewhere"),
            ],
        )
        .await;
}

/// The part that plays in a process with variables that would lead helm astray. Does nothing elsewhere.
#[tokio::test]
async fn as_leaky_parent() {
    if !LEAKY.is_ours() {
        return;
    }
    let fake = Fake::new(r"tr '\0' '\n' < /proc/$$/environ | sed 's/=.*//' | sort > $DIR/names");
    let inherited = [
        ("HTTPS_PROXY", "http://proxy"),
        ("HELM_KUBETOKEN", "t"),
        ("HOME", "/root"),
        ("USER", "me"),
    ];
    let mut settings = fake.settings();
    settings.environment = inherited
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();

    let common = "HELM_CACHE_HOME HELM_CONFIG_HOME HELM_DATA_HOME HELM_DRIVER HELM_NO_PLUGINS HOME HTTPS_PROXY \
                  KUBECACHEDIR";
    for (api, own) in [
        (
            settings.api.clone(),
            "KUBERNETES_SERVICE_HOST KUBERNETES_SERVICE_PORT",
        ),
        (ApiAccess::Kubeconfig("/my/kubeconfig".into()), "KUBECONFIG"),
    ] {
        let (_interrupter, interrupt) = interrupt();
        let helm = Helm::open(
            Settings {
                api,
                ..settings.clone()
            },
            interrupt,
        )
        .await
        .expect("a usable helm");
        uninstall(&helm).await.expect("the fake succeeds");
        let names = fake
            .text("names")
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        assert_eq!(names, format!("{common} {own} NO_COLOR PATH TMPDIR"));
    }
    LEAKY.done();
}

#[test]
fn values_of_the_variables() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let work_dir = WorkDir::create(dir.path()).expect("a working directory");
    let passed_on = [
        ("PATH".to_owned(), "/opt".to_owned()),
        ("no_proxy".to_owned(), "10.0.0.1".to_owned()),
    ];
    let value = |api: ApiAccess, name: &str| {
        let env = environment::environment(&work_dir, &api, &passed_on);
        let values: Vec<_> = env
            .into_iter()
            .filter(|(known, _)| known == name)
            .map(|(_, value)| value)
            .collect();
        assert_eq!(values.len(), 1, "{name}: {values:?}");
        values[0].to_str().expect("UTF-8").to_owned()
    };
    let in_cluster = || ApiAccess::InCluster {
        host: "10.0.0.1".into(),
        port: "443".into(),
    };
    let by_file = || ApiAccess::Kubeconfig("/my/kubeconfig".into());

    assert_eq!(value(in_cluster(), "PATH"), "/usr/local/bin:/usr/bin:/bin");
    assert_eq!(value(in_cluster(), "KUBERNETES_SERVICE_HOST"), "10.0.0.1");
    assert_eq!(value(in_cluster(), "no_proxy"), "10.0.0.1");
    assert_eq!(value(in_cluster(), "HELM_DRIVER"), "secret");
    assert_eq!(
        value(in_cluster(), "HOME"),
        dir.path().join("home").to_str().expect("UTF-8")
    );
    assert_eq!(value(by_file(), "PATH"), "/opt");
    assert_eq!(value(by_file(), "KUBECONFIG"), "/my/kubeconfig");
}
