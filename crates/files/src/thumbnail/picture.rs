//! One image becomes a smaller one. All of this is computation: it belongs on a thread of its own.

use std::io::Cursor;

use fast_image_resize::{FilterType, ResizeAlg, ResizeOptions, Resizer};
use gatewright_entities::files::{Thumbnail, Trim};
use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::PngEncoder;
use image::codecs::webp::WebPEncoder;
use image::metadata::Orientation;
use image::{DynamicImage, GenericImageView, ImageDecoder, ImageEncoder, ImageFormat, ImageReader, Limits};

/// The most pixels of an image, as its header has them.
const PIXELS: u64 = 50_000_000;
/// The most bytes of its pixels in memory, and of what a decoder has beside them.
const MEMORY: u64 = 256 << 20;
/// The longest side of a thumbnail that its size does not limit, as of one that it does.
const LONGEST: f64 = 4_096.0;
/// The quality of a JPEG.
const QUALITY: u8 = 85;

/// Why there is no thumbnail. The same image fails again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unmade {
    /// It has too many pixels.
    TooLarge,
    /// It is damaged.
    Unreadable,
}

/// An encoded thumbnail.
pub(crate) struct Picture {
    pub(crate) bytes: Vec<u8>,
    pub(crate) content_type: &'static str,
}

/// The format of a type of which thumbnails are made.
pub(crate) fn format(content_type: &str) -> Option<ImageFormat> {
    match content_type {
        "image/jpeg" => Some(ImageFormat::Jpeg),
        "image/png" => Some(ImageFormat::Png),
        "image/webp" => Some(ImageFormat::WebP),
        "image/gif" => Some(ImageFormat::Gif),
        _ => None,
    }
}

/// The thumbnail of an image.
pub(crate) fn make(image: &[u8], format: ImageFormat, size: Thumbnail) -> Result<Picture, Unmade> {
    let unreadable = |_| Unmade::Unreadable;
    let mut reader = ImageReader::with_format(Cursor::new(image), format);
    let mut limits = Limits::default();
    limits.max_alloc = Some(MEMORY);
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(|error| refused(&error))?;
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > PIXELS || decoder.total_bytes() > MEMORY {
        return Err(Unmade::TooLarge);
    }
    // Without an orientation, the image is upright.
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let profile = decoder.icc_profile().ok().flatten();
    let pixels = DynamicImage::from_decoder(decoder).map_err(|error| refused(&error))?;
    let cut = Cut::of((width, height), orientation, size);
    let mut small = DynamicImage::new(cut.to.0, cut.to.1, pixels.color());
    let options = ResizeOptions::new()
        .crop(cut.from.0, cut.from.1, cut.from.2, cut.from.3)
        .resize_alg(ResizeAlg::Convolution(FilterType::Lanczos3));
    Resizer::new().resize(&pixels, &mut small, &options).map_err(|_| Unmade::Unreadable)?;
    drop(pixels);
    small.apply_orientation(orientation);
    encode(small, format, profile).map_err(unreadable)
}

fn refused(error: &image::ImageError) -> Unmade {
    match error {
        image::ImageError::Limits(_) => Unmade::TooLarge,
        _ => Unmade::Unreadable,
    }
}

/// Which part of an image is shown, and in which size: before the image is turned upright.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Cut {
    /// Left, top, width, height.
    from: (f64, f64, f64, f64),
    to: (u32, u32),
}

impl Cut {
    fn of((width, height): (u32, u32), orientation: Orientation, size: Thumbnail) -> Self {
        use Orientation::{
            FlipHorizontal, FlipVertical, NoTransforms, Rotate90, Rotate90FlipH, Rotate180, Rotate270, Rotate270FlipH,
        };
        let is_turned = matches!(orientation, Rotate90 | Rotate270 | Rotate90FlipH | Rotate270FlipH);
        let turned = |(x, y)| if is_turned { (y, x) } else { (x, y) };
        // Where the top of the upright image is in this one: at its left or top, or at its right or bottom.
        let is_at_end = match orientation {
            NoTransforms | FlipHorizontal | Rotate90 | Rotate90FlipH => false,
            Rotate180 | FlipVertical | Rotate270 | Rotate270FlipH => true,
        };
        let upright = turned((width, height));
        let (x, y) = (f64::from(upright.0), f64::from(upright.1));
        let (to_x, to_y) = (f64::from(size.width), f64::from(size.height));
        if size.trim == Trim::Nothing {
            // A side of 0 may have any length that a thumbnail has. An image that is smaller stays so.
            let fits = |to: f64, side: f64| if to > 0.0 { to / side } else { LONGEST / side };
            let scale = fits(to_x, x).min(fits(to_y, y)).min(1.0);
            let to = (scaled(x, scale), scaled(y, scale));
            return Self { from: (0.0, 0.0, f64::from(width), f64::from(height)), to: turned(to) };
        }
        let scale = (to_x / x).max(to_y / y);
        let shown = ((to_x / scale).min(x), (to_y / scale).min(y));
        let rest = (x - shown.0, y - shown.1);
        let above = match size.trim {
            Trim::Top => 0.0,
            Trim::Bottom => rest.1,
            Trim::Center | Trim::Nothing => rest.1 / 2.0,
        };
        let above = if is_at_end { rest.1 - above } else { above };
        let (left, top) = if is_turned { (above, rest.0 / 2.0) } else { (rest.0 / 2.0, above) };
        let (wide, high) = if is_turned { (shown.1, shown.0) } else { shown };
        Self { from: (left, top, wide, high), to: turned((size.width, size.height)) }
    }
}

