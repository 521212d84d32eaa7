//! Views: read-only entities over a SELECT.

use gatewright_db::{Engine, column_types, params};
use gatewright_entities::{Action, Declarations, Entity, Field, Kind, Query, Unique, schema};
use http::Method;
use serde_json::json;

use super::support::{World, anonymous, encoded, user, user_with, worlds};

fn tickets() -> Entity {
    Entity::new("tickets")
        .public()
        .field(Field::string("desk"))
        .field(Field::string("state"))
        .field(Field::decimal("hours"))
        .field(Field::relation("requester", "users"))
        .field(Field::relation("watchers", "users").many())
}

/// The open tickets of each desk.
fn load() -> Entity {
    let sql = "SELECT desk AS id, count(*) AS open, sum(hours) AS hours, count(*) > 1 AS busy, \
               min(requester) AS someone, max(created_at) AS latest -- it goes on\nFROM tickets \
               WHERE state = 'open' GROUP BY desk";
    Entity::view("desk_load", Query::new(sql))
        .public()
        .field(Field::int("open"))
        .field(Field::decimal("hours"))
        .field(Field::boolean("busy"))
        .field(Field::relation("someone", "users"))
        .field(Field::timestamp("latest"))
}

async fn filled() -> Vec<World> {
    let worlds = worlds([tickets(), load()]).await;
    for world in &worlds {
        for (desk, state, hours) in
            [("a", "open", "1.5"), ("a", "open", "2"), ("b", "open", "10"), ("b", "done", "7"), ("c", "done", "1")]
        {
            let body = json!({ "desk": desk, "state": state, "hours": hours, "requester": "ann" });
            world.post(&anonymous(), "/tickets", body).await.data();
        }
    }
    worlds
}

#[tokio::test]
async fn a_view_is_listed_filtered_sorted_grouped_included_exported_and_never_written() {
    for mut world in filled().await {
        let (caller, name) = (user("ann"), world.name());
        while world.events.try_recv().is_ok() {}
        let get = async |path: &str| world.get(&caller, path).await;
        let list = get("/desk_load?sort=-open").await;
        let first = list.data()[0].clone();
        assert_eq!((&first["id"], &first["open"], &first["busy"]), (&json!("a"), &json!(2), &json!(true)), "{name}");
        assert_eq!(first["hours"].as_str().unwrap().trim_end_matches('0'), "3.5", "{name}");
        assert!(first["latest"].as_str().unwrap().ends_with('Z'), "{first}");
        assert!(first.get("createdAt").is_none() && first.get("updatedAt").is_none(), "{first}");
        assert_eq!(list.json()["total"], 2);
        assert_eq!(get("/desk_load/b").await.data()["open"], 1);
        get("/desk_load/c").await.is_refused(404, "no such record");
        for (query, found) in [
            ("open_gt=1", vec!["a"]),
            ("busy=false", vec!["b"]),
            ("hours_gte=4", vec!["b"]),
            ("filter=someone%20%3D%20%40me%20%26%26%20open%20%3C%202", vec!["b"]),
            ("filter=someone.id%20%3D%20%27ben%27", vec![]),
            ("sort=-hours", vec!["b", "a"]),
            ("cursor=&sort=open", vec!["b", "a"]),
            ("id_in=a,c", vec!["a"]),
        ] {
            let list = get(&format!("/desk_load?{query}")).await;
            let ids: Vec<_> = list.data().as_array().unwrap().iter().map(|one| one["id"].clone()).collect();
            assert_eq!(ids, found, "{name} {query}: {}", list.text);
        }
        let page = get("/desk_load?cursor=&limit=1").await;
        let next = get(&format!("/desk_load?limit=1&cursor={}", page.json()["cursor"].as_str().unwrap())).await;
        assert_eq!((&page.data()[0]["id"], &next.data()[0]["id"]), (&json!("a"), &json!("b")), "{name}");
        let group = get("/desk_load?group=busy&sum=open").await;
        assert_eq!(group.data()[0]["sum"]["open"], 1, "{name}: {}", group.text);
        let included = get("/desk_load?include=someone").await;
        assert_eq!(included.data()[0]["_included"]["someone"], json!({ "id": "ann" }));
        let csv = get("/desk_load?format=csv&fields=id,open").await;
        assert_eq!(csv.text.replace('\r', ""), "id,open\na,2\nb,1\n", "{name}");
        let tag = get("/desk_load/a?etag=true").await;
        assert!(tag.data()["_etag"].is_string());
        // A write is seen at once, also in the total.
        world.post(&anonymous(), "/tickets", json!({ "desk": "d", "state": "open", "hours": 1 })).await.data();
        assert_eq!(get("/desk_load?limit=1").await.json()["total"], 3, "{name}");
        for (method, path) in [
            (Method::POST, "/desk_load"),
            (Method::PATCH, "/desk_load/a"),
            (Method::PUT, "/desk_load/a"),
            (Method::DELETE, "/desk_load/a"),
        ] {
            let answer = world.ask(&caller, method.clone(), path).json(json!({ "open": 1 })).send().await;
            assert_eq!(answer.status, 405, "{method} {path}: {}", answer.text);
        }
        let op = json!({ "operations": [{ "op": "create", "entity": "desk_load", "data": {} }] });
        let refused = world.post(&caller, "/_batch", op).await;
        assert!(!refused.status.is_success() && refused.text.contains("read-only"), "{}", refused.text);
        get("/desk_load/_events").await.is_refused(404, "no such record");
        assert_eq!(get("/desk_load?sort=createdAt").await.status, 400);
        let injected = format!("/desk_load?filter={}", encoded("id = 'x'') OR 1=1 --'"));
        assert_eq!(get(&injected).await.status, 400);
        assert_eq!(world.event().await.1, "tickets", "{name}: no event of the view");
        world.no_more_events().await;
    }
}

