use std::time::Duration;

use gatewright_testing::TestApp;
use http::Method;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{ENTITIES, OPERATOR, enrolled, id_of, operator};

#[tokio::test]
async fn users_are_found_by_the_beginning_of_their_address_page_by_page() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let operator = operator(&app).await;
        for name in ["ann", "anna", "anne", "bob", "100%", "a_b"] {
            app.registered(&format!("{name}@example.com")).await;
        }
        let emails = |answer: &Value| -> Vec<String> {
            let rows = answer["data"].as_array().unwrap();
            rows.iter().map(|row| row["email"].as_str().unwrap().to_owned()).collect()
        };
        let found = operator.get("/admin/api/users?q=ANN").await.is(200).json();
        assert_eq!(emails(&found), ["ann@example.com", "anna@example.com", "anne@example.com"]);
        assert_eq!(found["cursor"], Value::Null);
        let first = operator.get("/admin/api/users?q=ann&limit=2").await.is(200).json();
        assert_eq!(emails(&first), ["ann@example.com", "anna@example.com"]);
        let cursor = first["cursor"].as_str().unwrap();
        let second = operator.get(&format!("/admin/api/users?q=ann&limit=2&cursor={cursor}")).await.is(200).json();
        assert_eq!(emails(&second), ["anne@example.com"]);
        operator.get("/admin/api/users?cursor=zzz").await.is(400);
        assert_eq!(emails(&operator.get("/admin/api/users?cursor=").await.is(200).json()).len(), 7);
        // Characters with a meaning in patterns match only themselves.
        assert_eq!(emails(&operator.get("/admin/api/users?q=%25").await.is(200).json()), [""; 0]);
        assert_eq!(emails(&operator.get("/admin/api/users?q=100%25").await.is(200).json()), ["100%@example.com"]);
        assert_eq!(emails(&operator.get("/admin/api/users?q=a_").await.is(200).json()), ["a_b@example.com"]);
        assert_eq!(emails(&operator.get("/admin/api/users").await.is(200).json()).len(), 7);

        let id = id_of(&app, "bob@example.com").await;
        assert_eq!(
            emails(&operator.get(&format!("/admin/api/users?q={id}")).await.is(200).json()),
            ["bob@example.com"]
        );
        let bob = operator.get(&format!("/admin/api/users/{id}")).await.is(200);
        assert_eq!(bob.at("/data/twoFactorEnabled"), json!(false));
        assert!(!bob.text().contains("hash"), "{}", bob.text());
        operator.get("/admin/api/users/nobody").await.is(404);
    }
}

#[tokio::test]
async fn an_operator_ends_sessions_and_tokens_and_resets_the_second_factor() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let operator = operator(&app).await;
        let (ann, _) = enrolled(&app, "ann@example.com").await;
        let id = id_of(&app, "ann@example.com").await;
        let user = format!("/admin/api/users/{id}");
        let token = ann.post("/auth/tokens", json!({ "name": "ci", "scopes": ["notes:read"] })).await.is(200);
        let token = app.anonymous().bearing(token.at("/token").as_str().unwrap());
        token.get("/notes").await.is(200);

        let sessions = operator.get(&format!("{user}/sessions")).await.is(200);
        let session = sessions.at("/data/0/id");
        ann.get("/auth/me").await.is(200);
        operator.delete(&format!("{user}/sessions/{}", session.as_str().unwrap())).await.is(204);
        ann.get("/auth/me").await.is(401);
        operator.delete(&format!("{user}/sessions/{}", session.as_str().unwrap())).await.is(404);

        let listed = operator.get(&format!("{user}/tokens")).await.is(200);
        assert!(!listed.text().contains("svc_") || listed.at("/data/0/prefix").as_str().unwrap().len() == 12);
        let name = listed.at("/data/0/id");
        let own = id_of(&app, OPERATOR).await;
        // For another account it does not exist.
        operator.delete(&format!("/admin/api/users/{own}/tokens/{}", name.as_str().unwrap())).await.is(404);
        operator.delete(&format!("{user}/tokens/{}", name.as_str().unwrap())).await.is(204);
        token.get("/notes").await.is(401);

        assert_eq!(operator.get(&user).await.is(200).at("/data/twoFactorEnabled"), json!(true));
        operator.delete(&format!("{user}/two-factor")).await.is(204);
        operator.delete(&format!("{user}/two-factor")).await.is(409);
        let mut ann = app.anonymous();
        assert!(ann.sign_in("ann@example.com").await.is(200).at("/token").is_string());
        operator.delete(&format!("{user}/sessions")).await.is(204);
        ann.get("/auth/me").await.is(401);
    }
}

