//! The tenant that a user chooses in the consent, and its effect on the tokens.

use gatewright::base::{Ambient, Subject, TenantId, UserId};
use gatewright::entities::tenancy::SqlMemberships;
use gatewright_testing::{Actor, Answer, TestApp};
use http::Method;
use serde_json::{Value, json};

use super::{MCP, answered, authorize, exchange, form, hidden, parameter, public_client, refresh, text};

const ENTITIES: &str = concat!(
    r#"
[authorization_server]
enabled = true

[events]
heartbeat_seconds = 1

[tenancy.roles]
editor = ["projects:write"]
"#,
    entity!(multi_tenant "projects" "title"),
    entity!(owned "notes" "title"),
);

const SCOPES: (&str, &str) = ("scope", "projects:read projects:write notes:read");
const ACME: &str = "acme";
const GLOBEX: &str = "globex";

/// Ada, who belongs to these tenants, and a client that she did not connect yet.
struct Scene {
    app: TestApp,
    ada: Actor,
    id: UserId,
    client: String,
}

impl Scene {
    async fn on_every_engine(tenants: &[&str]) -> Vec<Self> {
        let mut scenes = Vec::new();
        for app in TestApp::on_every_engine(ENTITIES).await {
            let registered = app.registered("ada@example.com").await;
            let id = UserId::parse(registered["user"]["id"].as_str().unwrap()).unwrap();
            let mut ada = app.anonymous();
            ada.sign_in("ada@example.com").await.is(200);
            let client = public_client(&app).await;
            let scene = Self { app, ada, id, client };
            for tenant in tenants {
                scene.join(tenant).await;
            }
            scenes.push(scene);
        }
        scenes
    }

    fn memberships(&self) -> SqlMemberships {
        SqlMemberships::new(self.app.app().db().clone(), Ambient::system())
    }

    async fn join(&self, tenant: &str) {
        assert!(self.memberships().add(&named(tenant), &Subject::User(self.id.clone())).await.unwrap());
    }

    async fn leave(&self, tenant: &str) {
        assert!(self.memberships().remove(&named(tenant), &Subject::User(self.id.clone())).await.unwrap());
    }

    /// The page that asks, or the answer without one.
    async fn ask(&self, changes: &[(&str, &str)]) -> Answer {
        self.ada.get(&authorize(&self.client, &[&[SCOPES], changes].concat())).await
    }

    /// Allows what a page asks for, in a tenant.
    async fn allow(&self, page: &Answer, tenant: &str) -> Answer {
        let (request, seal) = (hidden(page.text(), "request"), hidden(page.text(), "seal"));
        let pairs = [("request", &*request), ("seal", &*seal), ("decision", "allow"), ("tenant", tenant)];
        form(&self.ada, "/auth/oauth2/authorize", &pairs).await
    }

    /// The tokens of a connection in a tenant.
    async fn connect(&self, tenant: &str, changes: &[(&str, &str)]) -> Value {
        let code = self.code(tenant, changes).await;
        exchange(&self.app, &self.client, &code, &[]).await.is(200).json()
    }

    async fn code(&self, tenant: &str, changes: &[(&str, &str)]) -> String {
        let page = self.ask(changes).await.is(200);
        let answer = self.allow(&page, tenant).await.is(303);
        parameter(&answered(&answer), "code").unwrap()
    }

    fn bearing(&self, tokens: &Value) -> Actor {
        self.app.anonymous().bearing(&text(tokens, "access_token"))
    }

    /// A record in a tenant, made by ada herself.
    async fn record(&self, tenant: &str) -> String {
        let ada = self.ada.clone().sending("x-tenant-id", tenant);
        let made = ada.post("/projects", json!({ "title": format!("canary of {tenant}") })).await.is(201);
        made.at("/data/id").as_str().unwrap().to_owned()
    }
}

fn named(tenant: &str) -> TenantId {
    TenantId::parse(tenant).unwrap()
}

