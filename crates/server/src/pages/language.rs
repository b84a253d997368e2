//! The languages of the buyers' pages: their texts, from Fluent files, and which of them a reader gets.
//!
//! A text is a sentence with `{ $values }`, or a choice between some by one value. Nothing else of Fluent is taken: scripts get the
//! same texts compiled (`script_texts`), since a browser has no Fluent. Must not: know a page.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, LazyLock};

use fluent_bundle::concurrent::FluentBundle;
use fluent_bundle::{FluentArgs, FluentResource, FluentValue};
use fluent_syntax::ast::{Entry, Expression, InlineExpression, Pattern, PatternElement, VariantKey};
use serde_json::{Value, json};

/// Those that the program has; the first is the one that all others are held against.
const BUILT_IN: [(&str, &str); 5] = [
    ("en", include_str!("../../languages/en.ftl")),
    ("de", include_str!("../../languages/de.ftl")),
    ("zh", include_str!("../../languages/zh.ftl")),
    ("es", include_str!("../../languages/es.ftl")),
    ("ar", include_str!("../../languages/ar.ftl")),
];
/// Languages of one shop.
pub const LANGUAGES_MAX: usize = 16;
/// Of a file of the shop.
pub const LANGUAGE_BYTES_MAX: usize = 256 * 1024;
/// Parts of `Accept-Language` that are looked at.
const RANGES_MAX: usize = 16;
/// The cookie that keeps what a reader has chosen.
pub const LANGUAGE_COOKIE: &str = "doorbuster_language";

/// The values that each text of the first language has.
static REFERENCE: LazyLock<BTreeMap<String, BTreeSet<String>>> = LazyLock::new(|| {
    let (_, text) = BUILT_IN[0];
    let resource = FluentResource::try_new(text.to_owned()).expect("it is compiled in and tested");
    let texts = compile_all(&resource).expect("it is compiled in and tested");
    texts.into_iter().map(|(name, Compiled { values, .. })| (name, values)).collect()
});

/// A language of the pages, by its place among them. The first is for whoever asks for none that there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LanguageId(u8);

impl LanguageId {
    pub const FIRST: LanguageId = LanguageId(0);

    pub(super) fn place(self) -> usize {
        usize::from(self.0)
    }
}

/// One language with its texts.
pub struct Language {
    /// BCP 47, in small letters.
    code: String,
    bundle: FluentBundle<FluentResource>,
    compiled: BTreeMap<String, Value>,
    pub(super) numbers: Numbers,
}

/// How numbers are written.
pub(super) struct Numbers {
    pub(super) group: String,
    /// A number with fewer digits is not grouped.
    pub(super) group_from: usize,
    pub(super) decimal: String,
}

impl fmt::Debug for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Language").field(&self.code).finish()
    }
}

