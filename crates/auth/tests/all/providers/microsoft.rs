//! Microsoft, whose tenants are issuers.

use gatewright_auth::providers::oidc::{InvalidIdToken, MicrosoftTenant};
use gatewright_auth::providers::{PresetAccount, Provider, ProviderError};
use serde_json::{Value, json};
use std::sync::Arc;

use super::presets::made;
use super::{authorize, claims, identify, identify_from};
use crate::support::{FakeProvider, SigningKey};

pub(crate) const CONTOSO: &str = "8eaef023-2b34-4da1-9baa-8bc8c9d6a490";
pub(crate) const OTHER: &str = "00000000-1111-4222-8333-444444444444";
const PERSONAL: &str = "9188040d-6c67-4c5b-b112-36a304b66dad";
const OID: &str = "690222be-ff1a-4d56-abd1-7e4f7d38e474";

fn of_tenant(provider: &FakeProvider, tenant: &str) -> Arc<dyn Provider> {
    let mut config = provider.preset("microsoft", &[]);
    let PresetAccount::Microsoft(_, allowed) = &mut config.account else { panic!("Microsoft's account") };
    *allowed = MicrosoftTenant::parse(tenant).unwrap();
    let named = match tenant {
        "common" | "organizations" => "{tenantid}",
        "consumers" => PERSONAL,
        id => id,
    };
    provider.publishes_tenant(tenant, &issuer(provider, named));
    made(config)
}

fn issuer(provider: &FakeProvider, tenant: &str) -> String {
    format!("{}/{tenant}/v2.0", provider.issuer())
}

/// The token of a user of this tenant.
fn token(provider: &FakeProvider, tenant: &str, changes: &Value) -> Value {
    let mut own = json!({
        "tid": tenant, "oid": OID, "sub": "AAAAAAAAAAAAAAAAAAAAAIkzqFVrSaSaFHy782bbtaQ", "ver": "2.0",
        "preferred_username": "ann@contoso.example", "email_verified": null, "aio": "x", "rh": "y",
    });
    own.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    claims(&issuer(provider, tenant), &own)
}

#[tokio::test]
async fn microsofts_tenants_sign_in_by_the_word_that_names_them() {
    let (provider, key) = (FakeProvider::start().await, SigningKey::rsa("k"));
    for (word, contoso, other, personal) in [
        ("common", true, true, true),
        ("organizations", true, true, false),
        ("consumers", false, false, true),
        (CONTOSO, true, false, false),
    ] {
        let microsoft = of_tenant(&provider, word);
        provider.publishes(&[&key]);
        authorize(&*microsoft).await.unwrap();
        for (tenant, allowed) in [(CONTOSO, contoso), (OTHER, other), (PERSONAL, personal)] {
            provider.gives(&key.token(&token(&provider, tenant, &json!({}))));
            let found = identify(&*microsoft).await;
            if allowed {
                assert_eq!(found.unwrap().identity.provider_id, format!("{tenant}.{OID}"), "{word}");
            } else {
                assert_eq!(found.unwrap_err(), ProviderError::IdToken(InvalidIdToken::Issuer), "{word} {tenant}");
            }
        }
    }
}

