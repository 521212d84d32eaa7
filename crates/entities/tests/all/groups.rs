//! `group=`: a caller can count and sum up only records that they could list.

use std::collections::BTreeMap;

use gatewright_base::Identity;
use gatewright_entities::{Action, Entity, Field, Kind};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::support::{World, anonymous, service, user, worlds};

fn orders() -> Entity {
    Entity::new("orders")
        .search_fields(["title"])
        .soft_delete()
        .field(Field::string("title"))
        .field(Field::choice("status", ["open", "paid"]))
        .field(Field::int("items"))
        .field(Field::float("weight"))
        .field(Field::decimal("price"))
        .field(Field::date("due"))
        .field(Field::boolean("gift"))
        .field(Field::json("meta"))
        .field(Field::string("secret").hidden().default("canary"))
        .field(Field::relation("buyer", "users"))
}

async fn groups(world: &World, caller: &Identity, query: &str) -> Value {
    let answer = world.get(caller, &format!("/orders?{query}")).await;
    assert_eq!(answer.status, StatusCode::OK, "{} {query} {}", world.name(), answer.text);
    let json = answer.json();
    assert_eq!(json["hasMore"], false, "{json}");
    json["data"].clone()
}

#[tokio::test]
async fn groups_are_counted_and_summed_up_alike_on_both_engines() {
    for world in worlds([orders()]).await {
        let ann = user("ann");
        for body in [
            json!({"title": "a", "status": "open", "items": 1, "weight": 0.1, "price": "0.10", "due": "2026-01-02", "gift": true}),
            json!({"title": "b", "status": "open", "items": 2, "weight": 0.2, "price": "0.20", "due": "2026-01-01", "gift": true}),
            json!({"title": "c", "status": "paid", "items": 9_223_372_036_854_775_807_i64, "weight": 1e308, "price": "99999999999999999999.5"}),
            json!({"title": "d", "status": "paid", "items": 9_223_372_036_854_775_807_i64, "weight": 1e308, "price": "0.5"}),
            json!({"title": "e", "items": -4}),
        ] {
            assert_eq!(world.post(&ann, "/orders", body).await.status, StatusCode::CREATED);
        }
        assert_eq!(
            groups(
                &world,
                &ann,
                "group=status&sum=items,weight,price&min=title,due&max=price,createdAt&avg=items,price"
            )
            .await,
            json!([
                {
                    "status": "open", "count": 2,
                    "sum": {"items": 3, "weight": 0.3, "price": "0.3"},
                    "min": {"title": "a", "due": "2026-01-01"},
                    "max": {"price": "0.2", "createdAt": "2026-01-02T03:04:05.000006Z"},
                    "avg": {"items": 1.5, "price": "0.15"},
                },
                {
                    "status": "paid", "count": 2,
                    "sum": {"items": 18_446_744_073_709_551_614_u64, "weight": null, "price": "100000000000000000000"},
                    "min": {"title": "c", "due": null},
                    "max": {"price": "99999999999999999999.5", "createdAt": "2026-01-02T03:04:05.000006Z"},
                    "avg": {"items": 9.223_372_036_854_776e18, "price": "50000000000000000000"},
                },
                {
                    "status": null, "count": 1,
                    "sum": {"items": -4, "weight": null, "price": null},
                    "min": {"title": "e", "due": null},
                    "max": {"price": null, "createdAt": "2026-01-02T03:04:05.000006Z"},
                    "avg": {"items": -4.0, "price": null},
                },
            ]),
            "{}",
            world.name()
        );
        assert_eq!(
            groups(&world, &ann, "group=gift,due&filter=status%20=%20'open'").await,
            json!([
                {"gift": true, "due": "2026-01-01", "count": 1},
                {"gift": true, "due": "2026-01-02", "count": 1},
            ])
        );
        // Without fields to group by, all records are one group, even if there are none.
        assert_eq!(groups(&world, &ann, "sum=items&status=open").await, json!([{"count": 2, "sum": {"items": 3}}]));
        assert_eq!(groups(&world, &ann, "max=items&q=nothing").await, json!([{"count": 0, "max": {"items": null}}]));
        assert_eq!(
            groups(&world, &ann, "group=title&items_lt=2&title_ne=e").await,
            json!([{"title": "a", "count": 1}])
        );
        assert_eq!(groups(&world, &ann, "group=status&q=nothing").await, json!([]));
        let trashed = world.get(&ann, "/orders?q=a").await.data()[0]["id"].as_str().unwrap().to_owned();
        world.delete(&ann, &format!("/orders/{trashed}")).await;
        assert_eq!(groups(&world, &ann, "sum=items&status=open").await, json!([{"count": 1, "sum": {"items": 2}}]));
        assert_eq!(groups(&world, &ann, "sum=items&trashed=only").await, json!([{"count": 1, "sum": {"items": 1}}]));
    }
}

