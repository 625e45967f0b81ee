//! The exact command lines, word by word.

use super::*;

fn release() -> ReleaseRef {
    ReleaseRef {
        name: "gpu-operator".into(),
        namespace: "gpu-namespace".into(),
    }
}

fn upgrade_options() -> UpgradeOptions {
    UpgradeOptions {
        labels: BTreeMap::from([
            ("example.com/fingerprint".to_owned(), "0f".repeat(16)),
            ("example.com/by".to_owned(), "gpu-manager-1".to_owned()),
        ]),
        description: "gpu-manager: driver branch 580".into(),
        history_max: 5,
        timeout: Duration::from_mins(5),
    }
}

fn words(args: &[OsString]) -> Vec<&str> {
    args.iter().map(|arg| arg.to_str().expect("UTF-8")).collect()
}

#[test]
fn upgrade_install_line() {
    let args = super::upgrade_install(
        &release(),
        Path::new("/charts/gpu-operator-v26.7.0.tgz"),
        OsStr::new("values-x.json"),
        &upgrade_options(),
    );
    assert_eq!(
        words(&args),
        [
            "upgrade",
            "--install",
            "--namespace=gpu-namespace",
            "--reset-values",
            "--skip-crds",
            "--server-side=true",
            "--force-conflicts",
            "--values=values-x.json",
            "--history-max=5",
            "--timeout=300s",
            "--labels=example.com/by=gpu-manager-1",
            "--labels=example.com/fingerprint=0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f",
            "--description=gpu-manager: driver branch 580",
            "--",
            "gpu-operator",
            "/charts/gpu-operator-v26.7.0.tgz",
        ]
    );
}

#[test]
fn rollback_line() {
    let options = RollbackOptions {
        history_max: 5,
        timeout: Duration::from_millis(1500),
    };
    assert_eq!(
        words(&super::rollback(&release(), 3, &options)),
        [
            "rollback",
            "--namespace=gpu-namespace",
            "--no-hooks",
            "--server-side=true",
            "--force-conflicts",
            "--history-max=5",
            "--timeout=1500ms",
            "--",
            "gpu-operator",
            "3",
        ]
    );
}

#[test]
fn uninstall_lines() {
    let mut options = UninstallOptions {
        no_hooks: false,
        timeout: Duration::from_mins(1),
    };
    assert_eq!(
        words(&super::uninstall(&release(), &options)),
        [
            "uninstall",
            "--namespace=gpu-namespace",
            "--timeout=60s",
            "--",
            "gpu-operator"
        ]
    );
    options.no_hooks = true;
    assert_eq!(
        words(&super::uninstall(&release(), &options)),
        [
            "uninstall",
            "--namespace=gpu-namespace",
            "--no-hooks",
            "--timeout=60s",
            "--",
            "gpu-operator"
        ]
    );
}

#[test]
fn reading_lines() {
    assert_eq!(words(&super::version()), ["version", "--template={{.Version}}"]);
    assert_eq!(
        words(&super::get_metadata(&release(), None)),
        [
            "get",
            "metadata",
            "--namespace=gpu-namespace",
            "--output=json",
            "--",
            "gpu-operator"
        ]
    );
    assert_eq!(
        words(&super::get_values(&release(), None)),
        [
            "get",
            "values",
            "--namespace=gpu-namespace",
            "--output=json",
            "--",
            "gpu-operator"
        ]
    );
    assert_eq!(
        words(&super::get_values(&release(), Some(7))),
        [
            "get",
            "values",
            "--namespace=gpu-namespace",
            "--output=json",
            "--revision=7",
            "--",
            "gpu-operator"
        ]
    );
    assert_eq!(
        words(&super::get_manifest(&release(), 7)),
        [
            "get",
            "manifest",
            "--namespace=gpu-namespace",
            "--revision=7",
            "--",
            "gpu-operator"
        ]
    );
    assert_eq!(
        words(&super::get_all_values(&release(), 7)),
        [
            "get",
            "values",
            "--namespace=gpu-namespace",
            "--all",
            "--output=json",
            "--revision=7",
            "--",
            "gpu-operator"
        ]
    );
    assert_eq!(
        words(&super::show_values(Path::new("/charts/a.tgz"))),
        ["show", "values", "--", "/charts/a.tgz"]
    );
    assert_eq!(
        words(&super::show_crds(Path::new("/charts/a.tgz"))),
        ["show", "crds", "--", "/charts/a.tgz"]
    );
}

/// Flags that must not come back, whatever the options are.
#[test]
fn no_change_carries_a_forbidden_flag() {
    let forbidden = [
        "--wait",
        "--atomic",
        "--rollback-on-failure",
        "-o",
        "--output",
        "--create-namespace",
        "--ignore-not-found",
        "--keep-history",
        "--reuse-values",
        "--force-replace",
        "--take-ownership",
    ];
    let rollback = RollbackOptions {
        history_max: 5,
        timeout: Duration::from_secs(1),
    };
    let uninstall = UninstallOptions {
        no_hooks: true,
        timeout: Duration::from_secs(1),
    };
    for args in [
        super::upgrade_install(&release(), Path::new("/c"), OsStr::new("v"), &upgrade_options()),
        super::rollback(&release(), 1, &rollback),
        super::uninstall(&release(), &uninstall),
    ] {
        for arg in words(&args) {
            let name = arg.split('=').next().unwrap_or(arg);
            assert!(!forbidden.contains(&name), "{arg} in {args:?}");
        }
    }
}

#[test]
fn user_strings_stay_behind_their_flag() {
    let mut options = upgrade_options();
    options.description = format!("--wait {}", "ä".repeat(300));
    let release = ReleaseRef {
        name: "--debug".into(),
        namespace: "--debug".into(),
    };
    let args = super::upgrade_install(&release, Path::new("/c"), OsStr::new("v"), &options);
    let words = words(&args);

    let separator = words.iter().position(|word| *word == "--").expect("a separator");
    assert_eq!(words[separator + 1..], ["--debug", "/c"]);
    assert!(words.contains(&"--namespace=--debug"));
    let description = words[separator - 1]
        .strip_prefix("--description=")
        .expect("the description");
    assert_eq!(description.chars().count(), 256);
}
