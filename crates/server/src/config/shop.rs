//! The shop whose pages these are: its look, and where its own pages are.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::http::{is_origin, not_an_origin};
use super::{Problem, is_safe_url, path_unless_empty, text_unless_empty};
use crate::image_origins::ImageOrigins;
use crate::pages::{
    Accent, Colour, LANGUAGE_BYTES_MAX, LANGUAGES_MAX, Language, Languages, Scheme, is_language_code,
};

const NAME_CHARS_MAX: usize = 40;
const LEGAL_LINKS_MAX: usize = 8;
const LEGAL_TEXT_CHARS_MAX: usize = 40;

/// What an address may name, and what it must.
const PAY_PLACES: [&str; 5] = ["order", "amount", "currency", "return", "signature"];
const PAY_PLACES_NEEDED: [&str; 4] = ["order", "amount", "currency", "signature"];

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shop {
    pub name: String,
    pub address: Address,
    #[serde(deserialize_with = "path_unless_empty")]
    logo_file: Option<PathBuf>,
    #[serde(deserialize_with = "text_unless_empty")]
    accent: Option<String>,
    #[serde(deserialize_with = "text_unless_empty")]
    accent_dark: Option<String>,
    #[serde(deserialize_with = "text_unless_empty")]
    pub sign_in_url: Option<String>,
    #[serde(deserialize_with = "text_unless_empty")]
    pub pay_url: Option<String>,
    #[serde(deserialize_with = "text_unless_empty")]
    pub return_url: Option<String>,
    legal_links: Vec<String>,
    languages: Vec<String>,
    #[serde(deserialize_with = "path_unless_empty")]
    languages_dir: Option<PathBuf>,
    image_origins: Vec<String>,
    image_authority_file: PathBuf,
}

/// When the pages ask for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Address {
    /// Never: the shop knows it, or needs none.
    None,
    /// In the form that places the order, which can be filled in before the start.
    Before,
    /// On the order's page, while the order is held or paid and has none.
    After,
    /// Never: the shop's tokens have it.
    Token,
}

impl Shop {
    pub(super) fn logo_file(&self) -> Option<&Path> {
        self.logo_file.as_deref()
    }

    /// The accent colour; `None` is the pages' own.
    ///
    /// # Panics
    /// If the configuration was not checked.
    pub fn accent(&self) -> Option<Accent> {
        let colour = |text: &String| Colour::parse(text).expect("the configuration was checked");
        let light = self.accent.as_ref().map(colour)?;
        Some(
            Accent::new(light, self.accent_dark.as_ref().map(colour)).expect("the configuration was checked"),
        )
    }

    /// The languages of the pages, of which the shop's own are read from its files.
    ///
    /// # Errors
    /// Each that can't be, for whoever configures it.
    pub fn load_languages(&self) -> Result<Languages, Vec<String>> {
        let (mut languages, mut problems) = (Vec::new(), Vec::new());
        for code in &self.languages {
            match self.load_language(code) {
                Ok(language) => languages.push(language),
                Err(problem) => problems.push(format!("shop.languages: {problem}")),
            }
        }
        if problems.is_empty() { Ok(Languages::new(languages)) } else { Err(problems) }
    }

    fn load_language(&self, code: &str) -> Result<Language, String> {
        let path = self.languages_dir.as_ref().map(|dir| dir.join(format!("{code}.ftl")));
        if let Some(path) = path.filter(|path| path.exists()) {
            let shown = path.display();
            let text = std::fs::read_to_string(&path).map_err(|error| format!("{shown}: {error}"))?;
            if text.len() > LANGUAGE_BYTES_MAX {
                return Err(format!("{shown} has more than {LANGUAGE_BYTES_MAX} bytes"));
            }
            return Language::parse(code, &text).map_err(|why| format!("{shown}: {why}"));
        }
        Language::built_in(code).ok_or_else(|| {
            let known: Vec<&str> = Languages::built_in_codes().collect();
            format!(
                "there are no texts for {code:?}: there are {}, and those of files in shop.languages_dir ({code}.ftl)",
                known.join(", ")
            )
        })
    }

    /// Text and address of each link at the foot of a page.
    pub fn legal_links(&self) -> impl Iterator<Item = (&str, &str)> {
        self.legal_links.iter().filter_map(|link| parse_link(link))
    }

    /// Where images may come from, with who vouches for those servers.
    ///
    /// # Errors
    /// For whoever configures it.
    pub(super) fn load_image_origins(&self) -> Result<ImageOrigins, String> {
        let path = &self.image_authority_file;
        let of = |problem: String| format!("shop.image_authority_file = {path:?} {problem}");
        let authorities = match self.image_origins.iter().any(|origin| origin.starts_with("https://")) {
            true => Some(std::fs::read(path).map_err(|error| of(format!("can't be read: {error}")))?),
            false => None,
        };
        let origins = ImageOrigins::new(self.image_origins.clone(), authorities.as_deref());
        origins.map_err(|error| of(error.to_string()))
    }