#[tokio::test]
async fn a_token_of_another_tenant_or_of_none_is_refused() {
    let (provider, key) = (FakeProvider::start().await, SigningKey::rsa("k"));
    let microsoft = of_tenant(&provider, "common");
    provider.publishes(&[&key]);
    for (changes, refusal) in [
        // The issuer is another tenant than the one of the claims.
        (json!({ "tid": OTHER }), InvalidIdToken::Issuer),
        (json!({ "iss": issuer(&provider, OTHER) }), InvalidIdToken::Issuer),
        (json!({ "iss": issuer(&provider, "{tenantid}") }), InvalidIdToken::Issuer),
        (json!({ "tid": null }), InvalidIdToken::Issuer),
        (json!({ "tid": "common" }), InvalidIdToken::Issuer),
        (json!({ "oid": null }), InvalidIdToken::Subject),
        (json!({ "oid": "" }), InvalidIdToken::Subject),
        (json!({ "aud": "another" }), InvalidIdToken::Audience),
        (json!({ "nonce": "another" }), InvalidIdToken::Nonce),
        (json!({ "nonce": null }), InvalidIdToken::Nonce),
        (json!({ "exp": 1 }), InvalidIdToken::Expired),
    ] {
        provider.gives(&key.token(&token(&provider, CONTOSO, &changes)));
        assert_eq!(identify(&*microsoft).await.unwrap_err(), ProviderError::IdToken(refusal), "{changes}");
    }
    // A key that is published for the issuer of personal accounts signs for no tenant.
    let mut jwk = key.jwk();
    for (published, accepted) in
        [(PERSONAL, false), (CONTOSO, true), ("{tenantid}", true), (OTHER, false), (PERSONAL, false)]
    {
        jwk["issuer"] = json!(issuer(&provider, published));
        let microsoft = of_tenant(&provider, "common");
        provider.says("/jwks", json!({ "keys": [jwk] }));
        provider.gives(&key.token(&token(&provider, CONTOSO, &json!({}))));
        assert_eq!(identify(&*microsoft).await.is_ok(), accepted, "{published}");
    }
    // The callback names another tenant than the token (RFC 9207).
    jwk.as_object_mut().unwrap().remove("issuer");
    let microsoft = of_tenant(&provider, "common");
    provider.says("/jwks", json!({ "keys": [jwk] }));
    for (named, accepted) in [(CONTOSO, true), (OTHER, false), ("{tenantid}", false), ("common", false)] {
        let found = identify_from(&*microsoft, Some(&issuer(&provider, named))).await;
        assert_eq!(found.map(|_| ()), if accepted { Ok(()) } else { Err(ProviderError::OtherIssuer) }, "{named}");
    }
}

/// The administrator of any tenant can write any address into an account (nOAuth).
#[tokio::test]
async fn microsofts_address_is_verified_only_by_xms_edov() {
    let (provider, key) = (FakeProvider::start().await, SigningKey::rsa("k"));
    let microsoft = of_tenant(&provider, "common");
    provider.publishes(&[&key]);
    for (said, verified) in [
        (json!({}), false),
        (json!({ "email_verified": true }), false),
        (json!({ "verified_primary_email": ["ann@example.com"] }), false),
        (json!({ "xms_edov": false }), false),
        (json!({ "xms_edov": "0" }), false),
        (json!({ "xms_edov": true }), true),
        (json!({ "xms_edov": "true" }), true),
        (json!({ "xms_edov": "1" }), true),
        (json!({ "xms_edov": 1 }), true),
    ] {
        for tenant in [CONTOSO, PERSONAL] {
            provider.gives(&key.token(&token(&provider, tenant, &said)));
            let found = identify(&*microsoft).await.unwrap().identity;
            assert_eq!((found.email.as_deref(), found.email_verified), (Some("ann@example.com"), verified), "{said}");
        }
    }
    // An address of userinfo is never verified, and one that looks like an address is none.
    provider.says(
        "/me",
        json!({ "sub": "AAAAAAAAAAAAAAAAAAAAAIkzqFVrSaSaFHy782bbtaQ", "email": "ann@example.com", "email_verified": true }),
    );
    provider.gives(&key.token(&token(&provider, CONTOSO, &json!({ "email": null, "xms_edov": true }))));
    let found = identify(&*microsoft).await.unwrap().identity;
    assert_eq!((found.email.as_deref(), found.email_verified), (Some("ann@example.com"), false));
}

#[tokio::test]
async fn metadata_of_another_issuer_is_refused() {
    let provider = FakeProvider::start().await;
    for (word, named) in [("common", CONTOSO), (CONTOSO, "{tenantid}"), (CONTOSO, OTHER), ("consumers", "{tenantid}")] {
        let microsoft = of_tenant(&provider, word);
        provider.publishes_tenant(word, &issuer(&provider, named));
        let refused = authorize(&*microsoft).await.unwrap_err();
        assert!(matches!(refused, ProviderError::Misconfigured(_)), "{word} {named}");
    }
}
