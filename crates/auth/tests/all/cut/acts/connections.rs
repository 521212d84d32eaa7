use serde_json::json;

use super::super::place::{Place, user};
use super::{Act, act, delete, patch, post};
use crate::support::Call;

pub(super) fn tenants() -> Vec<Act> {
    vec![
        act("create-tenant", "POST /auth/tenants", |place, email| {
            Box::pin(async move {
                let ann = place.site.signed_in(email).await;
                post("/auth/tenants", &json!({ "name": "Acme" })).cookie_of(&ann)
            })
        }),
        act("invite", "POST /auth/tenants/{id}/members", |place, email| {
            Box::pin(async move {
                let ann = place.site.signed_in(email).await;
                let path = format!("/auth/tenants/{}/members", place.tenant(&ann).await);
                post(&path, &json!({ "email": format!("guest-{email}") })).cookie_of(&ann)
            })
        }),
        act("set-roles", "PATCH /auth/tenants/{id}/members/{member}", |place, email| {
            Box::pin(async move {
                let (owner, path) = place.member(email).await;
                patch(&path, &json!({ "roles": ["admin"] })).cookie_of(&owner)
            })
        }),
        act("remove-member", "DELETE /auth/tenants/{id}/members/{member}", |place, email| {
            Box::pin(async move {
                let (owner, path) = place.member(email).await;
                delete(&path).cookie_of(&owner)
            })
        }),
        act("withdraw-invitation", "DELETE /auth/tenants/{id}/invitations/{invitation}", |place, email| {
            Box::pin(async move {
                let ann = place.site.signed_in(email).await;
                let (path, sent) = place.invited(&ann, &format!("guest-{email}")).await;
                let id = sent.json()["id"].as_str().unwrap().to_owned();
                delete(&format!("{path}/invitations/{id}")).cookie_of(&ann)
            })
        }),
        act("accept-invitation", "POST /auth/invitations/accept", |place, email| {
            Box::pin(async move {
                let owner = place.site.signed_in(&format!("owner-{email}")).await;
                let ann = place.site.signed_in(email).await;
                place.invited(&owner, email).await;
                post("/auth/invitations/accept", &json!({ "invite": place.mailed().await })).cookie_of(&ann)
            })
        }),
    ]
}

pub(super) fn programs() -> Vec<Act> {
    vec![
        act("consent", "POST /auth/oauth2/authorize", |place, email| {
            Box::pin(async move {
                let ann = place.site.signed_in(email).await;
                place.consenting(&ann, &place.program().await, &[]).await
            })
        }),
        act("authorize-again", "GET /auth/oauth2/authorize", |place, email| {
            Box::pin(async move {
                let ann = place.site.signed_in(email).await;
                let (program, _) = place.connected(&ann).await;
                Call::get(&Place::authorize(&program)).cookie_of(&ann)
            })
        }),
        act("begin-device", "POST /auth/oauth2/device_authorization", |place, _| {
            Box::pin(async move { Place::device_request(&place.program().await) })
        }),
        act("allow-device", "POST /device", |place, email| {
            Box::pin(async move {
                let ann = place.site.signed_in(email).await;
                place.allowing(&ann, &place.program().await).await
            })
        }),
        act("exchange-code", "POST /auth/oauth2/token", |place, email| {
            Box::pin(async move {
                let ann = place.site.signed_in(email).await;
                place.exchanging(&ann, &place.program().await).await
            })
        }),
        act("refresh", "POST /auth/oauth2/token", |place, email| {
            Box::pin(async move {
                let (program, token) = place.connected(&place.site.signed_in(email).await).await;
                let fields = [("grant_type", "refresh_token"), ("client_id", &*program), ("refresh_token", &*token)];
                Call::post("/auth/oauth2/token").form(&fields)
            })
        }),
        act("end-grant", "POST /auth/oauth2/revoke", |place, email| {
            Box::pin(async move {
                let (program, token) = place.connected(&place.site.signed_in(email).await).await;
                Call::post("/auth/oauth2/revoke").form(&[("client_id", &*program), ("token", &*token)])
            })
        }),
        act("register-program", "POST /auth/oauth2/register", |_, _| {
            Box::pin(async move {
                let body = json!({ "client_name": "Reader", "redirect_uris": ["https://reader.example/callback"] });
                post("/auth/oauth2/register", &body)
            })
        }),
        act("sign-out-for-program", "GET /auth/oauth2/end_session", |place, email| {
            Box::pin(async move { place.signing_out(&place.site.signed_in(email).await).await })
        }),
        act("confirm-sign-out", "POST /auth/oauth2/end_session", |place, email| {
            Box::pin(async move { place.confirming(&place.site.signed_in(email).await).await })
        }),
        act("end-program", "POST /account/programs/{id}/end", |place, email| {
            Box::pin(async move {
                let ann = place.site.signed_in(email).await;
                place.connected(&ann).await;
                let programs = place.site.auth.oauth2_clients().unwrap().connections(&user(&ann)).await.unwrap();
                Call::post(&format!("/account/programs/{}/end", programs[0].id)).form(&[]).cookie_of(&ann)
            })
        }),
    ]
}
