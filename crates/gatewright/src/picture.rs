use std::path::Path;

use axum::body::Bytes;

/// A picture that the server serves.
pub(crate) struct Picture {
    pub(crate) kind: &'static str,
    pub(crate) bytes: Bytes,
}

/// The largest file of a logo.
const MAX_BYTES: usize = 512 * 1024;

impl Picture {
    /// Reads a file. The error describes the problem.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_ascii_lowercase();
        let kind = match &*ending {
            "svg" => "image/svg+xml",
            "png" => "image/png",
            "jpg" | "jpeg" => "image/jpeg",
            "webp" => "image/webp",
            _ => return Err("must be an https address, or a .svg, .png, .jpg or .webp file".to_owned()),
        };
        let bytes = std::fs::read(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        if bytes.len() > MAX_BYTES {
            return Err(format!("{} is larger than {} KiB", path.display(), MAX_BYTES / 1024));
        }
        Ok(Self { kind, bytes: bytes.into() })
    }
}
