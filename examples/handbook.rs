//! The blocks of Rust that the handbook shows, each in a function that compiles.
//!
//! A test checks that this file contains the lines of every block. The code around a block has the imports and values
//! that its page does not show.

use std::error::Error as StdError;
use std::future::ready;
use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderMap, Method};
use axum::middleware::{Next, from_fn};
use axum::response::{Html, Response};
use axum::routing::{delete, get};
use gatewright::auth::guards::{RoleGuard, ScopeGuard, ScopeTree};
use gatewright::auth::plugins::passkeys::PasskeysPlugin;
use gatewright::auth::plugins::password::PasswordPlugin;
use gatewright::auth::users::{NewUser, SqlUserStore, User, UserStore, UserStoreError, UserWithHash};
use gatewright::auth::{Auth, AuthConfig, EmailAddress, ScreenPolicy};
use gatewright::base::{Ambient, Identity, Roles, Secret, Subject, TenantId, UserId};
use gatewright::db::{Db, Tx, params};
use gatewright::entities::operations::{Call, Error, Transaction};
use gatewright::entities::tenancy::{MembershipError, Memberships, SqlMemberships};
use gatewright::entities::{Entities, Entity, Field, ListQuery, Users};
use gatewright::events::outbox::{Consumer, Event};
use gatewright::http::csrf::{Csrf, CsrfBinding, CsrfToken, csrf_token};
use gatewright::http::{Caller, Problem};
use gatewright::{App, Config};
use serde_json::json;
use tokio::net::TcpListener;

type Done = Result<(), Box<dyn StdError + Send + Sync>>;

fn main() {}

// authentication.md

/// Routes that require a second factor.
pub fn step_up(auth: &Auth) {
    let vault = Router::new().route("/vault", get(open_vault)).layer(auth.step_up());
    let app = Router::new().merge(vault).merge(auth.router()).layer(auth.middleware());
    drop(app);
}

/// Pages, each with a policy.
pub fn screens() -> [Router; 3] {
    [
        Router::new().route("/dashboard", get(dashboard)).layer(ScreenPolicy::session().redirect()),
        Router::new()
            .route("/plans", get(plans))
            .layer(ScreenPolicy::session().render_alt(async |_request| our_plans())),
        Router::new().route("/admin", get(admin)).layer(ScreenPolicy::role("admin")),
    ]
}

// passkeys.md

/// Sign-in with passkeys in a program.
pub async fn passkeys(config: AuthConfig, db: Db) -> Done {
    let auth =
        Auth::builder(config).database(db).plugin(PasswordPlugin).plugin(PasskeysPlugin::new("Blog")).build().await?;
    drop(auth);
    Ok(())
}

// csrf.md

/// CSRF tokens on a program's own routes.
#[expect(clippy::items_after_statements, reason = "in the order of the page")]
pub fn csrf([secret, old_secret]: [Secret; 2]) -> Result<Router, Box<dyn StdError>> {
    let csrf = Csrf::new(&secret, Ambient::system())?
        .previous_secrets([&old_secret]) // during a rotation of the secret
        .exempt(Method::POST, "/hooks/payments");
    let app = Router::new()
        .route("/contact", get(form).post(send))
        .route("/auth/csrf", get(csrf_token))
        .layer(csrf)
        .layer(from_fn(sessions));

    async fn sessions(mut request: Request, next: Next) -> Response {
        if let Some(session) = my_session(request.headers()).await {
            request.extensions_mut().insert(CsrfBinding::session(session.id));
        }
        next.run(request).await
    }

    async fn form(csrf: CsrfToken) -> Html<String> {
        Html(format!("<form method=post>{}<button>Send</button></form>", csrf.field()))
    }
    Ok(app)
}

// embedding.md

/// Routes that require scopes and roles.
pub fn guards(auth: &Auth, crud: Router) -> Result<Router, Box<dyn StdError>> {
    let reports = Router::new().route("/reports", get(show)).layer(ScopeGuard::new("reports:read".parse()?));
    let admin = Router::new().route("/admin/caches", delete(clear)).layer(RoleGuard::any_of(["admin"]));
    let tree = Router::new().nest("/api", crud).layer(ScopeTree::under("/api"));
    let app = reports.merge(admin).merge(tree).merge(auth.router()).layer(auth.middleware());
    Ok(app)
}

/// Entities without HTTP.
pub async fn records(db: Db, identity: Identity) -> Done {
    let tasks = Entity::new("tasks")
        .owner("user_id")
        .field(Field::string("title").required().max(200))
        .field(Field::choice("status", ["open", "done"]).default("open"));
    let entities = Entities::builder(db, Ambient::system()).users(Users::Elsewhere).declare(tasks).build().await?;

    let (tasks, call) = (entities.table("tasks")?, Call::from(identity));
    let task = tasks.create(&call, json!({ "title": "Water the plants" })).await?;
    tasks.update(&call, task.id(), json!({ "status": "done" }), None).await?;

    let done = ListQuery::new().condition("status", "done").sort("-created_at").limit(10);
    let page = tasks.list(&call, &done).await?.records::<Task>()?;
    drop(page);
    Ok(())
}

// how-to/embedding.md

/// A whole program.
#[expect(clippy::items_after_statements, reason = "in the order of the page")]
pub async fn program() -> Done {
    let mut config = Config::default();
    config.server.dev_mode = true;
    config.entities = vec![Entity::new("notes").owner("user_id").field(Field::string("title").required().max(200))];
    let hello = Router::new().route("/hello", get(hello));
    let listener = TcpListener::bind(config.server.address()).await?;
    let app = App::builder(config).routes(hello).build().await?;
    app.serve(listener, std::future::pending()).await;

    async fn hello(Caller(identity): Caller) -> Result<String, Problem> {
        let principal = identity.principal().ok_or_else(|| Problem::unauthorized("sign in first"))?;
        Ok(format!("Hello, {}", principal.email.as_deref().unwrap_or("program")))
    }
    Ok(())
}

