//! Signed addresses: they need no rights, until their time.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gatewright_base::SigningKey;
use jiff::Timestamp;

/// What a signature covers. Each part is told apart from the others, and all of them from those of another address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Signed<'a> {
    pub(crate) table: &'a str,
    pub(crate) record: &'a str,
    pub(crate) field: &'a str,
    pub(crate) file: &'a str,
    pub(crate) asked: &'a Asked,
    /// In seconds since 1970.
    pub(crate) expires: i64,
}

/// The parameters of a download.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) download: bool,
    /// The size of a thumbnail.
    pub(crate) thumbnail: Option<String>,
    pub(crate) tenant: Option<String>,
}

impl Signed<'_> {
    /// The query of the signed address.
    pub(crate) fn query(&self, key: &SigningKey) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        let Asked { download, thumbnail, tenant } = self.asked;
        if *download {
            query.append_pair("download", "1");
        }
        if let Some(thumbnail) = thumbnail {
            query.append_pair("thumbnail", thumbnail);
        }
        if let Some(tenant) = tenant {
            query.append_pair("tenant", tenant);
        }
        query.append_pair("expires", &self.expires.to_string());
        query.append_pair("signature", &URL_SAFE_NO_PAD.encode(self.tag(key)));
        query.finish()
    }

    /// Whether the signature is that of this address, and its time has not passed.
    pub(crate) fn is_valid(&self, key: &SigningKey, signature: &str, now: Timestamp) -> bool {
        let Ok(tag) = URL_SAFE_NO_PAD.decode(signature) else { return false };
        tag.len() == 32 && self.with_parts(|parts| key.is_tag(&tag, parts)) && now.as_second() < self.expires
    }

    fn tag(&self, key: &SigningKey) -> [u8; 32] {
        self.with_parts(|parts| key.tag(parts))
    }

    fn with_parts<T>(&self, of: impl FnOnce(&[&[u8]]) -> T) -> T {
        let Asked { download, thumbnail, tenant } = self.asked;
        // What is absent differs from what is empty.
        let tenant = tenant.as_ref().map_or_else(String::new, |tenant| format!("={tenant}"));
        let expires = self.expires.to_string();
        let mut parts = vec![
            self.table.as_bytes(),
            self.record.as_bytes(),
            self.field.as_bytes(),
            self.file.as_bytes(),
            if *download { b"download" } else { &b""[..] },
            tenant.as_bytes(),
            expires.as_bytes(),
        ];
        // Another number of parts is another signature.
        parts.extend(thumbnail.as_ref().map(String::as_bytes));
        of(&parts)
    }
}

#[cfg(test)]
mod tests {
    use gatewright_base::Secret;

    use super::*;

    #[test]
    fn a_signature_is_valid_for_its_own_address_and_time_only() {
        let key = SigningKey::new(Secret::new("a".repeat(32)).derive_key("test"));
        let asked = Asked { tenant: Some("acme".to_owned()), ..Asked::default() };
        let signed = Signed { table: "t", record: "r", field: "f", file: "i", asked: &asked, expires: 100 };
        let query = signed.query(&key);
        let signature = query.rsplit_once("signature=").unwrap().1;
        let at = |second| Timestamp::from_second(second).unwrap();
        assert!(signed.is_valid(&key, signature, at(99)));
        assert!(!signed.is_valid(&key, signature, at(100)));
        let other = |change: fn(&mut Asked)| {
            let mut asked = asked.clone();
            change(&mut asked);
            asked
        };
        let without = other(|asked| asked.tenant = None);
        let empty = other(|asked| asked.tenant = Some(String::new()));
        let download = other(|asked| asked.download = true);
        let tenant = other(|asked| asked.tenant = Some("other".to_owned()));
        let thumbnail = other(|asked| asked.thumbnail = Some("1x1".to_owned()));
        let no_thumbnail = other(|asked| asked.thumbnail = Some(String::new()));
        for moved in [
            Signed { table: "u", ..signed.clone() },
            Signed { record: "s", ..signed.clone() },
            Signed { field: "g", ..signed.clone() },
            Signed { file: "j", ..signed.clone() },
            Signed { expires: 101, ..signed.clone() },
            Signed { table: "tr", record: "", ..signed.clone() },
            Signed { asked: &without, ..signed.clone() },
            Signed { asked: &empty, ..signed.clone() },
            Signed { asked: &download, ..signed.clone() },
            Signed { asked: &tenant, ..signed.clone() },
            Signed { asked: &thumbnail, ..signed.clone() },
            Signed { asked: &no_thumbnail, ..signed.clone() },
        ] {
            assert!(!moved.is_valid(&key, signature, at(50)), "{moved:?}");
        }
        for wrong in ["", "x", &signature[..20]] {
            assert!(!signed.is_valid(&key, wrong, at(50)));
        }
    }
}