#[tokio::test]
async fn records_that_a_caller_may_not_list_are_in_no_group() {
    let ruled = Entity::new("orders")
        .owner("user_id")
        .access(Action::Read, "posts:read")
        .cross_owner_read("posts:audit")
        .field(Field::string("status"))
        .field(Field::int("items"))
        .field(Field::string("team"))
        .rule(Action::Read, "items != 13 && (@roles has 'auditor' || status != 'draft')");
    for world in worlds([ruled]).await {
        let (ann, ben) = (super::support::user_with("ann", &["editor"]), super::support::user_with("ben", &["editor"]));
        let auditor = super::support::user_with("cid", &["editor", "auditor"]);
        for caller in [&ann, &ben] {
            for (index, status) in ["open", "draft", "open", "done"].iter().enumerate() {
                let items = if index == 2 { 13 } else { index + 1 };
                let answer = world.post(caller, "/orders", json!({"status": status, "items": items})).await;
                assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text);
            }
        }
        for caller in [&ann, &ben, &auditor] {
            let listed = world.get(caller, "/orders?limit=100").await.data();
            let mut expected: BTreeMap<String, (i64, i64)> = BTreeMap::new();
            for record in listed.as_array().unwrap() {
                let group = expected.entry(record["status"].as_str().unwrap().to_owned()).or_default();
                *group = (group.0 + 1, group.1 + record["items"].as_i64().unwrap());
            }
            let expected: Vec<Value> = expected
                .into_iter()
                .map(|(status, (count, sum))| json!({"status": status, "count": count, "sum": {"items": sum}}))
                .collect();
            assert_eq!(
                groups(&world, caller, "group=status&sum=items").await,
                Value::from(expected),
                "{}",
                world.name()
            );
        }
        assert_eq!(groups(&world, &auditor, "sum=items").await, json!([{"count": 6, "sum": {"items": 14}}]));
        assert_eq!(groups(&world, &ann, "max=items").await, json!([{"count": 2, "max": {"items": 4}}]));
        for (caller, status) in [
            (anonymous(), StatusCode::UNAUTHORIZED),
            (user("ann"), StatusCode::FORBIDDEN),
            (service("bot", &["other:read"]), StatusCode::FORBIDDEN),
        ] {
            // Errors in parameters are shown only to callers who may read.
            for query in ["group=status", "group=nosuch", "sum=status"] {
                assert_eq!(world.get(&caller, &format!("/orders?{query}")).await.status, status, "{query}");
            }
        }
    }
}

#[tokio::test]
async fn tenants_are_counted_apart() {
    let notes = Entity::new("orders").multi_tenant().field(Field::int("items"));
    for world in worlds([notes]).await {
        let ann = user("ann");
        for (tenant, items) in [("acme", 1), ("other", 2)] {
            world.join(tenant, &ann).await;
            let ask = world.ask(&ann, Method::POST, "/orders").tenant(tenant).json(json!({"items": items}));
            assert_eq!(ask.send().await.status, StatusCode::CREATED);
        }
        for (tenant, items) in [("acme", 1), ("other", 2)] {
            let answer = world.ask(&ann, Method::GET, "/orders?sum=items").tenant(tenant).send().await;
            assert_eq!(answer.data(), json!([{"count": 1, "sum": {"items": items}}]), "{}", world.name());
        }
        assert_eq!(world.get(&ann, "/orders?sum=items").await.status, StatusCode::BAD_REQUEST);
    }
}

