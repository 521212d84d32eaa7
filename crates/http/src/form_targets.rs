//! Where the answer to a page's form may lead, for the page's content security policy: browsers apply `form-action` to
//! redirects after a form, too.

use axum::response::Response;
use http::HeaderValue;
use http::header::CONTENT_SECURITY_POLICY;

use crate::Origin;

/// An origin, or the scheme of a program. Its text has no character that is special in a policy, whoever chose it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormTarget(String);

/// The directive of every page, to which targets are added.
const OWN: &str = "form-action 'self'";

impl FormTarget {
    /// A program on the user's device that handles URLs with this scheme; `None` if the text is not a scheme (RFC 3986,
    /// section 3.1) in lower case.
    pub fn program(scheme: &str) -> Option<Self> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.');
        let is_scheme = scheme.starts_with(|c: char| c.is_ascii_lowercase()) && scheme.bytes().all(plain);
        is_scheme.then(|| Self(format!("{scheme}:")))
    }

    /// Lets the answer to a form of this page lead to `targets`.
    pub fn allow(targets: &[Self], page: &mut Response) {
        let policy = page.headers().get(CONTENT_SECURITY_POLICY).and_then(|policy| policy.to_str().ok());
        let Some((before, after)) = policy.and_then(|policy| policy.split_once(OWN)) else { return };
        let mut wider = format!("{before}{OWN}");
        for Self(target) in targets {
            wider.push(' ');
            wider.push_str(target);
        }
        wider.push_str(after);
        if let Ok(wider) = HeaderValue::from_str(&wider) {
            page.headers_mut().insert(CONTENT_SECURITY_POLICY, wider);
        }
    }
}

impl From<&Origin> for FormTarget {
    fn from(origin: &Origin) -> Self {
        Self(origin.as_str().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;

    use super::*;

    #[test]
    fn a_scheme_is_plain() {
        for good in ["cursor", "vscode-insiders", "com.example.app", "x+y1"] {
            assert_eq!(FormTarget::program(good), Some(FormTarget(format!("{good}:"))), "{good}");
        }
        for bad in ["", "Cursor", "1a", "a b", "a;sandbox", "a,b", "*", "a:", "é", "'self'"] {
            assert_eq!(FormTarget::program(bad), None, "{bad}");
        }
    }

    #[test]
    fn targets_are_added_to_the_directive_of_forms_alone() {
        let policy = "default-src 'none'; form-action 'self'; base-uri 'none'";
        let mut page = ([(CONTENT_SECURITY_POLICY, policy)], "").into_response();
        let origin: Origin = "https://app.example.com:8443".parse().unwrap();
        FormTarget::allow(&[FormTarget::from(&origin), FormTarget::program("cursor").unwrap()], &mut page);
        let wider = "default-src 'none'; form-action 'self' https://app.example.com:8443 cursor:; base-uri 'none'";
        assert_eq!(page.headers()[CONTENT_SECURITY_POLICY], wider);
        let mut bare = "".into_response();
        FormTarget::allow(&[FormTarget::from(&origin)], &mut bare);
        assert_eq!(bare.headers().get(CONTENT_SECURITY_POLICY), None);
    }
}
