//! What an operator who acts as a user may do, and what a guest may do: each route of authentication is decided here, so that a
//! new one must be.

use std::collections::BTreeMap;

use axum::Router;
use axum::extract::Path;
use axum::routing::post;
use gatewright_auth::session::{Client, Session};
use gatewright_base::UserId;
use http::Method;
use http::header::SET_COOKIE;
use serde_json::json;
use tower::ServiceExt;

use super::Place;
use super::doors::mounted;
use super::place::user;
use crate::support::{Answer, Call, Site, databases};

/// Who may use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum For {
    /// Neither: it changes a credential, consents, invites, or makes what outlives the session.
    Nobody,
    Guests,
    Operators,
    Both,
}
use For::{Both, Guests, Nobody, Operators};

const DOORS: [(&str, For); 111] = [
    ("DELETE /auth/devices", Nobody),
    ("DELETE /auth/devices/{id}", Nobody),
    ("DELETE /auth/passkeys/{id}", Nobody),
    ("DELETE /auth/sessions", Guests),
    ("DELETE /auth/sessions/{id}", Guests),
    ("DELETE /auth/tenants/{id}/invitations/{invitation}", Nobody),
    ("DELETE /auth/tenants/{id}/members/{member}", Nobody),
    ("DELETE /auth/tokens/{id}", Guests),
    ("DELETE /auth/unlink/{provider}", Nobody),
    ("GET /account", Both),
    ("GET /account/data", Nobody),
    ("GET /account/devices", Nobody),
    ("GET /account/organisations", Nobody),
    ("GET /account/profile", Nobody),
    ("GET /account/programs", Nobody),
    ("GET /account/second-factor", Nobody),
    ("GET /account/sign-in", Nobody),
    ("GET /account/tokens", Nobody),
    ("GET /auth/2fa/backup-codes", Nobody),
    ("GET /auth/accounts", Both),
    ("GET /auth/change-email/confirm", Guests),
    ("GET /auth/change-email/undo", Guests),
    ("GET /auth/devices", Both),
    ("GET /auth/export", Nobody),
    ("GET /auth/invitations/accept", Guests),
    ("GET /auth/invitations/{token}", Guests),
    ("GET /auth/language", Both),
    ("GET /auth/magic-link/verify", Guests),
    ("GET /auth/me", Both),
    ("GET /auth/oauth/{provider}", Guests),
    ("GET /auth/oauth/{provider}/callback", Guests),
    ("GET /auth/oauth/{provider}/link", Nobody),
    ("GET /auth/oauth2/authorize", Nobody),
    ("GET /auth/oauth2/end_session", Both),
    ("GET /auth/oauth2/userinfo", Both),
    ("GET /auth/passkeys", Both),
    ("GET /auth/sessions", Both),
    ("GET /auth/tenants", Both),
    ("GET /auth/tenants/accept", Nobody),
    ("GET /auth/tenants/{id}/members", Operators),
    ("GET /auth/tokens", Both),
    ("GET /auth/verify-email", Guests),
    ("GET /complete-profile", Nobody),
    ("GET /device", Nobody),
    ("GET /forgot-password", Guests),
    ("GET /login", Both),
    ("GET /register", Guests),
    ("GET /reset-password", Guests),
    ("GET /two-factor", Nobody),
    ("PATCH /auth/me", Guests),
    ("PATCH /auth/passkeys/{id}", Nobody),
    ("PATCH /auth/tenants/{id}/members/{member}", Nobody),
    ("POST /account/delete", Nobody),
    ("POST /account/devices/forget-others", Nobody),
    ("POST /account/devices/{id}/forget", Nobody),
    ("POST /account/email", Nobody),
    ("POST /account/export", Nobody),
    ("POST /account/passkeys/{id}/remove", Nobody),
    ("POST /account/password", Nobody),
    ("POST /account/profile", Nobody),
    ("POST /account/programs/{id}/end", Nobody),
    ("POST /account/providers/{provider}/unlink", Nobody),
    ("POST /account/sessions/end-others", Nobody),
    ("POST /account/sessions/{id}/end", Nobody),
    ("POST /account/tokens", Nobody),
    ("POST /account/tokens/{id}/revoke", Nobody),
    ("POST /account/two-factor/disable", Nobody),
    ("POST /auth/2fa/backup-codes", Nobody),
    ("POST /auth/2fa/challenge", Nobody),
    ("POST /auth/2fa/disable", Nobody),
    ("POST /auth/2fa/enroll", Nobody),
    ("POST /auth/2fa/verify", Nobody),
    ("POST /auth/anonymous", Guests),
    ("POST /auth/change-email", Nobody),
    ("POST /auth/change-email/confirm", Guests),
    ("POST /auth/change-email/undo", Guests),
    ("POST /auth/change-password", Nobody),
    ("POST /auth/delete-account", Guests),
    ("POST /auth/email-code/send", Guests),
    ("POST /auth/email-code/verify", Guests),
    ("POST /auth/export", Guests),
    ("POST /auth/forgot-password", Guests),
    ("POST /auth/invitations/accept", Nobody),
    ("POST /auth/login", Both),
    ("POST /auth/logout", Both),
    ("POST /auth/magic-link/send", Guests),
    ("POST /auth/magic-link/verify", Guests),
    ("POST /auth/oauth/{provider}/callback", Guests),
    ("POST /auth/oauth/{provider}/link", Nobody),
    ("POST /auth/oauth2/authorize", Nobody),
    ("POST /auth/oauth2/device_authorization", Nobody),
    ("POST /auth/oauth2/end_session", Both),
    ("POST /auth/oauth2/introspect", Nobody),
    ("POST /auth/oauth2/register", Nobody),
    ("POST /auth/oauth2/revoke", Nobody),
    ("POST /auth/oauth2/token", Nobody),
    ("POST /auth/oauth2/userinfo", Both),
    ("POST /auth/passkeys/login", Guests),
    ("POST /auth/passkeys/login/options", Guests),
    ("POST /auth/passkeys/register", Nobody),
    ("POST /auth/passkeys/register/options", Nobody),
    ("POST /auth/register", Guests),
    ("POST /auth/reset-password", Guests),
    ("POST /auth/send-verification", Nobody),
    ("POST /auth/stream-ticket", Both),
    ("POST /auth/tenants", Nobody),
    ("POST /auth/tenants/{id}/members", Nobody),
    ("POST /auth/tokens", Guests),
    ("POST /auth/verify-email", Guests),
    ("POST /complete-profile", Nobody),
    ("POST /device", Nobody),
];