#[tokio::test]
async fn an_operator_sees_the_profile_of_an_account() {
    let fields = "[[auth.profile.field]]\nname = \"full_name\"\ntype = \"string\"\n";
    for app in TestApp::on_every_engine(&format!("{fields}{ENTITIES}")).await {
        let operator = operator(&app).await;
        let ann = app.signed_in("ann@example.com").await;
        ann.patch("/auth/me", json!({ "profile": { "fullName": "Ann" } })).await.is(200);
        let user = format!("/admin/api/users/{}", id_of(&app, "ann@example.com").await);
        assert_eq!(operator.get(&user).await.is(200).at("/data/profile"), json!({ "fullName": "Ann" }));
        assert!([401, 403, 404].contains(&ann.get(&user).await.status()));
    }
}

#[tokio::test]
async fn roles_are_replaced_except_the_callers_own_admin_role() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let operator = operator(&app).await;
        app.registered("ann@example.com").await;
        app.prove_mailbox("ann@example.com").await;
        let (id, own) = (id_of(&app, "ann@example.com").await, id_of(&app, OPERATOR).await);
        let set = async |id: &str, roles: Value| {
            operator.json(Method::PUT, &format!("/admin/api/users/{id}/roles"), &json!({ "roles": roles })).await
        };
        set(&id, json!(["editor", "user"])).await.is(204);
        assert_eq!(operator.get(&format!("/admin/api/users/{id}")).await.at("/data/roles"), json!(["editor", "user"]));
        let many: Vec<String> = (0..33).map(|number| format!("r{number}")).collect();
        for wrong in [json!([""]), json!(["a\u{7}"]), json!(many), json!(["y".repeat(65)]), json!("admin")] {
            set(&id, wrong).await.is(422);
        }
        assert_eq!(set(&own, json!(["user"])).await.is(409).at("/code"), "own_role");
        set(&own, json!(["user", "admin", "more"])).await.is(204);
        set("nobody", json!([])).await.is(404);
    }
}

#[tokio::test]
async fn an_account_is_disabled_and_enabled_except_by_its_owner() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let operator = operator(&app).await;
        let mut ann = app.signed_in("ann@example.com").await;
        let (id, own) = (id_of(&app, "ann@example.com").await, id_of(&app, OPERATOR).await);
        operator.post(&format!("/admin/api/users/{id}/disable"), json!({})).await.is(204);
        assert_eq!(operator.get(&format!("/admin/api/users/{id}")).await.at("/data/disabled"), json!(true));
        ann.get("/auth/me").await.is(401);
        ann.sign_in("ann@example.com").await.is(401);
        operator.post(&format!("/admin/api/users/{id}/enable"), json!({})).await.is(204);
        ann.sign_in("ann@example.com").await.is(200);
        let refused = operator.post(&format!("/admin/api/users/{own}/disable"), json!({})).await.is(409);
        assert_eq!(refused.at("/code"), "own_account");
        operator.post("/admin/api/users/nobody/disable", json!({})).await.is(404);
        ann.post(&format!("/admin/api/users/{own}/disable"), json!({})).await.is(403);
    }
}

