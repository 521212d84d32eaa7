//! Profiles of accounts: who changes them, who sees them, and their deletion.

use futures_util::future::join_all;
use gatewright_base::UserId;
use gatewright_db::params;
use gatewright_testing::{Actor, TestApp};
use http::Method;
use serde_json::{Value, json};

pub(super) const ANN: &str = "ann@example.com";
const BEN: &str = "ben@example.com";
const PASSWORD: &str = "correct horse battery";

const FIELDS: &str = r#"
[[auth.profile.field]]
name = "display_name"
type = "string"
max = 20
public = true
[[auth.profile.field]]
name = "theme"
type = "enum"
values = ["light", "dark"]
default = "light"
[[auth.profile.field]]
name = "birthday"
type = "date"
[[auth.profile.field]]
name = "bio"
type = "text"
[[auth.profile.field]]
name = "settings"
type = "json"
[[entity]]
name = "tasks"
public = true
[[entity.field]]
name = "assignee"
type = "relation"
to = "users"
on_delete = "set_null"
[[entity]]
name = "rooms"
multi_tenant = true
[[entity.field]]
name = "host"
type = "relation"
to = "users"
"#;

async fn change(actor: &Actor, profile: Value) -> gatewright_testing::Answer {
    actor.patch("/auth/me", json!({ "profile": profile })).await
}

fn errors(answer: &gatewright_testing::Answer) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let errors = answer.at("/errors");
    errors.as_array().unwrap().iter().map(|error| (text(&error["field"]), text(&error["code"]))).collect()
}

#[tokio::test]
async fn a_profile_is_merged_and_shown_to_its_account() {
    for app in TestApp::on_every_engine(FIELDS).await {
        let registered = app.registered(ANN).await;
        let empty = json!({
            "displayName": null, "theme": "light", "birthday": null, "bio": null, "settings": null,
        });
        assert_eq!(registered["user"]["profile"], empty, "{}", app.engine());
        let mut ann = app.anonymous();
        assert_eq!(ann.sign_in(ANN).await.is(200).at("/user/profile"), empty);
        assert_eq!(ann.get("/auth/me").await.is(200).at("/user/profile"), empty);

        let settings = json!({ "a_b": [1, { "c": null }] });
        let first = json!({ "displayName": "Ann", "birthday": "1990-02-28", "settings": settings });
        change(&ann, first).await.is(200);
        let second = change(&ann, json!({ "theme": "dark", "birthday": null })).await.is(200);
        let expected = json!({
            "displayName": "Ann", "theme": "dark", "birthday": null, "bio": null, "settings": settings,
        });
        assert_eq!(second.at("/user/profile"), expected);
        assert_eq!(second.at("/user/email"), ANN);
        let me = ann.get("/auth/me").await.is(200);
        assert_eq!((me.at("/user/profile"), me.at("/emailVerified")), (expected.clone(), json!(false)));
        assert_eq!(app.anonymous().sign_in(ANN).await.is(200).at("/user/profile"), expected);
        // No other profile has changed.
        let ben = app.signed_in(BEN).await;
        assert_eq!(ben.get("/auth/me").await.at("/user/profile"), empty);
    }
}

