//! AES-256-GCM around the headers, with a key that is derived from the ticket. Each key encrypts one text.

use gatewright_base::SealingKey;
use http::{HeaderMap, HeaderName, HeaderValue};
use zeroize::Zeroizing;

use crate::single_use::SingleUseToken;

/// Part of the stored format.
const LABEL: &str = "gatewright/stream-ticket/v1";

pub(super) fn seal(ticket: &SingleUseToken, headers: &HeaderMap) -> Vec<u8> {
    let lines: Vec<(&str, &[u8])> = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    let text = Zeroizing::new(serde_json::to_vec(&lines).expect("names and bytes can be written as JSON"));
    key(ticket).seal(&text, ticket.key().as_bytes())
}

/// The headers; `None` if another ticket encrypted them.
pub(super) fn open(ticket: &SingleUseToken, sealed: Vec<u8>) -> Option<HeaderMap> {
    let text = key(ticket).open(&Zeroizing::new(sealed), ticket.key().as_bytes())?;
    let lines: Vec<(String, Vec<u8>)> = serde_json::from_slice(&text).ok()?;
    lines
        .into_iter()
        .map(|(name, value)| {
            let mut value = HeaderValue::from_bytes(&value).ok()?;
            value.set_sensitive(true);
            Some((name.parse::<HeaderName>().ok()?, value))
        })
        .collect()
}

fn key(ticket: &SingleUseToken) -> SealingKey {
    SealingKey::new(&ticket.to_text().derive_key(LABEL))
}

#[cfg(test)]
mod tests {
    use gatewright_base::Ambient;
    use http::header::{AUTHORIZATION, COOKIE};

    use super::*;

    #[test]
    fn only_its_own_ticket_opens_a_sealed_value() {
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
