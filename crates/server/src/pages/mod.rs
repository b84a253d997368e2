//! The pages that buyers see, rendered from plain data: the sales, a product in a sale (the same for
//! everybody, or with one member's context), an order, the documentation of the API, and "not found".
//!
//! Everything is same-origin: the style, scripts and drawings are compiled in, and no page holds a script
//! or a style of its own, so the strict [`CONTENT_SECURITY_POLICY`] holds. All that the scripts need to
//! know stands in `data-` attributes.
//!
//! Must not: route, read a clock, or decide anything about an order.

mod accent;
mod asset;
mod format;
mod image;
mod language;
mod plain;
mod rendered;
mod report;
mod runbook;
#[cfg(test)]
mod tests;
mod view;

use std::sync::Arc;

use fluent_bundle::FluentValue;
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Environment, Error, Value, context};

pub use accent::{Accent, Colour, Scheme};
use asset::Assets;
pub use engine::{amount, minor_digits};
pub use image::{IMAGE_BYTES_MAX, Image, NotAnImage, is_image_name};
pub use language::{
    LANGUAGE_BYTES_MAX, LANGUAGE_COOKIE, LANGUAGES_MAX, Language, LanguageId, Languages, is_language_code,
};
pub use plain::{CheckView, OrderPageView, PlacePageView, PlaceWait, TroubleView};
pub use rendered::{Rendered, Tags, write_file};
pub use report::{HeadView, ReportView, TableView};
use view::Picture;
pub use view::{ImageView, ItemView, Links, SaleState, SaleView, TurnView};

/// Sent with every page. `data:` is for the browser's own drawings of form controls.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// `Cache-Control` of everything under `/assets/`: the name changes with the content.
pub const ASSET_CACHE_CONTROL: &str = "public, max-age=31536000, immutable";

/// `Cache-Control` of [`Pages::buy_button`], which names such a file.
pub const BUTTON_CACHE_CONTROL: &str = "public, max-age=60";

/// Of [`Pages::product`], which gives bare bytes.
pub const HTML_CONTENT_TYPE: &str = "text/html; charset=utf-8";

/// Cards per sale on the index: the demo's shop has a thousand goods, and a page is not a catalogue.
pub const INDEX_ITEMS_MAX: u32 = 6;
/// Quantity that the form offers where the sale sets no limit.
const QUANTITY_MAX: u32 = 99;
/// Where a page made beforehand is filled for its reader. No title can contain it: titles are escaped.
const SLOT: &str = "<!--slot-->";

/// Of a page with several products.
const LIST_SCRIPTS: &[&str] = &["index.js", "clock.js", "shop.js", "common.js", "texts.js"];

/// Of a product's page.
const PRODUCT_SCRIPTS: &[&str] = &[
    "sale.js",
    "buy.js",
    "address.js",
    "attempt.js",
    "offer.js",
    "state.js",
    "clock.js",
    "shop.js",
    "common.js",
    "texts.js",
];
/// The same, of a product that is sold to its line.
const LINE_SCRIPTS: &[&str] = &[
    "line.js",
    "buy.js",
    "address.js",
    "attempt.js",
    "offer.js",
    "place.js",
    "draw.js",
    "proof.js",
    "verify.js",
    "background.js",
    "state.js",
    "clock.js",
    "shop.js",
    "common.js",
    "texts.js",
];

const TEMPLATES: [(&str, &str); 19] = [
    ("address.html", include_str!("../../templates/address.html")),
    ("layout.html", include_str!("../../templates/layout.html")),
    ("index.html", include_str!("../../templates/index.html")),
    ("product.html", include_str!("../../templates/product.html")),
    ("order_form.html", include_str!("../../templates/order_form.html")),
    ("line.html", include_str!("../../templates/line.html")),
    ("member.html", include_str!("../../templates/member.html")),
    ("orders.html", include_str!("../../templates/orders.html")),
    ("order.html", include_str!("../../templates/order.html")),
    ("api.html", include_str!("../../templates/api.html")),
    ("console.html", include_str!("../../templates/console.html")),
    ("runbook.html", include_str!("../../templates/runbook.html")),
    ("report.html", include_str!("../../templates/report.html")),
    ("operators_trouble.html", include_str!("../../templates/operators_trouble.html")),
    ("check.html", include_str!("../../templates/check.html")),
    ("plain_line.html", include_str!("../../templates/plain_line.html")),
    ("plain_order.html", include_str!("../../templates/plain_order.html")),
    ("trouble.html", include_str!("../../templates/trouble.html")),
    ("not_found.html", include_str!("../../templates/not_found.html")),
];

