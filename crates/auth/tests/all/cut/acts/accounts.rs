use serde_json::json;

use super::{Act, act, delete, patch, post};
use crate::cut::place::Place;
use crate::support::{Call, PASSWORD, invitation};

pub(super) fn access() -> Vec<Act> {
    vec![
        act("register", "POST /auth/register", |_, email| {
            Box::pin(async move { post("/auth/register", &json!({ "email": email, "password": PASSWORD })) })
        }),
        act("register-invited", "POST /auth/register", |place, email| {
            Box::pin(async move {
                place.site.auth.accounts().invite(invitation(email)).await.unwrap();
                let invite = place.mailed().await;
                post("/auth/register", &json!({ "email": email, "password": PASSWORD, "invite": invite }))
            })
        }),
        act("login", "POST /auth/login", |place, email| {
            Box::pin(async move {
                place.site.register(email).await;
                post("/auth/login", &json!({ "email": email, "password": PASSWORD }))
            })
        }),
        act("logout", "POST /auth/logout", |place, email| {
            Box::pin(async move { Call::post("/auth/logout").cookie_of(&place.site.signed_in(email).await) })
        }),
        act("change-password", "POST /auth/change-password", |place, email| {
            Box::pin(async move {
                let ann = place.site.signed_in(email).await;
                place.site.login(email, PASSWORD).await.expect(200);
                place.site.advance(1);
                let body = json!({ "currentPassword": PASSWORD, "password": "another horse battery" });
                post("/auth/change-password", &body).cookie_of(&ann)
            })
        }),
        act("forgot-password", "POST /auth/forgot-password", |place, email| {
            Box::pin(async move {
                place.site.register(email).await;
                post("/auth/forgot-password", &json!({ "email": email }))
            })
        }),
        act("reset-password", "POST /auth/reset-password", |place, email| {
            Box::pin(async move {
                let (ann, id) = place.passwordless(email).await;
                place.passkey(&id).await;
                place.link(&id).await;
                place.connected(&ann).await;
                post("/auth/tokens", &json!({ "name": "CI" })).cookie_of(&ann).send(&place.site).await.expect(200);
                let token = place.asked("/auth/forgot-password", email).await;
                post("/auth/reset-password", &json!({ "token": token, "password": PASSWORD }))
            })
        }),
        act("send-link", "POST /auth/magic-link/send", |_, email| {
            Box::pin(async move { post("/auth/magic-link/send", &json!({ "email": email })) })
        }),
        act("redeem-link", "POST /auth/magic-link/verify", |place, email| {
            Box::pin(async move {
                // A claim: a stranger has registered the address.
                place.site.signed_in(email).await;
                let token = place.asked("/auth/magic-link/send", email).await;
                post("/auth/magic-link/verify", &json!({ "token": token }))
            })
        }),
        act("arrive", "POST /auth/anonymous", |_, _| Box::pin(async move { post("/auth/anonymous", &json!({})) })),
        act("send-code", "POST /auth/email-code/send", |_, email| {
            Box::pin(async move { post("/auth/email-code/send", &json!({ "email": email })) })
        }),
        act("redeem-code", "POST /auth/email-code/verify", |place, email| {
            Box::pin(async move {
                // A claim: a stranger has registered the address.
                place.site.signed_in(email).await;
                let (request, code) = place.mailed_code(email).await;
                post("/auth/email-code/verify", &json!({ "email": email, "code": code, "request": request }))
            })
        }),
        act("end-session", "DELETE /auth/sessions/{id}", |place, email| {
            Box::pin(async move {
                place.site.signed_in(email).await;
                let ann = place.site.login(email, PASSWORD).await.expect(200);
                let other = place.listed(&ann, "sessions", |session| session["current"] == false).await;
                delete(&format!("/auth/sessions/{other}")).cookie_of(&ann)
            })
        }),
        act("end-sessions", "DELETE /auth/sessions", |place, email| {
            Box::pin(async move {
                place.site.signed_in(email).await;
                delete("/auth/sessions").cookie_of(&place.site.login(email, PASSWORD).await.expect(200))
            })
        }),
    ]
}

pub(super) fn addresses() -> Vec<Act> {
    vec![
        act("send-verification", "POST /auth/send-verification", |place, email| {
            Box::pin(async move {
                let ann = place.site.signed_in(email).await;
                post("/auth/send-verification", &json!({})).cookie_of(&ann)
            })
        }),
        act("verify-email", "GET /auth/verify-email", |place, email| {
            Box::pin(async move {
                let ann = place.site.signed_in(email).await;
                let ask = post("/auth/send-verification", &json!({})).cookie_of(&ann);
                ask.send(&place.site).await.expect(200);
                let browser = Call::get(&format!("/auth/verify-email?token={}", place.mailed().await));
                browser.cookie_of(&ann).header("sec-fetch-site", "same-origin")
            })
        }),
        act("confirm-email", "POST /auth/verify-email", |place, email| {
            Box::pin(async move {
                let ann = place.site.signed_in(email).await;
                let ask = post("/auth/send-verification", &json!({})).cookie_of(&ann);
                ask.send(&place.site).await.expect(200);
                // A claim: the browser has no session.
                post("/auth/verify-email", &json!({ "token": place.mailed().await }))
            })
        }),
        act("request-address", "POST /auth/change-email", |place, email| {
            Box::pin(async move { Place::change_request(email).cookie_of(&place.site.signed_in(email).await) })
        }),
        act("confirm-address", "POST /auth/change-email/confirm", |place, email| {
            Box::pin(async move {
                let ann = place.changing(email).await;
                post("/auth/change-email/confirm", &json!({ "token": place.mailed().await })).cookie_of(&ann)
            })
        }),
        act("undo-address", "POST /auth/change-email/undo", |place, email| {
            Box::pin(async move {
                let ann = place.changing(email).await;
                let confirm = post("/auth/change-email/confirm", &json!({ "token": place.mailed().await }));
                confirm.cookie_of(&ann).send(&place.site).await.expect(200);
                post("/auth/change-email/undo", &json!({ "token": place.mailed().await }))
            })
        }),
    ]
}

pub(super) fn others() -> Vec<Act> {
    vec![
        act("change-profile", "PATCH /auth/me", |place, email| {
            Box::pin(async move {
                let ann = place.site.signed_in(email).await;
                patch("/auth/me", &json!({ "profile": { "word": "hello" } })).cookie_of(&ann)
            })
        }),
        act("delete-account", "POST /auth/delete-account", |place, email| {
            Box::pin(async move {
                let ann = place.site.signed_in(email).await;
                place.connected(&ann).await;
                post("/auth/tokens", &json!({ "name": "CI" })).cookie_of(&ann).send(&place.site).await.expect(200);
                post("/auth/delete-account", &json!({ "password": PASSWORD })).cookie_of(&ann)
            })
        }),
        act("forget-device", "DELETE /auth/devices/{id}", |place, email| {
            Box::pin(async move {
                let ann = place.site.signed_in(email).await;
                let device = place.listed(&ann, "devices", |_| true).await;
                delete(&format!("/auth/devices/{device}")).cookie_of(&ann)
            })
        }),
        act("forget-devices", "DELETE /auth/devices", |place, email| {
            Box::pin(async move { delete("/auth/devices").cookie_of(&place.site.signed_in(email).await) })
        }),
        act("stream-ticket", "POST /auth/stream-ticket", |place, email| {
            Box::pin(async move { Call::post("/auth/stream-ticket").cookie_of(&place.site.signed_in(email).await) })
        }),
    ]
}
