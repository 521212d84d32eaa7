//! Accounts that were imported with the password hashes of other systems.
//!
//! `vectors.json` was made by those systems' own code, as `README.md` beside it describes.

use gatewright_auth::AuthConfig;
use gatewright_auth::audit::AuditKind;
use gatewright_auth::password::PasswordAlgorithm;
use gatewright_auth::users::ListUsers;
use gatewright_base::Secret;
use gatewright_db::params;
use gatewright_db::testing::TestDb;
use serde_json::json;

use crate::support::{Site, WRONG, config, databases, unlimited};

const EVE: &str = "eve@example.com";

#[derive(serde::Deserialize)]
struct Vector {
    made_by: String,
    password: String,
    hash: String,
}

impl Vector {
    /// Whether it has the cost that its system sets by default. From the first of them on, every sign-in costs as much.
    fn is_costly(&self) -> bool {
        ["better-auth", "documented", "own cost"].iter().any(|word| self.made_by.contains(word))
    }
}

/// The costly ones come last.
fn vectors() -> Vec<Vector> {
    serde_json::from_str(include_str!("vectors.json")).unwrap()
}

fn settings(allow_weak_hashes: bool) -> AuthConfig {
    let mut config = AuthConfig { allow_weak_hashes, ..config() };
    for limit in [&mut config.limits.login, &mut config.limits.login_account] {
        limit.policy = unlimited();
    }
    config
}

async fn site(db: &TestDb, config: AuthConfig) -> Site {
    let site = Site::with(config, |builder| builder.database(db.db.clone())).await;
    if site.auth.accounts().find(EVE).await.is_err() {
        site.auth.accounts().create(EVE, Some(Secret::new("replaced by each row")), None).await.unwrap();
    }
    site
}

async fn store(db: &TestDb, hash: &str) {
    db.db.execute("UPDATE users SET password_hash = ?2 WHERE email = ?1", params![EVE, hash]).await.unwrap();
}

async fn stored(db: &TestDb) -> String {
    let row = db.db.query_opt("SELECT password_hash FROM users WHERE email = ?1", params![EVE]).await.unwrap();
    row.unwrap().get("password_hash").unwrap()
}

#[tokio::test]
async fn a_hash_of_another_system_signs_in_and_is_replaced_by_one_of_ours() {
    for db in databases().await {
        let site = site(&db, settings(true)).await;
        for vector in vectors() {
            let is_costly = vector.is_costly();
            let Vector { made_by, password, hash } = vector;
            store(&db, &hash).await;
            site.login(EVE, WRONG).await.expect(401);
            if !is_costly {
                site.login(EVE, &password.to_uppercase()).await.expect(401);
            }
            assert_eq!(stored(&db).await, hash, "{made_by}: a wrong password changes nothing");
            assert_eq!(site.login(EVE, &password).await.status, 200, "{made_by}: {password}");
            if password.len() > 72 {
                assert_eq!(stored(&db).await, hash, "{made_by}: bcrypt cannot take this password");
                continue;
            }
            let renewed = stored(&db).await;
            // bcrypt at the configured cost is current already.
            let is_current = hash.starts_with("$2") && renewed == hash;
            assert!(is_current || renewed.starts_with("$2b$04$"), "{made_by}: {renewed}");
            if is_costly {
                continue;
            }
            site.login(EVE, &password).await.expect(200);
            site.login(EVE, WRONG).await.expect(401);
            assert_eq!(stored(&db).await, renewed, "{made_by}: a current hash stays");
            // From now on, the form that every keyboard sends.
            site.login(EVE, &password.replace("e\u{301}", "\u{e9}")).await.expect(200);
        }
    }
}

#[tokio::test]
async fn each_system_keeps_its_own_normal_form_of_the_password() {
    for db in databases().await {
        let site = site(&db, settings(false)).await;
        let by = |name: &str, password: &str| {
            let mut all = vectors().into_iter();
            all.find(|vector| vector.made_by.contains(name) && vector.password == password).unwrap().hash
        };
        // Django, Keycloak, Firebase and PHP hash what was typed: nobody can know another spelling of it.
        for name in ["PBKDF2PasswordHasher", "Keycloak", "firebase-scrypt", "password_hash bcrypt", "passlib"] {
            let hash = by(name, "cafe\u{301} au lait");
            store(&db, &hash).await;
            site.login(EVE, "caf\u{e9} au lait").await.expect(401);
            site.login(EVE, "cafe\u{301} au lait").await.expect(200);
        }
        // better-auth hashes the compatibility form, in which ligatures and wide letters are plain ones.
        store(&db, &by("better-auth", "\u{fb01}ne \u{ff21}\u{a0}horse")).await;
        site.login(EVE, "fine A horse").await.expect(200);
        store(&db, &by("better-auth", "cafe\u{301} au lait")).await;
        site.login(EVE, "caf\u{e9} au lait").await.expect(200);
    }
}

