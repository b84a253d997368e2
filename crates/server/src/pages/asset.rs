//! The pages' style, scripts and drawings, compiled in and served under names that change with their
//! content, so that a browser may keep each one for ever.
//!
//! Must not: load anything from another host.

use std::collections::{HashMap, HashSet};

use super::Branding;
use super::language::Languages;
use super::rendered::{Rendered, content_tag};

/// A script comes after those that it imports: its text holds their fingerprinted names.
const SOURCES: [(&str, &str); 32] = [
    ("icon.svg", include_str!("../../templates/assets/icon.svg")),
    ("phone.svg", include_str!("../../templates/assets/phone.svg")),
    ("headphones.svg", include_str!("../../templates/assets/headphones.svg")),
    ("watch.svg", include_str!("../../templates/assets/watch.svg")),
    ("sneaker.svg", include_str!("../../templates/assets/sneaker.svg")),
    ("speaker.svg", include_str!("../../templates/assets/speaker.svg")),
    ("parcel.svg", include_str!("../../templates/assets/parcel.svg")),
    ("shop.css", include_str!("../../templates/assets/shop.css")),
    ("report.css", include_str!("../../templates/assets/report.css")),
    ("texts.js", include_str!("../../templates/assets/texts.js")),
    ("common.js", include_str!("../../templates/assets/common.js")),
    ("shop.js", include_str!("../../templates/assets/shop.js")),
    ("clock.js", include_str!("../../templates/assets/clock.js")),
    ("state.js", include_str!("../../templates/assets/state.js")),
    ("attempt.js", include_str!("../../templates/assets/attempt.js")),
    ("address.js", include_str!("../../templates/assets/address.js")),
    ("buy.js", include_str!("../../templates/assets/buy.js")),
    ("offer.js", include_str!("../../templates/assets/offer.js")),
    ("place.js", include_str!("../../templates/assets/place.js")),
    ("draw.js", include_str!("../../templates/assets/draw.js")),
    ("proof.js", include_str!("../../templates/assets/proof.js")),
    ("solver.js", include_str!("../../templates/assets/solver.js")),
    ("waker.js", include_str!("../../templates/assets/waker.js")),
    ("background.js", include_str!("../../templates/assets/background.js")),
    ("verify.js", include_str!("../../templates/assets/verify.js")),
    ("line.js", include_str!("../../templates/assets/line.js")),
    ("sale.js", include_str!("../../templates/assets/sale.js")),
    ("index.js", include_str!("../../templates/assets/index.js")),
    ("orders.js", include_str!("../../templates/assets/orders.js")),
    ("order.js", include_str!("../../templates/assets/order.js")),
    ("api.js", include_str!("../../templates/assets/api.js")),
    ("button.js", include_str!("../../templates/assets/button.js")),
];

/// The console's, which speaks no other language: its texts are its own. The charts are uPlot's, as released.
const CONSOLE: [(&str, &str); 15] = [
    ("console.css", include_str!("../../templates/assets/console.css")),
    ("console-words.js", include_str!("../../templates/assets/console-words.js")),
    ("console-charts.js", include_str!("../../templates/assets/console-charts.js")),
    ("console-servers.js", include_str!("../../templates/assets/console-servers.js")),
    ("console-rehearsal.js", include_str!("../../templates/assets/console-rehearsal.js")),
    ("console-slips.js", include_str!("../../templates/assets/console-slips.js")),
    ("console-making.js", include_str!("../../templates/assets/console-making.js")),
    ("console-actions.js", include_str!("../../templates/assets/console-actions.js")),
    ("console-attempts.js", include_str!("../../templates/assets/console-attempts.js")),
    ("console-incidents.js", include_str!("../../templates/assets/console-incidents.js")),
    ("console-lines.js", include_str!("../../templates/assets/console-lines.js")),
    ("console-orders.js", include_str!("../../templates/assets/console-orders.js")),
    ("console.js", include_str!("../../templates/assets/console.js")),
    ("uPlot.min.css", include_str!("../../templates/assets/uPlot.min.css")),
    (
        "uPlot.iife.min.js",
        concat!(
            "/*\n",
            include_str!("../../templates/assets/uPlot.LICENSE"),
            "*/\n",
            include_str!("../../templates/assets/uPlot.iife.min.js")
        ),
    ),
];

/// Every asset, by name and by path.
#[derive(Debug)]
pub(super) struct Assets {
    /// `sale.js` to `/assets/sale-0123456789.js`.
    paths: HashMap<String, String>,
    by_path: HashMap<String, Rendered>,
    /// The logo, or our own mark.
    icon: &'static str,
}

