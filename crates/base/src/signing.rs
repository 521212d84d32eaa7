use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::{Ambient, Key, Secret};

/// Bytes of a whole tag, and the fewest that are accepted.
const TAG: usize = 32;
const SHORTEST_TAG: usize = 16;

/// Authenticates values that leave the service and come back: HMAC-SHA256 with a key for one purpose.
///
/// Signed values are readable by their holder, but only the service can create them.
#[derive(Clone)]
pub struct SigningKey(Arc<Keys>);

/// The key that signs, and earlier or later ones whose signatures are valid during a rotation.
struct Keys {
    current: Key,
    others: Vec<Key>,
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(…)")
    }
}

impl SigningKey {
    /// Signs with this key.
    pub fn new(key: Key) -> Self {
        Self(Arc::new(Keys { current: key, others: Vec::new() }))
    }

    /// Signs with the key that the first of `secrets` has for the purpose named by `label`, as [`Secret::derive_key`] does.
    /// What the keys of the others signed is valid too. If the first is empty, its key is random and lost when the process
    /// ends.
    pub fn derive<'s>(secrets: impl IntoIterator<Item = &'s Secret>, label: &str, ambient: &Ambient) -> Self {
        let mut secrets = secrets.into_iter();
        let current = secrets.next().filter(|secret| !secret.is_empty());
        let current = current.map_or_else(|| Key::new(ambient.bytes()), |secret| secret.derive_key(label));
        let others = secrets.filter(|secret| !secret.is_empty()).map(|secret| secret.derive_key(label)).collect();
        Self(Arc::new(Keys { current, others }))
    }

    /// The same key, and those of `secrets` whose signatures are valid too.
    pub fn accepting<'s>(self, secrets: impl IntoIterator<Item = &'s Secret>, label: &str) -> Self {
        let Keys { current, others } = &*self.0;
        let more = secrets.into_iter().map(|secret| secret.derive_key(label));
        Self(Arc::new(Keys { current: current.clone(), others: others.iter().cloned().chain(more).collect() }))
    }

    /// The tag of `parts`. Each part is hashed behind its length, so no other list of parts has the same tag.
    pub fn tag(&self, parts: &[&[u8]]) -> [u8; TAG] {
        mac(&self.0.current, parts).finalize().into_bytes().into()
    }

    /// The tags of `parts` by every key, the current one first: for texts that are derived from a tag, and not verified.
    pub fn tags(&self, parts: &[&[u8]]) -> impl Iterator<Item = [u8; TAG]> {
        self.keys().map(move |key| mac(key, parts).finalize().into_bytes().into())
    }

    /// The tag of `wanted` by the key whose tag of `parts` is `tag`. `None` if `tag` is of no key.
    pub fn tag_beside(&self, tag: &[u8], parts: &[&[u8]], wanted: &[&[u8]]) -> Option<[u8; TAG]> {
        let key = self.keys().find(|key| is_tag_of(key, tag, parts))?;
        Some(mac(key, wanted).finalize().into_bytes().into())
    }

    /// Whether `tag` is that of `parts`, or the first 16 or more bytes of it. Compares in constant time.
    pub fn is_tag(&self, tag: &[u8], parts: &[&[u8]]) -> bool {
        self.keys().any(|key| is_tag_of(key, tag, parts))
    }

    /// `base64url(payload) "." base64url(tag)`.
    pub fn sign(&self, payload: &[u8]) -> Secret {
        let tag = self.tag(&[payload]);
        Secret::new(format!("{}.{}", URL_SAFE_NO_PAD.encode(payload), URL_SAFE_NO_PAD.encode(tag)))
    }

    /// The payload of a text that [`sign`](Self::sign) made with this key. The caller must limit the length of `text`.
    pub fn open(&self, text: &str) -> Option<Zeroizing<Vec<u8>>> {
        let (payload, tag) = text.split_once('.')?;
        let payload = Zeroizing::new(URL_SAFE_NO_PAD.decode(payload).ok()?);
        let tag = URL_SAFE_NO_PAD.decode(tag).ok()?;
        (tag.len() == TAG && self.is_tag(&tag, &[&payload])).then_some(payload)
    }

    fn keys(&self) -> impl Iterator<Item = &Key> {
        std::iter::once(&self.0.current).chain(&self.0.others)
    }
}

