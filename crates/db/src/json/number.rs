use std::borrow::Cow;
use std::fmt;

/// A number as JSON fields hold it. The double of a [`Float`](Self::Float) is no integer of 64 bits, so that equal
/// numbers are the same variant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// An integer of 64 bits.
    Int(i64),
    /// Any other finite double.
    Float(f64),
}

/// Why a number cannot be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutOfRange {
    /// Text that is not a number.
    Form,
    /// An integer of more than 64 bits that no double equals.
    Integer,
    /// Greater than the greatest double.
    Large,
    /// Nonzero, and its double is zero.
    Small,
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Form => "text that is not a number",
            Self::Integer => "an integer that neither 64 bits nor a 64-bit float hold exactly",
            Self::Large => "a number that is too large for a 64-bit float",
            Self::Small => "a number so small that a 64-bit float holds 0",
        })
    }
}

impl Number {
    /// Reads a number as JSON spells it.
    ///
    /// A number whose value is an integer of 64 bits is that integer, however it is written. An integer that is written
    /// out and longer must equal its double. Any other number becomes the nearest double.
    pub fn read(text: &str) -> Result<Self, OutOfRange> {
        if let Ok(whole) = text.parse() {
            return Ok(Self::Int(whole));
        }
        let exact = Exact::of(text).ok_or(OutOfRange::Form)?;
        if let Some(whole) = exact.whole() {
            return Ok(Self::Int(whole));
        }
        let float: f64 = text.parse().map_err(|_| OutOfRange::Form)?;
        if !float.is_finite() {
            return Err(OutOfRange::Large);
        }
        if float == 0.0 {
            return Err(OutOfRange::Small);
        }
        if !text.contains(['.', 'e', 'E']) && Exact::of(&format!("{float:.0}")).as_ref() != Some(&exact) {
            return Err(OutOfRange::Integer);
        }
        Ok(Self::of_float(float))
    }

    /// A double that is an integer of 64 bits is that integer.
    fn of_float(float: f64) -> Self {
        Exact::of(&format!("{float:.0}"))
            .filter(|_| float.fract() == 0.0)
            .and_then(|exact| exact.whole())
            .map_or(Self::Float(float), Self::Int)
    }

    /// The number that stored JSON stands for in a comparison, also if it could not be written today. `None` if the text
    /// is not a number.
    pub(super) fn nearest(text: &str) -> Option<Self> {
        match Self::read(text) {
            Ok(number) => Some(number),
            Err(OutOfRange::Form) => None,
            Err(OutOfRange::Small) => Some(Self::Int(0)),
            Err(OutOfRange::Integer | OutOfRange::Large) => text.parse().ok().map(Self::of_float),
        }
    }
}

impl fmt::Display for Number {
    /// The canonical form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(whole) => whole.fmt(f),
            Self::Float(float) => match serde_json::Number::from_f64(*float) {
                Some(number) => number.fmt(f),
                None => f.write_str("null"),
            },
        }
    }
}

/// Whether a number token of JSON is in canonical form, as far as this can be seen without reading it: short integers
/// and short fractions are. `false` means that it must be read.
pub(super) fn is_plainly_canonical(token: &[u8]) -> bool {
    let digits = token.strip_prefix(b"-").unwrap_or(token);
    let Some(point) = digits.iter().position(|byte| !byte.is_ascii_digit()) else {
        return (1..=18).contains(&digits.len()) && token != b"-0";
    };
    // A double holds 15 digits of any decimal, and below 0.001 the exponent begins to matter.
    let (whole, fraction) = (&digits[..point], &digits[point + 1..]);
    digits[point] == b'.'
        && digits.len() <= 16
        && fraction.iter().all(u8::is_ascii_digit)
        && fraction.last().is_some_and(|last| *last != b'0')
        && !(whole == b"0" && fraction.starts_with(b"000"))
}

/// A decimal number without rounding: its sign, its digits without zeros at either end, and the power of ten of the
/// last one. Zero has no digits and no sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Exact<'a> {
    negative: bool,
    digits: Cow<'a, str>,
    exponent: i64,
}

impl<'a> Exact<'a> {
    /// Exponents are cut here; no double is near.
    const MOST: i64 = i64::MAX / 4;

    pub(super) fn of(text: &'a str) -> Option<Self> {
        let (negative, unsigned) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, power(exponent)?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || mantissa.ends_with('.') || !is_digits(whole) || !is_digits(fraction) {
            return None;
        }
        let all: Cow<'_, str> = if fraction.is_empty() { whole.into() } else { [whole, fraction].concat().into() };
        let zeros = all.len() - all.trim_end_matches('0').len();
        let digits: Cow<'_, str> = match all {
            Cow::Borrowed(all) => all.trim_matches('0').into(),
            Cow::Owned(all) => all.trim_matches('0').to_owned().into(),
        };
        if digits.is_empty() {
            return Some(Self { negative: false, digits, exponent: 0 });
        }
        let exponent = exponent + i64::try_from(zeros).ok()? - i64::try_from(fraction.len()).ok()?;
        Some(Self { negative, digits, exponent })
    }

    pub(super) fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    /// The number, if it is an integer of 64 bits.
    fn whole(&self) -> Option<i64> {
        let zeros = usize::try_from(self.exponent).ok().filter(|zeros| *zeros < 20)?;
        if self.digits.len() + zeros > 19 {
            return None;
        }
        let sign = if self.negative { "-" } else { "" };
        format!("{sign}0{}{}", self.digits, "0".repeat(if self.digits.is_empty() { 0 } else { zeros })).parse().ok()
    }
}

