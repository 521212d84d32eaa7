//! An authenticator in software: makes ES256 passkeys and assertions, and lies where a test wants it to.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as B64;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

pub(crate) struct Authenticator {
    key: EcdsaKeyPair,
    id: Vec<u8>,
    handle: String,
    pub(crate) counter: u32,
    pub(crate) lies: Lies,
}

/// The false statement that it makes.
#[derive(Clone)]
pub(crate) struct Lies {
    pub(crate) origin: &'static str,
    pub(crate) rp_id: &'static str,
    /// User present 1, verified 4.
    pub(crate) flags: u8,
    pub(crate) kind: Option<&'static str>,
    pub(crate) cross_origin: bool,
    pub(crate) challenge: Option<String>,
    pub(crate) handle: Option<String>,
    pub(crate) signature: Option<Vec<u8>>,
}

impl Default for Lies {
    fn default() -> Self {
        Self {
            origin: "https://app.example.com",
            rp_id: "app.example.com",
            flags: 0x05,
            kind: None,
            cross_origin: false,
            challenge: None,
            handle: None,
            signature: None,
        }
    }
}

impl Authenticator {
    pub(crate) fn new(id: &str) -> Self {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, document.as_ref()).unwrap();
        Self { key, id: id.as_bytes().to_vec(), handle: String::new(), counter: 0, lies: Lies::default() }
    }

    /// `RegistrationResponseJSON` to creation options.
    pub(crate) fn create(&mut self, options: &Value) -> Value {
        options["user"]["id"].as_str().unwrap().clone_into(&mut self.handle);
        let mut data = self.header(0x40);
        data.extend([0; 16]);
        data.extend(u16::try_from(self.id.len()).unwrap().to_be_bytes());
        data.extend(&self.id);
        let point = self.key.public_key().as_ref();
        // {1: 2 (EC2), 3: -7 (ES256), -1: 1 (P-256), -2: x, -3: y}
        data.extend([0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20]);
        data.extend(&point[1..33]);
        data.extend([0x22, 0x58, 0x20]);
        data.extend(&point[33..65]);
        let mut object = vec![0xa3, 0x63];
        object.extend(b"fmt\x64none\x67attStmt\xa0\x68authData\x59");
        object.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
        object.extend(data);
        let client = self.client_data("webauthn.create", options);
        json!({
            "id": B64.encode(&self.id), "rawId": B64.encode(&self.id), "type": "public-key",
            "clientExtensionResults": { "credProps": { "rk": true } }, "authenticatorAttachment": "platform",
            "response": {
                "clientDataJSON": B64.encode(client), "attestationObject": B64.encode(object),
                "transports": ["internal", "hybrid", "of-the-future"],
            },
        })
    }

    /// `AuthenticationResponseJSON` to request options.
    pub(crate) fn get(&mut self, options: &Value) -> Value {
        let data = self.header(0);
        let client = self.client_data("webauthn.get", options);
        let mut signed = data.clone();
        signed.extend(Sha256::digest(&client));
        let signature = self.key.sign(&SystemRandom::new(), &signed).unwrap().as_ref().to_vec();
        let signature = self.lies.signature.clone().unwrap_or(signature);
        let handle = self.lies.handle.as_ref().unwrap_or(&self.handle);
        json!({
            "id": B64.encode(&self.id), "rawId": B64.encode(&self.id), "type": "public-key",
            "clientExtensionResults": {},
            "response": {
                "clientDataJSON": B64.encode(client), "authenticatorData": B64.encode(data),
                "signature": B64.encode(signature), "userHandle": handle,
            },
        })
    }

    fn header(&self, more: u8) -> Vec<u8> {
        let mut data = Sha256::digest(self.lies.rp_id).to_vec();
        data.push(self.lies.flags | more);
        data.extend(self.counter.to_be_bytes());
        data
    }

    fn client_data(&self, kind: &str, options: &Value) -> Vec<u8> {
        let challenge = self.lies.challenge.as_deref().unwrap_or(options["challenge"].as_str().unwrap());
        let mut data = json!({
            "type": self.lies.kind.unwrap_or(kind), "challenge": challenge, "origin": self.lies.origin,
        });
        if self.lies.cross_origin {
            data["crossOrigin"] = true.into();
        }
        serde_json::to_vec(&data).unwrap()
    }
}
