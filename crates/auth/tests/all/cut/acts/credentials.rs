use serde_json::json;

use super::{Act, act, delete, patch, post};
use crate::passkeys::Authenticator;
use crate::support::{Call, PASSWORD};
use crate::two_factor;

pub(super) fn factors() -> Vec<Act> {
    vec![
        act("begin-factor", "POST /auth/2fa/enroll", |place, email| {
            Box::pin(async move { post("/auth/2fa/enroll", &json!({})).cookie_of(&place.site.signed_in(email).await) })
        }),
        act("enable-factor", "POST /auth/2fa/verify", |place, email| {
            Box::pin(async move {
                let ann = place.site.signed_in(email).await;
                let app = two_factor::begin(&place.site, &ann).await;
                post("/auth/2fa/verify", &json!({ "code": app.code(&place.site) })).cookie_of(&ann)
            })
        }),
        act("prove-factor", "POST /auth/2fa/challenge", |place, email| {
            Box::pin(async move {
                let ann = two_factor::enroll(&place.site, place.site.signed_in(email).await).await;
                let pending = place.site.login(email, PASSWORD).await.expect(200);
                post("/auth/2fa/challenge", &json!({ "code": ann.app.code(&place.site) })).cookie_of(&pending)
            })
        }),
        act("disable-factor", "POST /auth/2fa/disable", |place, email| {
            Box::pin(async move {
                let ann = two_factor::enroll(&place.site, place.site.signed_in(email).await).await;
                post("/auth/2fa/disable", &json!({ "code": ann.app.code(&place.site) })).cookie_of(&ann.session)
            })
        }),
        act("replace-backup-codes", "GET /auth/2fa/backup-codes", |place, email| {
            Box::pin(async move {
                let ann = two_factor::enroll(&place.site, place.site.signed_in(email).await).await;
                Call::get("/auth/2fa/backup-codes").cookie_of(&ann.session)
            })
        }),
        act("post-backup-codes", "POST /auth/2fa/backup-codes", |place, email| {
            Box::pin(async move {
                let ann = two_factor::enroll(&place.site, place.site.signed_in(email).await).await;
                Call::post("/auth/2fa/backup-codes").cookie_of(&ann.session)
            })
        }),
    ]
}

pub(super) fn passkeys() -> Vec<Act> {
    vec![
        act("add-passkey", "POST /auth/passkeys/register", |place, email| {
            Box::pin(async move {
                let ann = place.site.signed_in(email).await;
                place.adding(&ann, &mut Authenticator::new(email), None).await
            })
        }),
        act("sign-in-by-passkey", "POST /auth/passkeys/login", |place, email| {
            Box::pin(async move {
                let (ann, mut authenticator) = (place.site.signed_in(email).await, Authenticator::new(email));
                place.adding(&ann, &mut authenticator, None).await.send(&place.site).await.expect(201);
                let options = post("/auth/passkeys/login/options", &json!({})).send(&place.site).await.expect(200);
                authenticator.counter += 1;
                let credential = authenticator.get(&options.json());
                post("/auth/passkeys/login", &credential).cookie_of(&options)
            })
        }),
        act("rename-passkey", "PATCH /auth/passkeys/{id}", |place, email| {
            Box::pin(async move {
                let (ann, id) = place.passwordless(email).await;
                let passkey = place.passkey(&id).await;
                patch(&format!("/auth/passkeys/{passkey}"), &json!({ "name": "Key" })).cookie_of(&ann)
            })
        }),
        act("remove-passkey", "DELETE /auth/passkeys/{id}", |place, email| {
            Box::pin(async move {
                let (ann, id) = place.passwordless(email).await;
                place.passkey(&id).await;
                let passkey = place.passkey(&id).await;
                delete(&format!("/auth/passkeys/{passkey}")).cookie_of(&ann)
            })
        }),
    ]
}

pub(super) fn providers() -> Vec<Act> {
    const CALLBACK: &str = "GET /auth/oauth/{provider}/callback";
    vec![
        act("sign-in-by-provider", CALLBACK, |place, email| {
            Box::pin(async move { place.returning("/auth/oauth/alpha", None, email).await })
        }),
        act("bind-provider", CALLBACK, |place, email| {
            Box::pin(async move {
                place.passwordless(email).await;
                place.returning("/auth/oauth/alpha", None, email).await
            })
        }),
        act("link-provider", CALLBACK, |place, email| {
            Box::pin(async move {
                let ann = place.site.signed_in(email).await;
                place.returning("/auth/oauth/alpha/link", Some(&ann), email).await
            })
        }),
        act("unlink", "DELETE /auth/unlink/{provider}", |place, email| {
            Box::pin(async move {
                let ann = place.site.signed_in(email).await;
                place.returning("/auth/oauth/alpha/link", Some(&ann), email).await.send(&place.site).await.expect(303);
                delete("/auth/unlink/alpha").cookie_of(&ann)
            })
        }),
    ]
}

pub(super) fn tokens() -> Vec<Act> {
    vec![
        act("create-token", "POST /auth/tokens", |place, email| {
            Box::pin(async move {
                let ann = place.site.signed_in(email).await;
                post("/auth/tokens", &json!({ "name": "CI", "scopes": ["posts:read"] })).cookie_of(&ann)
            })
        }),
        act("revoke-token", "DELETE /auth/tokens/{id}", |place, email| {
            Box::pin(async move {
                let ann = place.site.signed_in(email).await;
                post("/auth/tokens", &json!({ "name": "CI" })).cookie_of(&ann).send(&place.site).await.expect(200);
                delete(&format!("/auth/tokens/{}", place.listed(&ann, "tokens", |_| true).await)).cookie_of(&ann)
            })
        }),
    ]
}
