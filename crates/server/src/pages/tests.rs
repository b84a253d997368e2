//! The pages as text: complete, escaped, small, and free of anything that the policy forbids.

use super::*;

fn pages() -> Pages {
    with_branding(Branding::default())
}

fn with_branding(branding: Branding) -> Pages {
    Pages::new(Settings {
        shop: "Doorbuster".into(),
        session: Session::Demo,
        demo_pay: true,
        address_asked: AddressAsked::Before,
        refused_without_script: None,
        verification_url: None,
        branding,
        languages: Languages::built_in(),
    })
}

fn item(product: u64, title: &str) -> ItemView {
    ItemView {
        product,
        title: title.into(),
        description: "A pocket telescope of a phone: two lenses, three days of battery, one hundred made."
            .into(),
        price: 499_900,
        list_price: Some(699_900),
        total: 100,
        available: 100,
        limit: Some(1),
        line: None,
        image: None,
    }
}

fn sale(items: Vec<ItemView>) -> SaleView {
    SaleView {
        id: 3,
        title: "Opening night".into(),
        currency: "EUR".into(),
        state: SaleState::NotStarted,
        starts_at_ms: 1_795_176_000_000,
        ends_at_ms: 1_795_262_400_000,
        ended_early: false,
        payment_time_ms: 900_000,
        items_total: items.len(),
        items,
    }
}

fn text(rendered: &Rendered) -> &str {
    std::str::from_utf8(&rendered.body).unwrap()
}

const EN: LanguageId = LanguageId::FIRST;

fn product_text(pages: &Pages, sale: &SaleView) -> String {
    product_text_in(pages, EN, sale)
}

fn product_text_in(pages: &Pages, language: LanguageId, sale: &SaleView) -> String {
    let mut out = Vec::new();
    pages.product(&pages.prepare_product(language, sale, &sale.items[0]), 462_245, &mut out);
    String::from_utf8(out).unwrap()
}

const TURN: TurnView = TurnView { units: 2, turn_ms: 120_000, grace_ms: 20_000 };

/// Every kind of page, in every state that changes its text.
fn every_page(pages: &Pages) -> Vec<(String, String)> {
    pages.languages().ids().flat_map(|language| every_page_in(pages, language)).collect()
}

fn every_page_in(pages: &Pages, language: LanguageId) -> Vec<(String, String)> {
    let mut all = vec![
        ("order".to_owned(), text(&pages.order(language)).to_owned()),
        ("orders".to_owned(), text(&pages.orders(language)).to_owned()),
        ("api".to_owned(), text(&pages.api()).to_owned()),
        ("not found".to_owned(), text(&pages.not_found(language)).to_owned()),
        ("empty index".to_owned(), text(&pages.index(language, &[], &Links::default())).to_owned()),
    ];
    for state in [SaleState::NotStarted, SaleState::Live, SaleState::Paused, SaleState::Ended] {
        let mut sale = sale(vec![item(30, "Aurora phone"), item(31, "Harbour headphones")]);
        sale.state = state;
        sale.items[1].limit = None;
        sale.items[1].list_price = None;
        let name = state.name();
        all.push((
            format!("index, {name}"),
            text(&pages.index(language, std::slice::from_ref(&sale), &Links::default())).to_owned(),
        ));
        all.push((format!("sale, {name}"), text(&pages.sale(language, &sale, &sale.items[0])).to_owned()));
        all.push((
            format!("no limit, {name}"),
            text(&pages.sale(language, &sale, &sale.items[1])).to_owned(),
        ));
        all.push((format!("product, {name}"), product_text_in(pages, language, &sale)));
        sale.items[0].line = Some(TURN);
        all.push((format!("line, {name}"), text(&pages.sale(language, &sale, &sale.items[0])).to_owned()));
        all.push((format!("line, product, {name}"), product_text_in(pages, language, &sale)));
        sale.items[0].line = None;
        sale.payment_time_ms = 0;
        sale.ended_early = state == SaleState::Ended;
        all.push((
            format!("early or on account, {name}"),
            text(&pages.sale(language, &sale, &sale.items[0])).to_owned(),
        ));
    }
    all.extend(plain_pages(pages, language));
    all.extend(plain_places(pages, language));
    let code = pages.languages().code(language);
    all.into_iter().map(|(name, page)| (format!("{code}: {name}"), page)).collect()
}

