use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gatewright_base::{Ambient, Secret};

/// A new secret of 32 random bytes, as 43 characters that need no quoting.
pub fn fresh_secret(ambient: &Ambient) -> Secret {
    Secret::new(URL_SAFE_NO_PAD.encode(ambient.bytes::<32>()))
}

/// A commented configuration with two example entities and new secrets, which passes every check. The whole text is a
/// secret.
pub fn template(ambient: &Ambient) -> Secret {
    Secret::new(include_str!("template.toml").replace("{{jwt_secret}}", fresh_secret(ambient).expose()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    #[test]
    fn the_template_passes_every_check_and_holds_a_fresh_secret() {
        let ambient = Ambient::system();
        let config = Config::from_toml("gatewright.toml", template(&ambient).expose()).unwrap();
        assert_eq!(config.entities.len(), 2);
        assert!(!config.server.dev_mode);
        assert_eq!(config.auth.jwt_secret.len(), 43);
        assert_ne!(template(&ambient), template(&ambient));
    }
}
