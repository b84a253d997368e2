//! Images of items: beside the orders, not of them, by names that are of their content. Bounded for all sales together.
//!
//! Must not: know what kinds of images there are.

use std::io;

use engine::UnixMs;

use super::{Source, image_files, mysql};

/// Of all sales that there ever were, until some are removed.
pub const IMAGES_MAX: u64 = 20_000;
/// Of all of them together.
pub const IMAGES_BYTES_MAX: u64 = 1 << 30;

/// An image that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptImage {
    pub name: String,
    pub bytes: u64,
    pub added_at: UnixMs,
}

/// Why an image could not be kept, read or removed.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error(
        "there are {images} images of {bytes} bytes, and {IMAGES_MAX} images of {IMAGES_BYTES_MAX} bytes are the most; \
         remove some that no sale needs (doorbuster images list)"
    )]
    Full { images: u64, bytes: u64 },
    #[error("the directory of images can't be used: {0}")]
    Files(#[from] io::Error),
    #[error(transparent)]
    MySql(#[from] mysql::OpenError),
}

/// What is kept of all images.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Space {
    pub(super) images: u64,
    pub(super) bytes: u64,
}

impl Space {
    pub(super) fn check(self, added: u64) -> Result<(), ImageError> {
        let Space { images, bytes } = self;
        if images >= IMAGES_MAX || bytes + added > IMAGES_BYTES_MAX {
            return Err(ImageError::Full { images, bytes });
        }
        Ok(())
    }
}

impl Source {
    /// Keeps an image, durably. To do it again changes nothing. Several at once may go over the bound by one each.
    ///
    /// # Errors
    /// See [`ImageError`]; after another than [`ImageError::Full`] it may be kept or not.
    pub fn add_image(&self, name: &str, content: &[u8], at: UnixMs) -> Result<(), ImageError> {
        match self {
            Source::Directory(data_dir) => image_files::add(data_dir, name, content),
            Source::MySql(options) => mysql::add_image(options, name, content, at),
        }
    }

    /// # Errors
    /// See [`ImageError`].
    pub fn image(&self, name: &str) -> Result<Option<Vec<u8>>, ImageError> {
        match self {
            Source::Directory(data_dir) => Ok(image_files::read(data_dir, name)?),
            Source::MySql(options) => Ok(mysql::image(options, name)?),
        }
    }

    /// The first of these that is not kept.
    ///
    /// # Errors
    /// See [`ImageError`].
    pub fn missing_image<'a>(&self, names: &[&'a str]) -> Result<Option<&'a str>, ImageError> {
        match self {
            Source::Directory(data_dir) => Ok(image_files::missing(data_dir, names)?),
            Source::MySql(options) => Ok(mysql::missing_image(options, names)?),
        }
    }

    /// Those whose names come after this one, in order, so many at most.
    ///
    /// # Errors
    /// See [`ImageError`].
    pub fn images(&self, after: &str, max: usize) -> Result<Vec<KeptImage>, ImageError> {
        match self {
            Source::Directory(data_dir) => Ok(image_files::list(data_dir, after, max)?),
            Source::MySql(options) => Ok(mysql::images(options, after, max)?),
        }
    }

    /// False: there was none.
    ///
    /// # Errors
    /// See [`ImageError`].
    pub fn remove_image(&self, name: &str) -> Result<bool, ImageError> {
        match self {
            Source::Directory(data_dir) => Ok(image_files::remove(data_dir, name)?),
            Source::MySql(options) => Ok(mysql::remove_image(options, name)?),
        }
    }
}
