//! A private key, and how it is made and read.

use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{self, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gatewright_base::Secret;
use zeroize::Zeroizing;

use super::{JwtAlgorithm, PublicKey};

/// A key pair.
pub(crate) enum Pair {
    Es256(EcdsaKeyPair),
    EdDsa(Ed25519KeyPair),
    Rs256(rsa::KeyPair),
}

/// A new pair, and its private key in PKCS #8.
pub(super) struct Generated {
    pub(super) pair: Pair,
    pub(super) der: Zeroizing<Vec<u8>>,
}

/// The fewest and the most bits of an RSA key.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

impl Pair {
    /// A new pair. RSA takes a part of a second. `None` for HS256, which has none.
    pub(super) fn generate(algorithm: JwtAlgorithm) -> Result<Option<Generated>, Unspecified> {
        let random = SystemRandom::new();
        let der = match algorithm {
            JwtAlgorithm::Hs256 => return Ok(None),
            JwtAlgorithm::Es256 => {
                EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random)?.as_ref().to_vec()
            }
            JwtAlgorithm::EdDsa => Ed25519KeyPair::generate_pkcs8v1(&random)?.as_ref().to_vec(),
            JwtAlgorithm::Rs256 => {
                let pair = rsa::KeyPair::generate(KeySize::Rsa2048)?;
                let der: Pkcs8V1Der<'_> = pair.as_der()?;
                der.as_ref().to_vec()
            }
        };
        let der = Zeroizing::new(der);
        let pair = Self::of_der(&der).ok_or(Unspecified)?;
        Ok(Some(Generated { pair, der }))
    }

    /// The pair of a private key in PKCS #8, SEC 1 or PKCS #1.
    pub(super) fn of_der(der: &[u8]) -> Option<Self> {
        let p256 = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let ec = EcdsaKeyPair::from_pkcs8(p256, der).or_else(|_| EcdsaKeyPair::from_private_key_der(p256, der));
        if let Ok(pair) = ec {
            return Some(Self::Es256(pair));
        }
        if let Ok(pair) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
            return Some(Self::EdDsa(pair));
        }
        let rsa = rsa::KeyPair::from_pkcs8(der).or_else(|_| rsa::KeyPair::from_der(der)).ok()?;
        RSA_BITS.contains(&(rsa.public_modulus_len() * 8)).then_some(Self::Rs256(rsa))
    }

    /// The pair of the first private key in a PEM file.
    pub(crate) fn of_pem(pem: &Secret) -> Option<Self> {
        let (_, rest) = pem.expose().split_once("-----BEGIN ")?;
        let (label, rest) = rest.split_once("-----")?;
        let (body, _) = rest.split_once("-----END ")?;
        if !label.ends_with("PRIVATE KEY") {
            return None;
        }
        let text: Zeroizing<String> = Zeroizing::new(body.split_whitespace().collect());
        Self::of_der(&Zeroizing::new(STANDARD.decode(&*text).ok()?))
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Unspecified> {
        let random = SystemRandom::new();
        match self {
            Self::Es256(pair) => Ok(pair.sign(&random, message)?.as_ref().to_vec()),
            Self::EdDsa(pair) => Ok(pair.try_sign(message)?.as_ref().to_vec()),
            Self::Rs256(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)?;
                Ok(signature)
            }
        }
    }

    pub(super) fn public(&self) -> PublicKey {
        match self {
            Self::Es256(pair) => PublicKey::Es256 { point: pair.public_key().as_ref().to_vec() },
            Self::EdDsa(pair) => PublicKey::EdDsa { point: pair.public_key().as_ref().to_vec() },
            Self::Rs256(pair) => {
                let public = pair.public_key();
                PublicKey::Rs256 {
                    modulus: public.modulus().big_endian_without_leading_zero().to_vec(),
                    exponent: public.exponent().big_endian_without_leading_zero().to_vec(),
                }
            }
        }
    }
}
