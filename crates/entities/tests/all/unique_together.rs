//! Several unique values of one write that others have: the refusal names all of them, in the order of their declaration.

use gatewright_entities::{Entity, Field};
use http::Method;
use serde_json::{Value, json};

use super::support::{Answer, World, user, worlds};

fn people(name: &str) -> Entity {
    Entity::new(name)
        .field(Field::string("zip").unique())
        .field(Field::string("name").unique())
        .field(Field::decimal("code").unique())
        .field(Field::string("secret").hidden().unique())
        .soft_delete()
}

fn fields(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.status, 409, "{}", answer.text);
    let errors = answer.json()["errors"].as_array().cloned().unwrap_or_default();
    assert!(errors.iter().all(|error| error["code"] == "unique"), "{}", answer.text);
    errors.iter().map(|error| error["field"].as_str().unwrap().to_owned()).collect()
}

async fn filled(world: &World, table: &str, tenant: &str) -> Vec<Value> {
    let mut ids = Vec::new();
    for (zip, name, code) in [("1", "a", "1.0"), ("2", "b", "2.0")] {
        let body = json!({ "zip": zip, "name": name, "code": code });
        let made = world.ask(&user("ann"), Method::POST, &format!("/{table}")).tenant(tenant).json(body).send().await;
        ids.push(made.data()["id"].clone());
        // A hidden field is written by SQL.
        let sql = format!("UPDATE {table} SET secret = 's{tenant}{zip}' WHERE zip = '{zip}'");
        world.db().execute(sql, vec![]).await.unwrap();
    }
    ids
}

#[tokio::test]
async fn a_refusal_names_every_unique_field_that_is_taken() {
    let ann = user("ann");
    for world in worlds([people("people"), people("members").multi_tenant()]).await {
        world.join("acme", &ann).await;
        world.join("other", &ann).await;
        for table in ["people", "members"] {
            let ids = filled(&world, table, "acme").await;
            let path = format!("/{table}");
            let send = async |method: Method, path: String, body: Value| {
                world.ask(&ann, method, &path).tenant("acme").json(body).send().await
            };
            for (body, expected) in [
                (json!({ "code": "1", "name": "b", "zip": "1" }), vec!["zip", "name", "code"]),
                (json!({ "name": "b", "code": "2.00", "zip": "free" }), vec!["name", "code"]),
                (json!({ "zip": "2", "name": "free", "code": "9" }), vec!["zip"]),
                (json!({ "zip": "2", "name": null, "code": "1" }), vec!["zip", "code"]),
            ] {
                let case = format!("{} {table} {body}", world.name());
                let refused = send(Method::POST, path.clone(), body.clone()).await;
                assert_eq!(fields(&refused), expected, "{case}");
                let detail = refused.json()["detail"].as_str().unwrap().to_owned();
                let verb = if expected.len() == 1 { "is" } else { "are" };
                assert_eq!(detail, format!("{} {verb} taken already", expected.join(", ")), "{case}");
                let batch = send(Method::POST, format!("{path}/_batch"), json!({ "items": [body] })).await;
                let error = &batch.json()["results"][0]["error"];
                assert_eq!(error["detail"], detail, "{case}: {}", batch.text);
            }
            let second = format!("{path}/{}", ids[1].as_str().unwrap());
            for (body, expected) in [
                (json!({ "code": "1", "zip": "1" }), vec!["zip", "code"]),
                // Its own values are its own.
                (json!({ "code": "2", "zip": "2", "name": "a" }), vec!["name"]),
            ] {
                let refused = send(Method::PATCH, second.clone(), body).await;
                assert_eq!(fields(&refused), expected, "{} {table}", world.name());
            }
            // What is in the trash is free, and not when it comes back.
            world.ask(&ann, Method::DELETE, &second).tenant("acme").send().await;
            let body = json!({ "zip": "2", "name": "b", "code": "2" });
            send(Method::POST, path.clone(), body).await.data();
            let refused = send(Method::POST, format!("{second}/_restore"), json!({})).await;
            assert_eq!(fields(&refused), ["zip", "name", "code"], "{} {table}", world.name());
            if table == "members" {
                let body = json!({ "zip": "1", "name": "a", "code": "1" });
                world.ask(&ann, Method::POST, &path).tenant("other").json(body).send().await.data();
            }
        }
    }
}
