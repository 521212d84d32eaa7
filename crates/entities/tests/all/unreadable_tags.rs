//! Entity tags in the conditions of callers who may write but not read a record: a tag is a hash of the record, so a match would
//! reveal what they guessed.

use gatewright_base::Identity;
use gatewright_entities::{Action, Entity, Field, OnDelete};
use http::Method;
use serde_json::json;

use super::support::{Answer, World, anonymous, service, user, user_with, worlds};

/// A record's creator, who may read it, and a caller who may change and delete it, but not read it.
struct Case {
    name: &'static str,
    entity: Entity,
    reader: Identity,
    writer: Identity,
}

fn cases() -> Vec<Case> {
    let posts = || Entity::new("posts").field(Field::string("title"));
    let moderated = || posts().owner("user_id").cross_owner_write("posts:write");
    let audited = || posts().access(Action::Read, "posts:audit");
    let token = || service("bot", &["posts:write"]);
    let moderator = || user_with("ben", &["writer"]);
    let auditor = || user_with("ann", &["auditor"]);
    let case = |name, entity, reader, writer| Case { name, entity, reader, writer };
    vec![
        case("a token that may only write", posts().public(), anonymous(), token()),
        case("such a token, with a trash", posts().public().soft_delete(), anonymous(), token()),
        case("a moderator", moderated(), user("ann"), moderator()),
        case("a moderator, with a trash", moderated().soft_delete(), user("ann"), moderator()),
        case("a moderator under a rule", moderated().rule(Action::Read, "title != 'x'"), user("ann"), moderator()),
        case(
            "rules for changes only",
            audited().rule(Action::Update, "@me = 'ben' || @me = 'ann'").rule(Action::Delete, "@me = 'ben'"),
            auditor(),
            user("ben"),
        ),
    ]
}

/// A record with a secret title, as its path, and its true entity tag.
async fn planted(world: &World, reader: &Identity) -> (String, String) {
    let made = world.post(reader, "/posts", json!({"title": "PIN 4711"})).await;
    (made.header("location").to_owned(), made.header("etag").to_owned())
}

async fn ask(world: &World, caller: &Identity, (method, body): (&Method, &str), path: &str, tags: &str) -> Answer {
    let ask = world.ask(caller, method.clone(), path).header("if-match", tags);
    if body.is_empty() { ask.send().await } else { ask.json(body).send().await }
}

const CHANGES: [(Method, &str); 5] = [
    (Method::PATCH, r#"{"title":"PIN 4711"}"#),
    (Method::PATCH, "{}"),
    (Method::PUT, r#"{"title":"PIN 4711"}"#),
    (Method::PUT, "{}"),
    (Method::DELETE, ""),
];

#[tokio::test]
async fn a_true_tag_of_an_unreadable_record_is_answered_like_a_wrong_one() {
    for Case { name, entity, reader, writer } in cases() {
        // The relation makes deletions read the record in a transaction first.
        let comments = Entity::new("comments").field(Field::relation("post", "posts").on_delete(OnDelete::Cascade));
        for entities in [vec![entity.clone()], vec![entity.clone(), comments.clone()]] {
            for world in worlds(entities).await {
                let (path, tag) = planted(&world, &reader).await;
                assert!(tag.len() > 2, "{name}: {tag}");
                let wrong = format!("\"{}\"", "0".repeat(tag.len() - 2));
                for (method, body) in &CHANGES {
                    let place = format!("{name}, {method} {body} on {}", world.name());
                    let expected = ask(&world, &writer, (method, body), &path, &wrong).await;
                    assert_eq!(expected.status, 412, "{place}: {}", expected.text);
                    for tags in [tag.clone(), format!("{wrong}, {tag}")] {
                        let answer = ask(&world, &writer, (method, body), &path, &tags).await;
                        assert_eq!((answer.status, &answer.text), (expected.status, &expected.text), "{place}");
                        assert_eq!(answer.headers, expected.headers, "{place}");
                    }
                }
                assert_eq!(world.get(&reader, &path).await.header("etag"), tag, "{name}");
                for (method, body) in &CHANGES {
                    let any = ask(&world, &writer, (method, body), &path, "*").await;
                    assert!(any.status.is_success(), "{name}, {method} {body}: {}", any.text);
                    assert_eq!(any.header("etag"), "", "{name}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_true_tag_of_a_readable_record_matches() {
    for Case { name, entity, reader, .. } in cases() {
        let entity = if name == "rules for changes only" { entity.rule(Action::Delete, "@me = 'ann'") } else { entity };
        for world in worlds([entity]).await {
            let (path, mut tag) = planted(&world, &reader).await;
            for (method, body) in &CHANGES {
                let place = format!("{name}, {method} {body} on {}", world.name());
                assert_eq!(ask(&world, &reader, (method, body), &path, "\"0\"").await.status, 412, "{place}");
                let answer = ask(&world, &reader, (method, body), &path, &format!("\"0\", {tag}")).await;
                assert!(answer.status.is_success(), "{place}: {}", answer.text);
                answer.header("etag").clone_into(&mut tag);
            }
        }
    }
}

/// A moderator reads their own records, and the tags of these match.
#[tokio::test]
async fn a_moderators_tags_match_their_own_records_only() {
    let posts = Entity::new("posts").owner("user_id").cross_owner_write("posts:write").field(Field::string("title"));
    for world in worlds([posts]).await {
        let moderator = user_with("ben", &["writer"]);
        for (owner, status) in [(&user("ann"), 412), (&moderator, 200)] {
            let (path, tag) = planted(&world, owner).await;
            for change in [(&Method::PATCH, "{}"), (&Method::PATCH, r#"{"title":"b"}"#)] {
                assert_eq!(ask(&world, &moderator, change, &path, &tag).await.status, status, "{}", world.name());
            }
        }
    }
}
