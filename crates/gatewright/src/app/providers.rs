//! Converts the configuration of providers into the types of `gatewright_auth`.

use std::sync::Arc;
use std::time::Duration;

use gatewright_auth::AuthInitError;
use gatewright_auth::plugins::oauth::OAuthPlugin;
use gatewright_auth::providers::oidc::{ClaimNames, Oidc, OidcConfig};
use gatewright_auth::providers::{GitHub, GitHubConfig, Google, GoogleConfig, OAuthClient, Provider, ProviderHttp};
use gatewright_base::{Ambient, Secret};

use crate::config;

type Made = Result<Arc<dyn Provider>, AuthInitError>;

/// The plugin with the configured providers, in the order in which people see them.
pub(super) fn plugin(oauth: &config::OAuth) -> OAuthPlugin {
    let mut plugin =
        OAuthPlugin::new(oauth.state_secret.clone()).state_previous_secrets(oauth.state_previous_secrets.clone());
    if let Some(key) = &oauth.token_encryption_key {
        plugin = plugin.tokens(key.clone(), oauth.token_previous_encryption_keys.clone());
    }
    if let Some(provider) = oauth.google.clone() {
        plugin = plugin.provider_with(move |ambient| google(provider, ambient));
    }
    if let Some(provider) = oauth.github.clone() {
        plugin = plugin.provider_with(move |ambient| github(provider, ambient));
    }
    oauth
        .oidc
        .iter()
        .cloned()
        .fold(plugin, |plugin, provider| plugin.provider_with(move |ambient| oidc(provider, ambient)))
}

fn google(provider: config::OAuthProvider, ambient: &Ambient) -> Made {
    let config = GoogleConfig {
        redirect_url: provider.redirect_url,
        authorize_url: provider.authorize_url,
        token_url: provider.token_url,
        userinfo_url: provider.userinfo_url,
        send_pkce: provider.send_pkce,
        ..GoogleConfig::new(client(provider.client_id, provider.client_secret))
    };
    Ok(Arc::new(Google::new(config, ProviderHttp::new()?, ambient.clone())?))
}

fn github(provider: config::OAuthProvider, ambient: &Ambient) -> Made {
    let config = GitHubConfig {
        redirect_url: provider.redirect_url,
        authorize_url: provider.authorize_url,
        token_url: provider.token_url,
        userinfo_url: provider.userinfo_url,
        emails_url: provider.emails_url,
        send_pkce: provider.send_pkce,
        ..GitHubConfig::new(client(provider.client_id, provider.client_secret))
    };
    Ok(Arc::new(GitHub::new(config, ProviderHttp::new()?, ambient.clone())?))
}

fn oidc(provider: config::Oidc, ambient: &Ambient) -> Made {
    let config::Claims { subject, email, name, picture, email_verified } = provider.claims;
    let config = OidcConfig {
        label: provider.label,
        redirect_url: provider.redirect_url,
        scopes: provider.scopes,
        jwks_cache: provider.jwks_cache.max(Duration::from_secs(1)),
        claims: ClaimNames { subject, email, name, picture, email_verified },
        send_pkce: provider.send_pkce,
        send_nonce: provider.send_nonce,
        ..OidcConfig::new(provider.name, provider.issuer, client(provider.client_id, provider.client_secret))
    };
    Ok(Arc::new(Oidc::new(config, ProviderHttp::new()?, ambient.clone())?))
}

fn client(id: String, secret: Secret) -> OAuthClient {
    OAuthClient { id, secret }
}
