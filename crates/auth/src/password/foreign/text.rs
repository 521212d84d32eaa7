//! Bytes in the spellings of several systems.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// With or without padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Base64 in its standard alphabet, the one for URLs, or that of passlib.
pub(super) fn base64(text: &str) -> Option<Vec<u8>> {
    let standard = text.chars().map(|c| match c {
        '.' | '-' => '+',
        '_' => '/',
        other => other,
    });
    LENIENT.decode(standard.collect::<String>()).ok()
}

/// Pairs of hexadecimal digits, in lower or upper case.
pub(super) fn of_hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits = text.chars().map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok()));
    let digits = digits.collect::<Option<Vec<u8>>>().filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// Two digits in lower case for each byte.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