/// Those that are made for one reader.
fn plain_pages(pages: &Pages, language: LanguageId) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut add = |name: &str, write: &dyn Fn(&mut Vec<u8>)| {
        let mut page = Vec::new();
        write(&mut page);
        all.push((name.to_owned(), String::from_utf8(page).unwrap()));
    };
    let address = [("name", "Ada <b>".to_owned()), ("city", "\"London".to_owned())];
    let check = CheckView {
        sale: 3,
        product: 30,
        title: "Aurora <phone>",
        quantity: 2,
        unit_price: 499_900,
        currency: "EUR",
        key: "k",
        address: &address,
    };
    add("check", &|out| pages.check(language, &check, out));
    let given = ["Ada <b>".to_owned()];
    for standing in ["held", "pending", "paid", "cancelled", "expired", "refunded", "rejected"] {
        let held = standing == "held";
        let order = OrderPageView {
            id: "000003eb80f6188999fa9061df5450785e30d379",
            number: (standing != "pending").then_some("K7QM-3X9F"),
            standing,
            sale: 3,
            product: 30,
            title: "Aurora <phone>",
            quantity: 2,
            unit_price: 499_900,
            currency: "EUR",
            placed_at_ms: 1_795_176_000_000,
            pay_by_ms: held.then_some(1_795_176_900_000),
            refund_due: standing != "pending",
            refunded: u64::from(standing == "refunded"),
            pay_url: held.then_some("https://pay.example/?a=1&b=2"),
            asks_address: standing == "paid",
            address: &given[..usize::from(held)],
        };
        add(&format!("order, {standing}"), &|out| pages.plain_order(language, &order, out));
    }
    let refused = plain::REFUSALS.map(|(code, _)| (409, code));
    let others =
        [(401, "unauthorized"), (404, "unknown_order"), (503, "outcome_unknown"), (429, "rate_limited")];
    for (status, code) in refused.into_iter().chain(others).chain([(400, "invalid_request")]) {
        let trouble = TroubleView { status, code, detail: "What <it> is." };
        add(&format!("trouble, {code}"), &|out| pages.trouble(language, &trouble, out));
    }
    all
}

/// Of places in a line.
fn plain_places(pages: &Pages, language: LanguageId) -> Vec<(String, String)> {
    let sale = sale(vec![ItemView { line: Some(TURN), ..item(30, "Aurora <phone>") }]);
    let views = ["drawing", "sure", "maybe", "none", "reached", "called", "away", "over", "closed"];
    let over = ["ordered", "expired", "given-back"].map(|words| ("over", words));
    let written = |(view, words): (&'static str, &'static str)| {
        let is_drawn = view != "drawing";
        let page = PlacePageView {
            view,
            words,
            number: 4321,
            place: is_drawn.then_some(1234),
            ahead: 1,
            open: 3,
            now_ms: 1_795_176_030_000,
            gave_up: u64::from(view == "maybe"),
            wait: match view {
                "sure" => Some(PlaceWait { minutes: None, ends_at_ms: None }),
                "maybe" => Some(PlaceWait { minutes: Some((2, 6)), ends_at_ms: Some(1_795_183_200_000) }),
                _ => None,
            },
            moved: (view == "none").then_some(("line-moved-unpaid", 1_795_176_020_000, 1)),
            drawn_at_ms: (!is_drawn).then_some(1_795_175_970_000),
            starts_at_ms: (view == "sure").then_some(1_795_176_000_000),
            units: 2,
            is_paused: view == "reached",
            order_by_ms: (view == "called").then_some(1_795_176_900_000),
            asks_again: view == "maybe",
            message: if view == "maybe" { "We ship <on> Monday & \"Tuesday\"." } else { "" },
        };
        let mut text = Vec::new();
        pages.plain_line(language, (&sale, &sale.items[0]), &page, &mut text);
        (format!("place, {words}"), String::from_utf8(text).unwrap())
    };
    views.map(|view| (view, view)).into_iter().chain(over).map(written).collect()
}

#[test]
fn the_static_page_is_about_ten_kilobytes() {
    let sale = sale(vec![item(30, "Aurora phone")]);
    let page = pages().sale(EN, &sale, &sale.items[0]);
    let product = product_text(&pages(), &sale);
    for bytes in [page.body.len(), product.len()] {
        assert!((8_000..=11_500).contains(&bytes), "{bytes} bytes");
    }
    assert!(page.gzip.len() < 4_500, "{} bytes compressed", page.gzip.len());
}

