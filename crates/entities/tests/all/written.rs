//! What a record that is written must pass: checks, the rules of fields, and rules about the change.

use gatewright_entities::operations::Call;
use gatewright_entities::{Action, Entity, Field, Kind, RecordCheck};
use http::Method;
use serde_json::{Value, json};

use super::support::{Answer, service, tenant_id, user, user_with, worlds};

fn tickets() -> Entity {
    Entity::new("tickets")
        .field(Field::string("subject").required().min(2).max(200))
        .field(Field::choice("state", ["open", "closed"]).default("open"))
        .field(Field::relation("requester", "users").default("@me").write("false"))
        .field(Field::choice("priority", ["low", "high"]).default("low").write("@roles has 'editor'"))
        .field(Field::int("votes").default(0).write("votes >= @old.votes || @old.votes = null && votes = 1"))
        .field(Field::timestamp("opened_at"))
        .field(Field::timestamp("due_at"))
        .field(Field::decimal("price"))
        .field(Field::string("secret").hidden())
        .check(
            RecordCheck::new("due_at = null || due_at > opened_at", "must be after the opening")
                .field("due_at")
                .message_in("de", "muss nach der Eröffnung liegen"),
        )
        .check(
            RecordCheck::new("length(subject) <= 20 || state = 'open'", "must be short to be closed").field("subject"),
        )
        .check(RecordCheck::new("secret != 'bad'", "is wrong").field("secret"))
}

fn errors(answer: &Answer) -> Vec<(Value, String, String)> {
    let json = answer.json();
    let errors = json["errors"].as_array().unwrap_or_else(|| panic!("no errors in {}", answer.text));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    errors.iter().map(|error| (error["field"].clone(), text(&error["code"]), text(&error["message"]))).collect()
}

fn found(errors: &[(&str, &str, &str)]) -> Vec<(Value, String, String)> {
    let field = |field: &str| if field.is_empty() { Value::Null } else { field.into() };
    errors.iter().map(|(of, code, message)| (field(of), (*code).to_owned(), (*message).to_owned())).collect()
}

const AFTER: (&str, &str, &str) = ("dueAt", "check", "must be after the opening");