/// The test's own routes, which are none of authentication.
const OF_THE_SITE: [&str; 4] = ["GET /whoami", "GET /session", "GET /pending", "GET /any"];

#[tokio::test]
async fn restricted_sessions_may_use_the_listed_routes_alone() {
    let listed: BTreeMap<&str, For> = DOORS.into_iter().collect();
    assert_eq!(listed.len(), DOORS.len(), "each is listed once");
    for db in databases().await {
        let place = Place::on(&db).await;
        let site = &place.site;
        let ann = user(&site.register("ann@example.com").await);
        let mut wrong = Vec::new();
        let doors = mounted(site).await;
        let ghosts: Vec<_> = listed.keys().filter(|door| !doors.contains(**door)).collect();
        assert!(ghosts.is_empty(), "these are not mounted: {ghosts:?}");
        for door in doors.iter().filter(|door| !OF_THE_SITE.contains(&door.as_str())) {
            let operator = acting(site, &ann).await;
            let guest = Call::post("/auth/anonymous").json(&json!({})).send(site).await.expect(200).cookie().unwrap();
            let found = match (is_open(site, door, &operator).await, is_open(site, door, &guest).await) {
                (true, true) => Both,
                (true, false) => Operators,
                (false, true) => Guests,
                (false, false) => Nobody,
            };
            if listed.get(door.as_str()) != Some(&found) {
                wrong.push(format!("(\"{door}\", {found:?}),"));
            }
        }
        assert!(wrong.is_empty(), "decide these; now they are:\n{}", wrong.join("\n"));
    }
}

/// Whether the session behind this cookie may use a route.
async fn is_open(site: &Site, door: &str, cookie: &str) -> bool {
    let (method, path) = door.split_once(' ').unwrap();
    let call = Call::new(Method::from_bytes(method.as_bytes()).unwrap(), &path.replace(['{', '}'], ""));
    let answer = call.cookie(cookie).json(&json!({})).send(site).await;
    let refused = ["\"impersonated\"", "\"guest\"", "an operator who acts as a user", "a guest cannot do this"];
    answer.status != 403 || !refused.iter().any(|text| answer.body.contains(text))
}

#[tokio::test]
async fn a_refusal_changes_nothing_and_shows_a_page_to_a_browser() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let site = &place.site;
        let ann = site.register("ann@example.com").await;
        let cookie = acting(site, &user(&ann)).await;
        let delete = Call::post("/auth/delete-account").json(&json!({ "password": crate::support::PASSWORD }));
        delete.cookie(&cookie).send(site).await.expect(403);
        let page = Call::get("/oauth2/authorize").header("accept", "text/html");
        page.cookie(&cookie).send(site).await.expect(404);
        let page = Call::get("/auth/oauth2/authorize?client_id=x").header("accept", "text/html").cookie(&cookie);
        let page = page.send(site).await.expect(403);
        assert!(page.body.contains("an operator who acts as a user"), "{}", page.body);
        site.login("ann@example.com", crate::support::PASSWORD).await.expect(200);
        // Signing somebody in ends it.
        let login = json!({ "email": "ann@example.com", "password": crate::support::PASSWORD });
        Call::post("/auth/login").json(&login).cookie(&cookie).send(site).await.expect(200);
        Call::get("/auth/me").cookie(&cookie).send(site).await.expect(401);
    }
}

/// The cookie of a session in which an operator acts as this user.
async fn acting(site: &Site, id: &UserId) -> String {
    let email = format!("operator-{}@example.com", site.ambient.uuid());
    let operator = site.signed_in(&email).await;
    let account = user(&operator);
    site.auth.accounts().set_roles(&account, &["operator"].into_iter().collect()).await.unwrap();
    let accounts = site.auth.accounts();
    let act = async move |Path(id): Path<String>, session: Session| {
        let id = UserId::parse(&id).unwrap();
        let made = accounts.impersonate(&session, &id, "a ticket", &Client::default()).await.unwrap();
        [(SET_COOKIE, made.cookie)]
    };
    let router = Router::new().route("/act/{id}", post(act)).layer(site.auth.middleware());
    let request = http::Request::post(format!("/act/{id}")).header("cookie", operator.cookie().unwrap());
    let response = router.oneshot(request.body(axum::body::Body::empty()).unwrap()).await.unwrap();
    let (parts, _) = response.into_parts();
    Answer { status: parts.status, headers: parts.headers, body: String::new() }.expect(200).cookie().unwrap()
}
