//! `fields=` and `q=`: parts of records, and search.

use gatewright_entities::{Entity, Field};
use serde_json::{Value, json};

use super::support::{World, anonymous, query, worlds};

fn books() -> Entity {
    Entity::new("books")
        .public()
        .field(Field::string("title"))
        .field(Field::text("first_line"))
        .field(Field::choice("shelf", ["Fiction", "Science"]))
        .field(Field::int("page_count"))
        .field(Field::json("notes"))
        .field(Field::string("secret").hidden().default("canary"))
        .search_fields(["title", "first_line", "shelf"])
}

async fn with_books() -> Vec<World> {
    let worlds = worlds([books()]).await;
    for world in &worlds {
        for book in [
            json!({"title": "Emma", "firstLine": "Emma Woodhouse, handsome", "shelf": "Fiction", "pageCount": 474}),
            json!({"title": "Über 100% _Zeit_", "shelf": "Science", "notes": {"a": 1}}),
            json!({"title": "O'Brien; DROP TABLE books", "firstLine": "İstanbul\\path"}),
            json!({}),
        ] {
            world.post(&anonymous(), "/books", book).await.data();
        }
    }
    worlds
}

#[tokio::test]
async fn fields_are_shown_as_chosen_on_lists_and_records() {
    for world in with_books().await {
        let id = world.get(&anonymous(), "/books?limit=1").await.data()[0]["id"].as_str().unwrap().to_owned();
        let whole = world.get(&anonymous(), &format!("/books/{id}")).await;
        for (fields, shown) in [
            ("title", json!({"title": "Emma"})),
            ("id,title", json!({"id": id, "title": "Emma"})),
            ("title,id,title", json!({"id": id, "title": "Emma"})),
            ("pageCount", json!({"pageCount": 474})),
            ("page_count,first_line", json!({"firstLine": "Emma Woodhouse, handsome", "pageCount": 474})),
            ("notes", json!({"notes": null})),
            (
                "updatedAt,created_at",
                json!({"createdAt": whole.data()["createdAt"], "updatedAt": whole.data()["updatedAt"]}),
            ),
        ] {
            let one = world.get(&anonymous(), &format!("/books/{id}?fields={fields}")).await;
            assert_eq!(one.data(), shown, "{fields}");
            assert_eq!(one.header("etag"), whole.header("etag"));
            for paging in ["limit=1", "limit=1&cursor=", "limit=1&sort=-pageCount&page=4"] {
                let list = world.get(&anonymous(), &format!("/books?{paging}&fields={fields}")).await.data();
                if !paging.contains("sort") {
                    assert_eq!(list, json!([shown]), "{paging} {fields}");
                }
                assert_eq!(list[0].as_object().unwrap().len(), shown.as_object().unwrap().len());
            }
        }
        let known = world.ask(&anonymous(), http::Method::GET, &format!("/books/{id}?fields=title"));
        assert_eq!(known.header("if-none-match", whole.header("etag")).send().await.status, 304);
    }
}

#[tokio::test]
async fn a_field_that_is_not_there_or_hidden_cannot_be_chosen() {
    for world in with_books().await {
        let id = world.get(&anonymous(), "/books?limit=1").await.data()[0]["id"].as_str().unwrap().to_owned();
        for (fields, detail) in [
            ("titel", "fields: there is no field \"titel\"; did you mean \"title\"?"),
            ("title,pagecount", "fields: there is no field \"pagecount\"; did you mean \"pageCount\"?"),
            ("secret", "fields: there is no field \"secret\""),
            ("zebra", "fields: there is no field \"zebra\""),
            ("title,", "fields: there is no field \"\""),
            ("*", "fields: there is no field \"*\""),
            ("title\" FROM books--", "fields: there is no field \"title\" FROM books--\""),
        ] {
            for path in ["/books".to_owned(), format!("/books/{id}")] {
                let answer = world.get(&anonymous(), &format!("{path}?{}", query("fields", fields))).await;
                answer.is_refused(400, detail);
            }
        }
        for path in ["/books".to_owned(), format!("/books/{id}")] {
            let (plain, empty) =
                (world.get(&anonymous(), &path).await, world.get(&anonymous(), &format!("{path}?fields=")).await);
            assert_eq!((empty.status.as_u16(), empty.json()), (200, plain.json()), "empty fields are absent: {path}");
        }
        let answer = world.get(&anonymous(), &format!("/books/{id}?feilds=title")).await;
        assert_eq!(answer.json()["detail"], "there is no parameter \"feilds\"; did you mean \"fields\"?");
    }
}

#[tokio::test]
async fn a_search_finds_text_in_any_of_its_fields_whatever_the_case() {
    for world in with_books().await {
        let found = async |text: &str| -> Vec<Value> {
            let list = world.get(&anonymous(), &format!("/books?{}", query("q", text))).await.data();
            list.as_array().unwrap().iter().map(|book| book["title"].clone()).collect()
        };
        let (emma, zeit, brien) = (json!("Emma"), json!("Über 100% _Zeit_"), json!("O'Brien; DROP TABLE books"));
        for (text, expected) in [
            ("emma", vec![&emma]),
            ("HANDSOME", vec![&emma]),
            ("fiction", vec![&emma]),
            ("über", vec![&zeit]),
            ("%", vec![&zeit]),
            ("_", vec![&zeit]),
            ("100%", vec![&zeit]),
            ("o'b", vec![&brien]),
            ("\\", vec![&brien]),
            ("' OR '1'='1", vec![]),
            ("canary", vec![]),
            ("474", vec![]),
            ("e", vec![&emma, &zeit, &brien]),
        ] {
            assert_eq!(found(text).await.iter().collect::<Vec<_>>(), expected, "{} {text}", world.name());
        }
        assert_eq!(found("").await.len(), 4, "an empty search asks for nothing");
        let both = world.get(&anonymous(), "/books?q=e&shelf=Science&cursor=").await.data();
        assert_eq!(both.as_array().unwrap().len(), 1);
        for (text, status) in [("x".repeat(200), 200), ("x".repeat(201), 400), ("a\0".to_owned(), 400)] {
            assert_eq!(world.get(&anonymous(), &format!("/books?{}", query("q", &text))).await.status, status);
        }
    }
}

#[tokio::test]
async fn a_search_without_searchable_fields_is_refused() {
    for world in worlds([Entity::new("plain").public().field(Field::string("title"))]).await {
        world.get(&anonymous(), "/plain?q=x").await.is_refused(400, "q: none of the fields here can be searched");
    }
}