#[tokio::test]
async fn weak_hashes_are_refused_unless_the_configuration_allows_them() {
    for db in databases().await {
        let site = site(&db, settings(false)).await;
        for Vector { password, hash, .. } in vectors().into_iter().filter(|vector| vector.made_by == "Python hashlib") {
            store(&db, &hash).await;
            let unknown = site.login("nobody@example.com", &password).await.expect(401);
            let refused = site.login(EVE, &password).await.expect(401);
            assert_eq!(refused.json(), unknown.json());
            let event = site.audit.events().into_iter().rfind(|event| event.kind == AuditKind::LoginFailed).unwrap();
            assert_eq!(event.meta["reason"], "unknown_hash");
            assert_eq!(stored(&db).await, hash);
            let listed = site.auth.accounts().list(ListUsers::default()).await.unwrap();
            assert!(listed.items.iter().any(|user| user.email.as_str() == EVE && user.unknown_hash));
        }
    }
}

/// The attack: a stored hash, of an import that nobody read, whose comparison takes hours or all memory.
#[tokio::test]
async fn a_stored_hash_of_an_extreme_cost_is_not_computed_and_is_named() {
    let output = "A".repeat(43);
    let extreme = [
        format!("$scrypt$ln=30,r=8,p=1$c2FsdHNhbHQ${output}"),
        format!("$scrypt$ln=16,r=8,p=4294967295$c2FsdHNhbHQ${output}"),
        format!("scrypt$1073741824$salt$8$1${output}="),
        format!("$firescrypt$ln=24,r=8,p=1$c2FsdA==${output}=$Bw==$A{output}"),
        format!("pbkdf2_sha256$4000000000$salt${output}="),
        format!("$pbkdf2-sha512$i=4000000000$c2FsdHNhbHQ${output}"),
        format!("$keycloak-pbkdf2-sha256$i=4000000000$c2FsdA==${output}="),
        "bcrypt_sha256$$2b$31$E4O9WsMk99WeGbJdGKdvjeYc7BMXM.H328SwP0h81Bn6/twd.ymOG".to_owned(),
        format!("argon2$argon2id$v=19$m=4194304,t=1000,p=1$c2FsdHNhbHQ${output}"),
    ];
    for db in databases().await {
        let site = site(&db, settings(true)).await;
        for hash in &extreme {
            store(&db, hash).await;
            site.login(EVE, "correct horse").await.expect(401);
            let event = site.audit.events().into_iter().rfind(|event| event.kind == AuditKind::LoginFailed).unwrap();
            assert_eq!(event.meta["reason"], "unknown_hash", "{hash}");
            assert!(event.user_id.is_some());
            let listed = site.auth.accounts().list(ListUsers::default()).await.unwrap();
            let text = serde_json::to_value(&listed).unwrap();
            assert_eq!(text["items"][0]["unknownHash"], json!(true), "{hash}");
            // The server starts with it.
            Site::with(settings(true), |builder| builder.database(db.db.clone())).await;
        }
    }
}

/// The attack: an empty or cut output fits every password.
#[tokio::test]
async fn a_damaged_hash_of_another_system_fits_no_password() {
    for db in databases().await {
        let site = site(&db, settings(true)).await;
        for Vector { made_by, password, hash } in vectors() {
            if password != "correct horse" {
                continue;
            }
            let end = hash.rfind(['$', ':']).unwrap() + 1;
            for cut in [end, end + 4] {
                store(&db, &hash[..cut]).await;
                assert_eq!(site.login(EVE, &password).await.status, 401, "{made_by}: {}", &hash[..cut]);
            }
        }
    }
}

/// Imported hashes must not slow down an account's own settings, and a renewed one counts as ours.
#[tokio::test]
async fn renewal_takes_the_configured_algorithm_whatever_the_old_one_was() {
    for db in databases().await {
        let password = PasswordAlgorithm::Argon2id { memory_kib: 64, iterations: 1, parallelism: 1 };
        let site = site(&db, AuthConfig { password, ..settings(true) }).await;
        for Vector { made_by, password, hash } in vectors().into_iter().filter(|vector| !vector.is_costly()) {
            store(&db, &hash).await;
            site.login(EVE, &password).await.expect(200);
            let renewed = stored(&db).await;
            assert!(renewed.starts_with("$argon2id$v=19$m=64,t=1,p=1$"), "{made_by}: {renewed}");
        }
    }
}