/// How the page's script proves who the buyer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Session {
    /// A cookie that the server hands to any browser.
    Demo,
    /// A bearer token that the shop passes in the page's fragment, `#token=..`.
    Token,
    /// Nothing to do: a trusted edge names the buyer.
    Edge,
}

/// Where buyers are asked where an order goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressAsked {
    Never,
    /// In the form that places the order.
    Before,
    /// On the page of an order that has none.
    After,
}

/// What is the same on every page.
#[derive(Clone, Debug)]
pub struct Settings {
    pub shop: String,
    pub session: Session,
    /// Offer a button that pays without a payment provider.
    pub demo_pay: bool,
    pub address_asked: AddressAsked,
    /// Shown to whoever has no script: why they can't join a line; `None`: they can.
    pub refused_without_script: Option<&'static str>,
    /// Where whoever would join a line passes the shop's check, with `{return}` for the page that they come from.
    pub verification_url: Option<String>,
    pub branding: Branding,
    pub languages: Languages,
}

/// What makes the pages the shop's; without it they are plain.
#[derive(Clone, Debug, Default)]
pub struct Branding {
    /// `None`: the style sheet's own.
    pub accent: Option<Accent>,
    pub logo: Option<Image>,
    /// Where buyers sign in, with `{return}` for the page that they come from.
    pub sign_in_url: Option<String>,
    /// Text and address of the links at the foot.
    pub legal_links: Vec<(String, String)>,
}

/// The compiled templates and the fingerprinted assets. Made once, at the start; a few milliseconds.
#[derive(Debug)]
pub struct Pages {
    /// By language.
    environments: Vec<Environment<'static>>,
    assets: Assets,
    settings: Settings,
    /// What is around the pages without a script, by language.
    plain: Vec<PreparedPage>,
}

/// A page without what it holds for one reader: rendering it for one is two copies and a small template.
#[derive(Clone, Debug)]
pub struct PreparedPage {
    language: LanguageId,
    before: Vec<u8>,
    after: Vec<u8>,
}

/// The parts of a page that differ outside of its content.
struct Frame<'a> {
    title: &'a str,
    description: &'a str,
    /// The script that runs the page; those that it imports follow, to be fetched along with it.
    scripts: &'a [&'static str],
}

impl Pages {
    pub fn new(settings: Settings) -> Pages {
        let environments = settings.languages.iter().map(|(_, language)| environment(language)).collect();
        let assets = Assets::new(&settings.branding, &settings.languages);
        let mut pages = Pages { environments, assets, settings, plain: Vec::new() };
        pages.plain = pages.settings.languages.ids().map(|language| pages.prepare_plain(language)).collect();
        pages
    }

    pub fn languages(&self) -> &Languages {
        &self.settings.languages
    }

    fn language(&self, language: LanguageId) -> &Language {
        self.settings.languages.get(language)
    }

    /// `/`: the sales in the order given, each with its first products.
    pub fn index(&self, language: LanguageId, sales: &[SaleView], links: &Links) -> Rendered {
        let sales: Vec<Value> = sales
            .iter()
            .map(|sale| {
                let more = sale.items_total - sale.items.len();
                context! { items => self.cards(language, sale), more, ..sale_values(sale) }
            })
            .collect();
        let say = self.language(language);
        let frame = Frame {
            title: &say.plain(if links.to_current { "index-title-ended" } else { "index-title" }),
            description: &say.plain("index-description"),
            scripts: LIST_SCRIPTS,
        };
        let heading = links.to_current.then_some(frame.title);
        let values = context! { sales, heading, ..link_values(links) };
        self.page(language, &frame, &self.content(language, "index.html", values))
    }

    /// `/sales/{sale}`: some of a sale's products.
    pub fn sale_items(&self, language: LanguageId, sale: &SaleView, links: &Links) -> Rendered {
        let frame = Frame {
            title: &sale.title,
            description: &self.language(language).plain("sale-description"),
            scripts: LIST_SCRIPTS,
        };
        let sales = [context! { items => self.cards(language, sale), more => 0, ..sale_values(sale) }];
        let values = context! { sales, heading => sale.title, ..link_values(links) };
        self.page(language, &frame, &self.content(language, "index.html", values))
    }

    fn cards(&self, language: LanguageId, sale: &SaleView) -> Vec<Value> {
        sale.items.iter().map(|item| self.item_values(language, sale, item)).collect()
    }

    /// `/seckill_{sale}_{product}.html`: the same for everybody, rendered once per change.
    pub fn sale(&self, language: LanguageId, sale: &SaleView, item: &ItemView) -> Rendered {
        Rendered::new(HTML_CONTENT_TYPE, self.product_html(language, sale, item, "").into_bytes())
    }

