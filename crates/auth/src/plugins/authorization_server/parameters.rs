use gatewright_base::Secret;
use url::form_urlencoded;

use super::error::OAuthError;

/// The parameters of a request, in which no name comes twice (RFC 6749, section 3.1). An empty value counts as absent.
#[derive(Debug)]
pub(super) struct Parameters(Vec<(String, Secret)>);

impl Parameters {
    /// Reads a query or a form.
    pub(super) fn parse(text: &[u8]) -> Result<Self, OAuthError> {
        let mut found: Vec<(String, Secret)> = Vec::new();
        for (name, value) in form_urlencoded::parse(text) {
            // RFC 8707 allows several resources. A token of this server is valid at one.
            if found.iter().any(|(known, _)| *known == name) {
                return Err(OAuthError::invalid_request("a parameter is given more than once"));
            }
            if found.len() == 64 {
                return Err(OAuthError::invalid_request("too many parameters"));
            }
            found.push((name.into_owned(), Secret::new(value.into_owned())));
        }
        Ok(Self(found))
    }

    /// A parameter's value.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let (_, value) = self.0.iter().find(|(known, _)| known == name)?;
        Some(value.expose()).filter(|value| !value.is_empty())
    }

    /// A parameter's value, which must be there.
    pub(super) fn required(&self, name: &str, missing: &'static str) -> Result<&str, OAuthError> {
        self.get(name).ok_or_else(|| OAuthError::invalid_request(missing))
    }
}