/// A side that is never 0.
fn scaled(side: f64, scale: f64) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is between 0 and a side of 32 bits"
    )]
    let pixels = (side * scale).round() as u32;
    pixels.max(1)
}

/// JPEG stays JPEG. An opaque WebP becomes JPEG too: it is mostly a photo. Others lose nothing.
fn encode(image: DynamicImage, format: ImageFormat, profile: Option<Vec<u8>>) -> image::ImageResult<Picture> {
    let (is_gray, has_alpha) = (!image.color().has_color(), image.color().has_alpha());
    let is_opaque = !has_alpha || image.pixels().all(|(_, _, pixel)| pixel.0[3] == u8::MAX);
    let image = match (is_gray, has_alpha && !is_opaque) {
        (true, false) => DynamicImage::ImageLuma8(image.into_luma8()),
        (true, true) => DynamicImage::ImageLumaA8(image.into_luma_alpha8()),
        (false, false) => DynamicImage::ImageRgb8(image.into_rgb8()),
        (false, true) => DynamicImage::ImageRgba8(image.into_rgba8()),
    };
    // A profile of other colors than those of the pixels, such as CMYK, would falsify them.
    let space: &[u8] = if is_gray { b"GRAY" } else { b"RGB " };
    let profile = profile.filter(|profile| profile.get(16..20) == Some(space));
    let mut bytes = Vec::new();
    let content_type = match format {
        ImageFormat::Jpeg => {
            write(JpegEncoder::new_with_quality(&mut bytes, QUALITY), &image, profile)?;
            "image/jpeg"
        }
        ImageFormat::WebP if is_opaque => {
            write(JpegEncoder::new_with_quality(&mut bytes, QUALITY), &image, profile)?;
            "image/jpeg"
        }
        ImageFormat::WebP => {
            write(WebPEncoder::new_lossless(&mut bytes), &image, profile)?;
            "image/webp"
        }
        _ => {
            write(PngEncoder::new(&mut bytes), &image, profile)?;
            "image/png"
        }
    };
    Ok(Picture { bytes, content_type })
}

fn write(mut encoder: impl ImageEncoder, image: &DynamicImage, profile: Option<Vec<u8>>) -> image::ImageResult<()> {
    if let Some(profile) = profile {
        // A format without profiles loses it.
        let _none = encoder.set_icc_profile(profile);
    }
    encoder.write_image(image.as_bytes(), image.width(), image.height(), image.color().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(image: (u32, u32), exif: u8, size: &str) -> Cut {
        Cut::of(image, Orientation::from_exif(exif).unwrap(), Thumbnail::parse(size).unwrap())
    }

    #[test]
    fn an_image_is_cut_to_the_proportions_of_its_thumbnail() {
        for (image, exif, size, from, to) in [
            ((200, 100), 1, "50x50", (50.0, 0.0, 100.0, 100.0), (50, 50)),
            ((100, 200), 1, "50x50", (0.0, 50.0, 100.0, 100.0), (50, 50)),
            ((100, 200), 1, "50x50t", (0.0, 0.0, 100.0, 100.0), (50, 50)),
            ((100, 200), 1, "50x50b", (0.0, 100.0, 100.0, 100.0), (50, 50)),
            ((100, 200), 3, "50x50t", (0.0, 100.0, 100.0, 100.0), (50, 50)),
            ((200, 100), 6, "50x50t", (0.0, 0.0, 100.0, 100.0), (50, 50)),
            ((200, 100), 8, "50x50t", (100.0, 0.0, 100.0, 100.0), (50, 50)),
            ((200, 100), 6, "50x100", (0.0, 0.0, 200.0, 100.0), (100, 50)),
            ((10, 10), 1, "50x50", (0.0, 0.0, 10.0, 10.0), (50, 50)),
            ((200, 100), 1, "50x50f", (0.0, 0.0, 200.0, 100.0), (50, 25)),
            ((200, 100), 6, "50x50f", (0.0, 0.0, 200.0, 100.0), (50, 25)),
            ((10, 20), 1, "50x50f", (0.0, 0.0, 10.0, 20.0), (10, 20)),
            ((200, 100), 1, "20x0", (0.0, 0.0, 200.0, 100.0), (20, 10)),
            ((200, 100), 6, "20x0", (0.0, 0.0, 200.0, 100.0), (40, 20)),
            ((200, 100), 1, "0x20", (0.0, 0.0, 200.0, 100.0), (40, 20)),
            ((40_000, 1), 1, "100x0", (0.0, 0.0, 40_000.0, 1.0), (100, 1)),
            ((1, 40_000), 1, "100x0", (0.0, 0.0, 1.0, 40_000.0), (1, 4_096)),
            ((1, 50_000_000), 6, "0x400", (0.0, 0.0, 1.0, 50_000_000.0), (1, 4_096)),
            ((8_192, 16), 1, "0x16", (0.0, 0.0, 8_192.0, 16.0), (4_096, 8)),
        ] {
            assert_eq!(cut(image, exif, size), Cut { from, to }, "{image:?} {exif} {size}");
        }
    }

    #[test]
    fn what_is_no_image_is_refused() {
        let size = Thumbnail::parse("10x10").unwrap();
        for format in [ImageFormat::Jpeg, ImageFormat::Png, ImageFormat::WebP, ImageFormat::Gif] {
            for wrong in [&b""[..], b"x", b"\x89PNG\r\n\x1a\n", b"GIF89a\0\0\0\0\0\0\0", b"\xff\xd8\xff\xe0"] {
                assert!(make(wrong, format, size).is_err(), "{format:?}");
            }
        }
    }
}