    pub(super) fn check(&self, problems: &mut Vec<Problem>) {
        for origin in self.image_origins.iter().filter(|origin| !is_origin(origin)) {
            problems.push(("shop.image_origins", not_an_origin(origin)));
        }
        let chars = self.name.chars().count();
        if chars == 0 || chars > NAME_CHARS_MAX || self.name.chars().any(char::is_control) {
            let message = format!("must have 1 to {NAME_CHARS_MAX} characters, in one line");
            problems.push(("shop.name", message));
        }
        self.check_accent(problems);
        for (key, url, places) in [
            ("shop.sign_in_url", &self.sign_in_url, &["return"][..]),
            ("shop.pay_url", &self.pay_url, &PAY_PLACES),
            ("shop.return_url", &self.return_url, &["order"]),
        ] {
            if let Some(url) = url {
                check_url(key, url, places, problems);
            }
        }
        let names = |url: &Option<String>, place: &str| {
            url.as_ref().is_some_and(|url| url.contains(&format!("{{{place}}}")))
        };
        for place in PAY_PLACES_NEEDED.into_iter().filter(|place| !names(&self.pay_url, place)) {
            if self.pay_url.is_some() {
                let message =
                    format!("lacks {{{place}}}: without it the payment page knows too little to be sure");
                problems.push(("shop.pay_url", message));
            }
        }
        if names(&self.pay_url, "return") && self.return_url.is_none() {
            let message = "is empty, but shop.pay_url names {return}: set it, like \
                           \"https://drops.shop.example/orders/{order}\"";
            problems.push(("shop.return_url", message.into()));
        }
        if self.return_url.is_some() && !names(&self.return_url, "order") {
            problems.push(("shop.return_url", "lacks {order}: buyers return to their order".into()));
        }
        self.check_links(problems);
        let codes = &self.languages;
        let twice = codes.iter().enumerate().any(|(place, code)| codes[..place].contains(code));
        if !(1..=LANGUAGES_MAX).contains(&codes.len()) || twice {
            problems.push(("shop.languages", format!("must name 1 to {LANGUAGES_MAX} languages, each once")));
        }
        for code in codes.iter().filter(|code| !is_language_code(code)) {
            let message =
                format!("holds {code:?}: write a language's code in small letters, like \"de\" or \"pt-br\"");
            problems.push(("shop.languages", message));
        }
    }

    fn check_accent(&self, problems: &mut Vec<Problem>) {
        let mut parsed = |key, text: &Option<String>| {
            let text = text.as_ref()?;
            let colour = Colour::parse(text);
            if colour.is_none() {
                problems.push((key, format!("= {text:?} is no colour: write it like \"#c22f18\"")));
            }
            colour
        };
        let (light, dark) =
            (parsed("shop.accent", &self.accent), parsed("shop.accent_dark", &self.accent_dark));
        let Some(light) = light else {
            if self.accent.is_none() && self.accent_dark.is_some() {
                problems.push(("shop.accent_dark", "is set without shop.accent: set both".into()));
            }
            return;
        };
        if let Err(unreadable) = Accent::new(light, dark) {
            let key = match unreadable.scheme {
                Scheme::Light => "shop.accent",
                Scheme::Dark => "shop.accent_dark",
            };
            problems.push((key, unreadable.to_string()));
        }
    }

    fn check_links(&self, problems: &mut Vec<Problem>) {
        if self.legal_links.len() > LEGAL_LINKS_MAX {
            problems.push(("shop.legal_links", format!("has room for {LEGAL_LINKS_MAX} links")));
        }
        for link in &self.legal_links {
            match parse_link(link) {
                Some((text, url)) if text.chars().count() <= LEGAL_TEXT_CHARS_MAX => {
                    check_url("shop.legal_links", url, &[], problems);
                }
                _ => {
                    let message = format!(
                        "holds {link:?}: write a text of 1 to {LEGAL_TEXT_CHARS_MAX} characters and an address, like \
                         \"Imprint=https://shop.example/imprint\""
                    );
                    problems.push(("shop.legal_links", message));
                }
            }
        }
    }
}

fn parse_link(link: &str) -> Option<(&str, &str)> {
    let (text, url) = link.split_once('=')?;
    let text = text.trim();
    (!text.is_empty()).then_some((text, url.trim()))
}

/// An address with `{places}` after its host.
pub(super) fn check_url(key: &'static str, url: &str, places: &[&str], problems: &mut Vec<Problem>) {
    if !is_safe_url(url) {
        let message = format!(
            "= {url:?} must begin with https://; without TLS an address is on this machine alone (http://127.0.0.1, \
             http://[::1], http://localhost)"
        );
        problems.push((key, message));
        return;
    }
    let mut rest = url;
    while let Some((_, after)) = rest.split_once('{') {
        let place = after.split_once('}').map(|(place, _)| place);
        if !place.is_some_and(|place| places.contains(&place)) {
            let known: Vec<String> = places.iter().map(|place| format!("{{{place}}}")).collect();
            let known = if known.is_empty() {
                "it has none".into()
            } else {
                format!("there are {}", known.join(", "))
            };
            problems.push((key, format!("= {url:?} names a place that there is not: {known}")));
            return;
        }
        rest = after;
    }
}
