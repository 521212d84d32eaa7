//! A mailbox cannot be flooded, and spending its limit does not keep its owner from getting a mail.

use serde_json::json;

use super::{FORGOT, Place, SEND};
use crate::support::{ANN, Call, databases};

/// Asks from a client of its own for a mail to Ann. The limit per address may refuse, as for any caller.
async fn ask(place: &Place, path: &str, client: usize) {
    let client = format!("198.51.{}.{}", client / 250, 1 + client % 250);
    let call = Call::post(path).from(client.leak()).json(&json!({ "email": ANN }));
    let status = call.send(&place.site).await.status.as_u16();
    assert!(matches!(status, 200 | 429), "{status}");
    place.site.auth.settle(std::time::Duration::from_secs(10)).await;
}

#[tokio::test]
async fn an_attacker_who_spends_the_budget_of_a_mailbox_does_not_suppress_its_owners_mail() {
    for db in databases().await {
        let place = Place::on(&db.db).await;
        place.site.register_ann().await;
        for path in [FORGOT, SEND] {
            for attacker in 0..12 {
                for _ in 0..11 {
                    ask(&place, path, attacker).await;
                }
            }
            let before = place.mails().await.len();
            ask(&place, path, 200).await;
            assert_eq!(place.mails().await.len(), before + 1, "{path} on {}", db.name);
        }
    }
}

#[tokio::test]
async fn mails_are_limited_per_requester_and_per_mailbox() {
    for db in databases().await {
        let place = Place::on(&db.db).await;
        place.site.register_ann().await;
        for _ in 0..15 {
            ask(&place, FORGOT, 0).await;
        }
        assert_eq!(place.mails().await.len(), 10, "one requester");
        for client in 0..200 {
            ask(&place, FORGOT, client).await;
        }
        let sent = place.mails().await.len();
        assert!(sent <= 31, "{sent} mails of 200 requesters within a moment");
    }
}

#[tokio::test]
async fn when_every_budget_is_used_up_the_newest_link_in_the_mailbox_still_works() {
    let magic_link_seconds = 15 * 60;
    for db in databases().await {
        let place = Place::on(&db.db).await;
        let mut silent = 0;
        for client in 0..400 {
            let before = place.mails().await.len();
            ask(&place, SEND, client).await;
            place.site.advance(10);
            silent = if place.mails().await.len() > before { 0 } else { silent + 10 };
            assert!(silent < magic_link_seconds, "no mail for {silent} seconds");
        }
        let sent = place.mails().await.len();
        assert!((20..80).contains(&sent), "{sent} mails in 67 minutes");
    }
}

/// The attack: 65,536 requesters of one network and as many mailboxes, until the queue is full of their mails.
#[tokio::test]
async fn one_network_cannot_fill_the_mail_queue() {
    for db in databases().await {
        let place = Place::on(&db.db).await;
        place.site.register_ann().await;
        for n in 0..260 {
            let body = json!({ "email": format!("q{n}@flood.example") });
            let client = format!("2001:db8:77:{n:x}::1");
            Call::post(SEND).from(client.leak()).json(&body).send(&place.site).await.expect(200);
        }
        assert_eq!(place.mails().await.len(), 200, "{}", db.name);
        for (client, expected) in [("2001:db8:78::1", 1), ("203.0.113.9", 1), ("2001:db8:77:ffff::1", 0)] {
            let before = place.mails().await.len();
            Call::post(FORGOT).from(client).json(&json!({ "email": ANN })).send(&place.site).await.expect(200);
            assert_eq!(place.mails().await.len() - before, expected, "{client} on {}", db.name);
        }
    }
}
