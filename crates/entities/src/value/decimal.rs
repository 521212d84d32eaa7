use std::cmp::Ordering;
use std::fmt;

/// The most digits a decimal may have, before and after the point together.
pub(crate) const MAX_DIGITS: usize = 38;
/// Exponents beyond this cannot end in [`MAX_DIGITS`] digits, zeros of any number aside.
const MAX_EXPONENT: i32 = 10_000;

/// An exact decimal number in its canonical form: no exponent, no sign on zero, no redundant zeros.
///
/// Two decimals are equal exactly if their texts are, so a unique index on the text is one on the number.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Decimal(String);

/// Why text is not a decimal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Invalid {
    /// Not a number.
    Form,
    /// More than [`MAX_DIGITS`] digits.
    Digits,
}

impl Decimal {
    /// Reads `-12.50`, `007` or `1.5e3`, without passing through a float.
    pub(crate) fn parse(text: &str) -> Result<Self, Invalid> {
        let (negative, unsigned) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, parse_exponent(exponent)?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = match mantissa.split_once('.') {
            Some((_, "")) => return Err(Invalid::Form),
            Some(parts) => parts,
            None => (mantissa, ""),
        };
        let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || !digits(whole) || !digits(fraction) {
            return Err(Invalid::Form);
        }
        let all = format!("{whole}{fraction}");
        let point = i64::try_from(whole.len()).map_err(|_| Invalid::Digits)? + i64::from(exponent);
        Self::place(negative, &all, point)
    }

    /// The text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The text, owned.
    pub(crate) fn into_string(self) -> String {
        self.0
    }

    /// Puts the point after `point` of `digits`.
    fn place(negative: bool, digits: &str, point: i64) -> Result<Self, Invalid> {
        let leading = digits.len() - digits.trim_start_matches('0').len();
        let digits = digits[leading..].trim_end_matches('0');
        if digits.is_empty() {
            return Ok(Self("0".to_owned()));
        }
        let point = point - i64::try_from(leading).map_err(|_| Invalid::Digits)?;
        let count = i64::try_from(digits.len()).map_err(|_| Invalid::Digits)?;
        let whole = point.max(0);
        let fraction = (count - point).max(0);
        let total = usize::try_from(whole + fraction).map_err(|_| Invalid::Digits)?;
        if total > MAX_DIGITS {
            return Err(Invalid::Digits);
        }
        let mut text = String::with_capacity(total + 3);
        if negative {
            text.push('-');
        }
        if whole == 0 {
            text.push('0');
        }
        for position in point.min(0)..point.max(count) {
            if position == point {
                text.push('.');
            }
            let digit = usize::try_from(position).ok().and_then(|position| digits.as_bytes().get(position));
            text.push(digit.map_or('0', |digit| char::from(*digit)));
        }
        Ok(Self(text))
    }

    /// The exact sum; `None` if it has more than [`MAX_DIGITS`] digits.
    pub(crate) fn plus(&self, other: &Self) -> Option<Self> {
        let scale = self.parts().2.len().max(other.parts().2.len());
        let ((is_negative, mine), (is_other_negative, theirs)) = (self.digits(scale), other.digits(scale));
        let (is_negative, digits) = if is_negative == is_other_negative {
            (is_negative, added(&mine, &theirs))
        } else if mine >= theirs {
            (is_negative, taken(&mine, &theirs))
        } else {
            (is_other_negative, taken(&theirs, &mine))
        };
        let text: String = digits.iter().map(|digit| char::from(b'0' + digit)).collect();
        let point = i64::try_from(digits.len().checked_sub(scale)?).ok()?;
        Self::place(is_negative, &text, point).ok()
    }

    /// The sign, and as many digits for every decimal: zeros first, and `scale` digits after the point.
    fn digits(&self, scale: usize) -> (bool, Vec<u8>) {
        let (is_negative, whole, fraction) = self.parts();
        let text = format!("{whole:0>MAX_DIGITS$}{fraction:0<scale$}");
        (is_negative, text.bytes().map(|digit| digit - b'0').collect())
    }

    fn parts(&self) -> (bool, &str, &str) {
        let (negative, unsigned) = match self.0.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, self.0.as_str()),
        };
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        (negative, whole, fraction)
    }
}

