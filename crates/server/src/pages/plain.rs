//! Pages for readers without scripts: a place in a line, an order to be checked, how it stands, and what went wrong. What is around them is made once;
//! what they hold, for each reader.

use minijinja::{Value, context};

use super::{
    AddressAsked, Frame, ItemView, LanguageId, Pages, PreparedPage, SLOT, SaleView, format, sale_values,
};

/// An order that could be placed, and the fields that place it.
#[derive(Clone, Copy, Debug)]
pub struct CheckView<'a> {
    pub sale: u64,
    pub product: u64,
    pub title: &'a str,
    pub quantity: u32,
    pub unit_price: u64,
    pub currency: &'a str,
    /// The same key places the same order.
    pub key: &'a str,
    /// Name and text of each field that is filled in.
    pub address: &'a [(&'static str, String)],
}

/// An order of the reader's.
#[derive(Clone, Copy, Debug)]
pub struct OrderPageView<'a> {
    pub id: &'a str,
    /// Once it has one.
    pub number: Option<&'a str>,
    /// As the API names it.
    pub standing: &'a str,
    pub sale: u64,
    pub product: u64,
    pub title: &'a str,
    pub quantity: u32,
    pub unit_price: u64,
    pub currency: &'a str,
    pub placed_at_ms: u64,
    /// While it can be paid.
    pub pay_by_ms: Option<u64>,
    pub refund_due: bool,
    /// In minor units.
    pub refunded: u64,
    pub pay_url: Option<&'a str>,
    /// It has none and may be given one: the page asks for it.
    pub asks_address: bool,
    /// The fields of its address, in their order.
    pub address: &'a [String],
}

/// A reader's place in the line of an item.
#[derive(Clone, Copy, Debug)]
pub struct PlacePageView<'a> {
    /// As the page with scripts names it.
    pub view: &'static str,
    /// Of the texts that say what it is worth.
    pub words: &'static str,
    /// In the order of joining.
    pub number: u32,
    /// Once it is drawn.
    pub place: Option<u32>,
    /// Of those who are not sure either.
    pub ahead: u64,
    /// Units that are not sold yet.
    pub open: u64,
    /// When it was so.
    pub now_ms: u64,
    /// How many were reached and gave up.
    pub gave_up: u64,
    /// Until it is reached, while the line moves.
    pub wait: Option<PlaceWait>,
    /// What moved the borders last: the text, when, and how many units or people.
    pub moved: Option<(&'static str, u64, u64)>,
    /// When the place is drawn, until it is.
    pub drawn_at_ms: Option<u64>,
    /// Until when the sale has not started.
    pub starts_at_ms: Option<u64>,
    /// Of the reader's turn, or of one that may come.
    pub units: u32,
    /// The sale is, so nobody is called or can order.
    pub is_paused: bool,
    /// When it is the reader's turn and they can order: its end.
    pub order_by_ms: Option<u64>,
    pub asks_again: bool,
    /// What the shop says to everybody in the line; may be empty.
    pub message: &'a str,
}

/// How long a place waits until it is reached, by what the line does.
#[derive(Clone, Copy, Debug)]
pub struct PlaceWait {
    /// Between how many minutes and how many; `None`: that can't be said, or not before the end.
    pub minutes: Option<(u64, u64)>,
    /// The sale's end, if it may well not be reached before.
    pub ends_at_ms: Option<u64>,
}

/// Why there is no such page.
#[derive(Clone, Copy, Debug)]
pub struct TroubleView<'a> {
    pub status: u16,
    /// As the API names it.
    pub code: &'a str,
    /// In English, where there is nothing better.
    pub detail: &'a str,
}

/// Stands in a prepared page until its title is known; nothing else there looks like it.
const TITLE: &str = "~title~";

impl Pages {
    pub(super) fn prepare_plain(&self, language: LanguageId) -> PreparedPage {
        let description = &*self.language(language).plain("order-description");
        let frame = Frame { title: TITLE, description, scripts: &[] };
        PreparedPage::new(language, &self.html(language, &frame, SLOT))
    }

    /// `title`: the text of the heading, so that whoever has several pages open hears which one it is.
    fn fill_plain(
        &self,
        language: LanguageId,
        (template, title): (&str, &str),
        values: Value,
        out: &mut Vec<u8>,
    ) {
        let begin = out.len();
        self.fill(&self.plain[language.place()], template, values, out);
        let of_page = out[begin..].windows(TITLE.len()).position(|text| text == TITLE.as_bytes());
        let at = begin + of_page.expect("the layout has a title");
        let title = format::escaped(&self.language(language).plain(title));
        out.splice(at..at + TITLE.len(), title.into_bytes());
    }

    /// What a form would order, appended to `out`.
    pub fn check(&self, language: LanguageId, order: &CheckView<'_>, out: &mut Vec<u8>) {
        let money = |minor| format::money(self.language(language), minor, order.currency);
        let fields: Vec<Value> = order.address.iter().map(|(name, text)| context! { name, text }).collect();
        let values = context! {
            sale => order.sale,
            product => order.product,
            url => format!("/{}", Pages::sale_file_name(order.sale, order.product)),
            title => order.title,
            quantity => order.quantity,
            unit_price => order.unit_price,
            unit_price_text => money(order.unit_price),
            amount_text => money(order.unit_price.saturating_mul(u64::from(order.quantity))),
            key => order.key,
            fields,
        };
        self.fill_plain(language, ("check.html", "check-heading"), values, out);
    }