/// The sources of all scripts.
#[cfg(test)]
pub(super) fn scripts() -> impl Iterator<Item = &'static str> {
    SOURCES.into_iter().filter(|(name, _)| name.ends_with(".js")).map(|(_, source)| source)
}

const LOGO: &str = "logo";

/// The texts of a language for scripts.
pub(super) fn texts_name(code: &str) -> String {
    format!("texts-{code}.js")
}

impl Assets {
    pub(super) fn new(branding: &Branding, languages: &Languages) -> Assets {
        let mut assets = Assets { paths: HashMap::new(), by_path: HashMap::new(), icon: "icon.svg" };
        let files = assets.add_texts(languages);
        for (name, source) in SOURCES {
            let body = match (&branding.accent, name) {
                (_, "texts.js") => without_comments(source).replace("\"@languages@\"", &files),
                (Some(accent), "shop.css") => accent.write_into(source),
                _ if name.ends_with(".js") => assets.with_imports(without_comments(source)),
                _ => source.to_owned(),
            };
            let (stem, extension) = name.rsplit_once('.').expect("every asset's name has an extension");
            assets.add(name, (stem, extension), content_type(extension), body.into_bytes());
        }
        for (name, source) in CONSOLE {
            let (stem, extension) = name.rsplit_once('.').expect("every asset's name has an extension");
            let body = match (stem.starts_with("console"), extension) {
                (true, "css") => tightened(without_indentation(source), STYLE_SPACES),
                (true, _) => assets.with_imports(tightened(without_indentation(source), SCRIPT_SPACES)),
                // What others have released stays as it is.
                (false, _) => source.to_owned(),
            };
            assets.add(name, (stem, extension), content_type(extension), body.into_bytes());
        }
        if let Some(logo) = &branding.logo {
            assets.add(LOGO, (LOGO, logo.extension), logo.content_type, logo.bytes.clone());
            assets.icon = LOGO;
        }
        assets
    }

    /// The texts of every language, as far as scripts name them; and their files by language, in the order of the languages.
    fn add_texts(&mut self, languages: &Languages) -> String {
        let scripts = SOURCES.iter().filter(|(name, _)| name.ends_with(".js"));
        // Whatever follows a quote, up to the next: the strings, and what stands between two of them.
        let named: HashSet<&str> = scripts.flat_map(|(_, source)| source.split('"').skip(1)).collect();
        let is_named = |text: &str| named.contains(text);
        let mut files = Vec::new();
        for (_, language) in languages.iter() {
            let name = texts_name(language.code());
            let (stem, _) = name.split_once('.').expect("it ends with .js");
            let body = language.script_texts(is_named).into_bytes();
            self.add(&name, (stem, "js"), content_type("js"), body);
            files.push(format!("\"{}\": \"{}\"", language.code(), self.path(&name)));
        }
        format!("{{{}}}", files.join(", "))
    }

    fn add(
        &mut self,
        name: &str,
        (stem, extension): (&str, &str),
        content_type: &'static str,
        body: Vec<u8>,
    ) {
        let path = format!("/assets/{stem}-{}.{extension}", content_tag(&body, 5));
        self.by_path.insert(path.clone(), Rendered::new(content_type, body));
        self.paths.insert(name.to_owned(), path);
    }

    /// What stands beside the shop's name, and in the browser's tab.
    pub(super) fn icon(&self) -> &'static str {
        self.icon
    }

    pub(super) fn icon_type(&self) -> &'static str {
        self.get(self.path(self.icon)).expect("every path has its asset").content_type
    }

    /// Panics on an unknown name: only our own code names assets.
    pub(super) fn path(&self, name: &str) -> &str {
        self.paths.get(name).expect("the asset is in SOURCES")
    }

    pub(super) fn get(&self, path: &str) -> Option<&Rendered> {
        self.by_path.get(path)
    }

    /// A drawing as it stands inside of a page: the text that follows `<svg `, where the page puts attributes
    /// of its own. In HTML it needs no name space.
    pub(super) fn drawing(&self, name: &str) -> &str {
        let source = self.get(self.path(name)).expect("every path has its asset");
        let text = std::str::from_utf8(&source.body).expect("it was compiled in as text");
        text.strip_prefix("<svg xmlns=\"http://www.w3.org/2000/svg\" ")
            .expect("every drawing starts so")
            .trim_end()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Rendered)> {
        self.by_path.iter().map(|(path, rendered)| (path.as_str(), rendered))
    }

    /// `import .. from "./shop.js"` must name the fingerprinted file, or a browser would mix versions.
    fn with_imports(&self, mut body: String) -> String {
        for (imported, path) in &self.paths {
            body = body.replace(&format!("\"./{imported}\""), &format!("\"{path}\""));
        }
        body
    }
}

