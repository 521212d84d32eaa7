use gatewright_auth::jwt::{JwtAlgorithm, RotateError};
use gatewright_auth::plugins::password::PasswordPlugin;
use gatewright_auth::{Auth, AuthConfig};
use gatewright_base::Secret;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PKCS_RSA_SHA256};

use super::{accepts, ann, published, server, settings, token, verify};
use crate::support::databases;

fn pem(algorithm: &'static rcgen::SignatureAlgorithm) -> Secret {
    Secret::new(KeyPair::generate_for(algorithm).unwrap().serialize_pem())
}

fn with(algorithm: JwtAlgorithm, files: &[Secret]) -> AuthConfig {
    let mut config = settings(algorithm);
    config.jwt.keys.files = files.to_vec();
    config
}

#[tokio::test]
async fn keys_from_files_sign_and_the_operator_rotates_them_in_two_steps() {
    for db in databases().await {
        for (algorithm, of_file) in [
            (JwtAlgorithm::Es256, &PKCS_ECDSA_P256_SHA256),
            (JwtAlgorithm::EdDsa, &PKCS_ED25519),
            (JwtAlgorithm::Rs256, &PKCS_RSA_SHA256),
        ] {
            for table in ["auth_jwt_signers", "users"] {
                let _ = db.db.execute(format!("DELETE FROM {table}"), Vec::new()).await;
            }
            let (old, new) = (pem(of_file), pem(of_file));
            let first = server(&db, with(algorithm, std::slice::from_ref(&old)), 0).await;
            ann(&first).await;
            let kid = |token: &str| jsonwebtoken::decode_header(token).unwrap().kid.unwrap();
            let before = token(&first).await;
            assert!(matches!(first.auth.signing_keys().rotate().await, Err(RotateError::Files)));
            // The new file is published behind the first one.
            let second = server(&db, with(algorithm, &[old.clone(), new.clone()]), 0).await;
            assert_eq!(kid(&token(&second).await), kid(&before));
            assert_eq!(published(&second).await.json()["keys"].as_array().unwrap().len(), 2);
            // Then it signs, once every verifier has it.
            let third = server(&db, with(algorithm, &[new, old]), 0).await;
            assert_eq!(kid(&token(&third).await), kid(&before));
            third.advance(430);
            second.advance(430);
            let after = token(&third).await;
            assert_ne!(kid(&after), kid(&before));
            assert!(verify(&published(&third).await, &after).is_some());
            assert!(accepts(&third, &before).await && accepts(&second, &after).await);
            // No private key of a file is in the database.
            let rows = db.db.query("SELECT sealed FROM auth_jwt_signers", Vec::new()).await.unwrap();
            assert!(rows.iter().all(|row| row.get::<Option<Vec<u8>>>("sealed").unwrap().is_none()));
        }
    }
}

#[tokio::test]
async fn a_file_without_a_key_and_one_for_another_algorithm_are_refused_at_the_start() {
    let p256 = pem(&PKCS_ECDSA_P256_SHA256);
    let cases: [(JwtAlgorithm, Vec<Secret>, &str); 5] = [
        (JwtAlgorithm::Es256, vec![Secret::new("")], "file 1 has no private key"),
        (JwtAlgorithm::Es256, vec![p256.clone(), Secret::new("-----BEGIN PRIVATE KEY-----")], "file 2 has no private"),
        (JwtAlgorithm::Es256, vec![pem(&PKCS_ECDSA_P384_SHA384)], "file 1 has no private key"),
        (JwtAlgorithm::Rs256, vec![p256.clone()], "the first key is for ES256, and jwt_algorithm is RS256"),
        (JwtAlgorithm::Hs256, vec![p256], "the first key is for ES256, and jwt_algorithm is HS256"),
    ];
    for db in databases().await {
        for (algorithm, files, expected) in &cases {
            let config = with(*algorithm, files);
            let built = Auth::builder(config).database(db.db.clone()).plugin(PasswordPlugin).build().await;
            let error = built.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(expected), "{error}");
        }
    }
}