#[tokio::test]
async fn invalid_fields_are_refused_by_name_and_nothing_changes() {
    for app in TestApp::on_every_engine(FIELDS).await {
        let ann = app.signed_in(ANN).await;
        change(&ann, json!({ "displayName": "Ann" })).await.is(200);
        let before = ann.get("/auth/me").await.text().to_owned();
        let cases: &[(Value, &[(&str, &str)])] = &[
            (json!({}), &[("profile", "required")]),
            (json!({ "profile": "x" }), &[("profile", "type")]),
            (json!({ "profile": { "displayName": "x".repeat(21) } }), &[("displayName", "max")]),
            (
                json!({ "profile": { "bio": "kept?", "theme": "red", "birthday": "1990-02-30" } }),
                &[("birthday", "type"), ("theme", "enum")],
            ),
            (json!({ "profile": { "nickname": "x" } }), &[("nickname", "unknown_field")]),
            (
                json!({ "profile": { "roles": ["admin"], "id": "x" } }),
                &[("id", "unknown_field"), ("roles", "unknown_field")],
            ),
            (json!({ "profile": { "bio": "x" }, "roles": ["admin"] }), &[("roles", "unknown_field")]),
            (json!({ "profile": { "bio": "x" }, "email": BEN }), &[("email", "unknown_field")]),
            (json!({ "profile": { "bio": "nul \u{0}" } }), &[("bio", "characters")]),
        ];
        for (body, expected) in cases {
            let refused = ann.patch("/auth/me", body.clone()).await.is(422);
            let mut found = errors(&refused);
            found.sort();
            let found: Vec<_> = found.iter().map(|(field, code)| (&**field, &**code)).collect();
            assert_eq!(found, *expected, "{body}");
        }
        ann.patch("/auth/me", json!([])).await.is(400);
        change(&ann, json!({ "bio": "x".repeat(17_000) })).await.is(413);
        let form = ann.request(Method::PATCH, "/auth/me").header("content-type", "application/x-www-form-urlencoded");
        assert_eq!(ann.send(form.body("profile=x".into()).unwrap()).await.status(), 415);
        assert_eq!(ann.get("/auth/me").await.text(), before, "{}", app.engine());

        // Small changes do not add up to more than one profile may have.
        change(&ann, json!({ "bio": "x".repeat(9_000) })).await.is(200);
        let much = change(&ann, json!({ "settings": "y".repeat(9_000) })).await.is(422);
        assert_eq!(errors(&much), [("profile".to_owned(), "max".to_owned())]);
    }
}

#[tokio::test]
async fn only_a_same_site_session_changes_a_profile() {
    for app in TestApp::on_every_engine(FIELDS).await {
        let ann = app.signed_in(ANN).await;
        let name = json!({ "displayName": "Eve" });
        change(&app.anonymous(), name.clone()).await.is(401);
        let jwt = app.with_jwt(BEN).await;
        change(&jwt, name.clone()).await.is(401);
        let token = ann.post("/auth/tokens", json!({ "name": "CI", "scopes": ["*:*"] })).await.is(200);
        let token = app.anonymous().bearing(token.at("/token").as_str().unwrap());
        change(&token, name.clone()).await.is(401);
        // A page of another site can only send content types other than JSON without a preflight.
        for kind in ["text/plain", "application/x-www-form-urlencoded"] {
            let crossing = ann.clone().sending("sec-fetch-site", "cross-site");
            let request = crossing.request(Method::PATCH, "/auth/me").header("content-type", kind);
            let request = request.body("{\"profile\":{\"displayName\":\"Eve\"}}".into()).unwrap();
            let status = crossing.send(request).await.status();
            assert!([403, 415].contains(&status), "{kind}: {status}");
        }
        assert_eq!(ann.get("/auth/me").await.at("/user/profile/displayName"), Value::Null);
        ann.post("/auth/logout", json!({})).await.is(204);
        change(&ann, name).await.is(401);
    }
}

#[tokio::test]
async fn concurrent_changes_are_not_lost() {
    let fields: Vec<String> =
        (0..20).map(|n| format!("[[auth.profile.field]]\nname = \"f{n}\"\ntype = \"int\"\n")).collect();
    for app in TestApp::on_every_engine(&fields.concat()).await {
        let ann = app.signed_in(ANN).await;
        let ann = &ann;
        let changes = (0..20).map(async |n| change(ann, json!({ format!("f{n}"): n })).await.status());
        assert_eq!(join_all(changes).await, [200; 20], "{}", app.engine());
        let profile = ann.get("/auth/me").await.at("/user/profile");
        for n in 0..20 {
            assert_eq!(profile[format!("f{n}")], n, "{}: {profile}", app.engine());
        }
    }
}

