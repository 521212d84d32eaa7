//! Every door that sets a password refuses the common ones, and what others know of the account.

use gatewright_auth::AccountError;
use gatewright_auth::password::PasswordPolicy;
use gatewright_base::Secret;
use serde_json::json;

use super::{NEW_PASSWORD, Place, plugins, with_public_url};
use crate::support::{Call, PASSWORD, databases};

const ANN: &str = "ann.longname@example.com";

/// A weak password of Ann's, its code, and a part of its message.
const WEAK: [(&str, &str, &str); 7] = [
    ("short", "too_short", "at least 8 characters"),
    ("password", "common", "most common"),
    ("PassWord1", "common", "most common"),
    (ANN, "personal", "email address"),
    ("Ann.LongName@example.com", "personal", "email address"),
    ("ann.longname", "personal", "email address"),
    ("app.example.com", "personal", "name of this site"),
];

#[tokio::test]
async fn every_door_refuses_a_weak_password_and_says_why() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let site = &place.site;
        let accounts = site.auth.accounts();
        for (weak, code, message) in WEAK {
            // Registration, by a script and by a form.
            let register = Call::post("/auth/register").json(&json!({ "email": ANN, "password": weak }));
            let problem = register.send(site).await.expect(422).json();
            assert_eq!(
                (&problem["errors"][0]["field"], &problem["errors"][0]["code"]),
                (&json!("password"), &json!(code))
            );
            assert!(problem["errors"][0]["message"].as_str().unwrap().contains(message), "{problem}");
            let form = Call::post("/auth/register").form(&[("email", ANN), ("password", weak)]);
            form.from("198.51.100.7").send(site).await.expect(422);
            // Operators.
            let made = accounts.create(ANN, Some(Secret::new(weak)), None).await;
            assert!(matches!(made, Err(AccountError::Password(_))), "{weak}");
        }
        let ann = site.signed_in(ANN).await;
        let id = accounts.find(ANN).await.unwrap().id;
        for (weak, code, message) in WEAK {
            let change =
                Call::post("/auth/change-password").json(&json!({ "currentPassword": PASSWORD, "password": weak }));
            let problem = change.cookie_of(&ann).send(site).await;
            if problem.status != 429 {
                assert_eq!(problem.expect(422).json()["errors"][0]["code"], code, "{weak}");
            }
            assert!(accounts.set_password(&id, Secret::new(weak)).await.unwrap_err().to_string().contains(message));
        }
        // A reset, whose link works until the password is a good one.
        let token = place.reset_token(ANN).await;
        for (weak, code, _) in WEAK {
            site.advance(60);
            assert_eq!(place.reset(&token, weak).await.expect(422).json()["errors"][0]["code"], code, "{weak}");
        }
        place.reset(&token, NEW_PASSWORD).await.expect(200);
        site.login(ANN, NEW_PASSWORD).await.expect(200);
    }
}

#[tokio::test]
async fn the_policy_of_passwords_is_configured_and_concerns_new_ones_alone() {
    for database in databases().await {
        let lenient = PasswordPolicy { common: false, personal: false, ..PasswordPolicy::default() };
        let strict = PasswordPolicy { min_length: 20, ..PasswordPolicy::default() };
        let complete = |config| Place::with(config, |builder| plugins(builder).database(database.db.clone()));
        let mut config = with_public_url();
        config.password_policy = lenient;
        let place = complete(config).await;
        let register = Call::post("/auth/register").json(&json!({ "email": ANN, "password": "password" }));
        register.send(&place.site).await.expect(200);
        place.site.login(ANN, "password").await.expect(200);
        let mut config = with_public_url();
        config.password_policy = strict;
        let place = complete(config).await;
        place.site.login(ANN, "password").await.expect(200);
        let body = json!({ "email": "bob@example.com", "password": "nineteen characters" });
        let problem = Call::post("/auth/register").json(&body).send(&place.site).await.expect(422).json();
        assert!(problem["errors"][0]["message"].as_str().unwrap().contains("at least 20 characters"), "{problem}");
    }
}
