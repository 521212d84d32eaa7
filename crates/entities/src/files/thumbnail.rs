/// The longest side of a thumbnail, in pixels.
const LONGEST: u32 = 4_096;
/// The most sizes of a field.
const MOST: usize = 20;

/// The size of a thumbnail, in pixels. A side of 0 follows from the other and the image's proportions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thumbnail {
    /// The width.
    pub width: u32,
    /// The height.
    pub height: u32,
    /// What becomes of an image with other proportions.
    pub trim: Trim,
}

/// What becomes of an image whose proportions are not those of its thumbnail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trim {
    /// Its center is shown: `100x50`.
    Center,
    /// Its top is shown: `100x50t`.
    Top,
    /// Its bottom is shown: `100x50b`.
    Bottom,
    /// All of it is shown, and the thumbnail is smaller on one side: `100x50f`, `100x0`, `0x50`.
    Nothing,
}

impl Thumbnail {
    /// Reads `100x50`, with `t`, `b` or `f` at its end, or `100x0` or `0x50`. Each side has at most 4096 pixels.
    pub fn parse(text: &str) -> Option<Self> {
        let (sides, letter) = match text.strip_suffix(['t', 'b', 'f']) {
            Some(sides) => (sides, text.chars().next_back()),
            None => (text, None),
        };
        let (width, height) = sides.split_once('x')?;
        let (width, height) = (side(width)?, side(height)?);
        let trim = match (letter, width > 0, height > 0) {
            (None, true, true) => Trim::Center,
            (Some('t'), true, true) => Trim::Top,
            (Some('b'), true, true) => Trim::Bottom,
            (Some('f'), true, true) | (None, true, false) | (None, false, true) => Trim::Nothing,
            _ => return None,
        };
        Some(Self { width, height, trim })
    }
}

/// A number without further zeros.
fn side(text: &str) -> Option<u32> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let side = text.parse().ok().filter(|side| is_plain && *side <= LONGEST)?;
    (text.len() == 1 || !text.starts_with('0')).then_some(side)
}

/// What is wrong with the sizes of a field.
pub(super) fn check(sizes: &[String]) -> Result<(), String> {
    if sizes.len() > MOST {
        return Err(format!("a field has at most {MOST} sizes of thumbnails"));
    }
    for (index, size) in sizes.iter().enumerate() {
        if Thumbnail::parse(size).is_none() {
            return Err(format!(
                "\"{size}\" is no size of a thumbnail; write for example \"100x50\", \"100x50t\" (top), \"100x50b\" (bottom), \
                 \"100x50f\" (whole), \"100x0\" or \"0x50\", with at most {LONGEST} pixels on each side"
            ));
        }
        if sizes[..index].contains(size) {
            return Err(format!("\"{size}\" is there twice"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_one_spelling_and_a_limit() {
        for (text, expected) in [
            ("100x50", Some((100, 50, Trim::Center))),
            ("100x50t", Some((100, 50, Trim::Top))),
            ("100x50b", Some((100, 50, Trim::Bottom))),
            ("100x50f", Some((100, 50, Trim::Nothing))),
            ("100x0", Some((100, 0, Trim::Nothing))),
            ("0x50", Some((0, 50, Trim::Nothing))),
            ("4096x4096", Some((4096, 4096, Trim::Center))),
            ("4097x1", None),
            ("0x0", None),
            ("100x0t", None),
            ("0x50f", None),
            ("0100x50", None),
            ("+1x50", None),
            ("-1x50", None),
            ("99999999999x1", None),
            ("100", None),
            ("100x", None),
            ("x100", None),
            ("100x50x2", None),
            ("100X50", None),
            ("100x50c", None),
            ("100x50tt", None),
            ("", None),
        ] {
            let expected = expected.map(|(width, height, trim)| Thumbnail { width, height, trim });
            assert_eq!(Thumbnail::parse(text), expected, "{text}");
        }
        let sizes = |sizes: &[&str]| check(&sizes.iter().map(|size| (*size).to_owned()).collect::<Vec<_>>());
        assert!(sizes(&["1x1", "1x1f"]).is_ok());
        assert!(sizes(&["1x1", "1x1"]).is_err() && sizes(&["big"]).is_err());
        let many: Vec<String> = (1..=21).map(|side| format!("{side}x1")).collect();
        assert!(check(&many).is_err() && check(&many[1..]).is_ok());
    }
}
