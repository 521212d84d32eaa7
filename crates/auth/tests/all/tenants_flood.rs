//! Mails of invitations to tenants, and a flood of them to one mailbox.

use std::time::Duration;

use gatewright_base::Secret;
use serde_json::json;

use crate::support::{Answer, Call, PASSWORD, databases};
use crate::tenants::Place;

const BOB: &str = "bob@example.com";

/// The attack: many accounts, each with a tenant of its own, invite one mailbox again and again.
#[tokio::test]
async fn many_accounts_that_invite_one_mailbox_do_not_flood_it() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let settled = async || {
            place.site.auth.settle(Duration::from_mins(1)).await;
            place.post.mails.lock().len()
        };
        let invite = async |by: &Answer, tenant: &str, email: &str, from: &'static str| {
            let call = Call::post(&format!("/auth/tenants/{tenant}/members")).cookie_of(by).from(from);
            call.json(&json!({ "email": email })).send(&place.site).await
        };
        let mut inviters = Vec::new();
        for n in 0..10 {
            let email = format!("inviter{n}@example.com");
            place.site.auth.accounts().create(&email, Some(Secret::new(PASSWORD)), None).await.unwrap();
            let body = json!({ "email": email, "password": PASSWORD });
            let call = Call::post("/auth/login").from(format!("192.0.2.{n}").leak()).json(&body);
            let inviter = call.send(&place.site).await.expect(200);
            let tenant = place.made(&inviter).await;
            inviters.push((inviter, tenant));
        }
        let before = settled().await;
        for (inviter, tenant) in &inviters {
            for _ in 0..10 {
                invite(inviter, tenant, BOB, "198.51.100.66").await.expect(201);
            }
            // As before: of one account to one mailbox.
            invite(inviter, tenant, BOB, "198.51.100.66").await.expect(429);
        }
        assert_eq!(settled().await - before, 10, "from one address, on {}", db.name);
        // The invitation is there, and the answer is the same as that of one with a mail.
        let (inviter, tenant) = &inviters[9];
        let listed = place.get(inviter, &format!("/{tenant}/members")).await.json();
        assert_eq!(listed["invitations"][0]["email"], BOB, "{listed}");
        // Another mailbox, and somebody who invites from elsewhere, are served.
        invite(inviter, tenant, "eve@example.com", "198.51.100.66").await.expect(201);
        assert_eq!(settled().await - before, 11, "{}", db.name);
        let carl = place.site.signed_in("carl@example.com").await;
        let tenant = place.made(&carl).await;
        invite(&carl, &tenant, BOB, "203.0.113.9").await.expect(201);
        assert_eq!(settled().await - before, 12, "{}", db.name);

        // An invitation that is sent again without a mail keeps the link that was mailed.
        let dora = place.site.signed_in("dora@example.com").await;
        let [(first, first_tenant), (second, second_tenant), ..] = &*inviters else { panic!("there are ten") };
        invite(first, first_tenant, "dora@example.com", "203.0.113.10").await.expect(201);
        let link = place.token().await;
        for _ in 0..9 {
            invite(second, second_tenant, "dora@example.com", "203.0.113.10").await.expect(201);
        }
        let sent = settled().await;
        invite(first, first_tenant, "dora@example.com", "203.0.113.10").await.expect(201);
        assert_eq!(settled().await, sent, "the mails from this address are used up, on {}", db.name);
        place.accept(&dora, &link).await.expect(200);
    }
}
