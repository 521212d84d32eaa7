use gatewright_auth::plugins::invitations::NewInvitation;
use gatewright_auth::{AccountError, Registration};
use gatewright_base::{Secret, TenantId};
use serde_json::json;

use super::{Place, editor, into_acme};
use crate::support::{ANN, Call, PASSWORD, databases, invitation};

fn editor_in_acme(email: &str) -> NewInvitation {
    into_acme(editor(email), &["member"])
}

#[tokio::test]
async fn an_invited_address_registers_with_roles_and_membership_and_a_proven_mailbox() {
    for db in databases().await {
        for registration in [Registration::Open, Registration::Invite] {
            let place = Place::on(&db, registration).await;
            let address = format!("{registration:?}@example.com").to_lowercase();
            let token = place.invite_to(editor_in_acme(&address)).await;
            let page = Call::get(&format!("/register?invite={token}")).send(&place.site).await.expect(200);
            assert!(page.body.contains(&format!("value=\"{token}\"")) && page.body.contains(&address), "{}", page.body);
            place.register(&address, Some(&token)).await.expect(200);
            let user = place.site.auth.accounts().find(&address).await.unwrap();
            assert!(user.email_verified && user.roles.contains("editor") && !user.roles.contains("user"));
            let joined = (user.id.as_str().to_owned(), "acme".to_owned(), "[\"member\"]".to_owned());
            assert_eq!(place.joined().await.last(), Some(&joined));
            let names: Vec<_> = place.site.audited().iter().map(|kind| kind.name()).collect();
            assert_eq!(names, ["invitation.created", "invitation.accepted", "register.succeeded"]);
            // A form with the same token is refused: it was used.
            let again = Call::get(&format!("/register?invite={token}")).send(&place.site).await.expect(401);
            assert!(again.body.contains("/login"), "{}", again.body);
        }
    }
}

#[tokio::test]
async fn an_account_gains_roles_and_membership_once_it_has_accepted() {
    for db in databases().await {
        let place = Place::on(&db, Registration::Open).await;
        place.site.register_ann().await;
        let token = place.invite_to(editor_in_acme(ANN)).await;
        let has_editor = async || place.site.auth.accounts().find(ANN).await.unwrap().roles.contains("editor");
        let page = Call::get(&format!("/register?invite={token}")).send(&place.site).await.expect(200);
        assert!(page.body.contains("Sign in") && !page.body.contains("name=\"password\""), "{}", page.body);
        let session = place.site.login_ann().await;
        assert!(!has_editor().await && place.joined().await.is_empty());
        let page =
            Call::get(&format!("/register?invite={token}")).cookie_of(&session).send(&place.site).await.expect(200);
        assert!(page.body.contains("action=\"/auth/invitations/accept\""), "{}", page.body);
        assert!(!has_editor().await);
        let accepted = place.accept(&session, &token).await.expect(200).json();
        assert_eq!(accepted, json!({ "accepted": true, "tenant": "acme" }));
        let user = place.site.auth.accounts().find(ANN).await.unwrap();
        assert!(user.roles.contains("editor") && user.roles.contains("user") && user.email_verified);
        assert!(user.password_set, "who holds mailbox and session keeps the account");
        assert_eq!(place.joined().await.len(), 1);
        place.accept(&session, &token).await.expect(401);
    }
}

#[tokio::test]
async fn a_form_registers_and_signs_in() {
    for db in databases().await {
        let place = Place::on(&db, Registration::Invite).await;
        let token = place.invite(ANN).await;
        // A password that violates a rule does not spend the invitation, and the form keeps its token.
        let form = [("email", ANN), ("password", "short"), ("invite", &token)];
        let again = Call::post("/auth/register").form(&form).send(&place.site).await.expect(422);
        assert!(again.body.contains(&token), "{}", again.body);
        assert!(!again.body.contains("acme"), "{}", again.body);
        let form = [("email", ANN), ("password", PASSWORD), ("invite", &token), ("next", "/welcome")];
        let answer = Call::post("/auth/register").form(&form).send(&place.site).await.expect(303);
        assert_eq!(answer.location(), Some("/welcome"));
        place.site.me(&answer).await.expect(200);
    }
}

#[tokio::test]
async fn a_form_that_is_shown_again_names_the_tenant() {
    for db in databases().await {
        let place = Place::on(&db, Registration::Invite).await;
        let token = place.invite_to(editor_in_acme(ANN)).await;
        let first = Call::get(&format!("/register?invite={token}")).send(&place.site).await.expect(200);
        assert!(first.body.contains("acme"), "{}", first.body);
        for (email, password, status) in [(ANN, "short", 422), ("eve@example.com", PASSWORD, 403)] {
            let form = [("email", email), ("password", password), ("invite", &*token)];
            let again = Call::post("/auth/register").form(&form).send(&place.site).await.expect(status);
            assert!(again.body.contains("acme") && again.body.contains(&token), "{}", again.body);
        }
        // A visitor without an invitation does not learn the name.
        let guess = "A".repeat(43);
        let form = [("email", ANN), ("password", "short"), ("invite", &*guess)];
        let again = Call::post("/auth/register").form(&form).send(&place.site).await.expect(422);
        assert!(!again.body.contains("acme"), "{}", again.body);
    }
}

#[tokio::test]
async fn invitations_are_listed_withdrawn_replaced_and_swept() {
    for db in databases().await {
        let place = Place::on(&db, Registration::Invite).await;
        let accounts = place.site.auth.accounts();
        let first = place.invite(ANN).await;
        let second = place.invite(ANN).await;
        place.register(ANN, Some(&first)).await.expect(403);
        assert_eq!(accounts.invitations(None).await.unwrap().len(), 1);
        place.invite_to(editor_in_acme(ANN)).await;
        let acme = TenantId::parse("acme").unwrap();
        let listed = accounts.invitations(Some(&acme)).await.unwrap();
        assert_eq!((listed.len(), accounts.invitations(None).await.unwrap().len()), (1, 2));
        let other = TenantId::parse("other").unwrap();
        assert!(!accounts.withdraw_invitation(&listed[0].id, Some(&other)).await.unwrap());
        assert!(accounts.withdraw_invitation(&listed[0].id, Some(&acme)).await.unwrap());
        place.site.advance(7 * 24 * 3600 - 1);
        assert_eq!(accounts.invitations(None).await.unwrap().len(), 1);
        place.site.advance(1);
        assert!(accounts.invitations(None).await.unwrap().is_empty());
        place.register(ANN, Some(&second)).await.expect(403);
        // By then, claims on invitations that expired meanwhile are over too.
        assert_eq!((place.site.auth.sweep().await, place.open().await), (0, 1));
        place.site.advance(60);
        assert_eq!((place.site.auth.sweep().await, place.open().await), (1, 0));
    }
}

#[tokio::test]
async fn with_closed_registration_only_existing_accounts_are_invited() {
    for db in databases().await {
        let place = Place::on(&db, Registration::Closed).await;
        let accounts = place.site.auth.accounts();
        let refused = accounts.invite(invitation(ANN)).await;
        assert!(matches!(refused, Err(AccountError::RegistrationClosed)));
        accounts.create(ANN, Some(Secret::new(PASSWORD)), None).await.unwrap();
        let token = place.invite_to(editor_in_acme(ANN)).await;
        place.site.advance(1);
        let session = place.site.login_ann().await.expect(200);
        place.accept(&session, &token).await.expect(200);
    }
}