#[tokio::test]
async fn public_fields_are_shown_to_signed_in_callers_through_a_relation() {
    for app in TestApp::on_every_engine(FIELDS).await {
        let (ann, ben) = (app.signed_in(ANN).await, app.signed_in(BEN).await);
        change(&ann, json!({ "displayName": "Ann", "bio": "canary of ann", "theme": "dark" })).await.is(200);
        let (id, other) = (app.user_id(ANN).await, app.user_id(BEN).await);
        let task = ann.post("/tasks", json!({ "assignee": id.as_str() })).await.is(201).at("/data/id");
        ann.post("/tasks", json!({ "assignee": other.as_str() })).await.is(201);
        ann.post("/tasks", json!({})).await.is(201);
        let one = format!("/tasks/{}?include=assignee", task.as_str().unwrap());
        let shown = json!({ "id": id.as_str(), "displayName": "Ann" });
        for caller in [&ann, &ben] {
            let read = caller.get(&one).await.is(200);
            assert_eq!(read.at("/data/_included/assignee"), shown, "{}", app.engine());
            let list = caller.get("/tasks?include=assignee").await.is(200);
            assert_eq!(list.at("/data/0/_included/assignee"), shown);
            assert_eq!(list.at("/data/1/_included/assignee"), json!({ "id": other.as_str(), "displayName": null }));
            assert_eq!(list.at("/data/2/_included/assignee"), Value::Null);
            for text in [read.text(), list.text()] {
                assert!(!text.contains("canary") && !text.contains(ANN) && !text.contains("dark"), "{text}");
            }
        }
        let bare = json!({ "id": id.as_str() });
        assert_eq!(app.anonymous().get(&one).await.is(200).at("/data/_included/assignee"), bare);
        let list = app.anonymous().get("/tasks?include=assignee").await.is(200);
        assert_eq!(list.at("/data/0/_included/assignee"), bare);
        // A program with a token to read is signed in.
        let token = ben.post("/auth/tokens", json!({ "name": "CI", "scopes": ["tasks:read"] })).await.is(200);
        let token = app.anonymous().bearing(token.at("/token").as_str().unwrap());
        assert_eq!(token.get(&one).await.is(200).at("/data/_included/assignee"), shown);
    }
}

#[tokio::test]
async fn on_multi_tenant_entities_only_members_of_the_tenant_are_shown() {
    for app in TestApp::on_every_engine(FIELDS).await {
        let (ann, ben) = (app.signed_in(ANN).await, app.signed_in(BEN).await);
        for (actor, name) in [(&ann, "Ann"), (&ben, "Ben")] {
            change(actor, json!({ "displayName": name })).await.is(200);
        }
        let (ann_id, ben_id) = (app.user_id(ANN).await, app.user_id(BEN).await);
        for email in [ANN, BEN] {
            app.join(email, "acme").await;
        }
        let ann = ann.sending("x-tenant-id", "acme");
        for host in [&ann_id, &ben_id] {
            ann.post("/rooms", json!({ "host": host.as_str() })).await.is(201);
        }
        let hosts = async || {
            let list = ann.get("/rooms?include=host").await.is(200);
            [list.at("/data/0/_included/host"), list.at("/data/1/_included/host")]
        };
        let named = |id: &UserId, name: &str| json!({ "id": id.as_str(), "displayName": name });
        assert_eq!(hosts().await, [named(&ann_id, "Ann"), named(&ben_id, "Ben")], "{}", app.engine());
        // Ben belongs to another tenant now. The record still names him.
        app.join(BEN, "other").await;
        let sql = "DELETE FROM tenant_members WHERE tenant_id = ?1 AND member_id = ?2";
        app.app().db().execute(sql, params!["acme", ben_id.as_str()]).await.unwrap();
        assert_eq!(hosts().await, [named(&ann_id, "Ann"), json!({ "id": ben_id.as_str() })], "{}", app.engine());
    }
}

#[tokio::test]
async fn a_profile_is_exported_and_deleted_with_its_account() {
    for app in TestApp::on_every_engine(FIELDS).await {
        let ann = app.signed_in(ANN).await;
        let settings = json!({ "snake_key": true });
        change(&ann, json!({ "displayName": "Ann", "bio": "canary", "settings": settings })).await.is(200);
        let all = ann.post("/auth/export", json!({ "password": PASSWORD })).await.is(200).json();
        assert_eq!(all["profile"]["displayName"], "Ann", "{}", app.engine());
        assert_eq!(all["profile"]["settings"], settings, "keys inside of a value are its own");
        let id = app.user_id(ANN).await;
        let accounts = app.app().auth().unwrap().accounts();
        assert_eq!(accounts.profile(&id).await.unwrap().unwrap()["bio"], "canary");
        ann.post("/auth/delete-account", json!({ "password": PASSWORD })).await.is(200);
        let left =
            app.app().db().query("SELECT profile FROM users WHERE profile IS NOT NULL", params![]).await.unwrap();
        assert!(left.is_empty(), "{}", app.engine());
        change(&ann, json!({ "displayName": "ghost" })).await.is(401);
        accounts.profile(&id).await.unwrap_err();
        // A new account with the address starts without a profile.
        let again = app.signed_in(ANN).await;
        assert_eq!(again.get("/auth/me").await.at("/user/profile/bio"), Value::Null);
    }
}