    /// A place in the line of an item that has one, and the form that orders when it is the reader's turn; appended to `out`.
    pub fn plain_line(
        &self,
        language: LanguageId,
        (sale, item): (&SaleView, &ItemView),
        view: &PlacePageView<'_>,
        out: &mut Vec<u8>,
    ) {
        let of_item = self.item_values(language, sale, item);
        let form = view.order_by_ms.map(|_| {
            let values = context! {
                plain => true,
                line => (),
                // Whoever was called can order in any state of the sale but a pause.
                sale => context! { state => "live", ..sale_values(sale) },
                sold_out => false,
                quantity_max => view.units,
                quantity_most => view.units,
                member => "",
                address_fields => self.address_fields(language, AddressAsked::Before),
                ..of_item.clone()
            };
            Value::from_safe_string(self.content(language, "order_form.html", values))
        });
        let heading = format!("line-{}", view.words);
        let values = context! {
            sale => sale_values(sale),
            turn_units => view.units,
            view => view.view,
            heading,
            lead => match (view.view, view.is_paused) {
                ("called" | "reached", true) => format!("line-{}-paused", view.words),
                _ => format!("line-{}-text", view.words),
            },
            is_paused => view.is_paused,
            number => view.number,
            place => view.place,
            drawn_at_ms => view.drawn_at_ms,
            ahead => view.ahead,
            open => view.open,
            now_ms => view.now_ms,
            gave_up => view.gave_up,
            wait => view.wait.map(|wait| {
                let minutes = wait.minutes.map(|(from, to)| context! { from, to });
                context! { minutes, ends_at_ms => wait.ends_at_ms }
            }),
            moved => view.moved.map(|(text, at_ms, count)| context! { text, at_ms, count }),
            starts_at_ms => view.starts_at_ms,
            order_by_ms => view.order_by_ms,
            asks_again => view.asks_again,
            message => view.message,
            order_form => form,
            ..of_item
        };
        self.fill_plain(language, ("plain_line.html", &heading), values, out);
    }

    /// An order as it stands, appended to `out`.
    pub fn plain_order(&self, language: LanguageId, order: &OrderPageView<'_>, out: &mut Vec<u8>) {
        let say = self.language(language);
        let money = |minor| format::money(say, minor, order.currency);
        let amount = order.unit_price.saturating_mul(u64::from(order.quantity));
        let values = context! {
            id => order.id,
            number => order.number,
            standing => order.standing,
            url => format!("/{}", Pages::sale_file_name(order.sale, order.product)),
            title => order.title,
            quantity => order.quantity,
            unit_price_text => money(order.unit_price),
            amount_text => money(amount),
            placed_at_ms => order.placed_at_ms,
            pay_by_ms => order.pay_by_ms,
            refund_due => order.refund_due,
            refunded_text => (order.refunded > 0).then(|| money(order.refunded)),
            pay_url => order.pay_url,
            demo_pay => self.settings.demo_pay,
            address => order.address,
            address_fields => order.asks_address.then(|| self.address_fields(language, AddressAsked::After)).flatten(),
        };
        self.fill_plain(language, ("plain_order.html", "your-order"), values, out);
    }

    /// Why a form or an order's page came to nothing, appended to `out`.
    pub fn trouble(&self, language: LanguageId, trouble: &TroubleView<'_>, out: &mut Vec<u8>) {
        let refused = REFUSALS.iter().find(|(code, _)| *code == trouble.code).map(|(_, text)| *text);
        let (heading, lead) = match (trouble.status, trouble.code) {
            (_, "unknown_order") => ("no-such-order", Some("no-such-order-text")),
            (401, _) => ("sign-in-first", None),
            (_, "outcome_unknown") => ("not-yet", Some("excuse-unknown")),
            (429 | 503, _) if refused.is_none() => ("not-yet", Some("excuse-busy")),
            _ => ("rejected", refused),
        };
        // Where they come from is not known here: the shop leads where it likes.
        let sign_in = self.settings.branding.sign_in_url.as_deref().filter(|_| trouble.status == 401);
        let sign_in_url = sign_in.map(|url| url.replace("{return}", ""));
        let values = context! {
            heading,
            lead,
            detail => (heading == "rejected" && lead.is_none()).then_some(trouble.detail),
            ask_again => heading == "not-yet",
            sign_in_url,
        };
        self.fill_plain(language, ("trouble.html", heading), values, out);
    }
}

/// Refusals that have a text in every language, as in attempt.js.
pub(super) const REFUSALS: [(&str, &str); 18] = [
    ("sold_out", "refused-sold-out-plain"),
    ("not_enough_left", "refused-not-enough-left"),
    ("not_started", "refused-not-started"),
    ("ended", "refused-ended"),
    ("paused", "refused-paused"),
    ("over_limit", "refused-over-limit"),
    ("price_changed", "refused-price-changed"),
    ("cooling_down", "refused-cooling-down"),
    ("too_many_holds", "refused-too-many-holds"),
    ("holds_used_up", "refused-holds-used-up"),
    ("turn_required", "refused-turn-required"),
    ("line_full", "refused-line-full"),
    ("no_line", "refused-no-line"),
    ("line_opens_later", "refused-line-opens-later-plain"),
    ("line_not_open", "refused-line-not-open"),
    ("verification_required", "refused-verification-required"),
    ("verification_token_required", "refused-verification-token-required"),
    ("unknown_sku", "refused-unknown-sku"),
];