    /// The static page's address, which is also its file name.
    pub fn sale_file_name(sale: u64, product: u64) -> String {
        format!("seckill_{sale}_{product}.html")
    }

    /// Where an item's image is; the name is another one for another image.
    pub fn image_path(sale: u64, product: u64, name: &str) -> String {
        format!("/images/{sale}/{product}/{name}")
    }

    /// The name of that page's file in a language: of the first one it is the address.
    pub fn sale_file_name_in(&self, language: LanguageId, sale: u64, product: u64) -> String {
        if language == LanguageId::default() {
            return Pages::sale_file_name(sale, product);
        }
        format!("seckill_{sale}_{product}.{}.html", self.settings.languages.code(language))
    }

    /// `/product`, but for the member; to be kept until the sale changes.
    pub fn prepare_product(&self, language: LanguageId, sale: &SaleView, item: &ItemView) -> PreparedPage {
        PreparedPage::new(language, &self.product_html(language, sale, item, SLOT))
    }

    /// `/product` for one member, appended to `out`. It is private: not to be cached, nor given a tag.
    pub fn product(&self, page: &PreparedPage, member: u64, out: &mut Vec<u8>) {
        self.fill(page, "member.html", context! { member }, out);
    }

    fn fill(&self, page: &PreparedPage, template: &str, values: Value, out: &mut Vec<u8>) {
        out.extend_from_slice(&page.before);
        out.extend_from_slice(self.content(page.language, template, values).as_bytes());
        out.extend_from_slice(&page.after);
    }

    /// `/orders/{id}`: one shell for all orders; its script reads the order.
    pub fn order(&self, language: LanguageId) -> Rendered {
        let scripts = &["order.js", "address.js", "clock.js", "shop.js", "common.js", "texts.js"];
        self.shell(language, "order.html", ("your-order", "order-description"), scripts)
    }

    /// `/orders`: one shell for all buyers; its script knows which orders were placed in the browser.
    pub fn orders(&self, language: LanguageId) -> Rendered {
        let scripts = &["orders.js", "shop.js", "common.js", "texts.js"];
        self.shell(language, "orders.html", ("my-orders", "orders-description"), scripts)
    }