#[tokio::test]
async fn an_operator_deletes_an_account_unless_records_require_it() {
    let tasks = r#"
[[entity]]
name = "tasks"
public = true
[[entity.field]]
name = "approver"
type = "relation"
to = "users"
on_delete = "restrict"
"#;
    for app in TestApp::on_every_engine(&format!("{ENTITIES}{tasks}")).await {
        let operator = operator(&app).await;
        let (mut ann, ben) = (app.signed_in("ann@example.com").await, app.signed_in("ben@example.com").await);
        let (id, own) = (id_of(&app, "ann@example.com").await, id_of(&app, OPERATOR).await);
        ann.post("/notes", json!({ "title": "of ann" })).await.is(201);
        let held = ben.post("/tasks", json!({ "approver": id })).await.is(201);
        let held = held.at("/data/id");
        let at = format!("/admin/api/users/{id}");

        let refused = operator.delete(&format!("/admin/api/users/{own}")).await.is(409);
        assert_eq!(refused.at("/code"), "own_account");
        operator.get("/auth/me").await.is(200);
        assert_eq!(operator.delete(&at).await.is(409).at("/code"), "referenced");
        ann.get("/auth/me").await.is(200);
        operator.delete("/admin/api/users/nobody").await.is(404);
        ben.delete(&at).await.is(403);
        app.anonymous().delete(&at).await.is(401);

        ben.delete(&format!("/tasks/{}", held.as_str().unwrap())).await.is(204);
        let deleted = operator.delete(&at).await;
        assert!([202, 204].contains(&deleted.status()), "{}: {}", app.engine(), deleted.text());
        ann.get("/auth/me").await.is(401);
        assert_eq!(ann.sign_in("ann@example.com").await.status(), 401);
        let mut rounds = 0;
        while operator.get(&at).await.status() != 404 {
            rounds += 1;
            assert!(rounds < 100, "{}: the account goes", app.engine());
            let auth = app.app().auth().unwrap();
            auth.settle(Duration::from_secs(10)).await;
            auth.sweep().await;
        }
        operator.delete(&at).await.is(404);

        // An operator who signed in long ago cannot delete.
        let ben_id = id_of(&app, "ben@example.com").await;
        app.wait(SignedDuration::from_mins(11));
        let stale = operator.delete(&format!("/admin/api/users/{ben_id}")).await.is(403);
        assert_eq!(stale.at("/code"), "fresh_sign_in_required");
        ben.get("/auth/me").await.is(200);
    }
}

#[tokio::test]
async fn an_operator_invites_and_withdraws() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let operator = operator(&app).await;
        let body =
            json!({ "email": "new@example.com", "roles": ["editor"], "tenant": "acme", "tenantRoles": ["admin"] });
        let sent = operator.post("/admin/api/invitations", body).await.is(201);
        assert_eq!(sent.at("/data/email"), "new@example.com");
        let listed = operator.get("/admin/api/invitations").await.is(200);
        assert_eq!(listed.at("/data/0/roles"), json!(["editor"]));
        assert_eq!((listed.at("/data/0/tenant"), listed.at("/data/0/tenantRoles")), (json!("acme"), json!(["admin"])));
        for wrong in [
            json!({}),
            json!({ "email": "nonsense" }),
            json!({ "email": "a@example.com", "roles": [""] }),
            json!({ "email": "a@example.com", "tenantRoles": ["admin"] }),
            json!({ "email": "a@example.com", "tenant": "acme", "tenantRoles": ["emperor"] }),
            json!({ "email": "a@example.com", "role": "editor" }),
        ] {
            operator.post("/admin/api/invitations", wrong).await.is(422);
        }
        let id = sent.at("/data/id");
        let path = format!("/admin/api/invitations/{}", id.as_str().unwrap());
        operator.delete(&path).await.is(204);
        operator.delete(&path).await.is(404);
        assert_eq!(operator.get("/admin/api/invitations").await.is(200).at("/data"), json!([]));
        let ann = app.signed_in("ann@example.com").await;
        ann.post("/admin/api/invitations", json!({ "email": "x@example.com" })).await.is(403);
        // Changing roles needs a recent sign-in.
        app.wait(SignedDuration::from_mins(11));
        let stale = operator.post("/admin/api/invitations", json!({ "email": "x@example.com" })).await.is(403);
        assert_eq!(stale.at("/code"), "fresh_sign_in_required");
    }
}

