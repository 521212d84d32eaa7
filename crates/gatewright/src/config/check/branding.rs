use gatewright_http::locale::{Branding, Color};

use super::Faults;
use crate::config::Config;

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
    if let Err(error) = branding.check_logo() {
        faults.add("branding.logo", error);
    }
    if let Err(error) = branding.languages() {
        faults.add("branding.languages", error.to_string());
    }
}