#[tokio::test]
async fn a_token_of_one_tenant_never_reaches_another() {
    for scene in Scene::on_every_engine(&[ACME, GLOBEX]).await {
        let [here, there] = [scene.record(ACME).await, scene.record(GLOBEX).await];
        let tokens = scene.connect(ACME, &[]).await;
        assert_eq!(tokens["tenant"], ACME, "{tokens}");
        let program = scene.bearing(&tokens);
        let (title, engine) = (json!({ "title": "changed" }), scene.app.engine());
        let ada = scene.ada.clone().bearing(&text(&tokens, "access_token"));
        for (case, actor, expected) in [
            ("no header", program.clone(), 200),
            ("an empty header", program.clone().sending("x-tenant-id", ""), 200),
            ("its own tenant", program.clone().sending("x-tenant-id", ACME), 200),
            ("another tenant of the user", program.clone().sending("x-tenant-id", GLOBEX), 403),
            ("a tenant that is none", program.clone().sending("x-tenant-id", "nowhere"), 403),
            ("the same in capitals", program.clone().sending("x-tenant-id", "ACME"), 403),
            ("two in one line", program.clone().sending("x-tenant-id", "acme, globex"), 400),
            ("two lines", program.clone().sending("x-tenant-id", ACME).sending("x-tenant-id", GLOBEX), 400),
            ("with the user's cookie", ada.clone().sending("x-tenant-id", GLOBEX), 403),
        ] {
            let list = actor.get("/projects").await;
            assert_eq!(list.status(), expected, "{case} on {engine}: {}", list.text());
            assert!(!list.text().contains("canary of globex"), "{case}: {}", list.text());
            let made = actor.post("/projects", title.clone()).await;
            assert_eq!(made.status(), if expected == 200 { 201 } else { expected }, "{case}: {}", made.text());
        }
        let elsewhere = program.clone().sending("x-tenant-id", GLOBEX);
        for (method, body) in [(Method::GET, json!(null)), (Method::PATCH, title), (Method::DELETE, json!(null))] {
            let path = format!("/projects/{there}");
            program.json(method.clone(), &path, &body).await.is(404);
            elsewhere.json(method.clone(), &path, &body).await.is(403);
        }
        program.get(&format!("/projects/{here}")).await.is(200);
        for (path, expected) in [
            ("/projects/_events", 200),
            ("/projects/_events?tenant=acme", 200),
            ("/projects/_events?tenant=globex", 403),
            ("/projects/_events?tenant=acme&tenant=globex", 400),
        ] {
            let status = program.open(path).await.map_or_else(|refused| refused.status(), |_| 200);
            assert_eq!(status, expected, "{path} on {engine}");
        }
        let ticket = async |actor: &Actor| {
            let made = actor.post("/auth/stream-ticket", json!({})).await.is(200);
            made.at("/ticket").as_str().unwrap().to_owned()
        };
        for (ticket, expected) in [(ticket(&program).await, 200), (ticket(&elsewhere).await, 403)] {
            let path = format!("/projects/_events?ticket={ticket}");
            let status = scene.app.anonymous().open(&path).await.map_or_else(|refused| refused.status(), |_| 200);
            assert_eq!(status, expected, "a ticket on {engine}");
        }
        let path = format!("/projects/_events?ticket={}&tenant={GLOBEX}", ticket(&program).await);
        assert!(scene.app.anonymous().open(&path).await.is_err());
        program.get("/notes").await.is(200);
        // The routes with events of every tenant, and for managing tenants.
        program.get("/admin/api/tenants").await.is(403);
        program.get("/auth/tenants").await.is(401);
    }
}

#[tokio::test]
async fn tools_work_in_the_tenant_of_the_token_without_a_header() {
    for scene in Scene::on_every_engine(&[ACME, GLOBEX]).await {
        scene.record(ACME).await;
        scene.record(GLOBEX).await;
        let page = scene.ask(&[("resource", MCP)]).await.is(200);
        let answer = scene.allow(&page, GLOBEX).await.is(303);
        let code = parameter(&answered(&answer), "code").unwrap();
        let tokens = exchange(&scene.app, &scene.client, &code, &[("resource", MCP)]).await.is(200).json();
        let listed = scene.bearing(&tokens).call_tool("projects_list", json!({})).await.is(200);
        assert!(listed.text().contains("canary of globex"), "{}", listed.text());
        let elsewhere = scene.bearing(&tokens).sending("x-tenant-id", ACME);
        let refused = elsewhere.call_tool("projects_list", json!({})).await;
        assert!(!refused.text().contains("canary"), "{}", refused.text());
    }
}

#[tokio::test]
async fn the_page_offers_the_users_tenants_and_accepts_no_other() {
    for scene in Scene::on_every_engine(&[ACME, GLOBEX]).await {
        let page = scene.ask(&[]).await.is(200);
        for words in ["<select id=\"tenant\"", "value=\"acme\"", "value=\"globex\"", "this tenant only"] {
            assert!(page.text().contains(words), "{words}: {}", page.text());
        }
        for tenant in ["", "initech", "acme globex"] {
            scene.allow(&page, tenant).await.is(400);
        }
        // The tenants that the page showed may have changed meanwhile.
        scene.leave(GLOBEX).await;
        scene.allow(&page, GLOBEX).await.is(400);
        let only = scene.ask(&[]).await.is(200);
        assert!(
            only.text().contains("<strong>acme</strong> only") && !only.text().contains("<select"),
            "{}",
            only.text()
        );
        scene.allow(&only, "").await.is(400);
        scene.allow(&only, ACME).await.is(303);
        // A request whose scopes cover no data of tenants needs no tenant.
        let plain = scene.ask(&[("scope", "notes:read")]).await.is(200);
        assert!(!plain.text().contains("name=\"tenant\""), "{}", plain.text());
    }
}

