//! `filter=` and `field_op=`: what they find, what they refuse, and that they reveal nothing.

use gatewright_entities::{Entity, Field};
use serde_json::json;

use super::support::{World, anonymous, query, user, worlds};

fn books() -> Entity {
    Entity::new("books")
        .public()
        .field(Field::string("title"))
        .field(Field::int("page_count"))
        .field(Field::decimal("price"))
        .field(Field::boolean("lent"))
        .field(Field::choice("shelf", ["fiction", "science"]))
        .field(Field::timestamp("bought_at"))
        .field(Field::json("notes"))
        .field(Field::string("secret").hidden().default("canary"))
}

async fn with_books() -> Vec<World> {
    let worlds = worlds([books()]).await;
    for world in &worlds {
        for book in [
            json!({"title": "Emma", "pageCount": 474, "price": "9.50", "lent": true, "shelf": "fiction", "boughtAt": "2024-05-01T10:00:00Z"}),
            json!({"title": "ÜBER Zeit", "pageCount": 80, "price": "10", "lent": false, "shelf": "science", "boughtAt": "2025-01-01T00:00:00Z"}),
            json!({"title": "Say \"hi\"", "pageCount": 300, "price": "100.01", "lent": false, "notes": {"a": 1}}),
            json!({"title": "Empty"}),
        ] {
            world.post(&anonymous(), "/books", book).await.data();
        }
    }
    worlds
}

async fn titles(world: &World, query: &str) -> String {
    let list = world.get(&anonymous(), &format!("/books?{query}")).await.data();
    let titles: Vec<&str> = list.as_array().unwrap().iter().map(|book| book["title"].as_str().unwrap()).collect();
    titles.join("; ")
}

/// A value that is not text contains no text, in a negated condition too.
#[tokio::test]
async fn a_json_value_that_is_not_text_contains_no_text() {
    for world in worlds([books()]).await {
        for (title, notes) in
            [("n", json!({"a": 1})), ("t", json!({"a": "an x"})), ("l", json!({"a": ["x"]})), ("b", json!({"a": true}))]
        {
            world.post(&anonymous(), "/books", json!({ "title": title, "notes": notes })).await.data();
        }
        world.post(&anonymous(), "/books", json!({ "title": "e" })).await.data();
        for (filter, found) in [
            ("notes.a ~ 'x'", "t"),
            ("notes.a !~ 'x'", "n; l; b; e"),
            ("!(notes.a ~ 'x')", "n; l; b; e"),
            ("notes.a !~ 'x' && title != 'e'", "n; l; b"),
        ] {
            assert_eq!(titles(&world, &query("filter", filter)).await, found, "{}: {filter}", world.name());
        }
    }
}

/// Letters whose simple case folding is not their lower case, with other letters of the same folding.
const FOLDED: [(&str, &str); 25] = [
    ("µ", "Μ"),
    ("ſ", "S"),
    ("\u{345}", "Ι"),
    ("ς", "Σ"),
    ("ϐ", "Β"),
    ("ϑ", "Θ"),
    ("ϕ", "Φ"),
    ("ϖ", "Π"),
    ("ϰ", "Κ"),
    ("ϱ", "Ρ"),
    ("ϵ", "Ε"),
    ("\u{1c80}", "В"),
    ("\u{1c81}", "Д"),
    ("\u{1c82}", "О"),
    ("\u{1c83}", "С"),
    ("\u{1c84}", "Т"),
    ("\u{1c85}", "\u{1c84}"),
    ("\u{1c86}", "Ъ"),
    ("\u{1c87}", "Ѣ"),
    ("\u{1c88}", "Ꙋ"),
    ("ẛ", "Ṡ"),
    ("\u{1fbe}", "\u{345}"),
    ("\u{1fd3}", "\u{390}"),
    ("\u{1fe3}", "\u{3b0}"),
    ("ﬅ", "ﬆ"),
];

