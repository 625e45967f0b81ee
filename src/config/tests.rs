use clap::CommandFactory as _;

use super::*;

#[test]
fn command_line_is_well_formed_and_run_is_the_default() {
    Cli::command().debug_assert();
    let cli = Cli::try_parse_from(["gpu-manager", "--log-format", "text"]).unwrap();
    assert_eq!(cli.command, None);
    let cli = Cli::try_parse_from(["gpu-manager", "run", "--charts-dir", "/c"]).unwrap();
    assert_eq!(
        (cli.command, cli.run.charts_dir),
        (Some(Command::Run), PathBuf::from("/c"))
    );
}

#[test]
fn registries_are_listed_by_commas() {
    let parse = |list: &str| {
        let words = ["gpu-manager", "--allowed-registries", list];
        Cli::try_parse_from(words).map(|cli| cli.run.allowed_registries)
    };
    assert_eq!(
        parse("a.example:5000, b.example/c/").unwrap(),
        ["a.example:5000", "b.example/c"]
    );
    for wrong in ["https://a.example", "a.example,", "A.example", " "] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
    let cli = Cli::try_parse_from(["gpu-manager"]).unwrap();
    assert!(cli.run.allowed_registries.is_empty());
}

#[test]
fn values_are_locked_by_a_flag_and_opened_by_paths() {
    let parse = |words: &[&str]| {
        let cli = Cli::try_parse_from([&["gpu-manager"], words].concat());
        cli.map(|cli| cli.run.open_values().map_err(|error| error.to_string()))
    };
    assert_eq!(parse(&[]).unwrap(), Ok(None));
    assert_eq!(parse(&["--locked-values", "run"]).unwrap(), Ok(Some(vec![])));
    assert_eq!(parse(&["--locked-values=false"]).unwrap(), Ok(None));
    let open = vec!["operator.logging".to_owned(), "mig".to_owned()];
    assert_eq!(
        parse(&["--locked-values", "--open-values=operator.logging, mig"]).unwrap(),
        Ok(Some(open))
    );
    // A lock that somebody believes in must not be missing.
    let refused = parse(&["--open-values=mig"]).unwrap().unwrap_err();
    assert!(refused.contains("--locked-values"), "{refused}");
    for wrong in ["a..b", "", ".a", "a,", "a b"] {
        assert!(parse(&["--open-values", wrong]).is_err(), "{wrong}");
    }
}

#[test]
fn only_one_kubeconfig_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let with_colon = folder.path().join("a:b");
    std::fs::write(&with_colon, "").unwrap();
    let access = |path: &Path| {
        let words = [Path::new("gpu-manager"), Path::new("--kubeconfig"), path];
        Cli::try_parse_from(words).unwrap().run.api_access()
    };
    let accepted = access(&with_colon).unwrap();
    assert_eq!(accepted, ApiAccess::Kubeconfig(with_colon));
    let refused = access(Path::new("/a/config:/b/config")).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "KUBECONFIG lists several files (/a/config:/b/config), name a single one"
    );
}
