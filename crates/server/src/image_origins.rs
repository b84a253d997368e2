//! Images from the shop's own servers, of origins that the operator allowed.
//!
//! Must not: be asked on an event loop: it waits for another server. Or follow a redirect, which would lead elsewhere.

use std::fmt;
use std::time::Duration;

use ureq::Agent;
use ureq::http::Uri;

use crate::authorities::{self, NotAuthorities};
use crate::pages::{IMAGE_BYTES_MAX, Image, NotAnImage};

/// For the whole exchange.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Where images may be fetched from.
#[derive(Clone, Default)]
pub struct ImageOrigins {
    origins: Vec<String>,
    /// `None`: there is no origin.
    agent: Option<Agent>,
}

/// Why no image came.
#[derive(Debug, thiserror::Error)]
pub enum NotFetched {
    #[error("images may not come from there: the address must begin with one of shop.image_origins")]
    NotAllowed,
    #[error("its server answered {0}")]
    Status(u16),
    #[error("no answer from its server: {0}")]
    NoAnswer(#[source] Box<ureq::Error>),
    #[error("it has more than {IMAGE_BYTES_MAX} bytes: make it smaller")]
    TooLarge,
    #[error("it {0}")]
    NotAnImage(#[from] NotAnImage),
}

impl fmt::Debug for ImageOrigins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImageOrigins").field("origins", &self.origins).finish_non_exhaustive()
    }
}

impl ImageOrigins {
    /// `authorities`: the PEM certificates that vouch for https servers; `None`: none of the origins is one.
    ///
    /// # Errors
    /// If the certificates can not be read as such.
    pub fn new(origins: Vec<String>, authorities: Option<&[u8]>) -> Result<ImageOrigins, NotAuthorities> {
        let settings = authorities::client(TIMEOUT, authorities)?;
        Ok(ImageOrigins { agent: (!origins.is_empty()).then(|| settings.build().into()), origins })
    }

    /// Blocks, at most for ten seconds.
    ///
    /// # Errors
    /// See [`NotFetched`].
    pub fn fetch(&self, url: &str) -> Result<Image, NotFetched> {
        let agent = self.agent.as_ref().filter(|_| self.allows(url)).ok_or(NotFetched::NotAllowed)?;
        let no_answer = |error| NotFetched::NoAnswer(Box::new(error));
        let mut response = agent.get(url).call().map_err(no_answer)?;
        if response.status() != 200 {
            return Err(NotFetched::Status(response.status().as_u16()));
        }
        let body = response.body_mut().with_config().limit(IMAGE_BYTES_MAX as u64 + 1).read_to_vec();
        match body {
            Err(ureq::Error::BodyExceedsLimit(_)) => Err(NotFetched::TooLarge),
            body => Ok(Image::new(body.map_err(no_answer)?)?),
        }
    }

    /// By what is before the path as the address is read, and not by how the text begins: "https://shop.example@elsewhere/".
    fn allows(&self, url: &str) -> bool {
        let Ok(uri) = url.parse::<Uri>() else { return false };
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else { return false };
        let origin = format!("{scheme}://{authority}");
        self.origins.contains(&origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_operator_allowed_is_asked() {
        let allowed = ["https://img.example", "http://127.0.0.1:81"].map(str::to_owned).to_vec();
        let origins = ImageOrigins::new(allowed, None).unwrap();
        for (url, allowed) in [
            ("https://img.example/a.png?w=1", true),
            ("http://127.0.0.1:81/a", true),
            ("http://img.example/a.png", false),
            ("https://img.example:444/a.png", false),
            ("https://img.example.evil/a.png", false),
            ("https://img.example@evil/a.png", false),
            ("https://evil/https://img.example/a.png", false),
            ("//img.example/a", false),
            ("file:///etc/passwd", false),
            ("", false),
        ] {
            assert_eq!(origins.allows(url), allowed, "{url}");
        }
    }
}