#[tokio::test]
async fn rules_owners_tenants_and_permissions_of_a_view_hold() {
    let visits = Entity::new("visits").multi_tenant().owner("visitor").field(Field::int("n"));
    let own = Entity::view("my_visits", Query::new("SELECT id, n, visitor, tenant_id FROM visits"))
        .owner("visitor")
        .cross_owner_read("posts:read")
        .field(Field::int("n"))
        .field(Field::string("visitor").hidden());
    let large = Entity::view("large_visits", Query::new("SELECT id, n, tenant_id FROM visits"))
        .rule(Action::Read, "n > 1 || @roles has 'boss'")
        .field(Field::int("n").read("@roles has 'boss'"));
    let all = Entity::view("all_visits", Query::new("SELECT 'x' AS id, count(*) AS n FROM visits").all_tenants())
        .access(Action::Read, "posts:read")
        .field(Field::int("n"));
    for world in worlds([visits, own, large, all]).await {
        for (tenant, caller, n) in [("acme", "ann", 1), ("acme", "ben", 2), ("other", "ann", 3)] {
            let caller = user(caller);
            drop(
                world.memberships().add(&super::support::tenant_id(tenant), &caller.principal().unwrap().subject).await,
            );
            world.ask(&caller, Method::POST, "/visits").tenant(tenant).json(json!({ "n": n })).send().await.data();
        }
        let total = async |caller: &gatewright_base::Identity, tenant: &str, path: &str| {
            let ask = world.ask(caller, Method::GET, path);
            let answer = if tenant.is_empty() { ask.send().await } else { ask.tenant(tenant).send().await };
            (answer.status.as_u16(), answer.json()["total"].as_i64())
        };
        let (ann, reader) = (user("ann"), user_with("ann", &["reader"]));
        assert_eq!(total(&ann, "acme", "/my_visits").await, (200, Some(1)), "{}", world.name());
        assert_eq!(total(&reader, "acme", "/my_visits").await, (200, Some(2)));
        assert_eq!(total(&ann, "", "/my_visits").await.0, 400);
        assert_eq!(total(&user("ben"), "other", "/my_visits").await.0, 403);
        assert_eq!(total(&ann, "acme", "/large_visits").await, (200, Some(1)));
        assert_eq!(total(&user_with("ann", &["boss"]), "acme", "/large_visits").await, (200, Some(2)));
        assert_eq!(total(&ann, "acme", "/large_visits?n=2").await.0, 400, "the field does not exist for the caller");
        assert_eq!(total(&ann, "acme", "/large_visits?sort=n").await.0, 400);
        assert_eq!(total(&ann, "", "/all_visits").await.0, 403);
        assert_eq!(world.get(&reader, "/all_visits/x").await.data()["n"], 3);
        assert_eq!(total(&ann, "acme", &format!("/my_visits?filter={}", encoded("tenant_id = 'other'"))).await.0, 400);
    }
}

