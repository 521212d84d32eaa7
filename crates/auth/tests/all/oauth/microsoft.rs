//! Microsoft's tenants, from the first redirect to the session.

use gatewright_auth::plugins::accounts::AccountsPlugin;
use gatewright_auth::plugins::oauth::OAuthPlugin;
use gatewright_auth::providers::ProviderHttp;
use gatewright_base::Secret;
use gatewright_db::Db;
use serde_json::{Value, json};

use super::{Begun, STATE_SECRET, session, with_public_url};
use crate::providers::claims;
use crate::providers::microsoft::{CONTOSO, OTHER};
use crate::support::{ANN, Answer, Call, FakeProvider, SigningKey, Site, databases};

const OID: &str = "690222be-ff1a-4d56-abd1-7e4f7d38e474";

struct World {
    site: Site,
    microsoft: FakeProvider,
    key: SigningKey,
}

impl World {
    async fn on(db: &Db) -> Self {
        let (microsoft, key) = (FakeProvider::start().await, SigningKey::rsa("k"));
        let preset = microsoft.preset("microsoft", &[&key]);
        microsoft.publishes_tenant("common", &format!("{}/{{tenantid}}/v2.0", microsoft.issuer()));
        let plugin = OAuthPlugin::new(Secret::new(STATE_SECRET))
            .provider_with(move |ambient| preset.provider(ProviderHttp::new()?, ambient.clone()));
        let site =
            Site::with(with_public_url(), |builder| builder.database(db.clone()).plugin(plugin).plugin(AccountsPlugin));
        Self { site: site.await, microsoft, key }
    }

    async fn sign_in(&self, tenant: &str, changes: &Value) -> Answer {
        let begun = Begun::of(&Call::get("/auth/oauth/microsoft").send(&self.site).await.expect(303));
        let now = self.site.ambient.now().as_second();
        let mut own = json!({
            "tid": tenant, "oid": OID, "sub": "pairwise", "email": ANN, "email_verified": null, "iat": now,
            "exp": now + 300, "nonce": begun.parameter("nonce"),
        });
        own.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        self.microsoft.says("/me", json!({ "sub": own["sub"] }));
        let issuer = format!("{}/{tenant}/v2.0", self.microsoft.issuer());
        self.microsoft.gives(&self.key.token(&claims(&issuer, &own)));
        let path = format!("/auth/oauth/microsoft/callback?code=a-code&state={}", begun.state);
        Call::get(&path).cookie(&begun.cookie).send(&self.site).await
    }

    async fn user(&self, answer: &Answer) -> String {
        let cookie = session(answer).unwrap_or_else(|| panic!("no session: {answer:?}"));
        let me = Call::get("/auth/me").cookie(&cookie).send(&self.site).await.expect(200).json();
        me["user"]["id"].as_str().unwrap().to_owned()
    }
}

/// The administrator of any tenant chooses the object ids' owners and the addresses of its accounts.
#[tokio::test]
async fn another_tenants_account_is_another_user_and_takes_over_no_address() {
    for database in databases().await {
        let world = World::on(&database.db).await;
        let verified = json!({ "xms_edov": true });
        let ann = world.user(&world.sign_in(CONTOSO, &verified).await.expect(303)).await;
        // The same person, with another pairwise `sub` and without an address.
        let again = world.sign_in(CONTOSO, &json!({ "sub": "another", "email": null, "xms_edov": null })).await;
        assert_eq!(world.user(&again.expect(303)).await, ann);

        // Another tenant: the same object id, `sub` and address.
        for said in [json!({}), json!({ "email_verified": true }), json!({ "xms_edov": false })] {
            let refused = world.sign_in(OTHER, &said).await.expect(409);
            assert_eq!(
                (refused.json()["code"].as_str(), session(&refused)),
                (Some("email_unverified"), None),
                "{said}"
            );
        }
        let eve = world.sign_in(OTHER, &json!({ "email": "eve@example.com" })).await.expect(303);
        assert_ne!(world.user(&eve).await, ann);
        // Claims of Contoso in a token of the other tenant.
        let forged = world.sign_in(OTHER, &json!({ "tid": CONTOSO, "xms_edov": true })).await.expect(502);
        assert_eq!(session(&forged), None);
    }
}
