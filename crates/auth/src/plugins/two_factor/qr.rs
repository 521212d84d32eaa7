use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gatewright_base::Secret;
use qrcode::render::svg;
use qrcode::types::QrError;
use qrcode::{EcLevel, QrCode};

/// A picture of `text` as a data URI of an SVG: it needs no other host, and no page needs a looser policy to show it.
pub(super) fn picture(text: &Secret) -> Result<Secret, QrError> {
    let code = QrCode::with_error_correction_level(text.expose(), EcLevel::M)?;
    let image = code.render::<svg::Color<'_>>().min_dimensions(256, 256).build();
    Ok(Secret::new(format!("data:image/svg+xml;base64,{}", STANDARD.encode(image))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_is_an_svg_without_anything_to_load_or_run() {
        let picture = picture(&Secret::new("otpauth://totp/x?secret=ABC")).unwrap();
        let encoded = picture.expose().strip_prefix("data:image/svg+xml;base64,").unwrap();
        let image = String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap();
        assert!(image.contains("<svg") && image.ends_with("</svg>"));
        assert!(!image.contains("href") && !image.contains("script"));
    }

    #[test]
    fn the_longest_address_fits() {
        let text = format!("otpauth://totp/{}?secret={}", "%41".repeat(64 + 254), "A".repeat(32));
        assert!(picture(&Secret::new(text)).is_ok());
    }
}
