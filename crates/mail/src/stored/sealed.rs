//! The secret parts of a stored letter, encrypted: its link, its code, and the device of a notice.

use gatewright_base::{SealingKey, Secret};
use zeroize::Zeroizing;

use crate::{Device, Invited, Kind, Letter};

/// The keys that stored letters are sealed with.
#[derive(Debug)]
pub struct MailKeys {
    /// The first one seals; all open.
    keys: Vec<SealingKey>,
}

/// Part of the stored format.
const LABEL: &str = "gatewright/mail-queue/v1";

#[derive(serde::Serialize)]
struct Sealing<'a> {
    link: &'a str,
    code: Option<&'a str>,
    language: Option<&'a str>,
    device: Option<&'a Device>,
    account: Option<&'a str>,
    credentials: &'a [String],
    invitation: &'a Invited,
    change: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    written: Option<&'a crate::Written>,
}

#[derive(serde::Deserialize)]
struct Read {
    link: Secret,
    code: Option<Secret>,
    language: Option<String>,
    device: Option<Device>,
    account: Option<String>,
    #[serde(default)]
    credentials: Vec<String>,
    #[serde(default)]
    invitation: Invited,
    #[serde(default)]
    change: Option<String>,
    #[serde(default)]
    written: Option<crate::Written>,
}

/// Where a sealed text belongs: a text that is moved to another letter, or to another recipient, does not open.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) id: &'a str,
    /// As the row has it: the name of today or one of before.
    pub(super) kind: &'a str,
    pub(super) recipient: &'a str,
}

impl MailKeys {
    /// Keys from the server's secret and from its earlier secrets.
    pub fn new(secret: &Secret, previous: &[Secret]) -> Self {
        let secrets = std::iter::once(secret).chain(previous);
        Self { keys: secrets.map(|secret| SealingKey::new(&secret.derive_key(LABEL))).collect() }
    }

    pub(super) fn seal(&self, letter: &Letter, place: Place<'_>) -> Vec<u8> {
        let sealing = Sealing {
            link: letter.link.expose(),
            code: letter.code.as_ref().map(Secret::expose),
            language: letter.language.as_deref(),
            device: letter.device.as_ref(),
            account: letter.account.as_deref(),
            credentials: &letter.credentials,
            invitation: &letter.invitation,
            change: letter.change.as_deref(),
            written: letter.written.as_ref(),
        };
        let text = Zeroizing::new(serde_json::to_vec(&sealing).expect("text can be written as JSON"));
        self.keys[0].seal(&text, &place.bytes())
    }

    /// The letter without its lifetime; `None` if no key decrypts it, or its kind is unknown.
    pub(super) fn open(&self, sealed: &[u8], place: Place<'_>) -> Option<Letter> {
        let kind = Kind::parse(place.kind)?;
        let text = self.keys.iter().find_map(|key| key.open(sealed, &place.bytes()))?;
        let Read { link, code, language, device, account, credentials, invitation, change, written } =
            serde_json::from_slice(&text).ok()?;
        let letter = Letter::new(kind, place.recipient, link, std::time::Duration::ZERO);
        let (language, account) = (language.map(Into::into), account.map(Into::into));
        Some(Letter { language, code, account, credentials, invitation, change, device, written, ..letter })
    }
}

impl Place<'_> {
    /// An id has one length and a kind has no slash, so that no two places have the same bytes.
    fn bytes(self) -> Vec<u8> {
        format!("{}/{}/{}", self.id, self.kind, self.recipient).into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(present: &str, previous: &[&str]) -> MailKeys {
        let previous: Vec<_> = previous.iter().map(|letter| Secret::new(letter.repeat(32))).collect();
        MailKeys::new(&Secret::new(present.repeat(32)), &previous)
    }

    #[test]
    fn a_letter_opens_only_in_its_own_row_also_with_an_earlier_key() {
        let place = Place { id: "1", kind: Kind::NewDevice.name(), recipient: "ann@example.com" };
        let device = Device { time: "now".to_owned(), name: "Firefox".to_owned(), address: "::1".to_owned() };
        let letter = Letter::new(Kind::NewDevice, place.recipient, Secret::new("canary"), std::time::Duration::ZERO);
        let letter = letter.code(Secret::new("7K3Q-9XWD")).language("de").device(device);
        let invitation = Invited { tenant: "Acme".to_owned(), inviter: "bea@example.com".to_owned() };
        let letter = Letter { invitation, change: Some("Invited: eve@example.com".to_owned()), ..letter };
        let sealed = keys("a", &[]).seal(&letter, place);
        assert!(!sealed.windows(6).any(|part| part == b"canary"));
        for keys in [keys("a", &[]), keys("b", &["z", "a"])] {
            let opened = keys.open(&sealed, place).unwrap();
            assert_eq!((&opened.link, &opened.code, &opened.device), (&letter.link, &letter.code, &letter.device));
            assert_eq!((opened.invitation, opened.change), (letter.invitation.clone(), letter.change.clone()));
            assert_eq!(
                (opened.kind, &*opened.to, opened.language),
                (letter.kind, &*letter.to, letter.language.clone())
            );
        }
        for other in [
            Place { id: "2", ..place },
            Place { kind: Kind::MagicLink.name(), ..place },
            Place { recipient: "eve@example.com", ..place },
        ] {
            assert!(keys("a", &[]).open(&sealed, other).is_none());
        }
        assert!(keys("b", &[]).open(&sealed, place).is_none());
    }
}
