//! Hidden fields, rows of other users, and hostile text in every input.

use gatewright_base::Identity;
use gatewright_entities::{Entity, Field};
use http::Method;
use serde_json::json;

use super::support::{Stream, World, anonymous, encoded, user, worlds};

const CANARY: &str = "canary-7f3a";

fn diaries() -> Entity {
    Entity::new("diaries")
        .owner("user_id")
        .field(Field::string("text"))
        .field(Field::string("mood").unique())
        .field(Field::string("canary_note").hidden().default(CANARY))
}

/// Every answer that a caller can get from the service, as one text.
async fn everything_said(world: &World, caller: &Identity, id: &str) -> String {
    let mut said = String::new();
    let record = format!("/diaries/{id}");
    let paths = [
        "/diaries",
        "/diaries?limit=100&sort=-text",
        "/diaries?sort=canary_note",
        "/diaries?sort=canaryNote",
        "/diaries?sort=user_id",
        "/diaries?canary_note=x",
        "/diaries?page=0",
        "/diaries/nope",
        &record,
    ];
    for path in paths {
        said.push_str(&world.get(caller, path).await.text);
    }
    let bodies = [
        json!({"text": "x", "mood": "taken"}),
        json!({"text": 1, "mood": 2}),
        json!({"canaryNote": "x"}),
        json!({"canary_note": "x", "text": "\0"}),
        json!({"canry_note": "x"}),
        json!({"userId": "x"}),
        json!([]),
    ];
    for body in bodies {
        said.push_str(&world.post(caller, "/diaries", &body).await.text);
        said.push_str(&world.patch(caller, &record, &body).await.text);
    }
    said.push_str(&world.ask(caller, Method::PATCH, &record).header("if-match", "\"x\"").json("{}").send().await.text);
    said.push_str(&world.delete(caller, &record).await.text);
    said
}

#[tokio::test]
async fn hidden_fields_and_others_rows_never_appear() {
    for world in worlds([diaries()]).await {
        let body = json!({"text": format!("{CANARY} of ann"), "mood": "taken"});
        let of_ann = world.post(&user("ann"), "/diaries", body).await;
        assert_eq!(of_ann.status, 201);
        let mut stream = Stream::open(world.ask(&user("ben"), Method::GET, "/diaries/_events")).await;
        for caller in [user("ben"), anonymous(), super::support::pending(), super::support::service("bot", &["*:*"])] {
            // The answer may repeat text of the caller: a key that names no field, or one that cannot be sorted by.
            let said = everything_said(&world, &caller, &of_ann.id()).await;
            let said = said.replace("canaryNote", "").replace("canary_note", "").replace("canry_note", "");
            assert!(!said.contains("canary"), "{} {caller:?}: {said}", world.name());
            assert!(!said.contains("\"ann\""), "{said}");
        }
        assert_eq!(world.get(&user("ann"), of_ann.header("location")).await.data(), of_ann.data());

        let of_ben = world.post(&user("ben"), "/diaries", json!({"text": "mine"})).await;
        for answer in [&of_ben, &of_ann] {
            let keys: Vec<String> = answer.data().as_object().unwrap().keys().cloned().collect();
            assert_eq!(keys, ["id", "text", "mood", "createdAt", "updatedAt"]);
        }
        loop {
            let (_, record) = stream.next().await.unwrap();
            assert!(!record.to_string().contains("canary"), "{record}");
            if record["id"] == of_ben.id() {
                break;
            }
        }
        assert!(!format!("{:?}", world.entities).contains(CANARY));
    }
}

const INJECTIONS: [&str; 9] = [
    "'; DROP TABLE diaries; --",
    "\" OR 1=1 --",
    "x' OR 'a'='a",
    "\\'; DELETE FROM diaries WHERE ''='",
    "${jndi:ldap://x}",
    "?1 $1 :a @b",
    "%_",
    "/* */ UNION SELECT id FROM users",
    "a\u{202e}b\u{1F4A9}",
];

#[tokio::test]
async fn sql_in_any_input_is_treated_as_text() {
    for world in worlds([diaries().table("diaries")]).await {
        let first = world.post(&user("ann"), "/diaries", json!({"text": "first"})).await;
        for injection in INJECTIONS {
            let coded = encoded(injection).replace('+', "%20");
            let made = world.post(&user("ann"), "/diaries", json!({"text": injection, "mood": injection})).await;
            assert_eq!(made.data()["text"], injection);
            let path = made.header("location");
            assert_eq!(world.patch(&user("ann"), path, json!({"text": injection})).await.data()["mood"], injection);
            assert_eq!(world.post(&user("ann"), "/diaries", json!({"mood": injection})).await.status, 409);
            for query in [
                format!("sort={coded}"),
                format!("sort=text,{coded}"),
                format!("page={coded}"),
                format!("limit={coded}"),
                format!("{coded}=1"),
            ] {
                let answer = world.get(&user("ann"), &format!("/diaries?{query}")).await;
                assert_eq!(answer.status, 400, "{query}: {}", answer.text);
            }
            for method in [Method::GET, Method::DELETE] {
                let answer = world.ask(&user("ann"), method, &format!("/diaries/{coded}")).send().await;
                assert_eq!(answer.status, 404, "{injection}");
            }
            let owner = Identity::Known(std::sync::Arc::new(gatewright_base::Principal {
                subject: gatewright_base::Subject::User(
                    gatewright_base::UserId::parse(&injection.replace(' ', "")).unwrap(),
                ),
                email: None,
                roles: gatewright_base::Roles::default(),
                credential: gatewright_base::Credential::Jwt { expires_at: jiff::Timestamp::MAX },
            }));
            assert_eq!(world.get(&owner, "/diaries").await.json()["total"], 0);
            assert_eq!(world.get(&owner, first.header("location")).await.status, 404);
            let key = world.post(&user("ann"), "/diaries", json!({injection: 1})).await;
            assert_eq!((key.status.as_u16(), &*key.faults()[injection]), (422, "unknown_field"));
            let tag = format!("\"{}\"", injection.escape_default());
            let stale = world
                .ask(&user("ann"), Method::PATCH, first.header("location"))
                .header("if-match", &tag)
                .json(json!({"text": "x"}));
            assert_eq!(stale.send().await.status, 412);
        }
        assert_eq!(world.rows("diaries").await, 1 + i64::try_from(INJECTIONS.len()).unwrap());
        assert_eq!(world.get(&user("ann"), first.header("location")).await.data(), first.data());
    }
}
