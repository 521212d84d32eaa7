use gatewright_http::locale::{Branding, Color};

use super::Faults;
use crate::config::{Config, LogoPlace};

pub(super) fn check(config: &Config, faults: &mut Faults) {
    let branding = &config.branding;
    if let Some(Err(error)) = branding.name.as_deref().map(Branding::check_name) {
        faults.add("branding.name", error.to_string());
    }
    if let Some(Err(error)) = branding.color.as_deref().map(str::parse::<Color>) {
        faults.add("branding.color", error.to_string());
    }
    if let Some(Err(error)) = branding.support_url.as_ref().map(Branding::check_support_url) {
        faults.add("branding.support_url", error.to_string());
    }
    for (key, url) in [("branding.terms_url", &branding.terms_url), ("branding.privacy_url", &branding.privacy_url)] {
        if let Some(Err(error)) = url.as_ref().map(Branding::check_page) {
            faults.add(key, error.to_string());
        }
    }
    let fits = branding.radius.is_none_or(|radius| radius <= u32::from(Branding::MAX_RADIUS));
    faults.require(fits, "branding.radius", "must be at most 24");
    for (key, logo) in ["branding.logo", "branding.logo_dark"].into_iter().zip(branding.logos()) {
        if let Some(Err(error)) = logo.map(|logo| LogoPlace::of(logo).check()) {
            faults.add(key, error);
        }
    }
    if let Err(error) = branding.languages() {
        faults.add("branding.languages", error.to_string());
    }
}
