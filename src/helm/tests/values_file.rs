//! Values reach helm by a file only, and nobody else.

use serde_json::json;

use super::*;

/// Writes down what it was given; fails when `$DIR/fail` exists.
const RECORDER: &str = r#"
printf '%s\n' "$@" > $DIR/args
for arg in "$@"; do case $arg in --values=*) file=${arg#--values=};; esac; done
stat -c %a "$file" > $DIR/mode
cat "$file" > $DIR/values
tr '\0' '\n' < /proc/$$/environ > $DIR/environment
if [ -e $DIR/fail ]; then echo "Error: UPGRADE FAILED: no" >&2; exit 1; fi
"#;

fn values_files(fake: &Fake) -> Vec<String> {
    let entries = std::fs::read_dir(fake.file("work")).expect("the working directory");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"));
    names.filter(|name| name.starts_with("values-")).collect()
}

#[tokio::test]
async fn written_for_us_alone_and_gone_afterwards() {
    let fake = Fake::new(RECORDER);
    let (helm, _interrupter) = fake.open().await;
    let values = json!({ "password": "hunter2", "list": [1, 2.5, null] });

    upgrade(&helm, &values).await.expect("the fake succeeds");
    assert_eq!(fake.text("mode"), "600\n");
    assert_eq!(
        serde_json::from_str::<Value>(&fake.text("values")).expect("JSON"),
        values
    );
    assert!(
        fake.text("args").contains("--values=values-"),
        "{}",
        fake.text("args")
    );
    assert!(!fake.text("args").contains("hunter2") && !fake.text("environment").contains("hunter2"));
    assert_eq!(values_files(&fake), Vec::<String>::new());

    fake.write("fail");
    let error = upgrade(&helm, &values).await.expect_err("the fake fails");
    assert!(!error.to_string().contains("hunter2") && !format!("{error:?}").contains("hunter2"));
    assert_eq!(values_files(&fake), Vec::<String>::new());
}

#[tokio::test]
async fn gone_when_the_change_is_dropped() {
    let fake = Fake::new(": > $DIR/ready; exec sleep 1000");
    let (helm, _interrupter) = fake.open().await;
    let values = json!({});
    let running = async {
        fake.makes("ready").await;
        assert_eq!(values_files(&fake).len(), 1);
    };
    tokio::select! {
        result = upgrade(&helm, &values) => panic!("ended by itself: {result:?}"),
        () = running => {}
    }
    assert_eq!(values_files(&fake), Vec::<String>::new());
}

#[tokio::test]
async fn those_of_a_killed_operator_are_removed_at_start() {
    let fake = Fake::new("");
    std::fs::create_dir(fake.file("work")).expect("the working directory");
    fake.write("work/values-old.json");
    fake.write("work/something-else.json");
    let _ = fake.open().await;
    assert_eq!(values_files(&fake), Vec::<String>::new());
    assert!(fake.file("work/something-else.json").exists());
}