#[tokio::test]
async fn a_locked_out_customer_is_found_and_unlocked() {
    let toml = "[rate_limit]\nstore = \"database\"\n[auth.limits.login_account]\nmax_attempts = 2\n";
    for toml in [format!("{toml}{ENTITIES}"), format!("[auth.limits.login_account]\nmax_attempts = 2\n{ENTITIES}")] {
        for app in TestApp::on_every_engine(&toml).await {
            let operator = operator(&app).await;
            app.registered("ann@example.com").await;
            let wrong = json!({ "email": "ann@example.com", "password": "not the password" });
            while app.anonymous().post("/auth/login", wrong.clone()).await.status() != 429 {}
            let mut ann = app.anonymous();
            ann.sign_in("ann@example.com").await.is(429);

            let lockouts = operator.get("/admin/api/lockouts").await.is(200);
            assert_eq!(lockouts.at("/listed"), json!(true));
            let row = lockouts.json()["data"]
                .as_array()
                .unwrap()
                .iter()
                .find(|row| row["subject"] == "ann@example.com")
                .cloned();
            let row = row.expect("the lockout is listed");
            assert_eq!(row["reason"], "too many failed sign-ins to this account");

            let id = id_of(&app, "ann@example.com").await;
            operator.post(&format!("/admin/api/users/{id}/unlock"), json!({})).await.is(204);
            ann.sign_in("ann@example.com").await.is(200);

            while app.anonymous().post("/auth/login", wrong.clone()).await.status() != 429 {}
            operator.post("/admin/api/lockouts/unlock", json!({ "key": row["key"] })).await.is(204);
            ann.sign_in("ann@example.com").await.is(200);
            operator.post("/admin/api/lockouts/unlock", json!({ "key": "no key" })).await.is(422);
        }
    }
}

#[tokio::test]
async fn each_act_is_recorded_with_who_and_from_where() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let operator = operator(&app).await.from_address("203.0.113.9".parse().unwrap());
        app.registered("ann@example.com").await;
        app.prove_mailbox("ann@example.com").await;
        let (id, own) = (id_of(&app, "ann@example.com").await, id_of(&app, OPERATOR).await);
        let path = format!("/admin/api/users/{id}/roles");
        operator.json(Method::PUT, &path, &json!({ "roles": ["editor"] })).await.is(204);
        app.wait(SignedDuration::from_secs(1));
        operator.json(Method::PUT, &path, &json!({ "roles": [""] })).await.is(422);
        operator.get(&format!("/admin/api/users/{id}")).await.is(200);

        let log = operator.get(&format!("/admin/api/audit?kind=admin.acted&subject=users/{id}")).await.is(200).json();
        let events = log["data"].as_array().unwrap();
        assert_eq!(events.len(), 2, "reading is no act: {log}");
        let done = &events[1];
        assert_eq!(done["user"], json!(id));
        assert_eq!(done["remote"], "203.0.113.9");
        assert_eq!(done["meta"]["actor"], json!(own));
        assert_eq!(done["meta"]["action"], "PUT /admin/api/users/{id}/roles");
        assert_eq!((&done["meta"]["status"], &done["meta"]["before"]), (&json!(204), &json!(["user"])));
        assert_eq!((&events[0]["meta"]["status"], &events[0]["meta"]["roles"]), (&json!(422), &Value::Null));
        assert_eq!(
            operator.get(&format!("/admin/api/audit?user={id}&limit=1")).await.is(200).json()["data"][0]["user"],
            json!(id)
        );

        // The pages of the log hold every event once.
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = operator.get(&format!("/admin/api/audit?limit=2&cursor={cursor}")).await.is(200).json();
            seen.extend(page["data"].as_array().unwrap().iter().map(|event| event["id"].as_str().unwrap().to_owned()));
            match page["cursor"].as_str() {
                Some(next) => cursor = next.to_owned(),
                None => break,
            }
        }
        let mut unique = seen.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), seen.len());
        assert!(seen.len() > 6);
        operator.get("/admin/api/audit?cursor=nonsense").await.is(400);
        operator.get("/admin/api/audit?since=yesterday").await.is(400);
    }
}

#[tokio::test]
async fn an_account_that_is_being_deleted_is_shown_and_stays_closed() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let operator = operator(&app).await;
        app.registered("ann@example.com").await;
        let id = id_of(&app, "ann@example.com").await;
        let user = format!("/admin/api/users/{id}");
        assert_eq!(operator.get(&user).await.is(200).at("/data/deleting"), json!(false));
        let sql = "INSERT INTO users_deletions (user_id, email, method, begun_at, next_at, closed_at) \
                   VALUES (?1, NULL, 'owner', ?2, ?2, ?2)";
        app.app().db().execute(sql, gatewright_db::params![&id, app.now()]).await.unwrap();
        operator.post(&format!("{user}/disable"), json!({})).await.is(204);
        let refused = operator.post(&format!("{user}/enable"), json!({})).await.is(409).json();
        assert_eq!(refused["code"], "being_deleted");
        let shown = operator.get(&user).await.is(200);
        assert_eq!((shown.at("/data/deleting"), shown.at("/data/disabled")), (json!(true), json!(true)));
        let listed = operator.get("/admin/api/users?q=ann").await.is(200);
        assert_eq!(listed.at("/data/0/deleting"), json!(true), "{}", app.engine());
    }
}

