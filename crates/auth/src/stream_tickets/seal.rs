//! AES-256-GCM around the headers, with a key that is derived from the ticket. Each key seals one text.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use http::{HeaderMap, HeaderName, HeaderValue};
use zeroize::Zeroizing;

use crate::single_use::SingleUseToken;

/// Part of the stored format.
const LABEL: &str = "gatewright/stream-ticket/v1";

pub(super) fn seal(ticket: &SingleUseToken, headers: &HeaderMap) -> Vec<u8> {
    let lines: Vec<(&str, &[u8])> = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    let mut text = Zeroizing::new(serde_json::to_vec(&lines).expect("names and bytes can be written as JSON"));
    // Room for the tag: growing would leave a copy behind.
    let mut sealed = Zeroizing::new(Vec::with_capacity(text.len() + AES_256_GCM.tag_len()));
    sealed.append(&mut text);
    let nonce = key(ticket)
        .seal_in_place_append_tag(Aad::from(ticket.key().as_bytes()), &mut *sealed)
        .expect("headers are far shorter than what AES-GCM can seal");
    [nonce.as_ref().as_slice(), sealed.as_slice()].concat()
}

/// The headers; `None` for what this ticket did not seal.
pub(super) fn open(ticket: &SingleUseToken, sealed: Vec<u8>) -> Option<HeaderMap> {
    let sealed = Zeroizing::new(sealed);
    let (nonce, ciphertext) = sealed.split_at_checked(NONCE_LEN)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    let mut text = Zeroizing::new(ciphertext.to_vec());
    let text = key(ticket).open_in_place(nonce, Aad::from(ticket.key().as_bytes()), &mut text).ok()?;
    let lines: Vec<(String, Vec<u8>)> = serde_json::from_slice(text).ok()?;
    lines
        .into_iter()
        .map(|(name, value)| {
            let mut value = HeaderValue::from_bytes(&value).ok()?;
            value.set_sensitive(true);
            Some((name.parse::<HeaderName>().ok()?, value))
        })
        .collect()
}

fn key(ticket: &SingleUseToken) -> RandomizedNonceKey {
    RandomizedNonceKey::new(&AES_256_GCM, ticket.to_text().derive_key(LABEL).as_slice())
        .expect("AES-256 takes a key of 32 bytes")
}

#[cfg(test)]
mod tests {
    use gatewright_base::Ambient;
    use http::header::{AUTHORIZATION, COOKIE};

    use super::*;

    #[test]
    fn only_its_own_ticket_opens_what_is_sealed() {
        let (ambient, _) = Ambient::manual(jiff::Timestamp::UNIX_EPOCH, 1);
        let [ticket, other] = [(); 2].map(|()| SingleUseToken::generate(&ambient));
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, HeaderValue::from_static("a=canary"));
        headers.append(COOKIE, HeaderValue::from_static("b=2"));
        headers.append(AUTHORIZATION, HeaderValue::from_bytes(b"Bearer \xe4").unwrap());
        let sealed = seal(&ticket, &headers);
        assert_eq!(open(&ticket, sealed.clone()), Some(headers));
        assert!(!String::from_utf8_lossy(&sealed).contains("canary"));
        assert_eq!(open(&other, sealed.clone()), None);
        for damaged in [Vec::new(), sealed[..20].to_vec(), [&sealed[..], b"x"].concat()] {
            assert_eq!(open(&ticket, damaged), None);
        }
    }
}