    fn shell(
        &self,
        language: LanguageId,
        template: &str,
        (title, description): (&str, &str),
        scripts: &[&'static str],
    ) -> Rendered {
        let say = self.language(language);
        let (title, description) = (&*say.plain(title), &*say.plain(description));
        let values = context! {
            picture => self.asset_path(Picture::Parcel.file_name()),
            address_fields => self.address_fields(language, AddressAsked::After),
        };
        let content = self.content(language, template, values);
        self.page(language, &Frame { title, description, scripts }, &content)
    }

    /// `/api`: the documentation, drawn by its script from the served OpenAPI document. In English, as that is.
    pub fn api(&self) -> Rendered {
        let frame = Frame {
            title: "HTTP API",
            description: "The operations of the Doorbuster HTTP API, their parameters and answers.",
            scripts: &["api.js"],
        };
        let language = self.settings.languages.find("en").unwrap_or_default();
        self.page(language, &frame, &self.content(language, "api.html", context! {}))
    }

    /// `/console`: the sale as it happens.
    pub fn console(&self) -> Rendered {
        let loaded = context! {
            script => self.asset_path("console.js"),
            chart_style => self.asset_path("uPlot.min.css"),
            chart_script => self.asset_path("uPlot.iife.min.js"),
        };
        self.for_operators("console.html", &loaded)
    }

    /// `/console/runbook`: what the console's verdict leads to.
    pub fn runbook(&self) -> Rendered {
        self.for_operators("runbook.html", &context! { body => runbook::html() })
    }

    fn for_operators(&self, template: &str, values: &Value) -> Rendered {
        let html = self.operators_html(template, "console.css", values);
        Rendered::new(HTML_CONTENT_TYPE, html.into_bytes())
    }

    /// In English, as the operators' tools are, and a whole document: it is no page of the shop.
    fn operators_html(&self, template: &str, style: &str, values: &Value) -> String {
        let language = self.settings.languages.find("en").unwrap_or_default();
        let values = context! {
            shop => self.settings.shop,
            icon => self.asset_path(self.assets.icon()),
            icon_type => self.assets.icon_type(),
            style => self.asset_path(style),
            ..values.clone()
        };
        self.content(language, template, values)
    }

    /// What a page of the shop loads for its buy buttons: one address that stays, which leads to the script as it is now.
    pub fn buy_button(&self) -> Rendered {
        let script = format!("import \"{}\";\n", self.assets.path("button.js"));
        Rendered::new("text/javascript; charset=utf-8", script.into_bytes())
    }

    /// For any address that leads nowhere.
    pub fn not_found(&self, language: LanguageId) -> Rendered {
        self.shell(language, "not_found.html", ("not-found-title", "not-found-description"), &[])
    }

    /// The asset at this path, `/assets/sale-0123456789.js`.
    pub fn asset(&self, path: &str) -> Option<&Rendered> {
        self.assets.get(path)
    }

    /// Every asset with its path, for copying them to a CDN.
    pub fn assets(&self) -> impl Iterator<Item = (&str, &Rendered)> {
        self.assets.iter()
    }

    fn product_html(&self, language: LanguageId, sale: &SaleView, item: &ItemView, slot: &str) -> String {
        let safe = Value::from_safe_string;
        let values = context! {
            member => safe(slot.to_owned()),
            sale => sale_values(sale),
            address_fields => self.address_fields(language, AddressAsked::Before),
            ..self.item_values(language, sale, item)
        };
        let mut form = self.content(language, "order_form.html", values.clone());
        if item.line.is_some() {
            let Settings { refused_without_script, verification_url, .. } = &self.settings;
            let values = context! {
                order_form => safe(form),
                refused_without_script,
                verification_url,
                ..values.clone()
            };
            form = self.content(language, "line.html", values);
        }
        let values = context! {
            order_form => safe(form),
            // Inside of the page: the product is seen with the first answer, and nothing moves afterwards.
            drawing => safe(self.assets.drawing(self.picture(item).file_name()).to_owned()),
            ..values
        };
        let frame = Frame {
            title: &item.title,
            description: &item.description,
            scripts: if item.line.is_some() { LINE_SCRIPTS } else { PRODUCT_SCRIPTS },
        };
        self.html(language, &frame, &self.content(language, "product.html", values))
    }

    /// What stands where an item has no image. A demo's titles are known; what a shop sells is not guessed.
    fn picture(&self, item: &ItemView) -> Picture {
        if self.settings.demo_pay { Picture::for_title(&item.title) } else { Picture::Parcel }
    }

    fn item_values(&self, language: LanguageId, sale: &SaleView, item: &ItemView) -> Value {
        let money = |minor| format::money(self.language(language), minor, &sale.currency);
        let compared = item.list_price.filter(|&list| list > item.price);
        let quantity_max = item.line.map_or(item.limit.unwrap_or(QUANTITY_MAX), |line| line.units);
        context! {
            product => item.product,
            url => format!("/{}", Pages::sale_file_name(sale.id, item.product)),
            title => item.title,
            description => item.description,
            currency => sale.currency,
            price => item.price,
            price_text => money(item.price),
            list_price_text => compared.map(money),
            off_percent => compared.map(|list| off_percent(item.price, list)),
            total => item.total,
            available => item.available,
            limit => item.limit,
            line => item.line.map(turn_values),
            // Of a line's item units may be set aside, which is not sold out: its page knows.
            sold_out => item.available == 0 && item.line.is_none() && matches!(sale.state, SaleState::Live | SaleState::Paused),
            quantity_max,
            // Nobody is offered more than there is; the script knows how much that is now.
            quantity_most => u64::from(quantity_max).min(item.total.max(1)),
            picture => self.asset_path(self.picture(item).file_name()),
            image => item.image.as_ref().map(|image| context! { path => image.path, alt => image.alt }),
        }
    }

    /// The fields of an address, where they are asked for.
    fn address_fields(&self, language: LanguageId, on: AddressAsked) -> Option<Value> {
        let is_asked = self.settings.address_asked == on;
        is_asked.then(|| Value::from_safe_string(self.content(language, "address.html", context! {})))
    }

    fn content(&self, language: LanguageId, template: &str, values: Value) -> String {
        let environment = &self.environments[language.place()];
        let template = environment.get_template(template).expect("the template is in TEMPLATES");
        template.render(values).expect("every template is rendered by a test with all of its values")
    }

    fn page(&self, language: LanguageId, frame: &Frame<'_>, content: &str) -> Rendered {
        Rendered::new(HTML_CONTENT_TYPE, self.html(language, frame, content).into_bytes())
    }

    fn html(&self, language: LanguageId, frame: &Frame<'_>, content: &str) -> String {
        let session = match self.settings.session {
            Session::Demo => "demo",
            Session::Token => "token",
            Session::Edge => "edge",
        };
        let branding = &self.settings.branding;
        let legal_links: Vec<Value> =
            branding.legal_links.iter().map(|(text, url)| context! { text, url }).collect();
        let mut scripts: Vec<Value> = frame.scripts.iter().map(|name| self.asset_path(name)).collect();
        let say = self.language(language);
        if frame.scripts.contains(&"texts.js") {
            scripts.push(self.asset_path(&asset::texts_name(say.code())));
        }
        let values = context! {
            code => say.code(),
            direction => say.plain("direction"),
            languages => self.language_links(language),
            title => frame.title,
            description => frame.description,
            shop => self.settings.shop,
            session,
            demo_pay => self.settings.demo_pay,
            icon => self.asset_path(self.assets.icon()),
            icon_type => self.assets.icon_type(),
            sign_in_url => branding.sign_in_url,
            legal_links,
            style => self.asset_path("shop.css"),
            scripts,
            content => Value::from_safe_string(content.to_owned()),
        };
        self.content(language, "layout.html", values)
    }

    /// Every language by its own name; none if there is one alone.
    fn language_links(&self, shown: LanguageId) -> Vec<Value> {
        let languages = &self.settings.languages;
        let link = |(id, language): (LanguageId, &Arc<Language>)| {
            let (code, direction) = (language.code(), language.plain("direction"));
            context! { code, direction, name => language.plain("language-name"), shown => id == shown }
        };
        if languages.ids().count() == 1 { Vec::new() } else { languages.iter().map(link).collect() }
    }

    /// Safe as it is: escaping would spell out every slash of our own paths.
    fn asset_path(&self, name: &str) -> Value {
        Value::from_safe_string(self.assets.path(name).to_owned())
    }
}

/// The templates as a language says them.
fn environment(language: &Arc<Language>) -> Environment<'static> {
    let mut environment = Environment::new();
    for (name, source) in TEMPLATES {
        environment.add_template(name, source).expect("the templates are compiled in and tested");
    }
    let of = |language: &Arc<Language>| Arc::clone(language);
    let say = of(language);
    environment.add_function("t", move |name: &str, values: Kwargs| say_in(&say, name, &values));
    let say = of(language);
    environment.add_filter("grouped", move |count: u64| format::grouped(&say.numbers, count));
    let say = of(language);
    environment.add_filter("duration", move |ms: u64| format::duration(&say, ms));
    let say = of(language);
    environment.add_filter("utc", move |ms: u64| format::utc(&say, ms));
    let say = of(language);
    environment.add_filter("utc_second", move |ms: u64| format::utc_second(&say, ms));
    environment.add_filter("utc_time", format::utc_time);
    environment.add_filter("rfc3339", format::rfc3339);
    environment
}