/// The same fields, of which an account must have one, and another has a default.
pub(super) fn required() -> String {
    FIELDS
        .replace("max = 20\n", "required = true\nmax = 20\n")
        .replace("default = \"light\"\n", "required = true\ndefault = \"light\"\n")
}

/// A form of a page.
pub(super) async fn form(actor: &Actor, path: &str, pairs: &[(&str, &str)]) -> gatewright_testing::Answer {
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    let request = actor.request(Method::POST, path).header("content-type", "application/x-www-form-urlencoded");
    actor.send(request.body(body.into()).unwrap()).await
}

#[tokio::test]
async fn a_registration_needs_the_required_fields_of_the_profile() {
    for app in TestApp::on_every_engine(&required()).await {
        let anybody = app.anonymous();
        let register = async |more: Value| {
            let mut body = json!({ "email": ANN, "password": PASSWORD });
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            anybody.post("/auth/register", body).await
        };
        let cases: &[(Value, &[(&str, &str)])] = &[
            (json!({}), &[("displayName", "required")]),
            (json!({ "profile": {} }), &[("displayName", "required")]),
            (json!({ "profile": { "displayName": null } }), &[("displayName", "required")]),
            (json!({ "profile": { "theme": "dark" } }), &[("displayName", "required")]),
            (json!({ "profile": { "displayName": "x".repeat(21) } }), &[("displayName", "max")]),
            (json!({ "profile": { "displayName": "Ann", "nickname": "x" } }), &[("nickname", "unknown_field")]),
            (json!({ "profile": { "displayName": "Ann", "roles": ["admin"] } }), &[("roles", "unknown_field")]),
            (json!({ "profile": "Ann" }), &[("profile", "type")]),
            (
                json!({ "profile_display_name": "Ann" }),
                &[("displayName", "required"), ("profileDisplayName", "unknown")],
            ),
            // Everything that is wrong is named at once.
            (json!({ "email": "x", "profile": {} }), &[("displayName", "required"), ("email", "invalid")]),
            // A password that is the name is found first.
            (
                json!({ "password": "Ann Ann Ann", "profile": { "displayName": "Ann Ann Ann" } }),
                &[("password", "personal")],
            ),
        ];
        for (body, expected) in cases {
            let refused = register(body.clone()).await.is(422);
            let mut found = errors(&refused);
            found.sort();
            let found: Vec<_> = found.iter().map(|(field, code)| (&**field, &**code)).collect();
            assert_eq!(found, *expected, "{}: {body}", app.engine());
        }
        let made = register(json!({ "profile": { "displayName": "Ann", "bio": "hello" } })).await.is(200);
        let profile =
            json!({ "displayName": "Ann", "theme": "light", "birthday": null, "bio": "hello", "settings": null });
        assert_eq!(made.at("/user/profile"), profile, "{}", app.engine());
        let mut ann = app.anonymous();
        assert_eq!(ann.sign_in(ANN).await.is(200).at("/user/profile"), profile);
        // A required field cannot be cleared later.
        let refused = change(&ann, json!({ "displayName": null })).await.is(422);
        assert_eq!(errors(&refused), [("displayName".to_owned(), "required".to_owned())]);
    }
}