#[tokio::test]
async fn two_rows_with_one_id_are_an_error_with_a_code() {
    let twice = Query::new("SELECT state AS id, desk FROM tickets");
    let twice = Entity::view("twice", twice).public().field(Field::string("desk"));
    for world in worlds([tickets(), twice]).await {
        for desk in ["a", "b"] {
            world.post(&anonymous(), "/tickets", json!({ "desk": desk, "state": "open" })).await.data();
        }
        for path in ["/twice", "/twice?cursor=", "/twice/open", "/twice/open?etag=true", "/twice?include=tickets(desk)"]
        {
            let answer = world.get(&anonymous(), path).await;
            let expected = if path.contains("include") { 400 } else { 500 };
            assert_eq!(answer.status, expected, "{} {path}: {}", world.name(), answer.text);
            assert!(expected == 400 || answer.json()["code"] == "view_id_repeats", "{}", answer.text);
        }
    }
}

#[tokio::test]
async fn a_value_that_does_not_fit_its_type_makes_its_own_row_unreadable() {
    let sql = Query::by_engine(
        Some("SELECT id, CASE desk WHEN 'bad' THEN 'no date' ELSE '2026-01-31' END AS day FROM tickets"),
        Some("SELECT id, CAST('2026-01-31' AS text) AS day FROM tickets WHERE desk <> 'bad'"),
    );
    let days = Entity::view("days", sql).public().field(Field::date("day"));
    for world in worlds([tickets(), days]).await {
        for desk in ["bad", "good"] {
            world.post(&anonymous(), "/tickets", json!({ "desk": desk })).await.data();
        }
        let list = world.get(&anonymous(), &format!("/days?filter={}", encoded("day = '2026-01-31'"))).await;
        assert_eq!(
            (&list.json()["total"], &list.data()[0]["day"]),
            (&json!(1), &json!("2026-01-31")),
            "{}",
            world.name()
        );
    }
}

/// Why a view cannot be served on an engine, if it cannot.
async fn refusal(world: &World, sql: &str) -> Option<String> {
    let view = Entity::view("tried", Query::new(sql)).field(Field::new("n", Kind::String));
    let declared = match Declarations::check(&[tickets(), view]) {
        Ok(declared) => declared,
        Err(errors) => return Some(errors.to_string()),
    };
    match schema::check_views(world.db(), &declared).await {
        Ok(_) => None,
        Err(error) => Some(error.to_string()),
    }
}