/// Every route that gives an account something, whether it names it by address or by id. What takes something away passes.
#[tokio::test]
async fn an_account_that_nobody_has_proven_gets_nothing_unless_the_operator_insists() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let operator = operator(&app).await;
        let ann = app.signed_in("ann@example.com").await;
        let user = format!("/admin/api/users/{}", id_of(&app, "ann@example.com").await);
        let roles = format!("{user}/roles");
        let doors = [
            (Method::PUT, roles.clone(), json!({ "roles": ["user", "editor"] })),
            (Method::PUT, "/admin/api/tenants/acme/members".to_owned(), json!({ "member": "ann@example.com" })),
        ];
        for (method, path, body) in &doors {
            let refused = operator.json(method.clone(), path, body).await.is(409);
            assert_eq!(refused.at("/code"), "email_unverified", "{path}");
            assert!(refused.at("/detail").as_str().unwrap().contains("anybody may have registered"), "{path}");
            let mut body = body.clone();
            body["unverified"] = json!(false);
            operator.json(method.clone(), path, &body).await.is(409);
            body["unverified"] = json!(true);
            operator.json(method.clone(), path, &body).await.is(204);
        }
        assert_eq!(operator.get(&user).await.is(200).at("/data/roles"), json!(["user", "editor"]));
        operator.json(Method::PUT, &roles, &json!({ "roles": ["user"] })).await.is(204);
        operator.json(Method::PUT, &roles, &json!({ "roles": ["user", "editor"] })).await.is(409);
        ann.get("/auth/me").await.is(200);
        operator.delete(&format!("{user}/sessions")).await.is(204);
        operator.post(&format!("{user}/disable"), json!({})).await.is(204);
        operator.delete(&user).await.is(204);
        // Accounts with a proven mailbox and those that an operator created.
        app.registered("bob@example.com").await;
        app.prove_mailbox("bob@example.com").await;
        app.app().auth().unwrap().accounts().create("cid@example.com", None, None).await.unwrap();
        for email in ["bob@example.com", "cid@example.com"] {
            let path = format!("/admin/api/users/{}/roles", id_of(&app, email).await);
            operator.json(Method::PUT, &path, &json!({ "roles": ["editor"] })).await.is(204);
            let body = json!({ "member": email });
            operator.json(Method::PUT, "/admin/api/tenants/acme/members", &body).await.is(204);
        }
    }
}