#[tokio::test]
async fn every_condition_that_ignores_case_folds_each_letter() {
    for world in worlds([books().search_fields(["title"])]).await {
        for (number, (one, other)) in FOLDED.into_iter().enumerate() {
            let title = format!("<{number}x{one}>");
            let body = json!({ "title": title, "notes": { "a": title } });
            world.post(&anonymous(), "/books", body).await.data();
            let asked = format!("<{number}X{other}>");
            for asked in [
                query("filter", &format!("title ~ '{asked}'")),
                query("filter", &format!("notes.a ~ '{asked}'")),
                query("title_like", &asked),
                query("q", &asked),
            ] {
                assert_eq!(titles(&world, &asked).await, title, "{}: {asked}", world.name());
            }
        }
    }
}

#[tokio::test]
async fn filters_match_the_right_records() {
    const ALL: &str = "Emma; ÜBER Zeit; Say \"hi\"; Empty";
    for world in with_books().await {
        for (filter, found) in [
            ("title = 'Emma'", "Emma"),
            ("title != 'Emma'", "ÜBER Zeit; Say \"hi\"; Empty"),
            ("title ~ 'über'", "ÜBER Zeit"),
            ("title ~ 'E' && !(title ~ 'z')", "Emma; Empty"),
            ("title !~ 'e'", "Say \"hi\""),
            ("title = \"Say \\\"hi\\\"\"", "Say \"hi\""),
            ("pageCount > 80", "Emma; Say \"hi\""),
            ("page_count >= 80 && page_count < 474", "ÜBER Zeit; Say \"hi\""),
            ("pageCount = null", "Empty"),
            ("pageCount != null", "Emma; ÜBER Zeit; Say \"hi\""),
            ("pageCount != 80", "Emma; Say \"hi\"; Empty"),
            ("!(pageCount > 80)", "ÜBER Zeit; Empty"),
            ("price < 10", "Emma"),
            ("price <= 10.00", "Emma; ÜBER Zeit"),
            ("price > '9.5'", "ÜBER Zeit; Say \"hi\""),
            ("price = 9.5", "Emma"),
            ("lent = true", "Emma"),
            ("lent != true", "ÜBER Zeit; Say \"hi\"; Empty"),
            ("shelf in ['fiction', null]", "Emma; Say \"hi\"; Empty"),
            ("shelf in []", ""),
            ("!(shelf in [])", ALL),
            ("boughtAt >= '2025-01-01'", "ÜBER Zeit"),
            ("boughtAt < '2024-05-01T12:00:01+02:00'", "Emma"),
            ("notes != null", "Say \"hi\""),
            ("title = 'Emma' || price > 50 && lent = false", "Emma; Say \"hi\""),
            ("(title = 'Emma' || price > 50) && lent = false", "Say \"hi\""),
            ("title = 'x\\' OR \\'1\\'=\\'1'", ""),
        ] {
            assert_eq!(titles(&world, &query("filter", filter)).await, found, "{} {filter}", world.name());
        }
        for (parameters, found) in [
            ("title=Emma", "Emma"),
            ("pageCount_gt=80", "Emma; Say \"hi\""),
            ("page_count_gte=300&page_count_lte=474", "Emma; Say \"hi\""),
            ("pageCount_lt=80", ""),
            ("title_ne=Emma", "ÜBER Zeit; Say \"hi\"; Empty"),
            ("title_like=EM", "Emma; Empty"),
            ("title_in=Emma,Empty,x", "Emma; Empty"),
            ("title_in=", ""),
            ("price_null=true", "Empty"),
            ("price_null=false", "Emma; ÜBER Zeit; Say \"hi\""),
            ("lent=false", "ÜBER Zeit; Say \"hi\""),
            ("lent=false&filter=price%3C50", "ÜBER Zeit"),
            ("filter=price%3E1&sort=-price&limit=2", "Say \"hi\"; ÜBER Zeit"),
        ] {
            assert_eq!(titles(&world, parameters).await, found, "{} {parameters}", world.name());
        }
        let page = world.get(&anonymous(), "/books?filter=lent!=null&limit=2").await.json();
        assert_eq!((&page["total"], &page["hasMore"]), (&json!(3), &json!(true)), "the total is of what passes");
    }
}

