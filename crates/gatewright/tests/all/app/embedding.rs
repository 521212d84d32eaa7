use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::ConnectInfo;
use axum::routing::get;
use gatewright::auth::EmailAddress;
use gatewright::auth::password::PasswordAlgorithm;
use gatewright::auth::users::{NewUser, User, UserStore, UserStoreError, UserWithHash};
use gatewright::base::{Ambient, Roles, Secret, UserId};
use gatewright::config::Plugin;
use gatewright::entities::schema::Users;
use gatewright::entities::{Entity, Field};
use gatewright::events::bus::Interest;
use gatewright::events::outbox::Consumer;
use gatewright::http::Caller;
use gatewright::{App, Config};
use http::{Method, Request, StatusCode};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tower::ServiceExt;

/// A custom user store with only the four required operations.
#[derive(Default)]
struct OwnUsers(Mutex<HashMap<EmailAddress, UserWithHash>>);

#[async_trait]
impl UserStore for OwnUsers {
    async fn find_by_email(&self, email: &EmailAddress) -> Result<UserWithHash, UserStoreError> {
        self.0.lock().unwrap().get(email).cloned().ok_or(UserStoreError::NotFound)
    }

    async fn find_by_id(&self, id: &UserId) -> Result<User, UserStoreError> {
        let users = self.0.lock().unwrap();
        users.values().find(|user| user.user.id == *id).map(|user| user.user.clone()).ok_or(UserStoreError::NotFound)
    }

    async fn create(&self, new: NewUser) -> Result<User, UserStoreError> {
        let mut users = self.0.lock().unwrap();
        if users.contains_key(&new.email) {
            return Err(UserStoreError::EmailTaken);
        }
        let user = User::new(UserId::generate(&Ambient::system()), new.email.clone(), new.roles);
        users.insert(new.email, UserWithHash { user: user.clone(), password_hash: Some(new.password_hash) });
        Ok(user)
    }

    async fn update_roles(&self, id: &UserId, roles: &Roles) -> Result<(), UserStoreError> {
        let mut users = self.0.lock().unwrap();
        let user = users.values_mut().find(|user| user.user.id == *id).ok_or(UserStoreError::NotFound)?;
        user.user.roles = roles.clone();
        Ok(())
    }
}

#[tokio::test]
async fn a_program_adds_its_own_users_routes_and_handlers() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    config.database.url = Secret::new(format!("sqlite://{}/test.db", folder.path().display()));
    config.auth.jwt_secret = Secret::new("0123456789abcdef0123456789abcdef");
    config.auth.password = PasswordAlgorithm::Bcrypt { cost: 4 };
    // The plugins for mailed links require more capabilities than this store has.
    config.auth.plugins = Some(vec![Plugin::Core]);
    config.entities.push(Entity::new("notes").owner("user_id").field(Field::text("text").required()));

    let users = Arc::new(OwnUsers::default());
    let whoami = async |Caller(identity): Caller| match identity.principal() {
        Some(principal) => principal.email.as_deref().unwrap_or("a program").to_owned(),
        None => "nobody".to_owned(),
    };
    let theirs = users.clone();
    let app = App::builder(config)
        .auth(move |auth| auth.users(theirs))
        .entities(|entities| entities.users(Users::Elsewhere))
        .routes(Router::new().route("/whoami", get(whoami)))
        .build()
        .await
        .unwrap();
    let (heard, mut told) = mpsc::unbounded_channel();
    let _subscription = app.bus().on(Interest::all(), move |event| {
        let heard = heard.clone();
        async move { heard.send(event.table().to_owned()).unwrap() }
    });

    let router = app.router();
    let account = json!({ "email": "ada@example.com", "password": "correct horse battery" });
    let (status, answer) = call(&router, Method::POST, "/auth/register", None, Some(&account)).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    assert!(users.0.lock().unwrap().contains_key(&EmailAddress::parse("ada@example.com").unwrap()));

    let token = answer.parse::<Value>().unwrap()["token"].as_str().unwrap().to_owned();
    assert_eq!(call(&router, Method::GET, "/whoami", Some(&token), None).await.1, "ada@example.com");
    assert_eq!(call(&router, Method::GET, "/whoami", None, None).await.1, "nobody");
    let note = json!({ "text": "x" });
    assert_eq!(call(&router, Method::POST, "/notes", Some(&token), Some(&note)).await.0, StatusCode::CREATED);
    assert_eq!(told.recv().await.unwrap(), "notes");
}

#[tokio::test]
async fn a_program_that_keeps_only_the_router_still_delivers() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    config.server.dev_mode = true;
    config.database.url = Secret::new(format!("sqlite://{}/test.db", folder.path().display()));
    config.outbox.enabled = true;
    config.entities.push(Entity::new("notes").public());
    let (heard, mut told) = mpsc::unbounded_channel();
    let consumer = Consumer::new("own", "entity.created", move |_| {
        let heard = heard.clone();
        async move { heard.send(()).map_err(|_| "nobody listens") }
    })
    .unwrap();
    let app = App::builder(config).consumer(consumer).build().await.unwrap();
    let router = app.router();
    drop(app);
    assert_eq!(call(&router, Method::POST, "/notes", None, Some(&json!({}))).await.0, StatusCode::CREATED);
    told.recv().await.expect("the relay runs");
}

async fn call(
    router: &Router,
    method: Method,
    path: &str,
    token: Option<&str>,
    body: Option<&Value>,
) -> (StatusCode, String) {
    let peer = ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 40_000)));
    let request = Request::builder().method(method).uri(path).extension(peer);
    let mut request = request.header("content-type", "application/json");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
    let answer = router.clone().oneshot(request.body(body).unwrap()).await.unwrap();
    let status = answer.status();
    let body = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}