#[tokio::test]
async fn users_are_filtered_by_role_mailbox_second_factor_and_last_sign_in() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let operator = operator(&app).await;
        app.signed_in("ann@example.com").await;
        enrolled(&app, "bob@example.com").await;
        let accounts = app.app().auth().unwrap().accounts();
        accounts
            .create("carl@example.com", None, Some(["editor", "a\"b", "100%"].into_iter().collect()))
            .await
            .unwrap();
        let emails = async |query: &str| -> Vec<String> {
            let answer = operator.get(&format!("/admin/api/users?{query}")).await.is(200).json();
            let rows = answer["data"].as_array().unwrap();
            rows.iter().map(|row| row["email"].as_str().unwrap().split('@').next().unwrap().to_owned()).collect()
        };
        let operators_name = OPERATOR.split('@').next().unwrap();
        assert_eq!(emails("role=editor").await, ["carl"]);
        assert_eq!(emails("role=a%22b").await, ["carl"]);
        assert_eq!(emails("role=100%25").await, ["carl"]);
        for nobody in ["edit", "Editor", "a", "%25", "%27%20OR%201=1", "%22", "editor%22,%22user"] {
            assert_eq!(emails(&format!("role={nobody}")).await, [""; 0], "{nobody}");
        }
        let mut factors = vec!["bob", operators_name];
        factors.sort_unstable();
        assert_eq!(emails("secondFactor=true").await, factors);
        assert_eq!(emails("second_factor=false").await, ["ann", "carl"]);
        // An operator created the account, so its mailbox is trusted; the others registered.
        let (verified, unverified) = (emails("verified=true").await, emails("verified=false").await);
        assert_eq!(verified.len() + unverified.len(), 4, "{verified:?} {unverified:?}");
        assert!(unverified.contains(&"ann".to_owned()), "{unverified:?}");
        // Who never signed in is included at any time.
        assert_eq!(emails("signedInBefore=2000-01-01T00:00:00Z").await, ["carl"]);
        assert_eq!(emails("signedInBefore=2999-01-01T00:00:00Z").await.len(), 4);
        assert_eq!(emails("role=user&secondFactor=false&signedInBefore=2999-01-01T00:00:00Z&q=an").await, ["ann"]);
        let first = operator.get("/admin/api/users?secondFactor=false&limit=1").await.is(200).json();
        let cursor = first["cursor"].as_str().unwrap();
        assert_eq!(emails(&format!("secondFactor=false&limit=1&cursor={cursor}")).await, ["carl"]);
        for wrong in ["verified=maybe", "signedInBefore=yesterday", "secondFactor=2", "roles=editor", "rolle=x"] {
            operator.get(&format!("/admin/api/users?{wrong}")).await.is(400);
        }
        let ann = operator.get("/admin/api/users?q=ann").await.is(200);
        assert!(ann.at("/data/0/lastSignInAt").is_string());
        assert_eq!(operator.get("/admin/api/users?q=carl").await.is(200).at("/data/0/lastSignInAt"), Value::Null);
    }
}

#[tokio::test]
async fn an_operator_exports_an_account_with_the_records_that_name_it() {
    let toml = format!(
        r#"{ENTITIES}
[[entity]]
name = "tickets"
owner_field = "user_id"
[[entity.field]]
name = "assignee"
type = "relation"
to = "users"
[[entity.field]]
name = "watchers"
type = "relation"
to = "users"
many = true
[[entity.field]]
name = "secret_canary"
type = "string"
hidden = true
"#
    );
    for app in TestApp::on_every_engine(&toml).await {
        let operator = operator(&app).await;
        let (ann, bob) = (app.signed_in("ann@example.com").await, app.signed_in("bob@example.com").await);
        let (id, other) = (id_of(&app, "ann@example.com").await, id_of(&app, "bob@example.com").await);
        ann.post("/notes", json!({ "title": "of ann" })).await.is(201);
        bob.post("/notes", json!({ "title": "of bob" })).await.is(201);
        bob.post("/tickets", json!({ "assignee": id, "watchers": [] })).await.is(201);
        for _ in 0..3 {
            bob.post("/tickets", json!({ "assignee": other, "watchers": [other, id] })).await.is(201);
        }
        bob.post("/tickets", json!({ "watchers": [other] })).await.is(201);
        let path = format!("/admin/api/users/{id}/export");
        let exported = operator.get(&path).await.is(200);
        assert_eq!(exported.at("/account/email"), json!("ann@example.com"));
        assert_eq!(exported.at("/records/notes/0/title"), json!("of ann"));
        assert_eq!(exported.at("/records/notes/1"), Value::Null);
        let of = |place: &str| exported.at(&format!("/naming/{place}")).as_array().map_or(0, Vec::len);
        assert_eq!((of("tickets.assignee"), of("tickets.watchers")), (1, 3), "{}", exported.text());
        for hidden in ["canary", "of bob", "bob@example.com", "hash"] {
            assert!(!exported.text().contains(hidden), "{hidden}: {}", exported.text());
        }
        // It is an act of an operator, in the audit log of the account.
        let audit = operator.get("/admin/api/audit").await.is(200);
        assert!(audit.text().contains("GET /admin/api/users/{id}/export"), "{}", audit.text());
        for caller in [&ann, &bob, &app.anonymous()] {
            assert!([401, 403].contains(&caller.get(&path).await.status()));
        }
        operator.get("/admin/api/users/nobody/export").await.is(404);
        app.wait(SignedDuration::from_hours(2));
        assert_eq!(operator.get(&path).await.is(403).at("/code"), json!("fresh_sign_in_required"));
    }
}