#[tokio::test]
async fn invalid_groupings_are_refused_with_a_reason() {
    let orders = orders().field(Field::int("count")).field(Field::int("avg"));
    for world in worlds([orders]).await {
        let ann = user("ann");
        for (query, message) in [
            ("group=secret", "group: there is no field \"secret\""),
            ("max=secret", "max: there is no field \"secret\""),
            ("group=nosuch", "group: there is no field \"nosuch\""),
            ("group=staus", "group: there is no field \"staus\"; did you mean \"status\"?"),
            ("group=meta", "group: \"meta\" is JSON and has no order"),
            ("sum=meta", "sum: \"meta\" is JSON and has no order"),
            ("sum=title", "sum takes numbers; \"title\" is none"),
            ("avg=due", "avg takes numbers; \"due\" is none"),
            ("min=gift", "min takes numbers, text and times; \"gift\" is none"),
            ("max=buyer", "max takes numbers, text and times; \"buyer\" is none"),
            ("group=status,status", "group names \"status\" twice"),
            ("group=title,status,items,due,gift", "group takes at most 4 fields"),
            ("group=count", "group: a field called \"count\" cannot be grouped by"),
            ("group=avg", "group: a field called \"avg\" cannot be grouped by"),
            ("group=status&page=2", "page goes with a list of records, not with group, sum, min, max or avg"),
            ("sum=items&cursor=x", "cursor goes with a list of records, not with group, sum, min, max or avg"),
            ("sum=items&include=buyer", "include goes with a list of records, not with group, sum, min, max or avg"),
            ("group=status&group=items", "the parameter \"group\" is given more than once"),
            ("group=status%22;%20DROP%20TABLE%20orders", "group: there is no field \"status\"; DROP TABLE orders\""),
        ] {
            world.get(&ann, &format!("/orders?{query}")).await.is_refused(400, message);
        }
        // Empty parameters are ignored.
        assert_eq!(world.get(&ann, "/orders?group=&sum=").await.json()["total"], 0);
    }
}

#[tokio::test]
async fn an_answer_has_at_most_a_thousand_groups() {
    for world in worlds([orders()]).await {
        let ann = user("ann");
        for batch in 0..11 {
            let items: Vec<Value> = (0..100).map(|index| json!({"items": batch * 100 + index})).collect();
            let answer = world.post(&ann, "/orders/_batch", json!({"items": items})).await;
            assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
        }
        let answer = world.get(&ann, "/orders?group=items").await.json();
        assert_eq!(answer["hasMore"], true);
        let groups = answer["data"].as_array().unwrap();
        assert_eq!((groups.len(), &groups[999]), (1_000, &json!({"items": 999, "count": 1})), "{}", world.name());
        let rest = world.get(&ann, "/orders?group=items&items_gt=999").await.json();
        assert_eq!((&rest["hasMore"], rest["data"].as_array().unwrap().len()), (&json!(false), 100));
    }
}

fn visits() -> Entity {
    Entity::new("visits")
        .public()
        .field(Field::timestamp("at"))
        .field(Field::date("on"))
        .field(Field::string("who"))
        .field(Field::string("timezone"))
        .field(Field::decimal("price"))
        .field(Field::list("tags", Kind::String))
}

async fn visits_by(world: &World, query: &str) -> Value {
    let answer = world.get(&anonymous(), &format!("/visits?{query}")).await;
    assert_eq!(answer.status, StatusCode::OK, "{} {query} {}", world.name(), answer.text);
    answer.json()["data"].clone()
}

