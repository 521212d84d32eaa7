use gatewright_db::testing::engines;
use gatewright_tenancy::{INVITATION_STEPS, INVITATIONS};

use super::*;
use crate::password::PasswordHash;
use crate::users::{MIGRATIONS, NewUser, Sessions, SignOutEverywhere as _, SqlUserStore, UserStore as _};

/// The request of the session came in before, and waited.
#[tokio::test]
async fn a_session_that_has_ended_leaves_no_invitation() {
    for engine in engines().await {
        for (part, steps) in [("users", MIGRATIONS), (INVITATIONS, INVITATION_STEPS)] {
            gatewright_db::migrate(&engine.db, part, steps).await.unwrap();
        }
        let (ambient, clock) = Ambient::manual(Timestamp::UNIX_EPOCH, 1);
        let users = Arc::new(SqlUserStore::new(engine.db.clone(), ambient.clone()));
        let email = |text| EmailAddress::parse(text).unwrap();
        let password_hash = PasswordHash::from_stored("unusable");
        let new = NewUser { email: email("ann@example.com"), password_hash, roles: Roles::default(), profile: None };
        let ann = users.create(new).await.unwrap().id;
        let invitations = Invitations::new(engine.db.clone(), &"https://app.example.com".parse().unwrap());
        let open = OpenSession::from(users.clone().users_within(), ann.clone(), ambient.now());
        assert!(open.is_shared());
        for is_open in [true, false] {
            clock.advance(SignedDuration::from_secs(60));
            let now = ambient.now();
            let invitation = Invitation {
                id: InvitationId::generate(&ambient),
                key: SingleUseToken::generate(&ambient).key(),
                email: email(if is_open { "bob@example.com" } else { "eve@example.com" }),
                roles: None,
                tenant: Some(TenantId::parse("acme").unwrap()),
                tenant_roles: vec!["member".to_owned()],
                invited_by: Some(ann.clone()),
                by_member: true,
                created_at: now,
                expires_at: now + LIFETIME,
            };
            let stored = invitations.put(&invitation, Some(200), Some(open.clone())).await;
            assert!(matches!((is_open, &stored), (true, Ok(())) | (false, Err(KeepError::SessionEnded))), "{stored:?}");
            // A claim, a reset or a logout everywhere.
            users.refuse_until(&ann, now, Sessions::End).await.unwrap();
        }
        let left = invitations.of_account(&ann, None, ambient.now()).await.unwrap();
        assert_eq!(left.len(), 1, "{}", engine.name);
        assert_eq!(invitations.withdraw_sent(&ann, Some(ambient.now()), ambient.now()).await.unwrap(), 0);
        assert_eq!(invitations.withdraw_sent(&ann, None, ambient.now()).await.unwrap(), 1, "{}", engine.name);
    }
}