fn content_type(extension: &str) -> &'static str {
    match extension {
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "svg" => "image/svg+xml",
        _ => unreachable!("an asset is a style, a script or a drawing: {extension}"),
    }
}

/// A script or a style without the comments that have a line of their own, which are for whoever reads the source.
fn without_comments(source: &str) -> String {
    let is_comment = |line: &str| line.starts_with("//") || (line.starts_with("/*") && line.ends_with("*/"));
    source.split_inclusive('\n').filter(|line| !is_comment(line.trim())).collect()
}

/// The same of the console's, whose bytes are counted: also without empty lines and indentation. No text in it goes over two lines.
fn without_indentation(source: &str) -> String {
    let source = without_comments(source);
    let lines = source.lines().map(str::trim_start).filter(|line| !line.is_empty());
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// What of the console's stands closer together without another meaning, and how. None of it is in a text, and no line ends in a comment.
const SCRIPT_SPACES: &[(&str, &str)] = &[
    (" => ", "=>"),
    (" = ", "="),
    (" === ", "==="),
    (" !== ", "!=="),
    (" && ", "&&"),
    (" || ", "||"),
    (" ? ", "?"),
    (" : ", ":"),
    (" ?? ", "??"),
    (" + ", "+"),
    (" - ", "-"),
    (" < ", "<"),
    (" > ", ">"),
    ("if (", "if("),
    ("for (", "for("),
    (") {", "){"),
    ("{ ", "{"),
    (" }", "}"),
    ("{\n", "{"),
    (",\n", ","),
    ("\n}", "}"),
];
const STYLE_SPACES: &[(&str, &str)] =
    &[(" {", "{"), ("{ ", "{"), ("; }", "}"), (": ", ":"), ("; ", ";"), (", ", ",")];

fn tightened(source: String, spaces: &[(&str, &str)]) -> String {
    spaces.iter().fold(source, |source, (wide, tight)| source.replace(wide, tight))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_asset_is_found_by_its_path_only() {
        let assets = Assets::new(&Branding::default(), &Languages::built_in());
        for (name, _) in SOURCES.into_iter().chain(CONSOLE) {
            let path = assets.path(name);
            assert!(path.starts_with("/assets/"), "{path}");
            assert!(assets.get(path).is_some(), "{path}");
            assert!(assets.get(&format!("/assets/{name}")).is_none(), "{name} has no unversioned path");
        }
        assert_eq!(
            assets.iter().count(),
            SOURCES.len() + CONSOLE.len() + Languages::built_in_codes().count()
        );
    }

    #[test]
    fn imports_name_fingerprinted_files() {
        let assets = Assets::new(&Branding::default(), &Languages::built_in());
        for (path, asset) in assets.iter().filter(|(path, _)| path.ends_with(".js")) {
            let text = std::str::from_utf8(&asset.body).unwrap();
            assert!(!text.contains("\"./"), "{path} imports a file that is later in SOURCES or missing");
            assert!(!text.starts_with("//") && !text.contains("\n//"), "{path} has comments");
            for (_, rest) in text.match_indices(" from \"").map(|(at, found)| (at, &text[at + found.len()..]))
            {
                let imported = rest.split('"').next().unwrap();
                assert!(assets.get(imported).is_some(), "{path} imports {imported}");
            }
        }
    }

    #[test]
    fn the_consoles_scripts_say_the_same_in_fewer_bytes() {
        let source = "// Why.\nconst a = 1; // b\n\n/** How. */\nif (a) {\n  b(`  c`);\n}\n";
        assert_eq!(without_indentation(source), "const a = 1; // b\nif (a) {\nb(`  c`);\n}\n");
        for (name, source) in CONSOLE.into_iter().filter(|(name, _)| name.starts_with("console")) {
            for line in source.lines().filter(|line| !line.trim_start().starts_with("//")) {
                let quotes = line.replace("\"`\"", "").matches('`').count();
                assert_eq!(quotes % 2, 0, "{name} has a text over two lines: {line}");
                assert!(
                    !line.contains(" // "),
                    "{name} has a comment that the next line would be part of: {line}"
                );
                let text = texts(line).into_iter().find(|text| has_spaces(name, text));
                assert_eq!(text, None, "{name} has a text whose spaces would go: {line}");
            }
        }
    }

    /// The texts of a line, each with a `$` for what is computed in it.
    fn texts(line: &str) -> Vec<String> {
        let (mut texts, mut inside, mut characters) = (Vec::new(), Vec::new(), line.chars().peekable());
        let mut open: Vec<String> = Vec::new();
        while let Some(now) = characters.next() {
            match (inside.last(), now) {
                (Some('"'), '"') | (Some('`'), '`') => {
                    inside.pop();
                    texts.extend(open.pop());
                }
                (Some('`'), '$') if characters.next_if_eq(&'{').is_some() => {
                    open.last_mut().unwrap().push(now);
                    inside.push('{');
                }
                (Some('"' | '`'), _) => open.last_mut().unwrap().push(now),
                (_, '"' | '`') => {
                    inside.push(now);
                    open.push(String::new());
                }
                (_, '{') => inside.push(now),
                (_, '}') => drop(inside.pop()),
                _ => {}
            }
        }
        texts
    }

    #[test]
    fn a_text_is_found_wherever_it_stands() {
        let line = "if (a) { b(\"c = d\", `e ${f ? `g : ${h}` : \"{ i\"} && j`, { k: \"\" }); }";
        assert_eq!(texts(line), ["c = d", "g : $", "{ i", "e $ && j", ""]);
    }

    fn has_spaces(name: &str, text: &str) -> bool {
        let spaces = if name.ends_with(".css") { STYLE_SPACES } else { SCRIPT_SPACES };
        spaces.iter().any(|(wide, _)| text.contains(wide))
    }

    #[test]
    fn the_consoles_scripts_and_styles_say_the_same_closer_together() {
        let script = "const a = ({ b }) => b === \"c\" || (b !== 1 && b >= 2 ? 3 : `d ${b}`);\n";
        let tight = "const a=({b})=>b===\"c\"||(b!==1&&b >= 2?3:`d ${b}`);\n";
        assert_eq!(tightened(script.to_owned(), SCRIPT_SPACES), tight);
        let script = "for (const a of b) {\nif (a ?? c) {\nd(a + 1,\na - 2 > 3);\n}\n}\n";
        let tight = "for(const a of b){if(a??c){d(a+1,a-2>3);}}\n";
        assert_eq!(tightened(script.to_owned(), SCRIPT_SPACES), tight);
        assert!(has_spaces("a.js", "c = d") && !has_spaces("a.js", "c=d"), "so no text has them");
        let style = "@media (min-width: 1rem) {\n.a > b, .c d::before { content: attr(e) \" \"; width: calc(1px + 2px); }\n}\n";
        let tight =
            "@media (min-width:1rem){\n.a > b,.c d::before{content:attr(e) \" \";width:calc(1px + 2px)}\n}\n";
        assert_eq!(tightened(style.to_owned(), STYLE_SPACES), tight);
    }

    /// The names that a script imports, as it calls them; an import may go over several lines.
    fn imported(source: &str) -> Vec<&str> {
        let imports = source.split("\nimport {").skip(1).chain(source.strip_prefix("import {"));
        let lists = imports.filter_map(|import| import.split('}').next());
        let names = lists.flat_map(|list| list.split(',')).filter_map(|name| name.split_whitespace().last());
        names.collect()
    }

    /// One that it declares or imports a second time, outside of its functions.
    fn declared_twice(source: &str) -> Option<&str> {
        let declared = source.lines().filter_map(|line| {
            let mut words = line.strip_prefix("export ").unwrap_or(line).split([' ', '(']);
            let Some("const" | "let" | "function" | "class") = words.next() else { return None };
            words.next().filter(|name| !name.starts_with(['{', '[']))
        });
        let mut seen = HashSet::new();
        imported(source).into_iter().chain(declared).find(|name| !seen.insert(*name))
    }

    /// A browser runs nothing of a script that does, and no other check reads scripts.
    #[test]
    fn no_script_declares_a_name_twice() {
        for (source, twice) in [
            ("import { a, b as c } from \"./d.js\";\nconst b = 1;\nlet d = 2;\n", None),
            ("const a = 1;\nexport function a() {}\n", Some("a")),
            ("import { a, b as c } from \"./d.js\";\nexport const c = 1;\n", Some("c")),
            ("import { a } from \"./d.js\";\nimport {\n  b,\n  a,\n} from \"./e.js\";\n", Some("a")),
        ] {
            assert_eq!(declared_twice(source), twice, "{source}");
        }
        for (file, source) in SOURCES.into_iter().chain(CONSOLE).filter(|(name, _)| name.ends_with(".js")) {
            assert_eq!(declared_twice(source), None, "{file}");
        }
    }
}
