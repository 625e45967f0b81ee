use kube::core::{ApiResource, DynamicObject};
use kube::runtime::watcher::Event;
use serde_json::json;

use crate::observe::view::{Access, View};

fn object(name: &str, number: i64) -> DynamicObject {
    let kind = ApiResource::erase::<crate::api::GpuModule>(&());
    DynamicObject::new(name, &kind).data(json!({ "number": number }))
}

/// The number, where it is not negative.
fn reduce(object: &DynamicObject) -> Option<i64> {
    object.data["number"].as_i64().filter(|number| *number >= 0)
}

fn take_in(view: &View<i64>, event: Event<DynamicObject>) -> bool {
    view.take_in(event, reduce)
}

/// Lists those objects and returns whether that was news.
fn list(view: &View<i64>, objects: &[(&str, i64)]) -> bool {
    assert!(!take_in(view, Event::Init));
    for (name, number) in objects {
        assert!(
            !take_in(view, Event::InitApply(object(name, *number))),
            "a part is no news"
        );
    }
    take_in(view, Event::InitDone)
}

#[test]
fn a_list_counts_once_it_is_complete() {
    let view = View::default();
    assert_eq!(view.access(), Access::Unknown);
    take_in(&view, Event::Init);
    take_in(&view, Event::InitApply(object("a", 1)));
    assert_eq!((view.access(), view.all()), (Access::Unknown, vec![]));
    assert!(take_in(&view, Event::InitDone));
    assert_eq!((view.access(), view.all()), (Access::Granted, vec![1]));
}

#[test]
fn an_empty_list_is_news_once_since_it_grants_access() {
    let view = View::default();
    assert!(list(&view, &[]));
    assert!(!list(&view, &[]));
}

#[test]
fn only_changed_facts_are_news() {
    let view = View::default();
    assert!(list(&view, &[("a", 1), ("ignored", -1)]));
    for (event, news) in [
        (Event::Apply(object("a", 1)), false),
        (Event::Apply(object("a", 2)), true),
        (Event::Apply(object("b", 3)), true),
        (Event::Apply(object("ignored", -2)), false),
        (Event::Delete(object("ignored", -2)), false),
        // It counts no longer.
        (Event::Apply(object("b", -1)), true),
        (Event::Delete(object("b", -1)), false),
        (Event::Delete(object("a", 2)), true),
    ] {
        let text = format!("{event:?}");
        assert_eq!(take_in(&view, event), news, "{text}");
    }
    assert!(view.all().is_empty());
}

#[test]
fn a_new_list_replaces_the_old_one_in_one_step() {
    let view = View::default();
    list(&view, &[("a", 1), ("b", 2)]);
    take_in(&view, Event::Init);
    take_in(&view, Event::InitApply(object("b", 2)));
    assert_eq!(
        view.all(),
        [1, 2],
        "the old facts stay until the list is complete"
    );
    assert!(take_in(&view, Event::InitDone));
    assert_eq!(
        (view.all(), view.contains("a"), view.contains("b")),
        (vec![2], false, true)
    );
    assert!(!list(&view, &[("b", 2)]), "the same list is no news");
    // A list that broke off leaves nothing in the next one.
    take_in(&view, Event::Init);
    take_in(&view, Event::InitApply(object("c", 3)));
    assert!(!list(&view, &[("b", 2)]));
    assert_eq!(
        view.by_name().into_iter().collect::<Vec<_>>(),
        [("b".to_owned(), 2)]
    );
}

#[test]
fn a_refusal_forgets_everything_and_is_news_once() {
    let view = View::default();
    assert!(view.refuse(Access::Forbidden), "a refusal is an answer");
    assert!(!view.refuse(Access::Forbidden));
    assert!(list(&view, &[("a", 1)]));
    assert!(view.refuse(Access::Forbidden));
    assert_eq!((view.access(), view.all()), (Access::Forbidden, vec![]));
    assert!(list(&view, &[]), "the access is back");
}

#[test]
fn an_object_of_a_namespace_is_found_by_its_name_and_told_from_that_of_another() {
    let view = View::default();
    let within = |namespace: &str, number| object("a", number).within(namespace);
    take_in(&view, Event::Apply(within("one", 1)));
    assert_eq!((view.get("a"), view.contains("a")), (Some(1), true));
    assert_eq!(view.by_name().into_keys().collect::<Vec<_>>(), ["a"]);
    take_in(&view, Event::Apply(within("two", 2)));
    assert_eq!(view.all(), [1, 2]);
    take_in(&view, Event::Delete(within("one", 1)));
    assert_eq!(view.all(), [2]);
}
