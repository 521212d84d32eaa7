use gatewright_auth::Auth;
use gatewright_auth::jwt::JwtAlgorithm;
use gatewright_auth::plugins::password::PasswordPlugin;
use gatewright_db::params;

use super::{accepts, ann, published, server, settings, token, verify};
use crate::support::databases;

fn algorithm(token: &str) -> jsonwebtoken::Algorithm {
    jsonwebtoken::decode_header(token).unwrap().alg
}

/// Two servers move from the secret to key pairs, one after the other; in the second case the first one restarts with the
/// old configuration in between.
#[tokio::test]
async fn tokens_of_the_secret_hold_until_they_expire_while_servers_change_to_keys() {
    for db in databases().await {
        for detour in [false, true] {
            db.db.execute("DELETE FROM auth_jwt_signers", params![]).await.ok();
            db.db.execute("DELETE FROM users", params![]).await.ok();
            let (secret, keys) = (settings(JwtAlgorithm::Hs256), settings(JwtAlgorithm::Es256));
            let one = server(&db, secret.clone(), 0).await;
            let mut two = server(&db, secret.clone(), 0).await;
            ann(&one).await;
            let mut tokens = vec![token(&one).await, token(&two).await];
            drop(one);
            let mut one = server(&db, keys.clone(), 0).await;
            let mut at = 0;
            for step in 0..60 {
                if detour && step == 4 {
                    one = server(&db, secret.clone(), at).await;
                }
                if detour && step == 9 {
                    one = server(&db, keys.clone(), at).await;
                }
                if step == 12 {
                    two = server(&db, keys.clone(), at).await;
                }
                for site in [&one, &two] {
                    site.auth.sweep().await;
                    tokens.push(token(site).await);
                }
                // All of them now and then, and the new ones always.
                let old = if step % 8 == 0 { 0 } else { tokens.len() - 4 };
                for token in &tokens[old..] {
                    assert!(accepts(&one, token).await && accepts(&two, token).await, "{detour}, step {step}");
                }
                for site in [&one, &two] {
                    site.advance(45);
                }
                at += 45;
            }
            for site in [&one, &two] {
                let new = token(site).await;
                assert_eq!(algorithm(&new), jsonwebtoken::Algorithm::ES256);
                assert!(verify(&published(site).await, &new).is_some());
            }
        }
    }
}

/// The attack: whoever has the old secret signs on.
#[tokio::test]
async fn the_secret_signs_nothing_that_lives_longer_than_its_last_tokens() {
    for db in databases().await {
        let secret = settings(JwtAlgorithm::Hs256);
        let old = server(&db, secret.clone(), 0).await;
        ann(&old).await;
        let before = token(&old).await;
        let changed = server(&db, settings(JwtAlgorithm::Es256), 0).await;
        changed.advance(430);
        changed.auth.sweep().await;
        assert_eq!(algorithm(&token(&changed).await), jsonwebtoken::Algorithm::ES256);
        assert!(accepts(&changed, &before).await);
        // A thief, whose clock runs and who knows nothing of the change.
        old.advance(430);
        let forged = {
            let mut thief = settings(JwtAlgorithm::Hs256);
            thief.jwt.secret = secret.jwt.secret.clone();
            let user = changed.auth.accounts().find(crate::support::ANN).await.unwrap();
            let jwts = gatewright_auth::jwt::Jwts::new(&thief.jwt, false, None, old.ambient.clone()).unwrap();
            jwts.issue(&user, old.ambient.now()).expose().to_owned()
        };
        assert_eq!(algorithm(&forged), jsonwebtoken::Algorithm::HS256);
        assert!(!accepts(&changed, &forged).await, "issued after the change");
        changed.advance(3600);
        assert!(!accepts(&changed, &before).await);
    }
}

#[tokio::test]
async fn a_server_that_began_with_keys_never_accepts_a_token_of_the_secret() {
    for db in databases().await {
        let site = server(&db, settings(JwtAlgorithm::Es256), 0).await;
        ann(&site).await;
        let user = site.auth.accounts().find(crate::support::ANN).await.unwrap();
        let config = settings(JwtAlgorithm::Hs256).jwt;
        let jwts = gatewright_auth::jwt::Jwts::new(&config, false, None, site.ambient.clone()).unwrap();
        let forged = jwts.issue(&user, site.ambient.now());
        assert!(jwts.verify(&forged).is_ok());
        assert!(!accepts(&site, forged.expose()).await);
    }
}

#[tokio::test]
async fn a_server_of_an_earlier_version_with_accounts_counts_as_one_that_used_the_secret() {
    for db in databases().await {
        let old = server(&db, settings(JwtAlgorithm::Hs256), 0).await;
        ann(&old).await;
        let before = token(&old).await;
        // As the earlier version left it.
        db.db.execute("DELETE FROM auth_jwt_signers", params![]).await.unwrap();
        let site = server(&db, settings(JwtAlgorithm::EdDsa), 0).await;
        assert!(accepts(&site, &before).await);
        site.advance(3601);
        site.auth.sweep().await;
        assert!(!accepts(&site, &before).await);
        assert_eq!(algorithm(&token(&site).await), jsonwebtoken::Algorithm::EdDSA);
    }
}

#[tokio::test]
async fn servers_return_to_the_secret_without_a_refused_token() {
    for db in databases().await {
        let keys = server(&db, settings(JwtAlgorithm::Rs256), 0).await;
        ann(&keys).await;
        let before = token(&keys).await;
        let back = server(&db, settings(JwtAlgorithm::Hs256), 0).await;
        let mut all = vec![before];
        for _ in 0..20 {
            for site in [&keys, &back] {
                site.auth.sweep().await;
                all.push(token(site).await);
            }
            for token in &all {
                assert!(accepts(&keys, token).await && accepts(&back, token).await);
            }
            keys.advance(60);
            back.advance(60);
        }
        assert_eq!(algorithm(&token(&back).await), jsonwebtoken::Algorithm::HS256);
        published(&back).await.expect(200);
        back.advance(3600);
        back.auth.sweep().await;
        published(&back).await.expect(404);
    }
}

#[tokio::test]
async fn a_tool_that_serves_nobody_neither_makes_nor_changes_keys() {
    for db in databases().await {
        server(&db, settings(JwtAlgorithm::Es256), 0).await;
        let before = db.db.query("SELECT id FROM auth_jwt_signers", params![]).await.unwrap().len();
        let tool = Auth::builder(settings(JwtAlgorithm::Hs256)).database(db.db.clone()).plugin(PasswordPlugin);
        let tool = tool.serving_nobody().build().await.unwrap();
        let listed = tool.signing_keys().list().await.unwrap();
        assert_eq!((listed.len(), listed[0].algorithm), (1, "ES256"));
        assert_eq!(db.db.query("SELECT id FROM auth_jwt_signers", params![]).await.unwrap().len(), before);
    }
}
