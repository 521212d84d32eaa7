//! What refuses to start, and what does not.

use std::sync::Arc;
use std::time::Duration;

use gatewright_auth::plugins::password::PasswordPlugin;
use gatewright_auth::plugins::{Plugin, Prepared};
use gatewright_auth::session::MemorySessionStore;
use gatewright_auth::users::MemoryUserStore;
use gatewright_auth::{Auth, AuthBuilder, AuthConfig, AuthInitError, Foundation};
use gatewright_base::{Ambient, Secret};

use crate::support::{Site, config, databases};

fn in_memory(config: AuthConfig) -> AuthBuilder {
    Auth::builder(config).users(Arc::new(MemoryUserStore::new(Ambient::system()))).plugin(PasswordPlugin)
}

fn allowed(mut config: AuthConfig) -> AuthConfig {
    config.allow_in_memory_stores = true;
    config
}

async fn refusal(builder: AuthBuilder) -> String {
    builder.build().await.map(|_| ()).expect_err("it must not start").to_string()
}

#[tokio::test]
async fn production_without_a_jwt_secret_is_refused() {
    let mut config = allowed(config());
    config.jwt.secret = Secret::new("");
    assert!(refusal(in_memory(config.clone())).await.contains("JWT secret is empty"));
    config.dev_mode = true;
    in_memory(config).build().await.expect("dev mode makes one up");
}

#[tokio::test]
async fn previous_secrets_without_a_current_one_are_refused_in_dev_mode_too() {
    for dev_mode in [false, true] {
        let mut config = AuthConfig { dev_mode, ..allowed(config()) };
        config.jwt.secret = Secret::new("");
        config.jwt.previous_secrets = vec![Secret::new("a-secret-of-at-least-thirty-two-bytes")];
        assert!(refusal(in_memory(config)).await.contains("previous JWT secrets"), "{dev_mode}");
    }
}

#[tokio::test]
async fn a_short_secret_is_refused_and_not_repeated() {
    let mut config = allowed(config());
    config.jwt.secret = Secret::new("hunter2");
    let refusal = refusal(in_memory(config)).await;
    assert!(refusal.contains("7 bytes") && !refusal.contains("hunter2"), "{refusal}");
}

#[tokio::test]
async fn sessions_in_memory_need_dev_mode_or_permission() {
    for explicit in [false, true] {
        let builder = |config| {
            let builder = in_memory(config);
            if explicit { builder.sessions(Arc::new(MemorySessionStore::new(Ambient::system()))) } else { builder }
        };
        let refused = refusal(builder(config())).await;
        assert!(refused.contains("session") && refused.contains("allow_in_memory_stores"), "{refused}");
        builder(allowed(config())).build().await.expect("allowed");
        builder(AuthConfig { dev_mode: true, ..config() }).build().await.expect("dev mode");
    }
}

#[tokio::test]
async fn a_start_without_a_user_store_is_refused() {
    let refused = refusal(Auth::builder(allowed(config())).plugin(PasswordPlugin)).await;
    assert!(refused.contains("user store"), "{refused}");
}

type Change = Box<dyn Fn(&mut AuthConfig)>;

#[tokio::test]
async fn settings_out_of_range_are_refused_by_name() {
    let cases: [(&str, Change); 9] = [
        ("base_path", Box::new(|config| config.base_path = String::new())),
        ("base_path", Box::new(|config| config.base_path = "auth".into())),
        ("base_path", Box::new(|config| config.base_path = "/auth/".into())),
        ("base_path", Box::new(|config| config.base_path = "/a/{b}".into())),
        ("session_ttl", Box::new(|config| config.session_ttl = Duration::ZERO)),
        ("jwt_expiry", Box::new(|config| config.jwt.expiry = Duration::ZERO)),
        (
            "password_hash",
            Box::new(|config| config.password = gatewright_auth::password::PasswordAlgorithm::Bcrypt { cost: 3 }),
        ),
        (
            "password_hash",
            Box::new(|config| config.password = gatewright_auth::password::PasswordAlgorithm::Bcrypt { cost: 32 }),
        ),
        ("public_url", Box::new(|config| config.public_url = Some("ftp://example.com".parse().unwrap()))),
    ];
    for (name, change) in cases {
        let mut config = allowed(config());
        change(&mut config);
        let refused = refusal(in_memory(config)).await;
        assert!(refused.contains(name), "{refused}");
    }
}

#[tokio::test]
async fn a_plugin_is_registered_once() {
    let refused = refusal(in_memory(allowed(config())).plugin(PasswordPlugin)).await;
    assert!(refused.contains("core") && refused.contains("twice"), "{refused}");
}

#[tokio::test]
async fn a_plugin_with_unmet_requirements_stops_the_start() {
    struct Demanding;
    impl Plugin for Demanding {
        fn name(&self) -> &'static str {
            "demanding"
        }
        fn prepare(self: Box<Self>, foundation: &Foundation) -> Result<Prepared, AuthInitError> {
            match foundation.users.lister {
                Some(_) => Ok(Prepared::new()),
                None => Err(AuthInitError::MissingCapability {
                    plugin: "demanding",
                    store: "user",
                    capability: "a user lister",
                    remedy: "implement `user_lister`",
                }),
            }
        }
    }
    let host = crate::support::Users::new(&Ambient::system(), false);
    let builder = Auth::builder(allowed(config())).users(host).plugin(PasswordPlugin).plugin(Demanding);
    let refused = refusal(builder).await;
    assert!(refused.contains("demanding plugin needs a user store with a user lister"), "{refused}");
    in_memory(allowed(config())).plugin(Demanding).build().await.expect("this store has one");
}

#[tokio::test]
async fn an_unknown_plugin_is_reported_with_a_suggestion() {
    let error = AuthInitError::unknown_plugin("magic_lnk", ["core", "magic_link", "oauth"]).to_string();
    assert_eq!(error, "there is no plugin \"magic_lnk\"; did you mean \"magic_link\"?");
    let error = AuthInitError::unknown_plugin("zzz", ["core"]).to_string();
    assert_eq!(error, "there is no plugin \"zzz\"");
}

#[tokio::test]
async fn tables_are_created_once_or_their_absence_is_reported() {
    for db in databases().await {
        let config = AuthConfig { create_tables: false, ..config() };
        let builder = || Auth::builder(config.clone()).database(db.db.clone()).plugin(PasswordPlugin);
        let refused = refusal(builder()).await;
        for word in ["audit", "users", "sessions", "gatewright migrate"] {
            assert!(refused.contains(word), "{refused}");
        }
        Site::on(&db).await;
        builder().build().await.expect("the tables are there");
        Site::on(&db).await;
    }
}

#[tokio::test]
async fn two_replicas_may_start_together() {
    for db in databases().await {
        let start = || Auth::builder(config()).database(db.db.clone()).plugin(PasswordPlugin).build();
        let (one, two) = tokio::join!(start(), start());
        one.expect("one");
        two.expect("the other");
    }
}

#[tokio::test]
async fn the_builder_shows_no_secret_in_debug() {
    let builder = in_memory(allowed(config()));
    let shown = format!("{builder:?} {:?}", config());
    let auth = builder.build().await.unwrap();
    let shown = format!("{shown} {auth:?} {:?}", auth.accounts());
    assert!(!shown.contains("thirty-two"), "{shown}");
}
