//! Groups of records by a tool.

use gatewright_testing::TestApp;
use serde_json::json;

use super::mcp::{failed, worked};

const ENTITIES: &str = r#"
[roles]
reporter = ["orders:report"]

[[entity]]
name = "orders"
owner_field = "user_id"
[[entity.field]]
name = "state"
type = "string"
[[entity.field]]
name = "items"
type = "int"
[[entity.field]]
name = "price"
type = "decimal"
[[entity.field]]
name = "sent_at"
type = "timestamp"
[[entity.field]]
name = "canary_margin"
type = "int"
hidden = true
"#;

#[tokio::test]
async fn a_tool_returns_groups_of_the_callers_records_as_rest_does() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let (ada, bob) = (app.signed_in("ada@example.com").await, app.signed_in("bob@example.com").await);
        for (state, items, price, sent) in [
            ("open", 2, "0.1", "2026-01-31T22:30:00Z"),
            ("open", 3, "0.2", "2026-01-31T23:30:00Z"),
            ("closed", 5, "10", "2026-07-01T00:00:00Z"),
        ] {
            let order = json!({ "state": state, "items": items, "price": price, "sentAt": sent });
            worked(&ada, "orders_create", order).await;
        }
        worked(&bob, "orders_create", json!({ "state": "open", "items": 100 })).await;

        let sums = json!({ "group": "state", "sum": ["items", "price"], "count_distinct": "items" });
        let groups = worked(&ada, "orders_group", sums).await;
        assert_eq!(
            groups,
            json!({ "data": [
                { "state": "closed", "count": 1, "sum": { "items": 5, "price": "10" }, "countDistinct": { "items": 1 } },
                { "state": "open", "count": 2, "sum": { "items": 5, "price": "0.3" }, "countDistinct": { "items": 2 } },
            ], "hasMore": false }),
            "{}",
            app.engine()
        );
        let rest = ada.get("/orders?group=state&sum=items,price&count_distinct=items").await.is(200).json();
        assert_eq!(groups, rest);

        // In Berlin, the second order was sent on the first of February.
        let local = json!({ "group": "day(sentAt)", "timezone": "Europe/Berlin", "filter": "state = 'open'" });
        let days = worked(&ada, "orders_group", local).await;
        assert_eq!(
            days["data"],
            json!([{ "day(sentAt)": "2026-01-31", "count": 1 }, { "day(sentAt)": "2026-02-01", "count": 1 }])
        );
        let shifted = json!({ "group": "month(sentAt)", "utc_offset": "+02:00", "items_lt": 4 });
        let months = worked(&ada, "orders_group", shifted).await;
        assert_eq!(months["data"], json!([{ "month(sentAt)": "2026-02-01", "count": 2 }]), "{}", app.engine());

        // Without `group`, there is one group of all records.
        let all = worked(&bob, "orders_group", json!({ "max": "items" })).await;
        assert_eq!(all["data"], json!([{ "count": 1, "max": { "items": 100 } }]));
    }
}

#[tokio::test]
async fn the_tool_of_groups_lists_no_records_and_knows_no_hidden_field() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let ada = app.signed_in("ada@example.com").await;
        worked(&ada, "orders_create", json!({ "state": "open" })).await;
        for arguments in [
            json!({}),
            json!({ "group": "" }),
            json!({ "group": null }),
            json!({ "filter": "state = 'open'" }),
            json!({ "group": "state", "limit": 5 }),
            json!({ "group": "state", "cursor": "x" }),
            json!({ "group": "state", "fields": "id" }),
            json!({ "group": "state", "include": "user_id" }),
            json!({ "group": "state", "timezone": "UTC", "utc_offset": "+00:00" }),
            json!({ "sum": "state" }),
        ] {
            let refused = failed(&ada, "orders_group", arguments.clone()).await;
            assert_eq!(refused["status"], 400, "{} {arguments}: {refused}", app.engine());
        }
        for argument in ["group", "sum", "min", "max", "avg", "count_distinct"] {
            let hidden = failed(&ada, "orders_group", json!({ argument: "canaryMargin" })).await.to_string();
            let unknown = failed(&ada, "orders_group", json!({ argument: "absentMargin" })).await.to_string();
            assert_eq!(hidden.replace("canary", "absent"), unknown, "a hidden field is refused like an absent one");
        }
        assert_eq!(failed(&app.anonymous(), "orders_group", json!({ "group": "state" })).await["status"], 401);
        // The permission comes before the arguments.
        assert_eq!(failed(&app.anonymous(), "orders_group", json!({})).await["status"], 401);
    }
}
