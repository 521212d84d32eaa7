//! The color of the product, and readable colors derived from it.

use std::fmt;
use std::str::FromStr;

/// A color as CSS writes it: `#0b57b8` or `#07c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Color([u8; 3]);

/// The text is not a color in this form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a color such as \"#0b57b8\"")]
pub struct InvalidColor;

/// The minimum contrast of text to its background (WCAG 2.2, success criterion 1.4.3).
const READABLE: f64 = 4.5;

impl Color {
    /// White.
    pub const WHITE: Self = Self([255; 3]);
    /// Black.
    pub const BLACK: Self = Self([0; 3]);

    /// Of red, green and blue.
    pub const fn rgb(red: u8, green: u8, blue: u8) -> Self {
        Self([red, green, blue])
    }

    /// Black or white, whichever is easier to read on this color. One of them always has enough contrast.
    pub fn text_on(self) -> Self {
        if self.contrast(Self::WHITE) >= self.contrast(Self::BLACK) { Self::WHITE } else { Self::BLACK }
    }

    /// This color, moved as little as possible towards `pole` until it is readable as text on every one of `grounds`.
    pub fn readable_on(self, grounds: &[Self], pole: Self) -> Self {
        let steps = (0..=100).map(|percent| self.mixed(pole, percent));
        let readable = |color: &Self| grounds.iter().all(|ground| color.contrast(*ground) >= READABLE);
        steps.clone().find(readable).unwrap_or(pole)
    }

    /// The contrast ratio of two colors, from 1 to 21 (WCAG 2.2).
    pub fn contrast(self, other: Self) -> f64 {
        let (one, two) = (self.luminance(), other.luminance());
        (one.max(two) + 0.05) / (one.min(two) + 0.05)
    }

    fn luminance(self) -> f64 {
        let linear = |byte: u8| {
            let part = f64::from(byte) / 255.0;
            if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        };
        let [red, green, blue] = self.0.map(linear);
        0.2126_f64.mul_add(red, 0.7152_f64.mul_add(green, 0.0722 * blue))
    }

    fn mixed(self, other: Self, percent: u16) -> Self {
        let mix = |index: usize| {
            let sum = u16::from(self.0[index]) * (100 - percent) + u16::from(other.0[index]) * percent;
            u8::try_from(sum / 100).unwrap_or(u8::MAX)
        };
        Self([mix(0), mix(1), mix(2)])
    }
}

impl FromStr for Color {
    type Err = InvalidColor;

    fn from_str(text: &str) -> Result<Self, InvalidColor> {
        let digits = text.strip_prefix('#').ok_or(InvalidColor)?;
        let digits: Vec<u8> = digits
            .chars()
            .map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok()).ok_or(InvalidColor))
            .collect::<Result<_, _>>()?;
        match *digits {
            [r, g, b] => Ok(Self([r * 17, g * 17, b * 17])),
            [_, _, _, _, _, _] => {
                let bytes = |index: usize| digits[2 * index] * 16 + digits[2 * index + 1];
                Ok(Self([bytes(0), bytes(1), bytes(2)]))
            }
            _ => Err(InvalidColor),
        }
    }
}

impl fmt::Display for Color {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [r, g, b] = self.0;
        write!(f, "#{r:02x}{g:02x}{b:02x}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn colors_are_read_as_css_writes_them() {
        for (text, expected) in [("#0b57b8", "#0b57b8"), ("#ABCDEF", "#abcdef"), ("#07c", "#0077cc")] {
            assert_eq!(text.parse::<Color>().unwrap().to_string(), expected);
        }
        for bad in
            ["", "0b57b8", "#", "#12345", "#1234567", "#gggggg", "red", "#fff;}body{", "#\u{ff11}00", "rgb(0,0,0)"]
        {
            assert_eq!(bad.parse::<Color>(), Err(InvalidColor), "{bad}");
        }
    }

    #[test]
    fn contrast_is_that_of_wcag() {
        assert!((Color::WHITE.contrast(Color::BLACK) - 21.0).abs() < 0.01);
        assert!(("#767676".parse::<Color>().unwrap().contrast(Color::WHITE) - 4.54).abs() < 0.01);
    }

    proptest! {
        #[test]
        fn every_color_is_legible_as_text_and_as_background(bytes in any::<[u8; 3]>()) {
            let color = Color(bytes);
            prop_assert!(color.contrast(color.text_on()) >= READABLE);
            let (paper, dark) = (Color([0xf3, 0xf4, 0xf6]), Color([0x1a, 0x1d, 0x20]));
            prop_assert!(color.readable_on(&[paper, Color::WHITE], Color::BLACK).contrast(paper) >= READABLE);
            prop_assert!(color.readable_on(&[dark, Color::BLACK], Color::WHITE).contrast(dark) >= READABLE);
        }
    }
}