fn is_tag_of(key: &Key, tag: &[u8], parts: &[&[u8]]) -> bool {
    tag.len() >= SHORTEST_TAG && mac(key, parts).verify_truncated_left(tag).is_ok()
}

fn mac(key: &Key, parts: &[&[u8]]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_slice()).expect("HMAC takes a key of any length");
    for part in parts {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part);
    }
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> SigningKey {
        SigningKey::new(Key::new([byte; 32]))
    }

    #[test]
    fn a_tag_is_valid_only_for_its_parts_and_its_key() {
        let tag = key(1).tag(&[b"ab", b"c"]);
        assert!(key(1).is_tag(&tag, &[b"ab", b"c"]));
        for parts in [&[b"a" as &[u8], b"bc"] as &[&[u8]], &[b"abc"], &[b"ab", b"c", b""], &[b"ab"], &[]] {
            assert!(!key(1).is_tag(&tag, parts), "{parts:?}");
        }
        assert!(!key(2).is_tag(&tag, &[b"ab", b"c"]));
    }

    /// The order of a rotation: first every replica accepts the new secret, then each signs with it.
    #[test]
    fn during_a_rotation_replicas_accept_the_tags_of_each_other() {
        let ambient = Ambient::manual(jiff::Timestamp::UNIX_EPOCH, 1).0;
        let [old, new] = ["old", "new"].map(Secret::new);
        let key = |secrets: &[&Secret]| SigningKey::derive(secrets.iter().copied(), "label", &ambient);
        let steps = [key(&[&old]), key(&[&old, &new]), key(&[&new, &old]), key(&[&new])];
        for pair in steps.windows(2) {
            for (signs, reads) in [(&pair[0], &pair[1]), (&pair[1], &pair[0])] {
                let tag = signs.tag(&[b"a"]);
                assert!(reads.is_tag(&tag, &[b"a"]) && !reads.is_tag(&tag, &[b"b"]));
                assert!(reads.tags(&[b"a"]).any(|found| found == tag));
                assert_eq!(reads.tag_beside(&tag, &[b"a"], &[b"b"]), Some(signs.tag(&[b"b"])));
                assert_eq!(reads.open(signs.sign(b"text").expose()).unwrap().as_slice(), b"text");
            }
        }
        assert!(!steps[3].is_tag(&steps[0].tag(&[b"a"]), &[b"a"]), "the old secret is over");
        assert_eq!(steps[3].tag_beside(&steps[0].tag(&[b"a"]), &[b"a"], &[b"b"]), None);
    }

    #[test]
    fn a_tag_may_be_cut_to_sixteen_bytes_and_no_further() {
        let tag = key(1).tag(&[b"a"]);
        for (length, good) in [(0, false), (1, false), (15, false), (16, true), (31, true), (32, true)] {
            assert_eq!(key(1).is_tag(&tag[..length], &[b"a"]), good, "{length}");
        }
        assert!(!key(1).is_tag(&[&tag[..], &[0]].concat(), &[b"a"]), "longer than a tag");
    }

    #[test]
    fn only_signed_values_open() {
        let text = key(1).sign(b"payload");
        let text = text.expose();
        assert_eq!(key(1).open(text).unwrap().as_slice(), b"payload");
        assert!(key(2).open(text).is_none());
        let (payload, tag) = text.split_once('.').unwrap();
        let short = URL_SAFE_NO_PAD.encode(&URL_SAFE_NO_PAD.decode(tag).unwrap()[..16]);
        let other = URL_SAFE_NO_PAD.encode("another");
        for text in [payload, &format!("{payload}."), &format!("{payload}.{short}"), &format!("{other}.{tag}"), "", "."]
        {
            assert!(key(1).open(text).is_none(), "{text}");
        }
    }

    /// Computed with another implementation; guards the formats against a silent change.
    #[test]
    fn a_tag_is_the_standard_hmac_of_the_parts_behind_their_lengths() {
        let tag = key(7).tag(&[b"register", b"session-1"]);
        assert_eq!(u128::from_be_bytes(tag[..16].try_into().unwrap()), 0x0dcf_3e68_00ab_3c06_80b6_769c_c2c0_144b);
    }
}
