use std::sync::Arc;

use url::Url;

use crate::config::AuthConfig;
use crate::init_error::AuthInitError;
use crate::providers::{Provider, is_provider_name};

/// The configured providers.
#[derive(Clone)]
pub(crate) struct Providers(Arc<[Registered]>);

/// A provider, and its callback address.
#[derive(Clone)]
pub(crate) struct Registered {
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) redirect: Url,
}

impl Providers {
    /// Checks names and determines the callback addresses.
    pub(super) fn new(providers: Vec<Arc<dyn Provider>>, config: &AuthConfig) -> Result<Self, AuthInitError> {
        let mut registered: Vec<Registered> = Vec::new();
        for provider in providers {
            let name = provider.name();
            let wrong = |problem| Err(AuthInitError::Setting { setting: "oauth", problem });
            if !is_provider_name(name) {
                return wrong(format!("the provider name {name:?} must be 1 to 48 of a-z, 0-9, `-` and `_`"));
            }
            if registered.iter().any(|other| other.provider.name() == name) {
                return wrong(format!("there are two providers named {name:?}"));
            }
            let Some(redirect) = redirect(&*provider, config) else {
                let problem = format!("the address that {name} sends browsers back to is built from it");
                return Err(AuthInitError::Setting { setting: "public_url", problem });
            };
            registered.push(Registered { provider, redirect });
        }
        Ok(Self(registered.into()))
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Registered> {
        self.0.iter().find(|registered| registered.provider.name() == name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Registered> {
        self.0.iter()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The provider's own, or one below the public address; never anything of a request.
fn redirect(provider: &dyn Provider, config: &AuthConfig) -> Option<Url> {
    if let Some(url) = provider.redirect_url() {
        return Some(url.clone());
    }
    let mut url = config.public_url.clone()?;
    url.set_query(None);
    url.set_fragment(None);
    let base = url.as_str().trim_end_matches('/');
    Url::parse(&format!("{base}{}/oauth/{}/callback", config.base_path, provider.name())).ok()
}