#[test]
fn hostile_titles_are_text() {
    let hostile = "<script>alert(1)</script>\"><img src=x onerror=alert(2)>'&<!--member-->";
    let mut sale = sale(vec![item(30, hostile)]);
    sale.items[0].description = hostile.into();
    sale.title = hostile.into();
    sale.currency = "\"><b>".into();
    let pages = pages();
    for page in [
        text(&pages.sale(EN, &sale, &sale.items[0])).to_owned(),
        text(&pages.index(EN, std::slice::from_ref(&sale), &Links::default())).to_owned(),
        product_text(&pages, &sale),
    ] {
        for raw in ["<script>", "<img src=x", "onerror=alert(2)>", "\"><b>", SLOT] {
            assert!(!page.contains(raw), "{raw} in {page}");
        }
        assert!(page.contains("&lt;script&gt;alert(1)"));
    }
}

#[test]
fn nothing_is_inline_and_nothing_comes_from_another_host() {
    let pages = pages();
    for (name, page) in every_page(&pages) {
        for forbidden in ["<style", " style=", " onclick=", " onload=", "javascript:", "http://", "https://"]
        {
            assert!(!page.contains(forbidden), "{name}: {forbidden}");
        }
        for (at, _) in page.match_indices("<script") {
            let tag = &page[at..at + page[at..].find("</script>").unwrap()];
            assert!(tag.starts_with("<script type=\"module\" src=\"/assets/"), "{name}: {tag}");
            assert!(tag.ends_with('>'), "{name}: the script has a body: {tag}");
        }
    }
    for (path, asset) in pages.assets() {
        let source = text(asset).replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
        let source = source.replace("https://github.com/leeoniya/uPlot", "where it comes from");
        for forbidden in ["http://", "https://", "//cdn", "@import", "url(//", "innerHTML", "eval("] {
            assert!(!source.contains(forbidden), "{path}: {forbidden}");
        }
    }
}

#[test]
fn every_address_that_a_page_loads_is_an_asset() {
    let pages = pages();
    for (name, page) in every_page(&pages) {
        let mut found = 0;
        for (at, _) in page.match_indices("\"/assets/") {
            let path = page[at + 1..].split('"').next().unwrap();
            assert!(pages.asset(path).is_some(), "{name}: {path}");
            found += 1;
        }
        assert!(found >= 2, "{name} has at least its style and icon");
    }
}

/// An id twice breaks labels and scripts alike.
#[test]
fn ids_are_unique_and_every_reference_has_its_target() {
    for (name, page) in every_page(&pages()) {
        let values = |attribute: &str| -> Vec<String> {
            let start = format!(" {attribute}=\"");
            let found = page.match_indices(&start).map(|(at, _)| at + start.len());
            found.map(|at| page[at..].split('"').next().unwrap().to_owned()).collect()
        };
        let mut ids = values("id");
        ids.sort();
        let total = ids.len();
        ids.dedup();
        assert_eq!(ids.len(), total, "{name}: an id occurs twice");
        for attribute in ["for", "aria-labelledby", "aria-describedby"] {
            for target in values(attribute) {
                assert!(ids.contains(&target), "{name}: {attribute}={target}");
            }
        }
    }
}

#[test]
fn the_tag_changes_with_the_content_only() {
    let pages = pages();
    let before = sale(vec![item(30, "Aurora phone")]);
    let mut after = before.clone();
    let tag = |sale: &SaleView| pages.sale(EN, sale, &sale.items[0]).tags;
    assert_eq!(tag(&before), tag(&after));
    after.items[0].price += 1;
    assert_ne!(tag(&before), tag(&after));
}

#[test]
fn the_member_is_named_on_the_product_page_alone() {
    let sale = sale(vec![item(30, "Aurora phone")]);
    assert!(product_text(&pages(), &sale).contains("You order as member <b>462245</b>"));
    assert!(!text(&pages().sale(EN, &sale, &sale.items[0])).contains("id=\"member\""));
}

#[test]
fn a_sale_says_what_is_true_of_it() {
    let pages = pages();
    let mut sale = sale(vec![item(30, "Aurora phone")]);
    let said = |sale: &SaleView, part: &str| text(&pages.sale(EN, sale, &sale.items[0])).contains(part);
    assert!(said(&sale, "Reserved for 15 minutes.") && !said(&sale, "on account"));
    sale.payment_time_ms = 0;
    assert!(said(&sale, "Sold on account.") && !said(&sale, "Reserve"));
    sale.state = SaleState::Ended;
    assert!(said(&sale, "This sale is over") && !said(&sale, "Ended early"));
    sale.ended_early = true;
    assert!(said(&sale, "Ended early"));
    assert!(text(&pages.index(EN, &[sale], &Links::default())).contains("Ended early"));
}

