//! Removes metadata from images, without encoding them again: EXIF, XMP, IPTC, comments, and what follows the end of the image.
//!
//! What is kept is named, and not what is removed. The orientation and the color profile stay.

/// The most bytes of an image that is cleaned: all of it is in memory.
pub(crate) const MOST: u64 = 32 << 20;

/// A format from which metadata can be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Jpeg,
    Png,
    Webp,
}

/// The image is not what its beginning says, or ends too early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

impl Format {
    /// How many bytes tell the format.
    pub(crate) const HEAD: usize = 12;

    pub(crate) fn of(head: &[u8]) -> Option<Self> {
        match head {
            [0xff, 0xd8, 0xff, ..] => Some(Self::Jpeg),
            head if head.starts_with(PNG) => Some(Self::Png),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Self::Webp),
            _ => None,
        }
    }

    /// The image without metadata.
    pub(crate) fn clean(self, image: &[u8]) -> Result<Vec<u8>, Malformed> {
        match self {
            Self::Jpeg => jpeg(image),
            Self::Png => png(image),
            Self::Webp => webp(image),
        }
        .ok_or(Malformed)
    }
}

/// Whether files of this type may have metadata that cannot be removed.
pub(crate) fn is_uncleanable(content_type: &str) -> bool {
    let is_cleanable = matches!(content_type, "image/jpeg" | "image/png" | "image/webp");
    !is_cleanable && (content_type.starts_with("image/") || content_type.starts_with("video/"))
}

/// The beginning of the segment with EXIF.
const EXIF: &[u8] = b"Exif\0\0";

fn jpeg(image: &[u8]) -> Option<Vec<u8>> {
    let mut kept = Vec::with_capacity(image.len());
    let (mut at, mut turned, mut put_at) = (2, None, 2);
    kept.extend_from_slice(image.get(..2)?);
    loop {
        if *image.get(at)? != 0xff {
            return None;
        }
        while *image.get(at)? == 0xff {
            at += 1;
        }
        let marker = *image.get(at)?;
        at += 1;
        if marker == 0xd9 {
            kept.extend_from_slice(&[0xff, marker]);
            break;
        }
        if matches!(marker, 0x01 | 0xd0..=0xd7) {
            kept.extend_from_slice(&[0xff, marker]);
            continue;
        }
        let length = usize::from(u16::from_be_bytes([*image.get(at)?, *image.get(at + 1)?]));
        let segment = image.get(at..at + length.max(2))?;
        let content = segment.get(2..)?;
        at += segment.len();
        if marker == 0xe1 && content.starts_with(EXIF) {
            turned = turned.or_else(|| orientation(&content[EXIF.len()..]));
        }
        let is_kept = match marker {
            0xe0 => content.starts_with(b"JFIF\0"),
            0xe2 => content.starts_with(b"ICC_PROFILE\0"),
            0xee => content.starts_with(b"Adobe"),
            0xe1..=0xef | 0xfe => false,
            _ => true,
        };
        if is_kept {
            kept.extend_from_slice(&[0xff, marker]);
            kept.extend_from_slice(segment);
            if marker == 0xe0 {
                put_at = kept.len();
            }
        }
        if marker == 0xda {
            let end = entropy_end(image, at)?;
            kept.extend_from_slice(&image[at..end]);
            at = end;
        }
    }
    if let Some(turned) = turned {
        let tiff = tiff(turned);
        let length = u16::try_from(2 + EXIF.len() + tiff.len()).ok()?.to_be_bytes();
        let segment: Vec<u8> = [&[0xff, 0xe1], &length[..], EXIF, &tiff].concat();
        kept.splice(put_at..put_at, segment);
    }
    Some(kept)
}

/// Where the data of a scan ends: at the next marker.
fn entropy_end(image: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += image.get(at..)?.iter().position(|byte| *byte == 0xff)?;
        match *image.get(at + 1)? {
            0x00 | 0xd0..=0xd7 => at += 2,
            0xff => at += 1,
            _ => return Some(at),
        }
    }
}

fn png(image: &[u8]) -> Option<Vec<u8>> {
    const KEPT: [&[u8; 4]; 16] = [
        b"tRNS", b"cHRM", b"gAMA", b"iCCP", b"sBIT", b"sRGB", b"cICP", b"mDCV", b"cLLI", b"bKGD", b"hIST", b"pHYs",
        b"sPLT", b"acTL", b"fcTL", b"fdAT",
    ];
    let mut kept = image.get(..PNG.len())?.to_vec();
    let (mut at, mut turned, mut put_at) = (PNG.len(), None, 0);
    loop {
        let length = usize::try_from(u32::from_be_bytes(image.get(at..at + 4)?.try_into().ok()?)).ok()?;
        let chunk = image.get(at..at.checked_add(length)?.checked_add(12)?)?;
        at += chunk.len();
        let kind: &[u8; 4] = chunk.get(4..8)?.try_into().ok()?;
        let is_critical = kind[0].is_ascii_uppercase();
        if is_critical || KEPT.contains(&kind) {
            kept.extend_from_slice(chunk);
        }
        match kind {
            b"IHDR" => put_at = kept.len(),
            b"eXIf" => turned = turned.or_else(|| orientation(&chunk[8..8 + length])),
            b"IEND" => break,
            _ => {}
        }
    }
    if let Some(turned) = turned.filter(|_| put_at > 0) {
        let content = [b"eXIf".as_slice(), &tiff(turned)].concat();
        let length = u32::try_from(content.len() - 4).ok()?.to_be_bytes();
        let chunk = [&length[..], &content, &crc(&content).to_be_bytes()].concat();
        kept.splice(put_at..put_at, chunk);
    }
    Some(kept)
}