// how-to/user-store.md

/// Sign-in with the program's own table of users.
pub async fn own_users(config: AuthConfig, db: Db) -> Done {
    let users = Arc::new(OurUsers::new(db.clone()));
    let auth = Auth::builder(config).database(db).users(users).plugin(PasswordPlugin).build().await?;
    drop(auth);
    Ok(())
}

// hooks.md

/// Hooks of an entity.
pub mod hooks {
    use super::{App, Config};
    use gatewright::AppBuilder;

    use async_trait::async_trait;
    use gatewright::entities::hooks::{EntityHooks, Values, Writing};
    use gatewright::entities::operations::Error;
    use gatewright::http::Problem;

    struct Slugs;

    #[async_trait]
    impl EntityHooks for Slugs {
        async fn before_create(&self, _: Writing<'_>, values: &mut Values) -> Result<(), Error> {
            let title = values.get("title");
            let title = title.as_ref().and_then(|title| title.as_str()).unwrap_or_default();
            if title.contains("spam") {
                return Err(Error::from(Problem::forbidden("not here")));
            }
            let slug = title.to_lowercase().replace(' ', "-");
            values.set("slug", slug)
        }
    }

    /// A program with these hooks.
    pub fn app(config: Config) -> AppBuilder {
        App::builder(config).entities(|entities| entities.entity_hooks("posts", Slugs))
    }
}

/// The program's own write in the transaction of a record.
pub async fn transaction(app: App, identity: Identity) -> Result<(), Error> {
    let call = Call::from(identity);
    app.transaction(async move |transaction: &Transaction<'_>| {
        transaction.sql().execute("UPDATE counters SET posts = posts + 1", vec![]).await?;
        transaction.table("posts")?.create(&call, br#"{"title":"First"}"#).await
    })
    .await?;
    Ok(())
}

// oauth.md

/// Tokens of a provider.
pub async fn provider_tokens(config: Config, user: UserId) -> Done {
    let app = App::builder(config).build().await?;
    let tokens = app.auth().and_then(Auth::oauth_tokens).expect("a token_encryption_key is configured");

    let access = tokens.valid_oauth_token(&user, "google").await?; // refreshed if it expires within a minute
    let newer = tokens.refresh_oauth_token(&user, "google").await?; // always refreshed
    drop((access, newer));
    Ok(())
}

// outbox.md

/// A consumer in the program, and the program's own event.
pub async fn outbox(config: Config, db: Db, order: String, payload: Payload) -> Done {
    let consumer = Consumer::new("mailer", "order.placed", async |event: Event| -> Result<(), MailError> {
        let order = event.payload()?; // a map; numbers are f64
        send_confirmation(event.id(), &order).await
    })?
    .concurrency(4);
    let app = App::builder(config).consumer(consumer).build().await?;

    let outbox = app.outbox().expect("outbox.enabled").clone();
    db.write(async move |tx: &Tx| {
        tx.execute("INSERT INTO invoices (order_id) VALUES (?1)", params![order.clone()]).await?;
        outbox.append(tx, "order.placed", &payload).await?;
        Ok::<_, Box<dyn StdError + Send + Sync>>(())
    })
    .await?;
    Ok(())
}

// tenants.md

/// The program's own memberships.
pub fn memberships(config: Config, pool: Db) -> gatewright::AppBuilder {
    App::builder(config).entities(|entities| entities.memberships(Arc::new(OurTeams::new(pool))))
}

// Items that the pages use without defining them.

type Payload = serde_json::Map<String, serde_json::Value>;
type MailError = Box<dyn StdError + Send + Sync>;
struct OurTeams(SqlMemberships);
impl OurTeams {
    fn new(db: Db) -> Self {
        Self(SqlMemberships::new(db, Ambient::system()))
    }
}
#[async_trait]
impl Memberships for OurTeams {
    async fn is_member(&self, subject: &Subject, tenant: &TenantId) -> Result<bool, MembershipError> {
        Memberships::is_member(&self.0, subject, tenant).await
    }
}
struct OurUsers(SqlUserStore);
impl OurUsers {
    fn new(db: Db) -> Self {
        Self(SqlUserStore::new(db, Ambient::system()))
    }
}
#[async_trait]
impl UserStore for OurUsers {
    async fn find_by_email(&self, email: &EmailAddress) -> Result<UserWithHash, UserStoreError> {
        self.0.find_by_email(email).await
    }
    async fn find_by_id(&self, id: &UserId) -> Result<User, UserStoreError> {
        self.0.find_by_id(id).await
    }
    async fn create(&self, user: NewUser) -> Result<User, UserStoreError> {
        self.0.create(user).await
    }
    async fn update_roles(&self, id: &UserId, roles: &Roles) -> Result<(), UserStoreError> {
        self.0.update_roles(id, roles).await
    }
}
#[derive(serde::Deserialize)]
#[expect(dead_code, reason = "a page of the handbook shows that it is read")]
struct Task {
    title: String,
}
struct MySession {
    id: String,
}
fn my_session(_: &HeaderMap) -> impl Future<Output = Option<MySession>> + Send {
    ready(None)
}
fn send_confirmation(_: &str, _: &Payload) -> impl Future<Output = Result<(), MailError>> + Send {
    ready(Ok(()))
}
async fn open_vault() {}
async fn dashboard() {}
async fn plans() {}
fn our_plans() {}
async fn admin() {}
async fn send() {}
async fn show() {}
async fn clear() {}