#[tokio::test]
async fn invalid_filters_are_refused_with_their_position() {
    for world in worlds([books()]).await {
        for (filter, detail) in [
            ("titel = 'x'", "filter: unknown field \"titel\" at 1:1, did you mean \"title\"?"),
            (
                "title = 'x' && pagecount > 1",
                "filter: unknown field \"pagecount\" at 1:16, did you mean \"pageCount\"?",
            ),
            ("secret = 'canary'", "filter: unknown field \"secret\" at 1:1"),
            ("nosuch = 'canary'", "filter: unknown field \"nosuch\" at 1:1"),
            ("pageCount > 'many'", "filter: \"pageCount\" takes a whole number at 1:1"),
            ("pageCount > null", "filter: \"pageCount\" cannot be ordered against null at 1:1"),
            ("pageCount ~ '1'", "filter: \"pageCount\" is not text; ~ needs text at 1:1"),
            ("shelf = 'garden'", "filter: \"shelf\" takes one of fiction, science at 1:1"),
            ("notes = 'x'", "filter: \"notes\" takes no comparison but = null and != null at 1:1"),
            (
                "boughtAt > 'yesterday'",
                "filter: \"boughtAt\" takes a timestamp with an offset (RFC 3339) or a date, from the year 1 to \
                 9999-12-30T22:00:00Z at 1:1",
            ),
            ("title = 'x", "filter: a text that does not end at 1:9"),
        ] {
            let answer = world.get(&anonymous(), &format!("/books?{}", query("filter", filter))).await;
            answer.is_refused(400, detail);
        }
        for (parameters, detail) in [
            ("titel=x", "there is no parameter \"titel\"; did you mean \"title\"?"),
            ("secret=canary", "there is no parameter \"secret\""),
            ("secret_gt=a", "there is no parameter \"secret_gt\""),
            ("pageCount_gt=x", "\"pageCount\" takes a whole number"),
            ("price_null=maybe", "price_null takes true or false"),
        ] {
            world.get(&anonymous(), &format!("/books?{parameters}")).await.is_refused(400, detail);
        }
    }
}

#[tokio::test]
async fn a_filter_never_reaches_beyond_the_caller() {
    let notes = || Entity::new("notes").owner("user_id").field(Field::string("text"));
    for world in worlds([notes()]).await {
        world.post(&user("ada"), "/notes", json!({"text": "ada's"})).await.data();
        world.post(&user("bob"), "/notes", json!({"text": "bob's"})).await.data();
        for filter in ["text != 'x'", "text = 'x' || text != 'x'", "!(text = 'x')", "id != null || id = null"] {
            let list = world.get(&user("ada"), &format!("/notes?{}", query("filter", filter))).await;
            assert_eq!(list.json()["total"], 1, "{} {filter}", world.name());
            assert!(!list.text.contains("bob's"), "{filter}");
        }
    }
}

#[tokio::test]
async fn a_stream_has_only_events_that_pass_its_filter() {
    use futures_util::StreamExt;

    for world in worlds([books()]).await {
        let bad = world.get(&anonymous(), "/books/_events?filter=titel%3D1").await;
        assert_eq!(bad.status, 400);
        let path = format!("/books/_events?{}", query("filter", "pageCount > 100"));
        let stream = world.ask(&anonymous(), http::Method::GET, &path).open().await;
        let mut stream = stream.into_body().into_data_stream();
        world.post(&anonymous(), "/books", json!({"title": "thin", "pageCount": 10})).await.data();
        world.post(&anonymous(), "/books", json!({"title": "thick", "pageCount": 1000})).await.data();
        let mut read = String::new();
        while !read.contains("thick") {
            read.push_str(&String::from_utf8_lossy(&stream.next().await.unwrap().unwrap()));
        }
        assert!(!read.contains("thin"), "{}: {read}", world.name());
    }
}