#[tokio::test]
async fn a_record_passes_all_checks_or_names_each_that_it_does_not() {
    let ann = user("ann");
    for world in worlds([tickets()]).await {
        let early = json!({ "subject": "ab", "opened_at": "2026-01-02T00:00:00Z", "due_at": "2026-01-01T00:00:00Z" });
        let refused = world.post(&ann, "/tickets", &early).await;
        assert_eq!((refused.status.as_u16(), errors(&refused)), (422, found(&[AFTER])), "{}", world.name());
        // With the other errors of the body; a check of an invalid field is not among them.
        let mut wrong = early.clone();
        wrong["subject"] = json!("a");
        wrong["state"] = json!("closed");
        wrong["price"] = json!("x");
        let refused = world.post(&ann, "/tickets", &wrong).await;
        let codes: Vec<(Value, String)> = errors(&refused).into_iter().map(|(field, code, _)| (field, code)).collect();
        let expected = [("subject", "min"), ("price", "type"), ("dueAt", "check")];
        let expected: Vec<_> = expected.map(|(field, code)| (Value::from(field), code.to_owned())).into();
        assert_eq!((refused.status.as_u16(), codes), (422, expected), "{}", refused.text);
        // In the caller's language.
        for (languages, message) in [
            ("de-AT, en;q=0.5", "muss nach der Eröffnung liegen"),
            ("en, de", "must be after the opening"),
            ("fr, de;q=0.1", "muss nach der Eröffnung liegen"),
            ("de;q=0, fr", "must be after the opening"),
        ] {
            let ask = world.ask(&ann, Method::POST, "/tickets").header("accept-language", languages);
            assert_eq!(errors(&ask.json(&early).send().await)[0].2, message, "{languages}");
        }
        let made = world.post(&ann, "/tickets", json!({ "subject": "a long subject that is not closed" })).await;
        let path = format!("/tickets/{}", made.id());
        for (body, expected) in [
            (json!({ "state": "closed" }), vec![("subject", "check", "must be short to be closed")]),
            (
                json!({ "state": "closed", "due_at": "2026-01-01T00:00:00Z" }),
                vec![AFTER, ("subject", "check", "must be short to be closed")],
            ),
            (json!({ "state": "closed", "subject": "short" }), vec![]),
        ] {
            let answer = world.patch(&ann, &path, &body).await;
            if expected.is_empty() {
                assert_eq!(answer.status, 200, "{}", answer.text);
                continue;
            }
            assert_eq!((answer.status.as_u16(), errors(&answer)), (422, found(&expected)), "{} {body}", world.name());
            let item = json!({ "items": [{ "id": made.id(), "state": "closed" }] });
            let batch = world.patch(&ann, "/tickets/_batch", item).await;
            assert_eq!(batch.json()["results"][0]["error"]["errors"][0]["code"], "check", "{}", batch.text);
        }
        // A failure about a field that clients do not know names none; the operator's writes pass the checks too.
        world.db().execute("UPDATE tickets SET secret = 'bad'", vec![]).await.unwrap();
        let hidden = world.patch(&ann, &path, json!({ "subject": "other" })).await;
        assert_eq!(errors(&hidden), found(&[("", "check", "is wrong")]), "{}", hidden.text);
        let operator = Call::from(user("ben")).as_operator();
        let table = world.entities.table("tickets").unwrap();
        assert!(table.update(&operator, &made.id(), br#"{"subject":"other"}"#.as_slice(), None).await.is_err());
    }
}

#[tokio::test]
async fn a_field_is_set_only_by_those_whom_its_rule_allows() {
    let (ann, editor) = (user("ann"), user_with("ben", &["editor"]));
    for world in worlds([tickets()]).await {
        let create = async |caller, body: Value| world.post(caller, "/tickets", body).await;
        for (body, refused) in [
            (json!({ "subject": "ab" }), vec![]),
            // What the default would be may be sent.
            (json!({ "subject": "ab", "priority": "low", "requester": "ann", "votes": 0 }), vec![]),
            (json!({ "subject": "ab", "votes": 1 }), vec![]),
            (json!({ "subject": "ab", "votes": 2 }), vec!["votes"]),
            (json!({ "subject": "ab", "requester": "ben", "priority": "high" }), vec!["requester", "priority"]),
            (json!({ "subject": "ab", "requester": null }), vec!["requester"]),
        ] {
            let made = create(&ann, body.clone()).await;
            if refused.is_empty() {
                assert_eq!(made.status, 201, "{body}: {}", made.text);
                assert_eq!(made.data()["requester"], "ann");
                continue;
            }
            let problem = made.json();
            assert_eq!(
                (made.status.as_u16(), &problem["code"]),
                (403, &json!("field_forbidden")),
                "{body}: {}",
                made.text
            );
            let named: Vec<_> = errors(&made).into_iter().map(|(field, ..)| field).collect();
            assert_eq!(named, refused, "{} {body}", world.name());
        }
        // 422 comes before it.
        assert_eq!(create(&ann, json!({ "subject": "a", "priority": "high" })).await.status, 422);
        let made = create(&editor, json!({ "subject": "ab", "priority": "high" })).await;
        assert_eq!((&made.data()["priority"], &made.data()["requester"]), (&json!("high"), &json!("ben")));
        let path = format!("/tickets/{}", made.id());
        for (caller, body, refused) in [
            (&ann, json!({ "subject": "cd", "priority": "high", "requester": "ben" }), vec![]),
            (&ann, json!({ "priority": "low" }), vec!["priority"]),
            (&ann, json!({ "requester": "ann", "priority": "low", "votes": 5 }), vec!["requester", "priority"]),
            (&editor, json!({ "priority": "low", "requester": "ben" }), vec![]),
            (&editor, json!({ "requester": null }), vec!["requester"]),
            (&ann, json!({ "votes": 3 }), vec![]),
            (&ann, json!({ "votes": 2 }), vec!["votes"]),
        ] {
            let changed = world.patch(caller, &path, &body).await;
            if refused.is_empty() {
                assert_eq!(changed.status, 200, "{body}: {}", changed.text);
                continue;
            }
            assert_eq!(
                (changed.status.as_u16(), &changed.json()["code"]),
                (403, &json!("field_forbidden")),
                "{}",
                changed.text
            );
            let named: Vec<_> = errors(&changed).into_iter().map(|(field, ..)| field).collect();
            assert_eq!(named, refused, "{} {body}", world.name());
        }
        // The operator is not limited by it.
        let operator = Call::from(user("ann")).as_operator();
        let table = world.entities.table("tickets").unwrap();
        let set = table.update(&operator, &made.id(), br#"{"requester":"ann"}"#.as_slice(), None).await;
        assert!(set.is_ok(), "{set:?}");
    }
}

#[tokio::test]
async fn the_requester_edits_the_subject_and_closes_and_nothing_else() {
    let ann = user("ann");
    let tickets = Entity::new("tickets")
        .field(Field::relation("requester", "users").default("@me").write("false"))
        .field(Field::string("subject"))
        .field(Field::choice("state", ["open", "closed", "spam"]).default("open"))
        .field(Field::json("meta"))
        .field(Field::decimal("price"))
        .rule_before_update("requester = @me && state = 'open'")
        .rule_after_update(
            "requester = @me && !changed(meta) && !changed(price) && (!changed(state) || state = 'closed' && @old.state = 'open')",
        );
    for world in worlds([tickets]).await {
        let body = json!({ "subject": "a", "meta": { "a": [1, 2.50] }, "price": "1.50" });
        let made = world.post(&ann, "/tickets", body).await;
        let path = format!("/tickets/{}", made.id());
        for (caller, body, status) in [
            ("ben", json!({ "subject": "b" }), 403),
            ("ann", json!({ "subject": "b", "meta": { "a": [1, 2.5] }, "price": "1.5" }), 200),
            ("ann", json!({ "meta": { "a": [1] } }), 403),
            ("ann", json!({ "price": 2 }), 403),
            ("ann", json!({ "state": "spam" }), 403),
            ("ann", json!({ "subject": "c", "state": "closed" }), 200),
            // Before, it must be open.
            ("ann", json!({ "subject": "d" }), 403),
        ] {
            let changed = world.patch(&user(caller), &path, &body).await;
            assert_eq!(changed.status, status, "{} {caller} {body}: {}", world.name(), changed.text);
        }
    }
}

#[tokio::test]
async fn lengths_and_links_are_compared_with_those_before_the_change() {
    let notes = Entity::new("notes")
        .field(Field::string("text"))
        .field(Field::list("tags", Kind::String))
        .field(Field::relation("watchers", "users").many())
        .rule_after_update(
            "length(text) >= length(@old.text) && length(tags) > length(@old.tags) \
             && length(watchers) < length(@old.watchers) && @old.watchers = @me",
        );
    for world in worlds([notes]).await {
        let body = json!({ "text": "é", "tags": ["a"], "watchers": ["ann", "ben"] });
        let path = format!("/notes/{}", world.post(&user("ann"), "/notes", body).await.id());
        for (caller, body, status) in [
            ("ann", json!({ "tags": ["a", "b"] }), 403),
            ("ann", json!({ "tags": [], "watchers": [] }), 403),
            ("ann", json!({ "text": "", "tags": ["a", "b"], "watchers": ["ben"] }), 403),
            ("cid", json!({ "tags": ["a", "b"], "watchers": ["ben"] }), 403),
            ("ann", json!({ "tags": ["a", "b"], "watchers": ["ben"] }), 200),
            // No longer among them.
            ("ann", json!({ "tags": { "$append": ["c"] }, "watchers": [] }), 403),
            ("ben", json!({ "tags": { "$append": ["c"] }, "watchers": { "$remove": ["ben"] } }), 200),
        ] {
            let changed = world.patch(&user(caller), &path, &body).await;
            assert_eq!(changed.status, status, "{} {caller} {body}: {}", world.name(), changed.text);
        }
    }
}

#[tokio::test]
async fn one_rule_for_updates_holds_before_and_after() {
    // Before the change, the record before it is the record itself, and nothing is changed.
    let notes = Entity::new("notes")
        .field(Field::int("n"))
        .field(Field::string("text"))
        .rule(Action::Update, "!changed(n) && @old.n = n && n > 0");
    for world in worlds([notes]).await {
        let made = world.post(&user("ann"), "/notes", json!({ "n": 1 })).await.id();
        let path = format!("/notes/{made}");
        assert_eq!(world.patch(&user("ann"), &path, json!({ "text": "a" })).await.status, 200);
        assert_eq!(world.patch(&user("ann"), &path, json!({ "n": 2 })).await.status, 403);
    }
}

#[tokio::test]
async fn rules_know_the_roles_of_the_tenant() {
    let tickets = Entity::new("tickets")
        .multi_tenant()
        .field(Field::string("subject"))
        .field(Field::string("tenant").default("@tenant"))
        .field(Field::choice("state", ["open", "closed"]).default("open").write("@tenant_roles has 'agent'"))
        .rule(Action::Read, "@tenant_roles has 'agent' || subject = 'public'")
        .rule(Action::Delete, "@tenant_roles has 'owner'");
    for world in worlds([tickets]).await {
        for tenant in ["acme", "other"] {
            world.join(tenant, &user("ann")).await;
        }
        let roles = ["agent"].into_iter().collect();
        let subject = user("ann").principal().unwrap().subject.clone();
        world.memberships().put(&tenant_id("acme"), &subject, &roles).await.unwrap();
        let send = async |method, path: &str, tenant, body: Value| {
            world.ask(&user("ann"), method, path).tenant(tenant).json(body).send().await
        };
        for (tenant, agent) in [("acme", true), ("other", false)] {
            let made = send(Method::POST, "/tickets", tenant, json!({ "subject": "public" })).await;
            assert_eq!(made.data()["tenant"], tenant);
            let path = format!("/tickets/{}", made.id());
            let closed = send(Method::PATCH, &path, tenant, json!({ "state": "closed" })).await;
            assert_eq!(closed.status, if agent { 200 } else { 403 }, "{} {tenant}: {}", world.name(), closed.text);
            let _private = send(Method::POST, "/tickets", tenant, json!({ "subject": "private" })).await;
            let listed = world.ask(&user("ann"), Method::GET, "/tickets").tenant(tenant).send().await;
            assert_eq!(listed.data().as_array().unwrap().len(), if agent { 2 } else { 1 }, "{tenant}");
            assert_eq!(send(Method::DELETE, &path, tenant, Value::Null).await.status, 403);
        }
    }
}

#[tokio::test]
async fn defaults_come_from_the_request() {
    let notes = Entity::new("notes")
        .public()
        .field(Field::relation("author", "users").default("@me"))
        .field(Field::string("by").default("@me"))
        .field(Field::timestamp("at").default("@now"))
        .field(Field::date("on").default("@today"))
        .field(Field::uuid("key").default("@uuid").unique().required())
        .field(Field::string("word").default("@home"))
        .field(Field::string("text"));
    let needed = Entity::new("needed").public().field(Field::string("by").default("@me").required());
    for world in worlds([notes, needed]).await {
        let data = world.post(&user("ann"), "/notes", json!({ "text": "a" })).await.data();
        assert_eq!((&data["author"], &data["by"], &data["word"]), (&json!("ann"), &json!("ann"), &json!("@home")));
        assert_eq!((&data["at"], &data["on"]), (&data["createdAt"], &json!("2026-01-02")), "{data}");
        assert_eq!(data["key"].as_str().unwrap().len(), 36);
        // What the body names stays.
        let own = json!({ "author": null, "at": null, "on": "2020-02-02", "by": "x" });
        let data = world.post(&user("ann"), "/notes", own).await.data();
        assert_eq!(
            (&data["author"], &data["at"], &data["on"], &data["by"]),
            (&json!(null), &json!(null), &json!("2020-02-02"), &json!("x"))
        );
        let data = world.post(&super::support::anonymous(), "/notes", json!({})).await.data();
        assert_eq!((&data["author"], &data["by"]), (&Value::Null, &Value::Null));
        let data = world.post(&service("robot", &["notes:write", "notes:read"]), "/notes", json!({})).await.data();
        assert_eq!((&data["author"], &data["by"]), (&Value::Null, &json!("robot")));
        let refused = world.post(&super::support::anonymous(), "/needed", json!({})).await;
        assert_eq!(
            (refused.status.as_u16(), refused.faults()),
            (422, [("by".to_owned(), "required".to_owned())].into())
        );
        assert_eq!(world.post(&user("ann"), "/needed", json!({})).await.status, 201);
    }
}

#[test]
fn mistakes_in_checks_rules_of_fields_and_defaults_are_named() {
    let error = |entity: Entity| {
        let entity = entity.field(Field::string("a")).field(Field::json("doc"));
        gatewright_entities::Declarations::check(&[entity]).unwrap_err().to_string()
    };
    let posts = || Entity::new("posts");
    for (entity, message) in [
        (posts().check(RecordCheck::new("b = 1", "is wrong")), "check 1: unknown field \"b\" of \"posts\" at 1:1"),
        (posts().check(RecordCheck::new("a = ", "is wrong")), "check 1: expected a value, found the end at 1:5"),
        (posts().check(RecordCheck::new("true", " ")), "check 1: a message has 1 to 1000 characters"),
        (
            posts().check(RecordCheck::new("true", "x").field("aa")),
            "check 1: there is no field \"aa\"; did you mean \"a\"?",
        ),
        (
            posts().rule(Action::Read, "@old.a = 'x'"),
            "@old has a meaning only in rules for update, rules of fields and checks",
        ),
        (posts().rule(Action::Create, "changed(a)"), "changed has a meaning only in rules for update"),
        (posts().rule(Action::Update, "length(doc) > 1"), "\"doc\" has no length"),
        (posts().rule(Action::Update, "@tenant_roles = 'x'"), "@tenant_roles takes has: @tenant_roles has 'editor'"),
        (posts().rule(Action::Update, "true").rule_after_update("true"), "keep it, or update_before and update_after"),
        (posts().field(Field::int("n").hidden().write("true")), "no client writes this field"),
        (posts().field(Field::int("n").write("m = 1")), "unknown field \"m\" of \"posts\""),
        (posts().field(Field::int("n").default("@me")), "this default is the id of an account"),
        (posts().field(Field::relation("p", "posts").default("@me")), "this default is the id of an account"),
        (posts().field(Field::date("n").default("@now")), "this default is a time: the field is a timestamp"),
        (posts().field(Field::string("n").default("@today")), "this default is a day"),
    ] {
        let found = error(entity);
        assert!(found.contains(message), "{message:?} is not in {found:?}");
    }
    // Constants are rules, without a warning.
    let never = posts().field(Field::string("a")).rule(Action::Delete, "false").rule(Action::Read, "true");
    let warnings = gatewright_entities::Declarations::check(&[never]).unwrap().warnings();
    assert!(warnings.is_empty(), "{warnings:?}");
}