fn webp(image: &[u8]) -> Option<Vec<u8>> {
    const KEPT: [&[u8; 4]; 7] = [b"VP8 ", b"VP8L", b"VP8X", b"ANIM", b"ANMF", b"ALPH", b"ICCP"];
    let number = |at: usize| usize::try_from(u32::from_le_bytes(image.get(at..at + 4)?.try_into().ok()?)).ok();
    let end = number(4)?.checked_add(8)?;
    let image_end = image.get(..end)?.len();
    let mut kept = image.get(..12)?.to_vec();
    let (mut at, mut turned, mut flags_at) = (12, None, None);
    while at < image_end {
        let length = number(at + 4)?;
        let padded = length.checked_add(length % 2)?;
        let whole = image.get(at..at.checked_add(8)?.checked_add(padded)?);
        // The last chunk may lack its padding.
        let chunk = whole.or_else(|| image.get(at..at + 8 + length))?;
        let kind: &[u8; 4] = chunk.get(..4)?.try_into().ok()?;
        if KEPT.contains(&kind) {
            if kind == b"VP8X" {
                flags_at = Some(kept.len() + 8);
            }
            kept.extend_from_slice(chunk);
            if chunk.len() % 2 == 1 {
                kept.push(0);
            }
        } else if kind == b"EXIF" {
            let content = &chunk[8..8 + length];
            turned = turned.or_else(|| orientation(content.strip_prefix(EXIF).unwrap_or(content)));
        }
        at += chunk.len();
    }
    if let Some(flags) = flags_at.and_then(|at| kept.get_mut(at)) {
        // XMP and EXIF.
        *flags &= !(0x04 | 0x08);
        if let Some(turned) = turned {
            *flags |= 0x08;
            let tiff = tiff(turned);
            kept.extend_from_slice(b"EXIF");
            kept.extend_from_slice(&u32::try_from(tiff.len()).ok()?.to_le_bytes());
            kept.extend_from_slice(&tiff);
        }
    }
    let length = u32::try_from(kept.len() - 8).ok()?.to_le_bytes();
    kept[4..8].copy_from_slice(&length);
    Some(kept)
}

/// The orientation in EXIF, unless the image is upright.
fn orientation(tiff: &[u8]) -> Option<u8> {
    let is_little = match tiff.get(..4)? {
        b"II*\0" => true,
        b"MM\0*" => false,
        _ => return None,
    };
    let two = |at: usize| {
        let bytes = tiff.get(at..at.checked_add(2)?)?.try_into().ok()?;
        Some(if is_little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    };
    let bytes = tiff.get(4..8)?.try_into().ok()?;
    let first = if is_little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) };
    let first = usize::try_from(first).ok()?;
    let count = usize::from(two(first)?);
    let entry = (0..count).map(|index| first + 2 + 12 * index).find(|entry| two(*entry) == Some(0x0112))?;
    let turned = u8::try_from(two(entry.checked_add(8)?)?).ok()?;
    (2..=8).contains(&turned).then_some(turned)
}

/// EXIF that has the orientation alone.
fn tiff(orientation: u8) -> [u8; 26] {
    let mut tiff = *b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\0\0\0\0\0\0\0\0";
    tiff[18] = orientation;
    tiff
}

