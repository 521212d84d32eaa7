//! Postgres's binary form of `numeric`: base-10000 digits with the weight of the first one.

use std::error::Error as StdError;
use std::fmt::Write;

use bytes::{BufMut, BytesMut};

const NEGATIVE: u16 = 0x4000;
const NOT_A_NUMBER: u16 = 0xC000;
/// The values that are no numbers, with [`OUTSIDE`](crate::row::OUTSIDE) before their names.
const SPECIAL: [(&str, u16); 3] = [("@NaN", NOT_A_NUMBER), ("@Infinity", 0xD000), ("@-Infinity", 0xF000)];

/// Writes plain decimal text: an optional sign, digits, an optional point and digits. Or what [`decode`] returns for a value
/// that is no number.
pub(super) fn encode(text: &str, out: &mut BytesMut) -> Result<(), Box<dyn StdError + Sync + Send>> {
    if let Some((_, sign)) = SPECIAL.iter().find(|(name, _)| *name == text) {
        out.put_i16(0);
        out.put_i16(0);
        out.put_u16(*sign);
        out.put_i16(0);
        return Ok(());
    }
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let all_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !all_digits(whole) || !all_digits(fraction) || unsigned.len() > 2_000 {
        return Err("not a decimal number".into());
    }
    let whole = format!("{:0>width$}", whole, width = whole.len().div_ceil(4) * 4);
    let padded = format!("{:0<width$}", fraction, width = fraction.len().div_ceil(4) * 4);
    let groups: Vec<i16> = whole
        .as_bytes()
        .chunks(4)
        .chain(padded.as_bytes().chunks(4))
        .map(|group| group.iter().fold(0, |n, d| n * 10 + i16::from(d - b'0')))
        .collect();
    let leading = groups.iter().take_while(|group| **group == 0).count();
    let trailing = groups.iter().skip(leading).rev().take_while(|group| **group == 0).count();
    let digits = &groups[leading..groups.len() - trailing];
    let weight = i16::try_from(whole.len() / 4)? - 1 - i16::try_from(leading)?;
    out.put_i16(i16::try_from(digits.len())?);
    out.put_i16(if digits.is_empty() { 0 } else { weight });
    out.put_u16(if negative && !digits.is_empty() { NEGATIVE } else { 0 });
    out.put_i16(i16::try_from(fraction.len())?);
    for digit in digits {
        out.put_i16(*digit);
    }
    Ok(())
}

/// Converts the binary form to plain decimal text, or to the name of a value that is no number. `None` if it is truncated.
pub(super) fn decode(bytes: &[u8]) -> Option<String> {
    let word = |index: usize| Some(u16::from_be_bytes([*bytes.get(2 * index)?, *bytes.get(2 * index + 1)?]));
    let count = usize::from(word(0)?);
    let weight = i32::from(word(1)?.cast_signed());
    let sign = word(2)?;
    let scale = usize::from(word(3)?);
    if sign & NOT_A_NUMBER == NOT_A_NUMBER {
        return SPECIAL.iter().find(|(_, special)| *special == sign).map(|(name, _)| (*name).to_owned());
    }
    let digits: Vec<u16> = (0..count).map(|index| word(4 + index)).collect::<Option<_>>()?;
    let group = |position: i32| usize::try_from(position).ok().and_then(|at| digits.get(at)).copied().unwrap_or(0);
    let mut whole = String::new();
    for position in 0..=weight {
        four_digits(&mut whole, group(position));
    }
    let whole = whole.trim_start_matches('0');
    let mut plain = String::from(if sign == NEGATIVE { "-" } else { "" });
    plain.push_str(if whole.is_empty() { "0" } else { whole });
    if scale > 0 {
        // Groups between the point and the first one that is stored are zero: their position is negative.
        let mut fraction = String::new();
        for offset in 1..=i32::try_from(scale.div_ceil(4)).ok()? {
            four_digits(&mut fraction, group(weight + offset));
        }
        plain.push('.');
        plain.push_str(&fraction[..scale]);
    }
    Some(plain)
}

fn four_digits(out: &mut String, group: u16) {
    let _infallible = write!(out, "{group:04}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_survive_the_binary_form() {
        let cases = [
            "0",
            "1",
            "-1",
            "12.5",
            "-12.5",
            "0.1",
            "0.0001",
            "0.00001",
            "0.000000001",
            "10000",
            "99999999",
            "100000000.00000001",
            "12345678901234567890123456789012345678",
            "-0.12345678901234567890123456789012345678",
            "1.10",
            "0.00",
        ];
        for text in cases {
            let mut bytes = BytesMut::new();
            encode(text, &mut bytes).unwrap();
            assert_eq!(decode(&bytes).as_deref(), Some(text), "{text}");
        }
    }

    #[test]
    fn invalid_decimals_are_refused() {
        for text in ["", "-", ".", "1e5", "NaN", "1.2.3", "1,5", " 1"] {
            assert!(encode(text, &mut BytesMut::new()).is_err(), "{text}");
        }
        assert_eq!(decode(&[0, 1]), None);
        for (name, sign) in SPECIAL {
            let mut bytes = BytesMut::new();
            encode(name, &mut bytes).unwrap();
            assert_eq!(bytes[4..6], sign.to_be_bytes());
            assert_eq!(decode(&bytes).as_deref(), Some(name));
        }
    }
}