/// The keys of the groups, without their counts.
fn keys(groups: &Value, key: &str) -> Vec<Value> {
    groups.as_array().unwrap().iter().map(|group| group[key].clone()).collect()
}

#[tokio::test]
async fn times_are_grouped_by_parts_of_the_calendar_in_a_time_zone() {
    for world in worlds([visits()]).await {
        let name = world.name();
        for (at, on) in [
            (Some("2026-03-28T23:30:00Z"), Some("2026-01-01")),
            // Berlin's clock goes from 02:00 to 03:00 at 01:00 UTC.
            (Some("2026-03-29T00:59:59.999999Z"), Some("2025-12-31")),
            (Some("2026-03-29T01:00:00Z"), Some("2024-02-29")),
            // And back from 03:00 to 02:00, so that 02:15 is there twice.
            (Some("2026-10-25T00:15:00Z"), None),
            (Some("2026-10-25T01:15:00Z"), None),
            (Some("2026-12-31T23:30:00Z"), None),
            (None, None),
        ] {
            let made = world.post(&anonymous(), "/visits", json!({ "at": at, "on": on })).await;
            assert_eq!(made.status, StatusCode::CREATED, "{}", made.text);
        }
        let (utc, berlin) = ("", "&timezone=Europe/Berlin");
        for (unit, zone, expected) in [
            (
                "hour",
                berlin,
                json!([
                    "2026-03-29T00:00:00+01:00",
                    "2026-03-29T01:00:00+01:00",
                    "2026-03-29T03:00:00+02:00",
                    "2026-10-25T02:00:00+02:00",
                    "2026-10-25T02:00:00+01:00",
                    "2027-01-01T00:00:00+01:00",
                    null
                ]),
            ),
            (
                "hour",
                "&timezone=Asia/Kolkata",
                json!([
                    "2026-03-29T05:00:00+05:30",
                    "2026-03-29T06:00:00+05:30",
                    "2026-10-25T05:00:00+05:30",
                    "2026-10-25T06:00:00+05:30",
                    "2027-01-01T05:00:00+05:30",
                    null
                ]),
            ),
            ("day", utc, json!(["2026-03-28", "2026-03-29", "2026-10-25", "2026-12-31", null])),
            ("day", berlin, json!(["2026-03-29", "2026-10-25", "2027-01-01", null])),
            ("day", "&utc_offset=%2B02:00", json!(["2026-03-29", "2026-10-25", "2027-01-01", null])),
            // A plus sign that was not escaped.
            ("day", "&utc_offset=+02:00", json!(["2026-03-29", "2026-10-25", "2027-01-01", null])),
            ("day", "&utc_offset=-03:30", json!(["2026-03-28", "2026-10-24", "2026-12-31", null])),
            ("week", utc, json!(["2026-03-23", "2026-10-19", "2026-12-28", null])),
            ("month", berlin, json!(["2026-03-01", "2026-10-01", "2027-01-01", null])),
            ("quarter", utc, json!(["2026-01-01", "2026-10-01", null])),
            ("year", berlin, json!(["2026-01-01", "2027-01-01", null])),
        ] {
            let key = format!("{unit}(at)");
            let groups = visits_by(&world, &format!("group={key}{zone}")).await;
            assert_eq!(json!(keys(&groups, &key)), expected, "{name} {unit} {zone}");
            let counts: u64 = keys(&groups, "count").iter().map(|count| count.as_u64().unwrap()).sum();
            assert_eq!(counts, 7, "{name} {unit} {zone}");
        }
        let hours = visits_by(&world, "group=hour(at)").await;
        assert_eq!(keys(&hours, "hour(at)")[0], "2026-03-28T23:00:00Z", "{name}");
        for (unit, expected) in [
            ("day", json!(["2024-02-29", "2025-12-31", "2026-01-01", null])),
            ("week", json!(["2024-02-26", "2025-12-29", null])),
            ("quarter", json!(["2024-01-01", "2025-10-01", "2026-01-01", null])),
        ] {
            let key = format!("{unit}(on)");
            let groups = visits_by(&world, &format!("group={key}&timezone=Pacific/Auckland")).await;
            assert_eq!(json!(keys(&groups, &key)), expected, "{name} {unit}: a date has no time zone");
        }
        // Keys are spelled as they are asked.
        let both = visits_by(&world, "group=year(created_at),month(createdAt)").await;
        assert_eq!(
            both,
            json!([{ "year(created_at)": "2026-01-01", "month(createdAt)": "2026-01-01", "count": 7 }]),
            "{name}"
        );
        let listed = visits_by(&world, "group=tags,year(at)").await;
        assert_eq!(json!(keys(&listed, "year(at)")), json!(["2026-01-01", null]), "{name}");
    }
}