impl fmt::Display for Exact<'_> {
    /// With an exponent: `-1.5e-400`, and `0`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.digits.is_empty() {
            return f.write_str("0");
        }
        let sign = if self.negative { "-" } else { "" };
        let (first, rest) = self.digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        let exponent = i128::from(self.exponent) + i128::try_from(rest.len()).unwrap_or(0);
        write!(f, "{sign}{first}{point}{rest}e{exponent}")
    }
}

fn power(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let power = digits.parse::<i64>().unwrap_or(Exact::MOST).min(Exact::MOST);
    Some(if negative { -power } else { power })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn form(text: &str) -> Result<String, OutOfRange> {
        Number::read(text).map(|number| number.to_string())
    }

    #[test]
    fn a_number_has_one_form() {
        for (written, form_of_it) in [
            ("0", "0"),
            ("-0", "0"),
            ("-0.0", "0"),
            ("0e5", "0"),
            ("-0E-999999999999999999999", "0"),
            ("1", "1"),
            ("1.0", "1"),
            ("1e0", "1"),
            ("10e-1", "1"),
            ("1E5", "100000"),
            ("1e05", "100000"),
            ("1e+5", "100000"),
            ("1e18", "1000000000000000000"),
            ("9223372036854775807", "9223372036854775807"),
            ("9223372036854775807.0", "9223372036854775807"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("9007199254740993", "9007199254740993"),
            ("9007199254740993.0", "9007199254740993"),
            ("1.0000000000000000000000000001", "1"),
            ("0.99999999999999999999", "1"),
            ("-9007199254740992.5", "-9007199254740992"),
            ("9223372036854775807.5", "9.223372036854776e+18"),
            ("9223372036854775808", "9.223372036854776e+18"),
            ("18446744073709551616", "1.8446744073709552e+19"),
            ("10000000000000000000000", "1e+22"),
            ("1e19", "1e+19"),
            ("1e23", "1e+23"),
            ("0.1", "0.1"),
            ("0.10", "0.1"),
            ("1e-1", "0.1"),
            ("0.30000000000000004", "0.30000000000000004"),
            ("0.1000000000000000055511151231257827", "0.1"),
            ("1e-300", "1e-300"),
            ("1e300", "1e+300"),
            ("4e-324", "5e-324"),
            ("1.7976931348623157e308", "1.7976931348623157e+308"),
        ] {
            assert_eq!(form(written).as_deref(), Ok(form_of_it), "{written}");
            assert_eq!(form(form_of_it).as_deref(), Ok(form_of_it), "{written}");
        }
    }

    #[test]
    fn numbers_that_neither_64_bits_nor_a_double_hold_are_refused() {
        for (written, why) in [
            ("9223372036854775809", OutOfRange::Integer),
            ("18446744073709551615", OutOfRange::Integer),
            ("18446744073709551617", OutOfRange::Integer),
            ("-9223372036854775809", OutOfRange::Integer),
            ("100000000000000000000000", OutOfRange::Integer),
            ("1e309", OutOfRange::Large),
            ("-1e400", OutOfRange::Large),
            ("1e99999999999999999999", OutOfRange::Large),
            ("1e-400", OutOfRange::Small),
            ("-1e-324", OutOfRange::Small),
            ("1e-99999999999999999999", OutOfRange::Small),
            ("", OutOfRange::Form),
            ("-", OutOfRange::Form),
            ("1.", OutOfRange::Form),
            (".5", OutOfRange::Form),
            ("1e", OutOfRange::Form),
            ("NaN", OutOfRange::Form),
            ("-inf", OutOfRange::Form),
            ("0x1", OutOfRange::Form),
        ] {
            assert_eq!(form(written), Err(why), "{written}");
        }
    }

    proptest! {
        #[test]
        fn a_double_keeps_its_value_and_its_form(bits in any::<u64>()) {
            let double = f64::from_bits(bits);
            prop_assume!(double.is_finite());
            for written in [format!("{double}"), format!("{double:e}")] {
                // A large double that is written with its shortest digits is another integer.
                let Ok(number) = Number::read(&written) else { continue };
                let form = number.to_string();
                prop_assert_eq!(form.parse::<f64>().unwrap().to_bits(), (double + 0.0).to_bits());
                prop_assert_eq!(Number::read(&form).unwrap().to_string(), form);
            }
        }

        #[test]
        fn what_is_plainly_canonical_is_its_own_form(token in "-?(0|[1-9][0-9]{0,19})(\\.[0-9]{1,18})?(e-?[0-9]{1,2})?") {
            if is_plainly_canonical(token.as_bytes()) {
                prop_assert_eq!(form(&token), Ok(token));
            }
        }
    }
}