/// Whether a text can be the code of a language: letters, digits and hyphens, small.
pub fn is_language_code(code: &str) -> bool {
    let part = |part: &str| {
        (1..=8).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    code.len() <= 20
        && code.split('-').all(part)
        && code.split('-').next().is_some_and(|first| first.len() > 1)
}

impl Language {
    /// One that the program has.
    pub fn built_in(code: &str) -> Option<Language> {
        let (code, text) = BUILT_IN.into_iter().find(|(known, _)| *known == code)?;
        Some(Language::parse(code, text).expect("it is compiled in and tested"))
    }

    /// A language from the text of its file.
    ///
    /// # Errors
    /// The first thing that is wrong with it, for whoever wrote it.
    pub fn parse(code: &str, text: &str) -> Result<Language, String> {
        let resource = FluentResource::try_new(text.to_owned()).map_err(|(_, errors)| {
            let error = errors.first().expect("it failed for a reason");
            let line = text.get(..error.pos.start).map_or(1, |before| before.matches('\n').count() + 1);
            format!("line {line}: {}", error.kind)
        })?;
        let texts = compile_all(&resource)?;
        for (name, Compiled { values, .. }) in &texts {
            let known = REFERENCE.get(name).ok_or_else(|| format!("there is no text {name}"))?;
            if let Some(unknown) = values.difference(known).next() {
                return Err(format!("the text {name} has no value ${unknown}"));
            }
        }
        if let Some(missing) = REFERENCE.keys().find(|name| !texts.contains_key(*name)) {
            return Err(format!("the text {missing} is missing"));
        }
        let id = code.parse().map_err(|_unknown| format!("{code:?} is no code of a language"))?;
        let mut bundle = FluentBundle::new_concurrent(vec![id]);
        bundle.set_use_isolating(false);
        bundle.add_resource(resource).map_err(|_twice| "a text is there twice".to_owned())?;
        let compiled = texts.into_iter().map(|(name, text)| (name, text.pattern)).collect();
        let mut language = Language {
            code: code.to_owned(),
            bundle,
            compiled,
            numbers: Numbers { group: String::new(), group_from: 0, decimal: String::new() },
        };
        let group_from = language.plain("number-group-from").parse();
        language.numbers = Numbers {
            group: language.plain("number-group"),
            group_from: group_from.map_err(|_number| "number-group-from must be a number".to_owned())?,
            decimal: language.plain("number-decimal"),
        };
        if !["ltr", "rtl"].contains(&&*language.plain("direction")) {
            return Err("direction must be ltr or rtl".to_owned());
        }
        Ok(language)
    }

    pub(super) fn code(&self) -> &str {
        &self.code
    }

    /// A text without values.
    pub(super) fn plain(&self, name: &str) -> String {
        self.text(name, Vec::new())
    }

    /// # Panics
    /// If there is no such text: a language was checked to have all.
    pub(super) fn text<'a>(&'a self, name: &str, values: Vec<(&'a str, FluentValue<'a>)>) -> String {
        let message = self.bundle.get_message(name).unwrap_or_else(|| panic!("there is no text {name:?}"));
        let pattern = message.value().expect("a text was checked to say something");
        let values: FluentArgs<'_> = values.into_iter().collect();
        let mut errors = Vec::new();
        let text = self.bundle.format_pattern(pattern, Some(&values), &mut errors).into_owned();
        debug_assert!(errors.is_empty(), "{name}: {errors:?}");
        text
    }

    /// Those of its texts that a script names, as a module.
    pub(super) fn script_texts(&self, named: impl Fn(&str) -> bool) -> String {
        let texts: BTreeMap<&String, &Value> = self.compiled.iter().filter(|(name, _)| named(name)).collect();
        format!("export default {};\n", json!(texts))
    }
}

/// The languages of a shop's pages; the first is for whoever asks for none of them.
#[derive(Clone, Debug)]
pub struct Languages(Vec<Arc<Language>>);

impl Languages {
    /// # Panics
    /// If there are none, or more than [`LANGUAGES_MAX`].
    pub fn new(languages: Vec<Language>) -> Languages {
        assert!((1..=LANGUAGES_MAX).contains(&languages.len()), "{} languages", languages.len());
        Languages(languages.into_iter().map(Arc::new).collect())
    }

    /// All that the program has.
    pub fn built_in() -> Languages {
        Languages::new(BUILT_IN.into_iter().filter_map(|(code, _)| Language::built_in(code)).collect())
    }

    /// The codes of those that the program has.
    pub fn built_in_codes() -> impl Iterator<Item = &'static str> {
        BUILT_IN.into_iter().map(|(code, _)| code)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (LanguageId, &Arc<Language>)> {
        (0..).map(LanguageId).zip(&self.0)
    }

    /// Every language there is.
    pub fn ids(&self) -> impl Iterator<Item = LanguageId> + use<> {
        let count = u8::try_from(self.0.len()).expect("they are few");
        (0..count).map(LanguageId)
    }

    pub(super) fn get(&self, language: LanguageId) -> &Arc<Language> {
        &self.0[language.place()]
    }

    /// The language of this code.
    pub fn find(&self, code: &str) -> Option<LanguageId> {
        self.iter().find(|(_, language)| language.code == code).map(|(id, _)| id)
    }

    pub fn code(&self, language: LanguageId) -> &str {
        &self.get(language).code
    }

    /// What a reader gets: what was chosen, or the best that `Accept-Language` asks for, or the first.
    pub fn for_reader(&self, cookies: Option<&str>, accepted: Option<&str>) -> LanguageId {
        let chosen = cookies.and_then(chosen).and_then(|code| self.find(code));
        chosen.or_else(|| self.accepted(accepted?)).unwrap_or_default()
    }

