//! Takes the files of Swagger UI that the page at `/api/docs` loads out of their archive and compresses each with gzip, as a
//! browser takes it. The archive holds ten times as much, which the program would carry too.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "docs")]
    swagger_ui::write(std::path::Path::new(&std::env::var("OUT_DIR")?))?;
    Ok(())
}

#[cfg(feature = "docs")]
mod swagger_ui {
    use std::error::Error;
    use std::fs::File;
    use std::io::{self, Cursor};
    use std::path::Path;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use utoipa_swagger_ui_vendored::SWAGGER_UI_VENDORED as ARCHIVE;
    use zip::ZipArchive;

    const FILES: [&str; 3] = ["swagger-ui-bundle.js", "swagger-ui.css", "favicon-32x32.png"];

    /// Writes `FILE.gz` into `folder` for each of [`FILES`].
    pub(super) fn write(folder: &Path) -> Result<(), Box<dyn Error>> {
        let mut archive = ZipArchive::new(Cursor::new(ARCHIVE))?;
        for index in 0..archive.len() {
            let mut entry = archive.by_index(index)?;
            let name = entry.name()?.into_owned();
            let Some(file) = FILES.iter().find(|file| name.ends_with(&format!("/dist/{file}"))) else { continue };
            let mut encoder = GzEncoder::new(File::create(folder.join(format!("{file}.gz")))?, Compression::best());
            io::copy(&mut entry, &mut encoder)?;
            encoder.finish()?;
        }
        Ok(())
    }
}