/// The sum of two numbers of as many digits, with one digit more.
fn added(one: &[u8], other: &[u8]) -> Vec<u8> {
    let mut carry = 0;
    let mut digits: Vec<u8> = Vec::with_capacity(one.len() + 1);
    for (one, other) in one.iter().zip(other).rev() {
        let sum = one + other + carry;
        digits.push(sum % 10);
        carry = sum / 10;
    }
    digits.push(carry);
    digits.reverse();
    digits
}

/// The difference of two numbers of as many digits, of which the first is not the smaller one.
fn taken(most: &[u8], less: &[u8]) -> Vec<u8> {
    let mut borrow = 0;
    let mut digits: Vec<u8> = Vec::with_capacity(most.len());
    for (most, less) in most.iter().zip(less).rev() {
        let (most, less) = (*most, less + borrow);
        borrow = u8::from(most < less);
        digits.push(most + 10 * borrow - less);
    }
    digits.reverse();
    digits
}

fn parse_exponent(text: &str) -> Result<i32, Invalid> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Invalid::Form);
    }
    let exponent: i32 = text.parse().map_err(|_| Invalid::Digits)?;
    if exponent.abs() > MAX_EXPONENT { Err(Invalid::Digits) } else { Ok(exponent) }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let ((left_negative, left, left_fraction), (right_negative, right, right_fraction)) =
            (self.parts(), other.parts());
        let size = left.len().cmp(&right.len()).then(left.cmp(right)).then(left_fraction.cmp(right_fraction));
        match (left_negative, right_negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => size,
            (true, true) => size.reverse(),
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn canonical(text: &str) -> Result<String, Invalid> {
        Decimal::parse(text).map(Decimal::into_string)
    }

    #[test]
    fn a_number_has_one_spelling() {
        for (written, kept) in [
            ("0", "0"),
            ("-0", "0"),
            ("-0.000", "0"),
            ("0e99", "0"),
            ("12.50", "12.5"),
            ("-12.50", "-12.5"),
            ("007", "7"),
            ("1e3", "1000"),
            ("1.5E+3", "1500"),
            ("15e-1", "1.5"),
            ("1e-3", "0.001"),
            ("123e-5", "0.00123"),
            ("100", "100"),
            ("0.1", "0.1"),
            ("120.0e-1", "12"),
            ("99999999999999999999999999999999999999", "99999999999999999999999999999999999999"),
            ("0.00000000000000000000000000000000000001", "0.00000000000000000000000000000000000001"),
            ("9007199254740993.1", "9007199254740993.1"),
        ] {
            assert_eq!(canonical(written).as_deref(), Ok(kept), "{written}");
        }
    }

    #[test]
    fn invalid_or_too_long_numbers_are_refused() {
        for bad in
            ["", "-", "+1", ".5", "5.", "1.2.3", "1e", "1e+", "e3", "0x10", "NaN", "Infinity", " 1", "1 ", "1,5", "١"]
        {
            assert_eq!(canonical(bad), Err(Invalid::Form), "{bad}");
        }
        for long in ["1e38", "1e-39", "123456789012345678901234567890123456789", "1e99999999999", "1e2147483648"] {
            assert_eq!(canonical(long), Err(Invalid::Digits), "{long}");
        }
    }

    proptest! {
        #[test]
        fn decimals_order_and_print_like_the_integers_they_contain(a in any::<i64>(), b in any::<i64>(), scale in 0..19_i32) {
            let decimal = |n: i64| Decimal::parse(&format!("{n}e-{scale}")).unwrap();
            prop_assert_eq!(decimal(a).cmp(&decimal(b)), a.cmp(&b));
            let back = Decimal::parse(&format!("{}e{scale}", decimal(a))).unwrap();
            prop_assert_eq!(back.into_string(), a.to_string());
        }

        #[test]
        fn sums_are_those_of_the_integers_they_contain(a in any::<i64>(), b in any::<i64>(), scale in 0..19_i32, more in 0..5_i32) {
            let decimal = |n: i128, scale: i32| Decimal::parse(&format!("{n}e-{scale}")).unwrap();
            let sum = decimal(a.into(), scale).plus(&decimal(b.into(), scale + more)).unwrap();
            let expected = i128::from(a) * 10_i128.pow(more.unsigned_abs()) + i128::from(b);
            prop_assert_eq!(sum, decimal(expected, scale + more));
        }

        #[test]
        fn parsing_its_own_text_changes_nothing(text in "-?[0-9]{1,20}(\\.[0-9]{1,17})?") {
            let once = canonical(&text).unwrap();
            prop_assert_eq!(canonical(&once), Ok(once));
        }
    }
}
