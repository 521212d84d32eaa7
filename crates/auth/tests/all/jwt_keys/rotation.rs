use gatewright_auth::jwt::{JwtAlgorithm, KeyState, RotateError};
use gatewright_base::Secret;
use gatewright_db::params;

use super::{accepts, ann, published, server, settings, token, verify};
use crate::support::databases;

/// Three servers sign and verify while keys rotate and servers restart, in several orders. Every token is accepted by
/// every server until it expires, and a verifier that keeps the set for its `max-age` knows the key of every new token.
#[tokio::test]
async fn keys_rotate_on_three_servers_without_a_refused_token() {
    const STEP: i64 = 30;
    for db in databases().await {
        let config = || settings(JwtAlgorithm::Es256);
        let mut servers = Vec::new();
        for _ in 0..3 {
            servers.push(server(&db, config(), 0).await);
        }
        ann(&servers[0]).await;
        let (mut tokens, mut cached) = (Vec::<(i64, String)>::new(), published(&servers[1]).await.expect(200));
        let mut kids = std::collections::BTreeSet::new();
        for step in 0..80_i64 {
            let at = step * STEP;
            // Each server sweeps once a minute, not at the same time.
            for (index, site) in servers.iter().enumerate() {
                if (step + i64::try_from(index).unwrap()) % 2 == 0 {
                    site.auth.sweep().await;
                }
            }
            match step {
                3 | 40 => {
                    servers[usize::try_from(step).unwrap() % 3].auth.signing_keys().rotate().await.unwrap();
                }
                // Restarts in another order each time, before, while and after the new key waits.
                2 | 8 | 16 | 41 | 50 | 54 => {
                    let index = usize::try_from(step / 2).unwrap() % 3;
                    servers[index] = server(&db, config(), at).await;
                }
                _ => {}
            }
            let new = token(&servers[usize::try_from(step).unwrap() % 3]).await;
            kids.insert(jsonwebtoken::decode_header(&new).unwrap().kid.unwrap());
            assert!(verify(&cached, &new).is_some(), "step {step}: the kept set has no key for a new token");
            tokens.push((at, new));
            // The verifier keeps the set for 300 seconds, and reads it from another server each time.
            if step % 10 == 0 {
                cached = published(&servers[usize::try_from(step / 10).unwrap() % 3]).await.expect(200);
            }
            for (issued, token) in &tokens {
                if at - issued < 3_590 && (step % 8 == 0 || at - issued < 2 * STEP) {
                    for (index, site) in servers.iter().enumerate() {
                        assert!(accepts(site, token).await, "step {step}: server {index}, a token of second {issued}");
                    }
                }
            }
            for site in &servers {
                site.advance(STEP);
            }
        }
        assert_eq!(kids.len(), 3, "each rotation has taken effect");
    }
}

#[tokio::test]
async fn a_key_is_replaced_at_its_age_and_leaves_the_set_with_its_last_token() {
    for db in databases().await {
        let mut config = settings(JwtAlgorithm::EdDsa);
        config.jwt.keys.rotate_every = Some(std::time::Duration::from_hours(48));
        let site = server(&db, config, 0).await;
        ann(&site).await;
        let count = async || published(&site).await.expect(200).json()["keys"].as_array().unwrap().len();
        let first = token(&site).await;
        site.advance(47 * 3600);
        site.auth.sweep().await;
        assert_eq!(count().await, 1);
        site.advance(3600);
        site.auth.sweep().await;
        assert_eq!(count().await, 2, "published before it signs");
        let kid = |token: &str| jsonwebtoken::decode_header(token).unwrap().kid.unwrap();
        let second = token(&site).await;
        assert_eq!(kid(&second), kid(&first));
        assert!(matches!(site.auth.signing_keys().rotate().await, Err(RotateError::Waiting { .. })));
        let states = async || {
            let listed = site.auth.signing_keys().list().await.unwrap();
            listed.into_iter().map(|key| key.state).collect::<Vec<_>>()
        };
        assert_eq!(states().await, [KeyState::Signing, KeyState::Waiting]);
        site.advance(420);
        site.auth.sweep().await;
        assert_eq!(states().await, [KeyState::Verifying, KeyState::Signing]);
        let third = token(&site).await;
        assert_ne!(kid(&third), kid(&first));
        assert!(accepts(&site, &second).await);
        site.advance(3601);
        site.auth.sweep().await;
        assert_eq!(count().await, 1);
        assert!(!accepts(&site, &second).await);
        let rows = db.db.query("SELECT id FROM auth_jwt_signers", params![]).await.unwrap();
        assert_eq!(rows.len(), 1, "its private key is gone too");
    }
}

#[tokio::test]
async fn servers_that_start_at_once_agree_and_accept_the_tokens_of_each_other() {
    for db in databases().await {
        // The tables are there, and no key.
        server(&db, settings(JwtAlgorithm::Hs256), 0).await;
        db.db.execute("DELETE FROM auth_jwt_signers", params![]).await.unwrap();
        let all = (0..4).map(|_| server(&db, settings(JwtAlgorithm::Es256), 0));
        let servers = futures_util::future::join_all(all).await;
        ann(&servers[0]).await;
        for signing in &servers {
            let token = token(signing).await;
            for verifying in &servers {
                assert!(accepts(verifying, &token).await);
            }
        }
        let rows = db.db.query("SELECT id FROM auth_jwt_signers", params![]).await.unwrap();
        assert_eq!(rows.len(), 1);
    }
}

#[tokio::test]
async fn private_keys_are_stored_sealed_and_another_secret_cannot_sign_with_them() {
    for db in databases().await {
        let site = server(&db, settings(JwtAlgorithm::Rs256), 0).await;
        ann(&site).await;
        let old = token(&site).await;
        let rows = db.db.query("SELECT sealed, public_key FROM auth_jwt_signers", params![]).await.unwrap();
        let sealed: Vec<u8> = rows[0].get("sealed").unwrap();
        // A private key of RSA in DER names its algorithm by these bytes, and contains its modulus.
        assert!(!sealed.windows(9).any(|part| part == [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1]));
        // A backup that is opened with another secret: the key is not used, its tokens verify, and a new one signs at once.
        let mut other = settings(JwtAlgorithm::Rs256);
        other.jwt.secret = Secret::new("another-secret-of-at-least-thirty-two-bytes");
        let elsewhere = server(&db, other, 0).await;
        let new = token(&elsewhere).await;
        let kid = |token: &str| jsonwebtoken::decode_header(token).unwrap().kid.unwrap();
        assert_ne!(kid(&new), kid(&old));
        assert!(accepts(&elsewhere, &old).await && accepts(&site, &new).await);
    }
}

#[tokio::test]
async fn a_key_outlives_the_rotation_of_its_secret() {
    let (one, two) = (Secret::new("a".repeat(32)), Secret::new("b".repeat(32)));
    for db in databases().await {
        let with = |secret: &Secret, previous: &[Secret]| {
            let mut config = settings(JwtAlgorithm::Es256);
            config.jwt.keys.secret = secret.clone();
            config.jwt.keys.previous_secrets = previous.to_vec();
            config
        };
        let first = server(&db, with(&one, &[]), 0).await;
        ann(&first).await;
        let kid = |token: &str| jsonwebtoken::decode_header(token).unwrap().kid.unwrap();
        let original = kid(&token(&first).await);
        server(&db, with(&two, std::slice::from_ref(&one)), 0).await;
        let third = server(&db, with(&two, &[]), 0).await;
        assert_eq!(kid(&token(&third).await), original, "it was sealed anew");
    }
}