/// The checksum of a chunk of PNG (ISO 3309).
fn crc(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 };
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CANARY: &[u8] = b"GPS 52.5 13.4";

    /// EXIF with an orientation and a text.
    fn exif(turned: u8) -> Vec<u8> {
        let mut exif = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0".to_vec();
        exif.extend_from_slice(&[turned, 0, 0, 0, 0, 0, 0]);
        exif.extend_from_slice(CANARY);
        exif
    }

    fn segment(marker: u8, content: &[u8]) -> Vec<u8> {
        let length = u16::try_from(content.len() + 2).unwrap().to_be_bytes();
        [&[0xff, marker], &length[..], content].concat()
    }

    fn jpeg_with(turned: u8) -> Vec<u8> {
        let app1 = [EXIF, &exif(turned)].concat();
        [
            b"\xff\xd8".to_vec(),
            segment(0xe0, b"JFIF\0rest"),
            segment(0xe1, &app1),
            segment(0xe1, &[b"http://ns.adobe.com/xap/1.0/\0", CANARY].concat()),
            segment(0xe2, b"ICC_PROFILE\0profile"),
            segment(0xe2, &[b"MPF\0", CANARY].concat()),
            segment(0xed, &[b"Photoshop 3.0\0", CANARY].concat()),
            segment(0xfe, CANARY),
            segment(0xdb, b"tables"),
            segment(0xda, b"scan"),
            b"data\xff\x00data\xff\xd0data".to_vec(),
            segment(0xe1, &[EXIF, CANARY].concat()),
            segment(0xda, b"scan"),
            b"more".to_vec(),
            b"\xff\xd9".to_vec(),
            CANARY.to_vec(),
        ]
        .concat()
    }

    fn chunk(kind: [u8; 4], content: &[u8]) -> Vec<u8> {
        let typed = [kind.as_slice(), content].concat();
        let length = u32::try_from(content.len()).unwrap().to_be_bytes();
        [&length[..], &typed, &crc(&typed).to_be_bytes()].concat()
    }

    fn png_with(turned: u8) -> Vec<u8> {
        [
            PNG.to_vec(),
            chunk(*b"IHDR", b"header"),
            chunk(*b"iCCP", b"profile"),
            chunk(*b"eXIf", &exif(turned)),
            chunk(*b"tEXt", CANARY),
            chunk(*b"iTXt", &[b"XML:com.adobe.xmp\0", CANARY].concat()),
            chunk(*b"prVt", CANARY),
            chunk(*b"IDAT", b"data"),
            chunk(*b"IEND", b""),
            CANARY.to_vec(),
        ]
        .concat()
    }

    fn webp_with(turned: u8) -> Vec<u8> {
        let chunk = |kind: &[u8; 4], content: &[u8]| {
            let length = u32::try_from(content.len()).unwrap().to_le_bytes();
            let padding = vec![0; content.len() % 2];
            [kind.as_slice(), &length, content, &padding].concat()
        };
        let chunks = [
            chunk(b"VP8X", b"\x2c\0\0\0\0\0\0\0\0\0"),
            chunk(b"ICCP", b"profile"),
            chunk(b"VP8 ", b"data"),
            chunk(b"EXIF", &exif(turned)),
            chunk(b"XMP ", CANARY),
        ]
        .concat();
        let length = u32::try_from(chunks.len() + 4).unwrap().to_le_bytes();
        [b"RIFF".as_slice(), &length, b"WEBP", &chunks, CANARY].concat()
    }

    fn has(bytes: &[u8], part: &[u8]) -> bool {
        bytes.windows(part.len()).any(|window| window == part)
    }

    #[test]
    fn metadata_goes_and_data_profile_and_orientation_stay() {
        assert_eq!(crc(b"IEND"), 0xae42_6082);
        for (make, format, parts) in [
            (
                jpeg_with as fn(u8) -> Vec<u8>,
                Format::Jpeg,
                &[b"data\xff\x00data\xff\xd0data" as &[u8], b"more", b"tables"] as &[&[u8]],
            ),
            (png_with, Format::Png, &[b"IDAT", b"header", b"IEND\xae\x42\x60\x82"]),
            (webp_with, Format::Webp, &[b"VP8 ", b"data"]),
        ] {
            for turned in [1, 6] {
                let image = make(turned);
                assert!(has(&image, CANARY));
                assert_eq!(Format::of(&image), Some(format));
                let clean = format.clean(&image).unwrap();
                assert!(!has(&clean, CANARY), "{format:?}");
                assert!(parts.iter().chain(&[&b"profile"[..]]).all(|part| has(&clean, part)), "{format:?}");
                assert_eq!(has(&clean, &tiff(6)), turned == 6, "{format:?}");
                assert_eq!(format.clean(&clean), Ok(clean.clone()), "{format:?}: cleaning again changes nothing");
            }
        }
    }

    #[test]
    fn what_is_cut_off_or_lies_about_its_length_is_malformed() {
        for (image, format) in [(jpeg_with(6), Format::Jpeg), (png_with(6), Format::Png), (webp_with(6), Format::Webp)]
        {
            let whole = image.len() - CANARY.len();
            for end in 0..whole {
                assert_eq!(format.clean(&image[..end]), Err(Malformed), "{format:?} {end}");
            }
            for at in 0..whole {
                let mut changed = image.clone();
                changed[at] = 0xff;
                // It ends, whatever the lengths say.
                let _result = format.clean(&changed);
            }
        }
    }

    #[test]
    fn formats_whose_metadata_stays_are_known() {
        for (content_type, expected) in [
            ("image/jpeg", false),
            ("image/webp", false),
            ("image/heic", true),
            ("image/avif", true),
            ("image/tiff", true),
            ("image/svg+xml", true),
            ("video/mp4", true),
            ("application/pdf", false),
            ("text/plain", false),
        ] {
            assert_eq!(is_uncleanable(content_type), expected, "{content_type}");
        }
    }
}