#[test]
fn the_pages_are_the_shops() {
    let accent = Accent::new(Colour::parse("#0b57d0").unwrap(), None).unwrap();
    let branding = Branding {
        accent: Some(accent),
        logo: Some(Image::new(b"\x89PNG\r\n\x1a\nand so on".to_vec()).unwrap()),
        sign_in_url: Some("https://shop.example/login?back={return}".into()),
        legal_links: vec![("Imprint & <more>".into(), "https://shop.example/imprint?a=1&b=2".into())],
    };
    let pages = with_branding(branding);
    let page = text(&pages.order(EN)).to_owned();
    let logo = pages.assets().find(|(path, _)| path.starts_with("/assets/logo-")).unwrap();
    assert_eq!(logo.1.content_type, "image/png");
    assert!(page.contains(&format!("<img src=\"{}\"", logo.0)), "{page}");
    assert!(
        page.contains("data-sign-in=\"https:&#x2f;&#x2f;shop.example&#x2f;login?back={return}\""),
        "{page}"
    );
    assert!(page.contains(">Imprint &amp; &lt;more&gt;</a>"), "{page}");
    let style =
        pages.assets().find(|(path, _)| path.starts_with("/assets/shop-") && path.ends_with(".css")).unwrap();
    assert!(text(style.1).contains("--accent: #0b57d0;"));
    assert_ne!(
        self::pages()
            .assets()
            .find(|(path, _)| path.starts_with("/assets/shop-") && path.ends_with(".css"))
            .unwrap()
            .0,
        style.0
    );
}

/// What the program is called, and what programs talk to, is nothing to a buyer.
#[test]
fn buyers_see_the_shops_name_alone() {
    let settings = Settings {
        shop: "Ada's".into(),
        session: Session::Token,
        demo_pay: false,
        address_asked: AddressAsked::Before,
        refused_without_script: None,
        verification_url: None,
        branding: Branding::default(),
        languages: Languages::built_in(),
    };
    for (name, page) in every_page(&Pages::new(settings)) {
        if !name.ends_with(": api") {
            for word in ["Doorbuster", "API", "Drawing of"] {
                assert!(!page.contains(word), "{name}: {word}");
            }
        }
    }
}

/// What a page has not is not there, and no word of the template's language.
#[test]
fn no_page_shows_what_is_missing() {
    for address_asked in [AddressAsked::Never, AddressAsked::Before, AddressAsked::After] {
        let settings = Settings { address_asked, ..pages().settings };
        for (name, page) in every_page(&Pages::new(settings)) {
            let mut lines = page.lines().flat_map(|line| line.split(['<', '>']));
            let missing = lines.find(|text| matches!(text.trim(), "None" | "none" | "undefined"));
            assert_eq!(missing, None, "{name}, {address_asked:?}");
        }
    }
}

/// One instance serves every event loop.
#[test]
fn pages_are_shared_between_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Pages>();
    shared::<PreparedPage>();
}

#[test]
fn lists_lead_on_without_a_script() {
    let mut sale = sale(vec![item(101, "Good"), item(102, "Good")]);
    sale.items_total = 996;
    let sales = std::slice::from_ref(&sale);
    let said = |links: &Links, part: &str| {
        let (index, items) = (pages().index(EN, sales, links), pages().sale_items(EN, &sale, links));
        (text(&index).contains(part), text(&items).contains(part))
    };
    let none = Links::default();
    assert_eq!(said(&none, "<a href=\"/sales/3\">And 994 more products in this sale</a>"), (true, false));
    assert_eq!(said(&none, "class=\"leads\""), (false, false));
    let next = Links { next: Some("/?cursor=7".to_owned()), to_ended: true, to_current: false };
    assert_eq!(said(&next, "<a href=\"/?cursor=7\" rel=\"next\">"), (true, true));
    assert_eq!(said(&next, "<a href=\"/?state=ended\">"), (true, true));
    let back = Links { next: None, to_ended: false, to_current: true };
    assert_eq!(said(&back, "<a href=\"/\">Sales that run or start soon</a>"), (true, true));
}

#[test]
fn a_reduction_is_rounded_down() {
    for (price, list, percent) in [(1, 100, 99), (999, 1000, 0), (0, 5, 100), (u64::MAX - 1, u64::MAX, 0)] {
        assert_eq!(off_percent(price, list), percent);
    }
}