    /// By RFC 4647's lookup: `zh-TW` is served by `zh`. Of equal weights the first counts.
    fn accepted(&self, header: &str) -> Option<LanguageId> {
        let mut best: Option<(u16, LanguageId)> = None;
        for range in header.split(',').take(RANGES_MAX) {
            let (range, weight) = range.split_once(';').unwrap_or((range, ""));
            let weight = weight_of(weight);
            if weight > best.map_or(0, |(weight, _)| weight)
                && let Some(language) = self.lookup(range.trim())
            {
                best = Some((weight, language));
            }
        }
        best.map(|(_, language)| language)
    }

    fn lookup(&self, range: &str) -> Option<LanguageId> {
        let mut range = range;
        loop {
            let fits = |language: &Arc<Language>| language.code.eq_ignore_ascii_case(range);
            if let Some((id, _)) = self.iter().find(|(_, language)| fits(language)) {
                return Some(id);
            }
            range = range.rsplit_once('-')?.0;
        }
    }
}

fn chosen(cookies: &str) -> Option<&str> {
    cookies.split(';').find_map(|cookie| cookie.trim().strip_prefix(LANGUAGE_COOKIE)?.strip_prefix('='))
}

/// `q=0.8` in thousandths; 1,000 without one, 0 if it is none.
fn weight_of(parameter: &str) -> u16 {
    let Some(text) = parameter.trim().strip_prefix("q=") else { return 1000 };
    let weight: f32 = text.trim().parse().unwrap_or(0.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 1,000")]
    let thousandths = (weight.clamp(0.0, 1.0) * 1000.0) as u16;
    thousandths
}

/// A text for a script, and the values that it has.
struct Compiled {
    pattern: Value,
    values: BTreeSet<String>,
}

fn compile_all(resource: &FluentResource) -> Result<BTreeMap<String, Compiled>, String> {
    let mut texts = BTreeMap::new();
    for entry in resource.entries() {
        let message = match entry {
            Entry::Message(message) => message,
            Entry::Comment(_) | Entry::GroupComment(_) | Entry::ResourceComment(_) => continue,
            Entry::Term(term) => return Err(format!("-{}: terms are not taken", term.id.name)),
            Entry::Junk { content } => return Err(format!("{content:?} can't be read")),
        };
        let name = message.id.name;
        let value = message.value.as_ref().filter(|_| message.attributes.is_empty());
        let value = value.ok_or_else(|| format!("the text {name} must be one text, without attributes"))?;
        let mut values = BTreeSet::new();
        let pattern = compile(value, &mut values).map_err(|what| format!("the text {name}: {what}"))?;
        if texts.insert(name.to_owned(), Compiled { pattern, values }).is_some() {
            return Err(format!("the text {name} is there twice"));
        }
    }
    Ok(texts)
}

/// A text is a string, or a list: strings, `{"value": NAME}` and `{"by": NAME, "of": {KEY: TEXT}, "else": KEY}`.
fn compile(pattern: &Pattern<&str>, values: &mut BTreeSet<String>) -> Result<Value, &'static str> {
    const NOT_TAKEN: &str = "only { $values } and choices by one of them are taken";
    let mut parts: Vec<Value> = Vec::new();
    let push_text = |parts: &mut Vec<Value>, text: &str| match parts.last_mut() {
        Some(Value::String(last)) => last.push_str(text),
        _ => parts.push(text.into()),
    };
    for element in &pattern.elements {
        match element {
            PatternElement::TextElement { value } => push_text(&mut parts, value),
            PatternElement::Placeable { expression: Expression::Inline(inline) } => match inline {
                InlineExpression::StringLiteral { value } => {
                    push_text(&mut parts, &fluent_syntax::unicode::unescape_unicode_to_string(value));
                }
                InlineExpression::VariableReference { id } => {
                    values.insert(id.name.to_owned());
                    parts.push(json!({ "value": id.name }));
                }
                _ => return Err(NOT_TAKEN),
            },
            PatternElement::Placeable { expression: Expression::Select { selector, variants } } => {
                let InlineExpression::VariableReference { id } = selector else { return Err(NOT_TAKEN) };
                values.insert(id.name.to_owned());
                let (mut of, mut otherwise) = (serde_json::Map::new(), "");
                for variant in variants {
                    let (VariantKey::Identifier { name: key } | VariantKey::NumberLiteral { value: key }) =
                        &variant.key;
                    of.insert((*key).to_owned(), compile(&variant.value, values)?);
                    otherwise = if variant.default { key } else { otherwise };
                }
                parts.push(json!({ "by": id.name, "of": of, "else": otherwise }));
            }
        }
    }
    Ok(match &parts[..] {
        [] => Value::String(String::new()),
        [Value::String(text)] => Value::String(text.clone()),
        _ => Value::Array(parts),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_of_the_program_is_whole() {
        for (code, text) in BUILT_IN {
            assert!(is_language_code(code));
            let language = Language::parse(code, text).unwrap_or_else(|why| panic!("{code}: {why}"));
            assert_eq!(language.code(), code);
            // Whatever a value is, every text can be said.
            for (name, values) in &*REFERENCE {
                for number in [0, 1, 2, 3, 11, 100] {
                    let values = values.iter().map(|value| (&**value, FluentValue::from(number))).collect();
                    assert!(!language.text(name, values).is_empty() || name == "number-group", "{name}");
                }
            }
        }
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said() {
        let (_, english) = BUILT_IN[0];
        for (from, to, why) in [
            ("total = Total\n", "", "the text total is missing"),
            ("total = Total\n", "total = Total\nextra = More\n", "there is no text extra"),
            ("total = Total\n", "total = Total\ntotal = Sum\n", "the text total is there twice"),
            ("total = Total\n", "total = { $sum }\n", "the text total has no value $sum"),
            ("total = Total\n", "total = { sales }\n", "only { $values }"),
            ("total = Total\n", "total = Total\n    .title = Sum\n", "without attributes"),
            ("total = Total\n", "-brand = Shop\ntotal = Total\n", "terms are not taken"),
            ("total = Total\n", "total = { $\n", "line "),
            ("direction = ltr", "direction = up", "direction must be ltr or rtl"),
            ("number-group-from = 4", "number-group-from = four", "number-group-from must be a number"),
        ] {
            assert!(english.contains(from), "{from}");
            let found = Language::parse("en", &english.replacen(from, to, 1)).unwrap_err();
            assert!(found.contains(why), "{to:?}: {found}");
        }
        assert!(Language::parse("no code", english).unwrap_err().contains("no code of a language"));
    }

    #[test]
    fn a_reader_gets_what_was_chosen_or_asked_for() {
        let languages = Languages::built_in();
        for (cookies, accepted, code) in [
            (None, None, "en"),
            (None, Some("de"), "de"),
            (None, Some("DE-at,en;q=0.9"), "de"),
            (None, Some("fr, es;q=0.7, de;q=0.8"), "de"),
            (None, Some("fr;q=1, *;q=0.5"), "en"),
            (None, Some("zh-Hant-TW"), "zh"),
            (None, Some("ar;q=0, es"), "es"),
            (None, Some("de;q=nonsense, es;q=0.1"), "es"),
            (None, Some(",;;q=,-,"), "en"),
            (Some("a=b; doorbuster_language=ar"), Some("de"), "ar"),
            (Some("doorbuster_language=xx"), Some("de"), "de"),
            (Some("doorbuster_languages=ar"), None, "en"),
        ] {
            let id = languages.for_reader(cookies, accepted);
            assert_eq!(languages.code(id), code, "{cookies:?} {accepted:?}");
        }
    }

    #[test]
    fn codes_are_small_and_short() {
        for (code, fits) in [
            ("en", true),
            ("pt-br", true),
            ("zh-hant", true),
            ("EN", false),
            ("e", false),
            ("", false),
            ("en-", false),
            ("../en", false),
            ("en_US", false),
        ] {
            assert_eq!(is_language_code(code), fits, "{code:?}");
        }
    }

    #[test]
    fn scripts_get_texts_that_need_no_fluent() {
        let language = Language::built_in("en").unwrap();
        let texts = language.script_texts(|name| ["total", "units", "money"].contains(&name));
        let texts = texts.strip_prefix("export default ").unwrap().trim_end_matches(";\n");
        let texts: Value = serde_json::from_str(texts).unwrap();
        assert_eq!(texts["total"], "Total");
        let one = json!([{ "value": "text" }, " unit"]);
        let other = json!([{ "value": "text" }, " units"]);
        assert_eq!(
            texts["units"],
            json!([{ "by": "count", "of": { "one": one, "other": other }, "else": "other" }])
        );
        assert_eq!(texts["money"][0]["of"]["none"][1], "\u{a0}");
    }
}