/// The attack: a time zone of any text, which a statement contains.
#[tokio::test]
async fn mistakes_in_parts_and_time_zones_are_named() {
    for world in worlds([visits()]).await {
        world.post(&anonymous(), "/visits", json!({ "at": "2026-01-01T00:00:00Z", "timezone": "x" })).await;
        for (query, message) in [
            ("group=day(who)", "is no time and no date"),
            ("group=hour(on)", "is a date and has no hours"),
            ("group=minute(at)", "grouped by one of hour, day, week, month, quarter, year"),
            ("group=day(nothing)", "there is no field"),
            ("group=day(at),day(at)", "twice"),
            ("group=day(at)&timezone=UTC&utc_offset=%2B01:00", "exclude each other"),
            ("group=day(at)&timezone='; DROP TABLE visits; --", "is the name of a time zone"),
            ("group=day(at)&timezone=", "is the name of a time zone"),
            ("group=day(at)&timezone=<+02>-02", "is the name of a time zone"),
            ("group=day(at)&timezone=../../etc/passwd", "is the name of a time zone"),
            ("group=day(at)&timezone=Europe/Nowhere", "is the name of a time zone"),
            ("group=day(at)&utc_offset=14:30", "is an offset"),
            ("group=day(at)&utc_offset=%2B14:30", "is an offset"),
            ("group=day(at)&utc_offset=%2B2:00", "is an offset"),
            ("utc_offset=%2B02:00", "goes with group"),
            ("group=who&count_distinct=tags", "count_distinct takes"),
            ("group=who&count_distinct=nothing", "there is no field"),
        ] {
            let query = query.replace(' ', "%20").replace('<', "%3C").replace('>', "%3E").replace('\'', "%27");
            let answer = world.get(&anonymous(), &format!("/visits?{query}")).await;
            assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{} {query} {}", world.name(), answer.text);
            assert!(answer.text.contains(message), "{query}: {}", answer.text);
        }
        // Without groups it is the field.
        assert_eq!(world.get(&anonymous(), "/visits?timezone=x").await.json()["total"], 1);
        for zone in ["Europe/Berlin", "europe/berlin", "UTC", "America/Argentina/Buenos_Aires", "Etc/GMT+5", "GMT"] {
            visits_by(&world, &format!("group=day(at)&timezone={}", zone.replace('+', "%2B"))).await;
        }
    }
}

#[tokio::test]
async fn different_values_are_counted_alike_on_both_engines() {
    for world in worlds([visits()]).await {
        for (who, price) in [("a", json!("1.0")), ("a", json!("1.00")), ("A", json!("2")), ("b", json!(null))] {
            world.post(&anonymous(), "/visits", json!({ "who": who, "price": price })).await;
        }
        assert_eq!(
            visits_by(&world, "count_distinct=who,price,createdAt&sum=price").await,
            json!([{ "count": 4, "sum": { "price": "4" }, "countDistinct": { "who": 3, "price": 2, "createdAt": 1 } }]),
            "{}",
            world.name()
        );
        let by = visits_by(&world, "group=price&count_distinct=who").await;
        assert_eq!(by[0], json!({ "price": "1", "count": 2, "countDistinct": { "who": 1 } }), "{}", world.name());
    }
}
