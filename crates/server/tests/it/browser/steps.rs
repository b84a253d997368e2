//! What a buyer does, against any server: the base address is a parameter.

use server::pages::Pages;

use super::webdriver::Browser;

/// The fields of the form, with an address that needs escaping nowhere and Unicode everywhere.
const ADDRESS: [(&str, &str); 8] = [
    ("name", "Zoë Ångström"),
    ("phone", "+46 8 123 456"),
    ("country", "Sverige"),
    ("province", "Stockholms län"),
    ("city", "Stockholm"),
    ("district", "Södermalm"),
    ("detail", "Götgatan 1 \"B\""),
    ("post_code", "116 21"),
];

pub(crate) fn sale_url(base: &str, sale: u64, product: u64) -> String {
    format!("{base}/{}", Pages::sale_file_name(sale, product))
}

/// Opens the page of a product and waits until its script has taken over.
pub(crate) fn open_sale(browser: &Browser, base: &str, sale: u64, product: u64) {
    browser.open(&sale_url(base, sale, product));
    browser.wait_until("the page's script", |browser| browser.attribute("#offer", "data-view").is_some());
}

/// Key by key, as a buyer does it.
pub(crate) fn type_address(browser: &Browser) {
    for (name, text) in ADDRESS {
        browser.type_into(&format!("#{name}"), text);
    }
}

/// All at once, as a browser does it that knows the address.
pub(crate) fn fill_address(browser: &Browser) {
    let fields: serde_json::Map<_, _> =
        ADDRESS.iter().map(|&(name, text)| (name.to_owned(), text.into())).collect();
    browser.run(&format!(
        "for (const [name, text] of Object.entries({})) {{
           const field = document.getElementById(name);
           field.value = text;
           field.dispatchEvent(new Event('input', {{ bubbles: true }}));
         }}",
        serde_json::Value::from(fields)
    ));
}

/// Presses the button as soon as it is open.
pub(crate) fn press_buy(browser: &Browser) {
    wait_until_open(browser);
    browser.click("#submit");
}

pub(crate) fn wait_until_open(browser: &Browser) {
    browser.wait_until("the button to open", is_open);
}

pub(crate) fn is_open(browser: &Browser) -> bool {
    browser.attribute("#submit", "aria-disabled").as_deref() == Some("false")
}

/// Waits for the order's page and for the order on it; returns the order's id.
pub(crate) fn wait_for_order(browser: &Browser) -> String {
    let id = wait_for_order_page(browser);
    wait_for_view(browser, "#order", "held");
    id
}

/// Waits for the order's page, whatever became of the order by then; returns the order's id.
pub(crate) fn wait_for_order_page(browser: &Browser) -> String {
    browser.wait_until("the order's page", |browser| browser.url().contains("/orders/"));
    let url = browser.url();
    let (_, id) = url.rsplit_once('/').expect("a url has parts");
    id.split('?').next().expect("there is a first part").to_owned()
}

/// The reader comes back to the tab: its page looks at once.
pub(crate) fn come_back(browser: &Browser) {
    browser.run("document.dispatchEvent(new Event('visibilitychange'))");
}

pub(crate) fn wait_for_view(browser: &Browser, css: &str, view: &str) {
    browser.wait_until(&format!("{css} to be {view}"), |browser| {
        browser.attribute(css, "data-view").as_deref() == Some(view)
    });
}

/// From the sale's page to an order that awaits its payment.
pub(crate) fn buy(browser: &Browser, base: &str, sale: u64, product: u64) -> String {
    open_sale(browser, base, sale, product);
    fill_address(browser);
    press_buy(browser);
    wait_for_order(browser)
}
