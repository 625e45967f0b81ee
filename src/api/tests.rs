use super::*;

#[test]
fn crd_file_is_what_the_types_say() {
    let generated = crate::crds::render().unwrap();
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/crds/operator.kyma-project.io_gpumodules.yaml"
    );
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == generated,
        "crds/ is stale: run `make crds` and look at the difference (cargo run -- crds > {path})"
    );
}

/// Of another one it warns everybody who applies the CRD.
#[test]
fn every_format_is_one_that_the_api_server_knows() {
    let schema = serde_json::to_string(&crate::crds::crd()).unwrap();
    let formats = schema.split("\"format\":\"").skip(1);
    let formats: Vec<_> = formats.filter_map(|rest| rest.split('"').next()).collect();
    assert!(formats.contains(&"date-time"), "{formats:?}");
    let known = ["date-time", "int32", "int64"];
    let unknown: Vec<_> = formats.iter().filter(|format| !known.contains(format)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn schema_has_no_default_but_the_empty_spec() {
    let crd = serde_json::to_value(crate::crds::crd()).unwrap();
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    assert_eq!(schema.to_string().matches("\"default\":").count(), 1, "{schema}");
    assert_eq!(schema["properties"]["spec"]["default"], serde_json::json!({}));
    assert!(schema["required"].is_null(), "{}", schema["required"]);
}

/// Walks the schema of the spec and names what has no bound.
fn unbounded(path: &str, schema: &serde_json::Value, found: &mut Vec<String>) {
    match schema["type"].as_str() {
        Some("string") if schema.get("maxLength").is_none() && schema.get("enum").is_none() => {
            found.push(path.to_owned());
        }
        Some("array") if schema.get("maxItems").is_none() => found.push(path.to_owned()),
        Some("object") if schema.get("properties").is_none() && schema.get("maxProperties").is_none() => {
            found.push(path.to_owned());
        }
        _ => {}
    }
    for (name, child) in schema["properties"].as_object().into_iter().flatten() {
        unbounded(&format!("{path}.{name}"), child, found);
    }
    if let Some(items) = schema.get("items") {
        unbounded(&format!("{path}[]"), items, found);
    }
}

#[test]
fn every_string_list_and_map_of_the_spec_is_bounded() {
    let crd = serde_json::to_value(crate::crds::crd()).unwrap();
    let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let mut found = Vec::new();
    unbounded("spec", schema, &mut found);
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn branch_is_a_number_of_the_known_set() {
    let spec: DriverSpec = serde_json::from_str(r#"{"branch": 580}"#).unwrap();
    assert_eq!(spec.branch, Some(DriverBranch::R580));
    let error = serde_json::from_str::<DriverSpec>(r#"{"branch": 595}"#).unwrap_err();
    assert!(error.to_string().contains("use one of 570, 580, 590"), "{error}");
}
