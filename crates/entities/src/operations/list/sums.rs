//! Exact sums and averages as JSON.

use gatewright_db::ValueRef;

use crate::declare::Kind;

/// The digits behind the point of the average of decimals.
const PLACES: usize = 10;

/// An exact sum as JSON: a number, or a text for decimals.
pub(super) fn sum(kind: Kind, exact: Option<&str>) -> String {
    match (exact, kind) {
        (Some(text), Kind::Decimal) => format!("\"{}\"", plain(text)),
        (Some(text), Kind::Float) => float(text.parse().unwrap_or(f64::INFINITY)),
        (Some(text), _) => plain(text).to_owned(),
        (None, _) => "null".to_owned(),
    }
}

pub(super) fn average(kind: Kind, exact: Option<&str>, count: &ValueRef<'_>) -> String {
    let (Some(text), ValueRef::Int(count)) = (exact, count) else { return "null".to_owned() };
    let Some(count) = u64::try_from(*count).ok().filter(|count| *count > 0) else { return "null".to_owned() };
    let quotient = divided(text, count);
    match kind {
        Kind::Decimal => format!("\"{}\"", rounded(&quotient, PLACES)),
        _ => float(quotient.parse().unwrap_or(f64::INFINITY)),
    }
}

/// A double as JSON, which has no infinity.
fn float(value: f64) -> String {
    serde_json::to_string(&value).unwrap_or_else(|_| "null".to_owned())
}

/// The digits without trailing zeros.
fn plain(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

/// A number in digits by a count, with at least 30 digits more than it has behind the point.
fn divided(digits: &str, count: u64) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |rest| ("-", rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let zeros = "0".repeat(30);
    let (mut quotient, mut rest) = (String::with_capacity(digits.len() + 32), 0_u128);
    for (place, digit) in [whole, fraction, &zeros].concat().bytes().enumerate() {
        if place == whole.len() {
            quotient.push('.');
        }
        rest = rest * 10 + u128::from(digit - b'0');
        // The remainder is less than the count, so this is one digit.
        quotient.push(char::from(b'0' + u8::try_from(rest / u128::from(count)).unwrap_or(0)));
        rest %= u128::from(count);
    }
    format!("{sign}{quotient}")
}

/// Rounds a number in digits to this many places, half a unit away from zero.
fn rounded(digits: &str, places: usize) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |rest| ("-", rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let kept = fraction.len().min(places);
    let mut number: Vec<u8> = [whole, &fraction[..kept]].concat().into_bytes();
    let mut carry = fraction.as_bytes().get(places).is_some_and(|digit| *digit >= b'5');
    for digit in number.iter_mut().rev() {
        if !carry {
            break;
        }
        carry = *digit == b'9';
        *digit = if carry { b'0' } else { *digit + 1 };
    }
    let number: String = carry.then_some('1').into_iter().chain(number.into_iter().map(char::from)).collect();
    let (whole, fraction) = number.split_at(number.len() - kept);
    let whole = whole.trim_start_matches('0');
    let text = format!("{}.{fraction}", if whole.is_empty() { "0" } else { whole });
    let text = plain(&text);
    if text == "0" { "0".to_owned() } else { format!("{sign}{text}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_of_decimals_are_exact_to_ten_places() {
        for (sum, count, expected) in [
            ("10", 4, "2.5"),
            ("1", 3, "0.3333333333"),
            ("2", 3, "0.6666666667"),
            ("-2", 3, "-0.6666666667"),
            ("-0.00000000001", 3, "0"),
            ("99999999999999999999999999999999999999", 1, "99999999999999999999999999999999999999"),
            ("2.9999999999999", 1, "3"),
            ("0", 5, "0"),
            ("10.50", 1, "10.5"),
            ("18446744073709551615", 18_446_744_073_709_551_615, "1"),
        ] {
            assert_eq!(rounded(&divided(sum, count), PLACES), expected, "{sum} / {count}");
        }
    }

    #[test]
    fn a_sum_is_json() {
        assert_eq!(sum(Kind::Int, Some("18446744073709551614")), "18446744073709551614");
        assert_eq!(sum(Kind::Decimal, Some("10.50")), "\"10.5\"");
        assert_eq!(sum(Kind::Float, Some("0.3")), "0.3");
        assert_eq!(sum(Kind::Float, Some(&"9".repeat(400))), "null");
        assert_eq!(sum(Kind::Int, None), "null");
        assert_eq!(average(Kind::Int, Some("7"), &ValueRef::Int(2)), "3.5");
    }
}