/// WCAG AA: 4.5 to 1 for text, 3 to 1 for the borders of controls, in both schemes.
#[test]
fn colours_have_enough_contrast() {
    let style = include_str!("../../templates/assets/shop.css");
    let (light, rest) = style.split_once("@media (prefers-color-scheme: dark)").unwrap();
    let dark = rest.split_once("}\n}").unwrap().0;
    for (scheme, block) in [("light", light), ("dark", dark)] {
        let colour = |name: &str| {
            let value = block.split_once(&format!("--{name}: #")).unwrap().1;
            let hex = u32::from_str_radix(&value[..6], 16).unwrap();
            [16, 8, 0].map(|shift| f64::from(hex >> shift & 0xff) / 255.0)
        };
        for (front, back, least) in [
            ("ink", "ground", 4.5),
            ("ink", "card", 4.5),
            ("ink", "sunk", 4.5),
            ("soft", "ground", 4.5),
            ("soft", "card", 4.5),
            ("soft", "sunk", 4.5),
            ("accent", "ground", 4.5),
            ("accent", "card", 4.5),
            ("on-accent", "accent", 4.5),
            ("on-accent", "accent-hover", 4.5),
            ("good", "good-ground", 4.5),
            ("warn", "warn-ground", 4.5),
            ("bad", "bad-ground", 4.5),
            ("ground", "bad", 4.5),
            ("edge", "ground", 3.0),
            ("edge", "card", 3.0),
            ("good", "sunk", 3.0),
        ] {
            let ratio = contrast(colour(front), colour(back));
            assert!(ratio >= least, "{scheme}: {front} on {back} is {ratio:.2}");
        }
    }
}

fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

fn luminance(colour: [f64; 3]) -> f64 {
    let [red, green, blue] =
        colour.map(|part| if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) });
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

/// A text that nothing says any more is work for every translator; one that there is not would be a panic.
#[test]
fn every_text_is_said_somewhere_and_every_name_has_a_text() {
    let sources: Vec<&str> = TEMPLATES.iter().map(|(_, source)| *source).chain(asset::scripts()).collect();
    let code = [
        include_str!("mod.rs"),
        include_str!("format.rs"),
        include_str!("language.rs"),
        include_str!("plain.rs"),
    ];
    let english = include_str!("../../languages/en.ftl");
    let names: Vec<&str> =
        english.lines().filter_map(|line| line.split_once(" =")).map(|(name, _)| name).collect();
    let names: Vec<&str> = names.into_iter().filter(|name| !name.starts_with(['#', ' ', '['])).collect();
    assert!(names.len() > 200);
    for name in &names {
        let quoted = format!("\"{name}\"");
        assert!(sources.iter().chain(&code).any(|source| source.contains(&quoted)), "nothing says {name}");
    }
    for source in sources {
        for (at, call) in
            source.match_indices("t(\"").filter(|(at, _)| !source[..*at].ends_with(char::is_alphanumeric))
        {
            let name = source[at + call.len()..].split('"').next().unwrap();
            assert!(names.contains(&name), "there is no text {name}");
        }
    }
}

#[test]
fn a_page_is_in_one_language_and_leads_to_the_others() {
    let sale = sale(vec![item(30, "Aurora phone")]);
    let pages = pages();
    for (code, direction, said) in [
        ("en", "ltr", "Limited stock, sold exactly"),
        ("de", "ltr", "Begrenzter Bestand, genau verkauft"),
        ("zh", "ltr", "限量库存，精确销售"),
        ("es", "ltr", "Existencias limitadas"),
        ("ar", "rtl", "كمية محدودة تُباع بدقة"),
    ] {
        let language = pages.languages().find(code).unwrap();
        let page = pages.sale(language, &sale, &sale.items[0]);
        let page = text(&page);
        assert!(page.contains(&format!("<html lang=\"{code}\" dir=\"{direction}\">")), "{code}");
        assert!(page.contains(said) && page.contains("Aurora phone"), "{code}");
        assert!(page.contains(&format!("/assets/texts-{code}-")), "{code}: its texts come with it");
        assert_eq!(page.matches("href=\"/language/").count(), 5);
        assert_eq!(page.matches("aria-current=\"true\"").count(), 1);
    }
    let file = |code: &str| pages.sale_file_name_in(pages.languages().find(code).unwrap(), 3, 30);
    assert_eq!((file("en").as_str(), file("ar").as_str()), ("seckill_3_30.html", "seckill_3_30.ar.html"));
    let one = Languages::new(vec![Language::built_in("de").unwrap()]);
    let settings = Settings { languages: one, ..pages.settings.clone() };
    let alone = Pages::new(settings).orders(LanguageId::FIRST);
    assert!(text(&alone).contains("lang=\"de\"") && !text(&alone).contains("/language/"));
}