/// A text of the language in a template. Its own characters and those of its values are text, never marks.
fn say_in(language: &Language, name: &str, values: &Kwargs) -> Result<Value, Error> {
    let mut given = Vec::new();
    for name in values.args() {
        let value: Value = values.get(name)?;
        given.push((name, value));
    }
    values.assert_all_used()?;
    let given = given.iter().map(|(name, value)| {
        let number = u64::try_from(value.clone()).ok().filter(|_| value.kind() == ValueKind::Number);
        (*name, number.map_or_else(|| FluentValue::from(value.to_string()), FluentValue::from))
    });
    let text = language.text(name, given.collect());
    Ok(Value::from_safe_string(format::escaped(&text)))
}

fn link_values(links: &Links) -> Value {
    context! { next => links.next, to_ended => links.to_ended, to_current => links.to_current }
}

impl PreparedPage {
    fn new(language: LanguageId, html: &str) -> PreparedPage {
        let (before, after) = html.split_once(SLOT).expect("the template has the slot");
        PreparedPage { language, before: before.into(), after: after.into() }
    }
}

fn sale_values(sale: &SaleView) -> Value {
    context! {
        id => sale.id,
        title => sale.title,
        state => sale.state.name(),
        starts_at_ms => sale.starts_at_ms,
        ends_at_ms => sale.ends_at_ms,
        ended_early => sale.ended_early,
        payment_time_ms => sale.payment_time_ms,
    }
}

fn turn_values(turn: TurnView) -> Value {
    context! { units => turn.units, turn_ms => turn.turn_ms, grace_ms => turn.grace_ms }
}

/// Rounded down, so that the page never promises more than the price gives.
fn off_percent(price: u64, list: u64) -> u64 {
    assert!(price < list, "a reduced price is below the list price: {price}, {list}");
    u64::try_from(u128::from(list - price) * 100 / u128::from(list)).expect("a percentage is at most 100")
}