#[tokio::test]
async fn a_view_reads_the_tables_of_entities_and_nothing_else() {
    let both = [
        "SELECT id, token AS n FROM secrets",
        "SELECT id, token AS n FROM \"secrets\"",
        "SELECT id, token AS n FROM/**/SeCrEtS -- tickets",
        "WITH tickets AS (SELECT * FROM secrets) SELECT id, token AS n FROM tickets",
        "SELECT t.id, (SELECT max(token) FROM secrets) AS n FROM tickets t",
        "SELECT id, desk AS n FROM tickets WHERE EXISTS (SELECT 1 FROM secrets)",
        "SELECT id, desk AS n FROM tickets UNION ALL SELECT id, token FROM secrets",
        "SELECT id, 'x' AS n FROM users",
        "SELECT id, desk AS n FROM tickets; DROP TABLE tickets",
        "SELECT id, desk AS n FROM tickets; SELECT 1",
        "SELECT 1 AS id) AS x, (SELECT token AS n FROM secrets",
        "DELETE FROM tickets RETURNING id, desk AS n",
        "WITH gone AS (DELETE FROM tickets RETURNING id, desk AS n) SELECT * FROM gone",
        "INSERT INTO tickets (id) VALUES ('x') RETURNING id, desk AS n",
        "SELECT id FROM tickets",
        "SELECT desk AS n FROM tickets",
        "SELECT id, desk AS n FROM nothing_like_it",
        "SELECT id, desk AS n FROM tickets WHERE desk = ?1",
        "SELECT id, '\u{0}' AS n FROM tickets",
        "",
    ];
    let sqlite = [
        "SELECT 1 AS id, sql AS n FROM sqlite_master",
        "SELECT 1 AS id, name AS n FROM sqlite_schema",
        "SELECT 1 AS id, name AS n FROM pragma_table_info('tickets')",
        "SELECT id, token AS n FROM main.secrets",
        "PRAGMA query_only = OFF",
        "ATTACH DATABASE '/tmp/x' AS x",
        "SELECT 1 AS id, load_extension('x') AS n",
        "SELECT id, desk AS n FROM tickets WHERE desk = :name",
    ];
    let postgres = [
        "SELECT id, token AS n FROM public.secrets",
        "SELECT id, token AS n FROM U&\"s\\0065crets\"",
        "TABLE secrets",
        "SELECT '1' AS id, usename AS n FROM pg_user",
        "SELECT '1' AS id, table_name AS n FROM information_schema.tables",
        "SELECT '1' AS id, most_common_vals::text AS n FROM pg_stats",
        "SELECT id, CAST(pg_sleep(9) AS text) AS n FROM tickets",
        "SELECT id, pg_read_file('/etc/passwd') AS n FROM tickets",
        "SELECT id, CAST(query_to_xml('SELECT * FROM secrets', true, false, '') AS text) AS n FROM tickets",
        "SELECT id, CAST(table_to_xml('secrets', true, false, '') AS text) AS n FROM tickets",
        "SELECT id, set_config('a.b', 'x', false) AS n FROM tickets",
        "SELECT id, CAST(nextval('numbers') AS text) AS n FROM tickets",
        "SELECT id, stolen() AS n FROM tickets",
        "SELECT id, written() AS n FROM tickets",
        "SELECT id, desk OPERATOR(public.@@@) 'x' AS n FROM tickets",
        "SELECT id, desk AS n FROM tickets FOR UPDATE",
        "SELECT id, desk AS n FROM tickets WHERE desk = $1",
        "SELECT id, desk AS n INTO copied FROM tickets",
        "SELECT desk AS id, folded(state) AS n FROM tickets GROUP BY desk",
        "SELECT id, E'\\'' AS n FROM tickets",
        "SELECT id, $$it's$$ AS n FROM tickets",
    ];
    for world in worlds([tickets()]).await {
        let db = world.db();
        db.execute(column_types("CREATE TABLE secrets (id {text}, token {text})", db.engine()), vec![]).await.unwrap();
        let of_engine: &[&str] = if db.engine() == Engine::Sqlite { &sqlite } else { &postgres };
        if db.engine() == Engine::Postgres {
            for sql in [
                "CREATE SEQUENCE numbers",
                "CREATE FUNCTION stolen() RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT max(token) FROM secrets'",
                "CREATE FUNCTION written() RETURNS text LANGUAGE sql AS 'INSERT INTO secrets VALUES (''x'') RETURNING id'",
                "CREATE FUNCTION compared(text, text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT max(token) FROM secrets'",
                "CREATE OPERATOR public.@@@ (FUNCTION = compared, LEFTARG = text, RIGHTARG = text)",
                "CREATE FUNCTION gathered(text, text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT max(token) FROM secrets'",
                "CREATE AGGREGATE folded(text) (SFUNC = gathered, STYPE = text)",
                "CREATE VIEW harmless AS SELECT * FROM secrets",
            ] {
                db.execute(sql, vec![]).await.unwrap();
            }
            assert!(refusal(&world, "SELECT id, token AS n FROM harmless").await.is_some());
        }
        for sql in both.iter().chain(of_engine) {
            assert!(refusal(&world, sql).await.is_some(), "{}: {sql} is refused", world.name());
        }
        for sql in [
            "SELECT id, desk AS n FROM tickets;",
            "WITH secrets AS (SELECT id, upper(desk) AS n FROM tickets) SELECT id, n FROM secrets -- of its own",
            "SELECT t.id, (SELECT count(*) FROM \"tickets.watchers.links\" l WHERE l.record = t.id) AS n FROM tickets t",
            "SELECT desk AS id, CAST(count(*) OVER () AS text) AS n FROM tickets GROUP BY desk HAVING max(state) <> '?'",
        ] {
            assert_eq!(refusal(&world, sql).await, None, "{}: {sql}", world.name());
        }
        assert_eq!(world.rows("secrets").await, 0);
        let left = "SELECT count(*) AS n FROM information_schema.views WHERE table_name LIKE '%gatewright%'";
        if db.engine() == Engine::Postgres {
            let row = db.query_opt(left, vec![]).await.unwrap().unwrap();
            assert_eq!(row.get::<i64>("n").unwrap(), 0, "nothing is left of the look");
        }
        db.execute("INSERT INTO secrets VALUES (?1, ?2)", params!["a", "b"]).await.unwrap();
    }
}