#[tokio::test]
async fn the_form_of_registrations_asks_for_required_fields() {
    for app in TestApp::on_every_engine(&required()).await {
        let anybody = app.anonymous();
        let page = anybody.get("/register").await.is(200);
        assert!(
            page.text().contains("name=\"profile_display_name\" type=\"text\" value=\"\" required maxlength=\"20\"")
        );
        assert!(!page.text().contains("profile_theme"), "it has a default");
        let typed = [("email", BEN), ("password", PASSWORD), ("profile_display_name", ""), ("next", "/here")];
        let again = form(&anybody, "/auth/register", &typed).await.is(422);
        assert!(
            again.text().contains("id=\"profile_display_name-message\" class=\"message\" role=\"alert\">is required"),
            "{}",
            again.text()
        );
        let long = "<b>".repeat(7);
        let typed = [("email", BEN), ("password", PASSWORD), ("profile_display_name", &long), ("next", "/here")];
        let again = form(&anybody, "/auth/register", &typed).await.is(422);
        assert!(again.text().contains(&"&lt;b&gt;".repeat(7)), "what was typed stays: {}", again.text());
        let typed = [("email", BEN), ("password", PASSWORD), ("profile_display_name", "Ben"), ("next", "/here")];
        let done = form(&anybody, "/auth/register", &typed).await.is(303);
        assert_eq!(done.header("location"), Some("/here"));
        let mut ben = app.anonymous();
        assert_eq!(ben.sign_in(BEN).await.is(200).at("/user/profile/displayName"), "Ben", "{}", app.engine());
    }
}

#[tokio::test]
async fn an_account_of_a_magic_link_is_asked_for_required_fields() {
    for app in TestApp::on_every_engine(&required()).await {
        let mut ann = app.anonymous();
        let fields = [("email", ANN), ("password", ""), ("next", "/here")];
        let sent = form(&ann, "/auth/magic-link/send", &fields).await.is(200);
        ann.keep_cookies(&sent);
        let mails = loop {
            let mails = ann.get("/dev/mail.json").await.is(200).json();
            if mails.as_array().is_some_and(|mails| !mails.is_empty()) {
                break mails;
            }
            tokio::task::yield_now().await;
        };
        let link = mails[0]["links"][0].as_str().unwrap().to_owned();
        let token = link.split_once("token=").unwrap().1.split('&').next().unwrap().to_owned();
        let done = form(&ann, "/auth/magic-link/verify", &[("token", &token)]).await.is(303);
        assert_eq!(done.header("location"), Some("/complete-profile?next=%2Fhere"), "{}", app.engine());
        ann.keep_cookies(&done);
        let page = ann.get("/complete-profile?next=%2Fhere").await.is(200);
        assert!(page.text().contains("name=\"profile_display_name\"") && !page.text().contains("profile_bio"));
        let refused = form(&ann, "/complete-profile", &[("profile_display_name", ""), ("next", "/here")]).await.is(422);
        assert!(refused.text().contains("profile_display_name"), "{}", refused.text());
        let done = form(&ann, "/complete-profile", &[("profile_display_name", "Ann"), ("next", "/here")]).await.is(303);
        assert_eq!(done.header("location"), Some("/here"));
        assert_eq!(ann.get("/auth/me").await.at("/user/profile/displayName"), "Ann");
        // Nothing is asked twice, and the page leads nowhere else.
        assert_eq!(ann.get("/complete-profile?next=%2Fhere").await.is(303).header("location"), Some("/here"));
        let away = ann.get("/complete-profile?next=https://evil.example").await.is(303);
        assert_eq!(away.header("location"), Some("/"));
    }
}

#[tokio::test]
async fn without_declared_fields_there_is_no_profile() {
    for app in TestApp::on_every_engine("").await {
        let ann = app.signed_in(ANN).await;
        change(&ann, json!({})).await.is(405);
        let body = json!({ "email": BEN, "password": PASSWORD, "profile": { "displayName": "Ben" } });
        let refused = app.anonymous().post("/auth/register", body).await.is(422);
        assert_eq!(errors(&refused), [("profile".to_owned(), "unknown".to_owned())]);
        let me = ann.get("/auth/me").await.is(200);
        assert!(!me.text().contains("profile"), "{}", me.text());
    }
}

/// Posts the form of the account page.
async fn post_form(actor: &Actor, pairs: &[(&str, &str)]) -> gatewright_testing::Answer {
    form(actor, "/account/profile", pairs).await
}

