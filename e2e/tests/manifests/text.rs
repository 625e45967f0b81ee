//! Traps in the text of the files.

use anyhow::{Result, ensure};
use e2e::manifests::{DEFAULT_CR, MODULE_CONFIG};
use serde_json::{Value, json};

use crate::cli;
use crate::files::{Files, MANIFESTS, title};
use crate::trap::Trap;

pub const TRAPS: &[Trap] = &[
    Trap {
        name: "Three hyphens",
        avoided: only_separators_have_three_hyphens,
        ways_in: &[
            |files| {
                files.each("CustomResourceDefinition", |crd| {
                    crd["metadata"]["annotations"] = json!({ "a": "one --- two" });
                });
            },
            |files| {
                files.each("ServiceAccount", |account| {
                    account["metadata"]["name"] = json!("gpu---manager");
                });
            },
            |files| files.rewrite(MODULE_CONFIG, |text| format!("---\n{text}")),
        ],
    },
    Trap {
        name: "Pieces that are no objects",
        avoided: every_piece_is_an_object,
        ways_in: &[
            |files| {
                files.rewrite("gpu-manager-community.yaml", |text| {
                    format!("# A comment.\n---\n{text}")
                });
            },
            |files| {
                files.rewrite("gpu-manager.yaml", |text| {
                    format!("{text}---\nkind: List\nitems: []\n")
                });
            },
        ],
    },
    Trap {
        name: "A status in the default GpuModule",
        avoided: the_default_module_is_bare,
        ways_in: &[
            |files| files.edit_default_cr(|module| module["status"] = json!({ "state": "Ready" })),
            |files| files.edit_default_cr(|module| module["metadata"]["namespace"] = json!("kyma-system")),
            |files| files.rewrite(DEFAULT_CR, |text| text.replace("kind: GpuModule", "kind: Gpu")),
        ],
    },
];

/// Kyma's CLI cuts a manifest wherever three hyphens stand, in the middle of a text too.
fn only_separators_have_three_hyphens(files: &Files) -> Result<()> {
    for flavour in MANIFESTS {
        let text = files.manifest(flavour);
        let separators = text.lines().filter(|line| *line == "---").count();
        let found = text.matches("---").count();
        ensure!(
            found == separators,
            "{} has three hyphens inside of an object",
            flavour.file()
        );
    }
    for name in files
        .names()
        .filter(|name| !MANIFESTS.iter().any(|flavour| flavour.file() == *name))
    {
        ensure!(!files.text(name).contains("---"), "{name} has three hyphens");
    }
    Ok(())
}

/// The CLI applies each piece by itself, and knows no lists.
fn every_piece_is_an_object(files: &Files) -> Result<()> {
    for flavour in MANIFESTS {
        let mut pieces = vec![];
        for piece in cli::pieces(files.manifest(flavour)) {
            let object: Value = serde_saphyr::from_str(piece)?;
            let complete = ["/apiVersion", "/kind", "/metadata/name"].iter().all(|field| {
                object
                    .pointer(field)
                    .and_then(Value::as_str)
                    .is_some_and(|text| !text.is_empty())
            });
            ensure!(
                complete,
                "a piece of {} is no object: {piece:.60}",
                flavour.file()
            );
            ensure!(
                object.get("items").is_none(),
                "{} in {} is a list",
                title(&object),
                flavour.file()
            );
            pieces.push(object);
        }
        ensure!(
            pieces == files.objects(flavour),
            "{} reads otherwise in pieces",
            flavour.file()
        );
    }
    Ok(())
}

/// Lifecycle Manager sends it as it is.
fn the_default_module_is_bare(files: &Files) -> Result<()> {
    let module = files.default_cr();
    ensure!(
        module["kind"] == "GpuModule" && module["metadata"]["name"] == "default",
        "{module}"
    );
    ensure!(module.get("status").is_none(), "it has a status");
    ensure!(
        module["metadata"].get("namespace").is_none(),
        "a cluster-scoped object has a namespace"
    );
    Ok(())
}