#[tokio::test]
async fn a_view_that_could_show_other_tenants_hidden_ruled_or_deleted_records_is_refused_or_named() {
    let notes = || {
        Entity::new("notes")
            .multi_tenant()
            .soft_delete()
            .field(Field::string("text").hidden())
            .field(Field::string("code").read("@roles has 'boss'"))
            .field(Field::relation("watchers", "users").many().hidden())
            .field(Field::string("title").hidden())
            .field(Field::string("slug").read("@roles has 'boss'"))
            .unique(Unique::of(["slug"]).ignore_case())
    };
    let look = async |world: &World, query: Query| {
        let view = Entity::view("seen", query).field(Field::string("n"));
        let declared = Declarations::check(&[notes(), view]).unwrap();
        schema::check_views(world.db(), &declared).await.map_err(|error| error.to_string())
    };
    for world in worlds([notes()]).await {
        for sql in ["SELECT id, 'x' AS n FROM notes", "SELECT * FROM (SELECT 'x' AS n, id FROM notes) AS a"] {
            let refused = look(&world, Query::new(sql)).await.unwrap_err();
            assert!(refused.contains("select tenant_id by its name, or say all_tenants = true"), "{refused}");
        }
        // A table of links has no column of a tenant, and belongs to its records.
        let links = "SELECT value AS id, 'x' AS n FROM \"notes.watchers.links\"";
        let refused = look(&world, Query::new(links)).await.unwrap_err();
        assert!(refused.contains("select tenant_id by its name, or say all_tenants = true"), "{refused}");
        let remarks = look(&world, Query::new(links).all_tenants()).await.unwrap();
        assert!(
            remarks.iter().any(|remark| remark.contains("\"watchers\" of \"notes\", which is hidden")),
            "{remarks:?}"
        );
        let refused =
            look(&world, Query::new("SELECT id, 'x' AS n FROM notes WHERE tenant_id <> ''")).await.unwrap_err();
        assert!(refused.contains("tenant_id"), "{}: {refused}", world.name());
        let sql = "SELECT id, text || code AS n, tenant_id FROM notes";
        let remarks = look(&world, Query::new(sql)).await.unwrap();
        let words =
            ["trash of \"notes\"", "\"text\" of \"notes\", which is hidden", "\"code\" of \"notes\", whose rule"];
        assert!(words.iter().all(|words| remarks.iter().any(|remark| remark.contains(words))), "{remarks:?}");
        // What is derived from a field, and a row as a whole, say what it holds.
        let derived = "SELECT id, \"slug.folded\" AS n, tenant_id FROM notes WHERE deleted_at IS NULL";
        let remarks = look(&world, Query::new(derived)).await.unwrap();
        assert!(remarks.len() == 1 && remarks[0].contains("\"slug\" of \"notes\", whose rule"), "{remarks:?}");
        if world.db().engine() == Engine::Postgres {
            let whole = "SELECT id, CAST(row_to_json(notes) AS text) AS n, tenant_id FROM notes";
            let remarks = look(&world, Query::new(whole)).await.unwrap();
            let words = ["\"title\" of \"notes\", which is hidden", "\"code\" of \"notes\", whose rule", "trash"];
            assert!(words.iter().all(|words| remarks.iter().any(|remark| remark.contains(words))), "{remarks:?}");
        }
        let clean = "SELECT id, 'x' AS n FROM notes WHERE deleted_at IS NULL";
        assert_eq!(look(&world, Query::new(clean).all_tenants()).await, Ok(vec![]), "{}", world.name());
    }
}