#[tokio::test]
async fn consent_is_remembered_for_each_tenant() {
    for scene in Scene::on_every_engine(&[ACME]).await {
        scene.connect(ACME, &[]).await;
        scene.ask(&[]).await.is(303);
        scene.join(GLOBEX).await;
        for (tenant, expected) in [("", 200), (ACME, 303), (GLOBEX, 200), ("initech", 403), ("a b", 303)] {
            let answer = scene.ask(&[("tenant", tenant)]).await;
            assert_eq!(answer.status(), expected, "{tenant}: {}", answer.text());
        }
        let named = scene.ask(&[("tenant", GLOBEX)]).await;
        assert!(!named.text().contains(ACME), "the request names one: {}", named.text());
        let refused = scene.ask(&[("tenant", "initech")]).await;
        assert_eq!(refused.header("location"), None, "the client does not learn who is a member of what");
        scene.allow(&named, GLOBEX).await.is(303);
        for tenant in [ACME, GLOBEX] {
            scene.ask(&[("tenant", tenant)]).await.is(303);
            scene.ask(&[("tenant", tenant), ("scope", "projects:read notes:write")]).await.is(200);
        }
    }
}

#[tokio::test]
async fn a_member_who_is_removed_loses_the_token_at_once() {
    for scene in Scene::on_every_engine(&[ACME, GLOBEX]).await {
        let acme = scene.connect(ACME, &[]).await;
        let globex = scene.connect(GLOBEX, &[]).await;
        let pending = scene.code(ACME, &[]).await;
        let program = scene.bearing(&acme);
        let mut stream = program.watch("projects").await;
        program.get("/projects").await.is(200);
        scene.leave(ACME).await;
        for path in ["/projects", "/notes", "/projects/_events", "/auth/me"] {
            let refused = program.get(path).await.is(401);
            let challenge = refused.header("www-authenticate").unwrap_or_default();
            assert!(challenge.contains("invalid_token"), "{path}: {challenge}");
        }
        assert!(stream.next().await.is_none(), "the stream ends on its next heartbeat on {}", scene.app.engine());
        exchange(&scene.app, &scene.client, &pending, &[]).await.is(400);
        let token = text(&acme, "refresh_token");
        let refused = refresh(&scene.app, &scene.client, &token).await.is(400);
        assert_eq!(refused.at("/error"), "invalid_grant", "{}", refused.text());
        // The connection of the other tenant stays.
        scene.bearing(&globex).get("/projects").await.is(200);
        refresh(&scene.app, &scene.client, &text(&globex, "refresh_token")).await.is(200);
        // A member who returns is asked again.
        scene.join(ACME).await;
        refresh(&scene.app, &scene.client, &token).await.is(400);
        program.get("/projects").await.is(401);
        scene.ask(&[("tenant", ACME)]).await.is(200);
    }
}

#[tokio::test]
async fn a_program_that_was_allowed_before_its_user_joined_reaches_no_tenant() {
    for scene in Scene::on_every_engine(&[]).await {
        let tokens = scene.connect("", &[]).await;
        assert_eq!(tokens.get("tenant"), None, "{tokens}");
        let program = scene.bearing(&tokens);
        scene.join(ACME).await;
        scene.record(ACME).await;
        program.get("/projects").await.is(400);
        program.clone().sending("x-tenant-id", ACME).get("/projects").await.is(403);
        program.get("/notes").await.is(200);
        let next = refresh(&scene.app, &scene.client, &text(&tokens, "refresh_token")).await.is(200).json();
        scene.bearing(&next).sending("x-tenant-id", ACME).get("/projects").await.is(403);
        // A token that the user made by hand names the tenant, as before.
        let pasted = scene.ada.post("/auth/tokens", json!({ "name": "ci", "scopes": ["projects:read"] })).await.is(200);
        let pasted = scene.app.anonymous().bearing(pasted.at("/token").as_str().unwrap());
        pasted.sending("x-tenant-id", ACME).get("/projects").await.is(200);
    }
}

#[tokio::test]
async fn a_user_disconnects_a_program_in_only_one_tenant() {
    for scene in Scene::on_every_engine(&[ACME, GLOBEX]).await {
        let [acme, globex] = [scene.connect(ACME, &[]).await, scene.connect(GLOBEX, &[]).await];
        let account = scene.ada.get("/account/programs").await.is(200);
        let row = account.text().split("<li>").find(|row| row.contains("in acme")).expect("a row for acme").to_owned();
        assert!(account.text().contains("in globex"), "{}", account.text());
        let end = row.split("action=\"/account/programs/").nth(1).unwrap().split('"').next().unwrap();
        let pairs: [(&str, &str); 0] = [];
        form(&scene.ada, &format!("/account/programs/{end}"), &pairs).await.is(303);
        scene.bearing(&acme).get("/projects").await.is(401);
        refresh(&scene.app, &scene.client, &text(&acme, "refresh_token")).await.is(400);
        scene.bearing(&globex).get("/projects").await.is(200);
        refresh(&scene.app, &scene.client, &text(&globex, "refresh_token")).await.is(200);
    }
}
