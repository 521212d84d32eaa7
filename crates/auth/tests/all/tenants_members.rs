//! How many lookups a page of a tenant's members costs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use gatewright_auth::AuthConfig;
use gatewright_auth::plugins::tenants::{SqlMemberships, TenantsPlugin};
use gatewright_base::{ServiceId, Subject, TenantId, UserId};
use gatewright_tenancy::{COMPONENT, STEPS};
use serde_json::{Value, json};

use crate::support::{ANN, Call, Site, Users, config, databases};

const BOB: &str = "bob@example.com";
const EVE: &str = "eve@example.com";

/// A page has up to 200 members, and every request waits for the lookups of accounts.
#[tokio::test]
async fn the_accounts_of_a_page_of_members_are_looked_up_together() {
    for db in databases().await {
        gatewright_db::migrate(&db.db, COMPONENT, STEPS).await.unwrap();
        let mut made = None;
        let config = AuthConfig { public_url: Some("https://app.example.com".parse().unwrap()), ..config() };
        let site = Site::with_ambient(config, |builder, ambient| {
            let users = Users::new(ambient, true);
            let store = Arc::new(SqlMemberships::new(db.db.clone(), ambient.clone()));
            made = Some((users.clone(), store.clone()));
            builder.database(db.db.clone()).users(users).plugin(TenantsPlugin::new(store))
        })
        .await;
        let ((users, store), ann) = (made.unwrap(), site.signed_in(ANN).await);
        let body = json!({ "name": "Acme" });
        let tenant = Call::post("/auth/tenants").json(&body).cookie_of(&ann).send(&site).await.expect(201).json();
        let tenant = TenantId::parse(tenant["id"].as_str().unwrap()).unwrap();
        let listed = async || {
            let before = users.calls.load(Ordering::SeqCst);
            let call = Call::get(&format!("/auth/tenants/{tenant}/members")).cookie_of(&ann);
            let answer = call.send(&site).await.expect(200).json();
            let email = |member: &Value| member["email"].as_str().unwrap_or("none").to_owned();
            let emails: BTreeSet<_> = answer["members"].as_array().unwrap().iter().map(email).collect();
            (emails, users.calls.load(Ordering::SeqCst) - before)
        };
        let (emails, alone) = listed().await;
        assert_eq!(emails, BTreeSet::from([ANN.to_owned()]), "{}", db.name);
        for email in [BOB, EVE] {
            let registered = site.register(email).await.json();
            let member = UserId::parse(registered["user"]["id"].as_str().unwrap()).unwrap();
            store.add(&tenant, &Subject::User(member)).await.unwrap();
        }
        // An account that is gone, and a program.
        store.add(&tenant, &Subject::User(UserId::parse("gone").unwrap())).await.unwrap();
        store.add(&tenant, &Subject::Service(ServiceId::parse("robot").unwrap())).await.unwrap();
        let (emails, together) = listed().await;
        assert_eq!(emails, [ANN, BOB, EVE, "none"].map(str::to_owned).into(), "{}", db.name);
        assert_eq!(together, alone, "{}", db.name);
    }
}