/// No write makes a record old.
#[tokio::test]
async fn totals_of_a_view_over_the_present_time_follow_it() {
    let fresh = Entity::view(
        "fresh",
        Query::by_engine(
            Some("SELECT id FROM tickets WHERE created_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-2 seconds')"),
            Some("SELECT id FROM tickets WHERE created_at > now() - interval '2 seconds'"),
        ),
    );
    for world in worlds([tickets(), fresh.public()]).await {
        for desk in ["a", "b", "c"] {
            world.post(&anonymous(), "/tickets", json!({ "desk": desk, "state": "open", "hours": 1 })).await.data();
        }
        let total = async || world.get(&anonymous(), "/fresh?limit=1").await.json()["total"].as_i64();
        let first = total().await;
        tokio::time::sleep(std::time::Duration::from_millis(2_500)).await;
        let path = "/fresh?limit=1&page=2";
        let later = world.get(&anonymous(), path).await.json()["total"].as_i64();
        assert_eq!((first.is_some(), later), (true, Some(0)), "{}: {first:?}", world.name());
    }
}

#[tokio::test]
async fn a_row_without_an_id_is_no_record_and_times_are_compared_in_one_form() {
    let desks = Entity::view(
        "desks",
        Query::by_engine(
            Some("SELECT desk AS id, strftime('%Y-%m-%dT10:00:00Z', '2026-01-01') AS hour FROM tickets"),
            Some("SELECT desk AS id, TIMESTAMPTZ '2026-01-01T10:00:00Z' AS hour FROM tickets"),
        ),
    );
    for world in worlds([tickets(), desks.public().field(Field::timestamp("hour"))]).await {
        for body in [json!({ "desk": "a" }), json!({ "state": "open" })] {
            world.post(&anonymous(), "/tickets", body).await.data();
        }
        for query in ["", "?hour=2026-01-01T10:00:00Z", "?hour_lte=2026-01-01T11:00:00%2B01:00", "?cursor="] {
            let list = world.get(&user("ann"), &format!("/desks{query}")).await;
            assert_eq!(list.data().as_array().unwrap().len(), 1, "{} {query}: {}", world.name(), list.text);
        }
    }
}

#[test]
fn what_means_nothing_for_a_view_is_refused() {
    let view = || Entity::view("seen", Query::new("SELECT id, n FROM tickets")).field(Field::int("n"));
    for (wrong, word) in [
        (view().soft_delete(), "soft_delete"),
        (view().client_ids(), "client_ids"),
        (view().unique(["n"]), "unique"),
        (view().index(["n"]), "index"),
        (view().access(Action::Create, "posts:write"), "access"),
        (view().rule(Action::Update, "n > 1"), "rules"),
        (view().owner("owner"), "there is no field \"owner\""),
        (view().table("other"), "table"),
        (view().field(Field::int("m").required()), "required"),
        (view().field(Field::int("m").default(1)), "default"),
        (view().field(Field::relation("who", "users").many()), "many"),
        (Entity::view("users", Query::new("SELECT 1 AS id")), "reserved"),
        (Entity::new("notes").field(Field::relation("seen", "seen")), "to which no relation leads"),
        (Entity::new("notes").rule(Action::Read, "seen(note).n > 1"), "change without events"),
    ] {
        let seen = view().field(Field::relation("note", "notes"));
        let mut declared = vec![tickets(), wrong];
        if word.contains("events") || word.contains("leads") {
            declared.push(seen);
        }
        let error = Declarations::check(&declared).unwrap_err().to_string();
        assert!(error.contains(word), "{word}: {error}");
    }
}