#[tokio::test]
async fn the_account_page_has_a_form_for_the_profile() {
    for app in TestApp::on_every_engine(FIELDS).await {
        let ann = app.signed_in(ANN).await;
        change(&ann, json!({ "settings": { "kept": true }, "birthday": "1990-02-28" })).await.is(200);
        let page = ann.get("/account/profile").await.is(200);
        for part in [
            "Display name</label>",
            "name=\"profile_display_name\" type=\"text\" value=\"\" maxlength=\"20\"",
            "type=\"date\" value=\"1990-02-28\"",
            "<option value=\"light\" selected>",
            "<textarea id=\"profile_bio\"",
        ] {
            assert!(page.text().contains(part), "{part}: {}", page.text());
        }
        assert!(!page.text().contains("profile_settings"), "JSON is for programs");
        let form = [
            ("profile_display_name", "Ann <b>"),
            ("profile_theme", "dark"),
            ("profile_birthday", ""),
            ("profile_bio", "one\r\ntwo"),
        ];
        let done = post_form(&ann, &form).await.is(303);
        assert_eq!(done.header("location"), Some("/account/profile?done=profile-changed#profile"));
        let expected = json!({
            "displayName": "Ann <b>", "theme": "dark", "birthday": null, "bio": "one\ntwo", "settings": { "kept": true },
        });
        assert_eq!(ann.get("/auth/me").await.at("/user/profile"), expected, "{}", app.engine());
        let page = ann.get("/account/profile?done=profile-changed").await.is(200);
        assert!(
            page.text().contains("Your profile is saved.") && page.text().contains("Ann &lt;b&gt;"),
            "{}",
            page.text()
        );
        for (name, value, told) in [
            ("profile_display_name", &*"x".repeat(21), "id=\"profile_display_name-message\""),
            ("profile_theme", "red", "id=\"profile_theme-message\""),
            ("profile_birthday", "1990-02-30", "id=\"profile_birthday-message\""),
        ] {
            let refused = post_form(&ann, &[(name, value)]).await.is(422);
            assert!(refused.text().contains(told), "{name}: {}", refused.text());
        }
        // An unknown field of the form changes nothing.
        post_form(&ann, &[("roles", "admin"), ("profile_roles", "admin"), ("profile_settings", "{}")]).await.is(303);
        assert_eq!(ann.get("/auth/me").await.at("/user/profile"), expected);
        assert_eq!(ann.get("/auth/me").await.at("/user/roles"), json!(["user"]));
        let crossing = ann.clone().sending("sec-fetch-site", "cross-site").sending("origin", "https://evil.example");
        post_form(&crossing, &[("profile_theme", "light")]).await.is(403);
        post_form(&app.anonymous(), &[("profile_theme", "light")]).await.is(303);
        assert_eq!(ann.get("/auth/me").await.at("/user/profile"), expected);
    }
}

#[tokio::test]
async fn a_change_is_audited_by_the_names_of_fields() {
    for app in TestApp::on_every_engine(FIELDS).await {
        let ann = app.signed_in(ANN).await;
        change(&ann, json!({ "displayName": "canary", "theme": "light" })).await.is(200);
        change(&ann, json!({ "displayName": "canary" })).await.is(200);
        app.wait(jiff::SignedDuration::from_secs(1));
        post_form(&ann, &[("profile_theme", "dark"), ("profile_bio", "canary")]).await.is(303);
        change(&ann, json!({ "theme": "canary" })).await.is(422);
        let sql =
            "SELECT CAST(meta AS TEXT) AS meta FROM audit_log WHERE kind = 'profile.changed' ORDER BY created_at, id";
        let rows = app.app().db().query(sql, params![]).await.unwrap();
        let details: Vec<String> = rows.iter().map(|row| row.get("meta").unwrap()).collect();
        assert_eq!(details.len(), 2, "{details:?} on {}", app.engine());
        assert!(details[0].contains("displayName") && !details[0].contains("theme"), "{details:?}");
        assert!(details[1].contains("theme") && details[1].contains("bio"), "{details:?}");
        assert!(!details.concat().contains("canary"), "{details:?}");
    }
}

#[tokio::test]
async fn the_name_in_the_profile_is_no_password() {
    for app in TestApp::on_every_engine(FIELDS).await {
        let ann = app.signed_in(ANN).await;
        change(&ann, json!({ "displayName": "Ann of Example" })).await.is(200);
        for weak in ["Ann of Example", "ann OF example"] {
            let body = json!({ "currentPassword": PASSWORD, "password": weak });
            let refused = ann.post("/auth/change-password", body).await.is(422);
            assert_eq!(errors(&refused), [("password".to_owned(), "personal".to_owned())]);
        }
        let body = json!({ "currentPassword": PASSWORD, "password": "Ann of Examples" });
        ann.post("/auth/change-password", body).await.is(200);
    }
}
