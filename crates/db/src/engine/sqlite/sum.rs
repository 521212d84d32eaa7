//! `exact_sum`: the sum of numbers without rounding and without overflow, as text.

use std::collections::BTreeMap;

use rusqlite::functions::{Aggregate, Context};
use rusqlite::types::ValueRef;

/// The digits of a limb, and its base.
const DIGITS: usize = 9;
const BASE: i128 = 1_000_000_000;

/// The aggregate function.
#[derive(Debug)]
pub(super) struct ExactSum;

/// Limbs of nine digits by their place: 0 ends at the point, -1 begins behind it. They carry nothing until the end.
#[derive(Debug, Default)]
pub(super) struct Sum(BTreeMap<i32, i128>);

impl Aggregate<Sum, Option<String>> for ExactSum {
    fn init(&self, _: &mut Context<'_>) -> rusqlite::Result<Sum> {
        Ok(Sum::default())
    }

    fn step(&self, context: &mut Context<'_>, sum: &mut Sum) -> rusqlite::Result<()> {
        match context.get_raw(0) {
            ValueRef::Integer(number) => sum.add(&number.to_string()),
            ValueRef::Real(number) => sum.add(&number.to_string()),
            ValueRef::Text(text) => sum.add(std::str::from_utf8(text).unwrap_or_default()),
            ValueRef::Null | ValueRef::Blob(_) => {}
        }
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, sum: Option<Sum>) -> rusqlite::Result<Option<String>> {
        Ok(sum.filter(|sum| !sum.0.is_empty()).map(|sum| sum.text()))
    }
}

impl Sum {
    /// Adds a number in digits with at most one point and no exponent. Other text adds nothing.
    fn add(&mut self, text: &str) {
        let (sign, digits) = match text.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, text),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !is_number(whole) || !is_number(fraction) {
            return;
        }
        let limb = |chunk: &[u8]| chunk.iter().fold(0_i128, |limb, digit| limb * 10 + i128::from(digit - b'0'));
        for (place, chunk) in (0_i32..).zip(whole.as_bytes().rchunks(DIGITS)) {
            *self.0.entry(place).or_default() += sign * limb(chunk);
        }
        for (place, chunk) in (1_i32..).zip(fraction.as_bytes().chunks(DIGITS)) {
            let scale = chunk.len()..DIGITS;
            *self.0.entry(-place).or_default() += sign * scale.fold(limb(chunk), |limb, _| limb * 10);
        }
    }

    fn text(&self) -> String {
        let (limbs, lowest) = self.carried(1);
        let (sign, (limbs, lowest)) = match limbs.last() {
            Some(-1) => ("-", self.carried(-1)),
            _ => ("", (limbs, lowest)),
        };
        let split = usize::try_from(-lowest).unwrap_or(0).min(limbs.len());
        let digits = |limbs: &[i128]| limbs.iter().rev().map(|limb| format!("{limb:09}")).collect::<Vec<_>>().concat();
        let (fraction, whole) = (digits(&limbs[..split]), digits(&limbs[split..]));
        let (fraction, whole) = (fraction.trim_end_matches('0'), whole.trim_start_matches('0'));
        let whole = if whole.is_empty() { "0" } else { whole };
        if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }
    }

    /// The limbs, each below the base, from the lowest place on; behind the highest is -1 where the number is negative.
    fn carried(&self, sign: i128) -> (Vec<i128>, i32) {
        let lowest = self.0.keys().next().copied().unwrap_or(0).min(0);
        let highest = self.0.keys().next_back().copied().unwrap_or(0).max(0);
        let (mut limbs, mut carry) = (Vec::new(), 0_i128);
        for place in lowest..=highest {
            let limb = sign * self.0.get(&place).copied().unwrap_or(0) + carry;
            limbs.push(limb.rem_euclid(BASE));
            carry = limb.div_euclid(BASE);
        }
        while carry != 0 && carry != -1 {
            limbs.push(carry.rem_euclid(BASE));
            carry = carry.div_euclid(BASE);
        }
        if carry == -1 {
            limbs.push(-1);
        }
        (limbs, lowest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_any_size_are_exact() {
        for (numbers, expected) in [
            (&["1", "2", "3"][..], "6"),
            (&["0.1", "0.2"], "0.3"),
            (&["9223372036854775807", "9223372036854775807"], "18446744073709551614"),
            (&["-9223372036854775808", "-1"], "-9223372036854775809"),
            (&["1.5", "-1.5"], "0"),
            (&["-0.000000000001", "0.000000000002"], "0.000000000001"),
            (&["-5", "3.25"], "-1.75"),
            (&["-0.5"], "-0.5"),
            (&["99999999999999999999999999999999999999", "1"], "100000000000000000000000000000000000000"),
            (&["1000000000", "-1"], "999999999"),
            (&["-1000000000", "1"], "-999999999"),
            (&["x", "", ".", "1e5", "7"], "7"),
        ] {
            let mut sum = Sum::default();
            for number in numbers {
                sum.add(number);
            }
            assert_eq!(sum.text(), expected, "{numbers:?}");
        }
        let mut sum = Sum::default();
        for number in [1e308_f64, 1e308, 5e-324] {
            sum.add(&number.to_string());
        }
        assert!(sum.text().starts_with("2000000") && sum.text().len() > 600, "{}", sum.text());
    }
}
