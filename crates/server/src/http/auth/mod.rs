//! Who asks: the buyer by token, header or cookie; the operator by token; and from which site a page asks.
//!
//! Must not: know what is asked.

pub(in crate::http) mod console;
mod guesses;
pub(in crate::http) mod named;
pub(in crate::http) mod operators;
pub(super) mod signature;
pub(in crate::http) mod signed_out;
pub(super) mod token;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use engine::{BuyerId, GroupName};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use crate::clock::Between;
use crate::http::auth::console::{ConsoleSession, ConsoleSessions};
use crate::http::auth::guesses::{Guess, Guesses};
use crate::http::auth::named::Unnamed;
use crate::http::auth::operators::{Actor, OperatorsNow};
use crate::http::auth::signature::Checker;
use crate::http::auth::token::{Exchange, TokenVerifier};
use crate::http::wire::error::Problem;
use crate::http::wire::fields::{Fields, Method};
use crate::http::wire::{decimal, push_hex, push_number, read_hex};
use crate::ledger::{Buyer, Buyers};

pub use token::{NotMinted, TokenRules, mint};

/// How a buyer is known.
#[derive(Clone, Debug)]
pub enum AuthMode {
    /// A bearer token that the shop signed with HS256. More than one secret while the shop changes it.
    Token { secrets: Vec<Box<[u8]>>, rules: TokenRules },
    /// The `memberId` header, believed as it stands: only behind an edge that sets it itself.
    MemberId,
    /// A cookie per browser, signed with this secret, or the `memberId` header. For demos: anybody can be anybody.
    DemoCookie { secret: Box<[u8]> },
}

/// The demo's cookie.
pub(in crate::http) const COOKIE: &str = "doorbuster_buyer";
/// The cookie of a session; the edge takes it too.
pub(in crate::http) const SESSION_COOKIE: &str = "doorbuster_token";
/// Beside it, for the page's script: who it is that the session is for. It proves nothing.
pub(in crate::http) const SESSION_SIGN: &str = "doorbuster_session";
/// Demo buyers are numbered from here, above those that people type into load tools.
const DEMO_BUYER_MIN: u64 = 1 << 40;
/// Below this, so that a number survives JavaScript.
const DEMO_BUYER_SPAN: u64 = 1 << 52;

#[derive(Debug)]
enum BuyerCheck {
    Token(TokenVerifier),
    Header(Buyers),
    Cookie(hmac::Key, Buyers),
}

/// Everything by which it is known who asks. Shared by all loops.
#[derive(Debug)]
pub(in crate::http) struct Auth {
    buyer_check: BuyerCheck,
    /// A random key, and the tags of the operator's tokens under it: comparing tags takes the same time wherever the
    /// tokens differ, and however long they are. No tag: the operator's calls are off.
    operator_key: hmac::Key,
    operators: Box<[hmac::Tag]>,
    guesses: Guesses,
    console: ConsoleSessions,
    /// Checks the payment provider's callbacks; `None`: they are off.
    provider: Option<Checker>,
    allowed_origins: Vec<Arc<str>>,
    /// `None`: no sessions are opened.
    exchange: Option<Arc<Exchange>>,
    /// Whose pages may sign a reader in.
    shop_origins: Vec<String>,
}

impl Auth {
    pub(in crate::http) fn new(
        mode: AuthMode,
        buyers: Buyers,
        tokens: &[Box<[u8]>],
        provider: Option<Checker>,
        allowed_origins: &[String],
    ) -> Auth {
        let sha256 = |secret: &[u8]| hmac::Key::new(hmac::HMAC_SHA256, secret);
        let operator_key =
            hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).expect("the system gives entropy");
        let operators = tokens.iter().map(|token| hmac::sign(&operator_key, token)).collect();
        let buyer_check = match mode {
            AuthMode::Token { secrets, rules } => {
                BuyerCheck::Token(TokenVerifier::new(&secrets, rules, buyers))
            }
            AuthMode::MemberId => BuyerCheck::Header(buyers),
            AuthMode::DemoCookie { secret } => BuyerCheck::Cookie(sha256(&secret), buyers),
        };
        let allowed_origins = allowed_origins.iter().map(|origin| Arc::from(origin.as_str())).collect();
        Auth {
            buyer_check,
            operator_key,
            console: ConsoleSessions::new(tokens),
            operators,
            guesses: Guesses::default(),
            provider,
            allowed_origins,
            exchange: None,
            shop_origins: Vec::new(),
        }
    }

    pub(in crate::http) fn with_sessions(self, exchange: Option<Exchange>, shop_origins: &[String]) -> Auth {
        Auth { exchange: exchange.map(Arc::new), shop_origins: shop_origins.to_vec(), ..self }
    }

    /// `None`: there are no sessions here.
    pub(in crate::http) fn exchange(&self) -> Option<Arc<Exchange>> {
        self.exchange.clone()
    }

    /// The token of whoever wants a session.
    pub(in crate::http) fn bearer_of<'a>(&self, fields: &Fields<'a>) -> Result<&'a str, Problem> {
        bearer(fields).ok_or_else(|| {
            Problem::unauthorized("Send Authorization: Bearer with the token that the shop gave you.")
        })
    }

    /// Whether the page whose form this is may sign its reader in. A browser says where a form comes from: what says
    /// nothing is not believed.
    pub(in crate::http) fn shop_page(&self, fields: &Fields<'_>, secure: bool) -> Result<(), Problem> {
        let of_shop = |origin: &str| self.shop_origins.iter().any(|allowed| allowed == origin);
        match fields.origin {
            Some(origin) if of_shop(origin) => Ok(()),
            Some(_) => self.same_site(fields, secure).map_err(|_other_site| Problem::forbidden_shop_origin()),
            None => Err(Problem::forbidden_shop_origin()),
        }
    }

    /// The buyer who asks.
    pub(in crate::http) fn buyer(&self, fields: &Fields<'_>, between: Between) -> Result<Buyer, Problem> {
        match &self.buyer_check {
            BuyerCheck::Token(verifier) => {
                let token = token_of(fields).ok_or_else(|| {
                    Problem::unauthorized("Send Authorization: Bearer with the token that the shop gave you.")
                })?;
                let bearer = verifier.verify(token, between);
                bearer
                    .map(|bearer| bearer.buyer)
                    .map_err(|untrusted| Problem::unauthorized(untrusted.detail()))
            }
            BuyerCheck::Header(buyers) => member(fields, buyers)?.ok_or_else(|| {
                Problem::unauthorized("The header memberId is missing: the edge must set it.")
            }),
            BuyerCheck::Cookie(key, buyers) => match member(fields, buyers)? {
                Some(buyer) => Ok(buyer),
                None => cookie_buyer(key, fields).map(|id| Buyer { id, text: None }).ok_or_else(|| {
                    Problem::unauthorized(
                        "Send the header memberId, or the cookie that POST /api/v1/demo/session sets.",
                    )
                }),
            },
        }
    }

    /// Where the orders of whoever asks go, if the shop's tokens say so: as it is kept with an order.
    pub(in crate::http) fn address(&self, fields: &Fields<'_>, between: Between) -> Option<Box<[u8]>> {
        let BuyerCheck::Token(verifier) = &self.buyer_check else { return None };
        if !verifier.reads_addresses() {
            return None;
        }
        verifier.verify(token_of(fields)?, between).ok()?.address
    }

    /// The groups that the token of whoever asks names.
    pub(in crate::http) fn groups(&self, fields: &Fields<'_>, between: Between) -> Box<[GroupName]> {
        let BuyerCheck::Token(verifier) = &self.buyer_check else { return Box::default() };
        let bearer = token_of(fields).and_then(|token| verifier.verify(token, between).ok());
        bearer.map(|bearer| bearer.groups).unwrap_or_default()
    }

    /// The buyer whom the body of `/order/submit` names. A demo believes it; elsewhere it must be who asks.
    pub(in crate::http) fn named_buyer(
        &self,
        fields: &Fields<'_>,
        named: BuyerId,
        between: Between,
    ) -> Result<BuyerId, Problem> {
        if matches!(self.buyer_check, BuyerCheck::Cookie(..)) || self.buyer(fields, between)?.id == named {
            return Ok(named);
        }
        Err(Problem::forbidden("user_id is another buyer than the one who asks."))
    }

    /// The operator who asks, from this address. A wrong token is counted, and reported in the log.
    pub(in crate::http) fn operator(
        &self,
        fields: &Fields<'_>,
        known: OperatorsNow<'_>,
        address: IpAddr,
    ) -> Result<Actor, Problem> {
        if self.operators.is_empty() {
            return Err(Problem::operator_off());
        }
        if let Some(actor) = self.by_token(fields, known) {
            return Ok(actor);
        }
        if bearer(fields).is_none() {
            return Err(Problem::operator_unauthorized(known.is_confirmed));
        }
        match self.guesses.count(address, Instant::now()) {
            Guess::First => tracing::warn!(%address, "a wrong operator token"),
            Guess::Another => {}
            Guess::TooMany => {
                tracing::warn!(%address, "too many wrong operator tokens within a minute: answered 429 from now on");
                return Err(Problem::operator_guesses());
            }
            Guess::StillTooMany => return Err(Problem::operator_guesses()),
        }
        Err(Problem::operator_unauthorized(known.is_confirmed))
    }

    /// The session of the console's page, if a page of this server asks with a good one.
    pub(in crate::http) fn console(
        &self,
        fields: &Fields<'_>,
        (method, secure): (Method, bool),
        known: OperatorsNow<'_>,
    ) -> Option<ConsoleSession> {
        let own_page = match (fields.origin, fields.sec_fetch_site) {
            (Some(origin), _) => is_own(origin, fields.host, secure),
            (None, Some("same-origin")) => true,
            // Without TLS, browsers say neither where something is only read; nor is what was typed of another's page.
            (None, None | Some("none")) => method == Method::Get,
            (None, Some(_)) => false,
        };
        self.console.of(fields, own_page, known)
    }

    /// The header's value that begins a session of the console, for whoever has just shown to be an operator; or that gives one
    /// which was begun `before` a later end.
    pub(in crate::http) fn begin_console(
        &self,
        secure: bool,
        known: OperatorsNow<'_>,
        actor: &Actor,
        before: Option<engine::UnixMs>,
    ) -> Option<String> {
        self.console.begin(known, actor, secure, before)
    }

    /// Whether a token is shown that can only be meant for an operator's: a buyer's is a JWT, though it may have expired.
    pub(in crate::http) fn is_guess(&self, fields: &Fields<'_>) -> bool {
        let is_jwt = |token: &str| token.split('.').count() == 3;
        !self.operators.is_empty() && bearer(fields).is_some_and(|token| !is_jwt(token))
    }

    /// Whose token it is. Without one in the configuration there are no operators.
    pub(in crate::http) fn by_token(&self, fields: &Fields<'_>, known: OperatorsNow<'_>) -> Option<Actor> {
        let token = bearer(fields).filter(|_| !self.operators.is_empty())?;
        let is_token = |tag: &hmac::Tag| hmac::verify(&self.operator_key, token.as_bytes(), tag.as_ref());
        let is_root = self.operators.iter().any(|tag| is_token(tag).is_ok());
        let named = known.by_token(token).map(Actor::of);
        if is_root { Some(Actor::root()) } else { named }
    }

    /// Whether the payment provider sends this.
    pub(in crate::http) fn provider(
        &self,
        fields: &Fields<'_>,
        body: &[u8],
        between: Between,
    ) -> Result<(), Problem> {
        let checker = self.provider.as_ref().ok_or_else(Problem::payments_off)?;
        checker
            .check(fields.signature, body, between)
            .map_err(|unsigned| Problem::invalid_signature(unsigned.detail()))
    }

    /// Whether the page that sends this may act for its reader: our own pages, and those of the allowed
    /// origins. What is no browser sends no origin, and has no reader's cookies to misuse.
    pub(in crate::http) fn same_site(&self, fields: &Fields<'_>, secure: bool) -> Result<(), Problem> {
        let fine = match fields.origin {
            Some(origin) => is_own(origin, fields.host, secure) || self.allowed(origin).is_some(),
            None => fields.sec_fetch_site != Some("cross-site"),
        };
        if fine { Ok(()) } else { Err(Problem::forbidden_origin()) }
    }

    /// The other site whose page asks, if it may.
    pub(in crate::http) fn foreign_origin(&self, fields: &Fields<'_>) -> Option<Arc<str>> {
        self.allowed(fields.origin?)
    }

    fn allowed(&self, origin: &str) -> Option<Arc<str>> {
        self.allowed_origins.iter().find(|allowed| ***allowed == *origin).cloned()
    }

    /// The value of the demo's cookie for a new buyer, or `None` if the browser has a good one.
    pub(in crate::http) fn new_session(&self, fields: &Fields<'_>) -> Result<Option<String>, Problem> {
        let BuyerCheck::Cookie(key, _) = &self.buyer_check else { return Err(Problem::demo_only()) };
        if cookie_buyer(key, fields).is_some() {
            return Ok(None);
        }
        let mut random = [0; 8];
        SystemRandom::new().fill(&mut random).expect("the system gives entropy");
        let buyer = DEMO_BUYER_MIN + u64::from_ne_bytes(random) % DEMO_BUYER_SPAN;
        let mut value = Vec::new();
        push_number(&mut value, buyer);
        let tag = hmac::sign(key, &value);
        value.push(b'.');
        push_hex(&mut value, tag.as_ref());
        Ok(Some(String::from_utf8(value).expect("digits are text")))
    }
}

/// Whether a page's browser speaks TLS, with this server or with a proxy before it. A page of ours says so by its origin; one of
/// another site's says it of itself alone, but browsers send `Sec-Fetch-Site` by TLS, or within one machine, and not otherwise.
pub(in crate::http) fn came_by_tls(fields: &Fields<'_>, secure: bool) -> bool {
    let by_tls = |origin: &str| {
        origin.starts_with("https://")
            && (is_own(origin, fields.host, secure) || fields.sec_fetch_site.is_some())
    };
    secure || fields.origin.is_some_and(by_tls)
}

/// A plain connection may come from a proxy that speaks TLS to the browser, so both schemes are our own.
fn is_own(origin: &str, host: Option<&str>, secure: bool) -> bool {
    let (Some((scheme, authority)), Some(host)) = (origin.split_once("://"), host) else { return false };
    (scheme == "https" || (scheme == "http" && !secure)) && authority.eq_ignore_ascii_case(host)
}

fn bearer<'a>(fields: &Fields<'a>) -> Option<&'a str> {
    let (scheme, token) = fields.authorization?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

fn member(fields: &Fields<'_>, buyers: &Buyers) -> Result<Option<Buyer>, Problem> {
    let Some(text) = fields.member_id else { return Ok(None) };
    named::find(text, buyers).map(Some).map_err(|unnamed| {
        Problem::unauthorized(match unnamed {
            Unnamed::Length => "The header memberId must have 1 to 128 bytes.",
            Unnamed::Characters => {
                "The header memberId may have no control characters, and no spaces at its ends."
            }
        })
    })
}

/// From the header, or where there is none from the cookie of a session.
fn token_of<'a>(fields: &Fields<'a>) -> Option<&'a str> {
    if fields.authorization.is_some() {
        return bearer(fields);
    }
    let pairs = fields.cookie?.split(';').filter_map(|pair| pair.trim().split_once('='));
    pairs.into_iter().find_map(|(name, value)| (name == SESSION_COOKIE).then_some(value))
}

/// The buyer of a cookie that we signed.
fn cookie_buyer(key: &hmac::Key, fields: &Fields<'_>) -> Option<BuyerId> {
    let pairs = fields.cookie?.split(';').filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(|(name, _)| *name == COOKIE).find_map(|(_, value)| {
        let (number, tag) = value.split_once('.')?;
        let mut bytes = [0; 32];
        let good = read_hex(tag, &mut bytes) && hmac::verify(key, number.as_bytes(), &bytes).is_ok();
        if good { decimal(number).and_then(BuyerId::of_number) } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{Operators, UnixMs};

    const NOW: Between = Between { earliest: UnixMs(0), latest: UnixMs(0) };

    fn nobody(none: &Operators) -> OperatorsNow<'_> {
        OperatorsNow { operators: none, now: UnixMs(0), is_confirmed: true }
    }

    fn auth(mode: AuthMode) -> Auth {
        Auth::new(
            mode,
            Buyers::new(&[7; 16]),
            &[Box::from(*b"operator's token")],
            None,
            &["https://shop.example".to_owned()],
        )
    }

    #[test]
    fn only_our_own_and_the_allowed_origins_may_act() {
        let auth = auth(AuthMode::MemberId);
        for (origin, site, secure, fine) in [
            (None, None, false, true),
            (None, Some("same-origin"), false, true),
            (None, Some("cross-site"), false, false),
            (Some("http://here:80"), None, false, true),
            (Some("https://here:80"), None, false, true),
            (Some("https://here:80"), None, true, true),
            (Some("http://here:80"), None, true, false),
            (Some("http://here"), None, false, false),
            (Some("http://evil"), None, false, false),
            (Some("http://here:80.evil"), None, false, false),
            (Some("null"), None, false, false),
            (Some(""), None, false, false),
            (Some("https://shop.example"), Some("cross-site"), false, true),
            (Some("http://shop.example"), Some("cross-site"), false, false),
        ] {
            let fields = Fields { origin, sec_fetch_site: site, host: Some("here:80"), ..Fields::default() };
            assert_eq!(auth.same_site(&fields, secure).is_ok(), fine, "{origin:?} {site:?} {secure}");
        }
    }

    #[test]
    fn the_operator_is_known_by_the_whole_token() {
        let (auth, none) = (auth(AuthMode::MemberId), Operators::default());
        let address = IpAddr::from([127, 0, 0, 1]);
        for (authorization, fine) in [
            (Some("Bearer operator's token"), true),
            (Some("bearer operator's token"), true),
            (Some("Bearer operator's toke"), false),
            (Some("Bearer operator's token1"), false),
            (Some("Bearer "), false),
            (Some("operator's token"), false),
            (Some("Basic operator's token"), false),
            (None, false),
        ] {
            let fields = Fields { authorization, ..Fields::default() };
            assert_eq!(auth.operator(&fields, nobody(&none), address).is_ok(), fine, "{authorization:?}");
        }
        let off = Auth::new(AuthMode::MemberId, Buyers::new(&[7; 16]), &[], None, &[]);
        let fields = Fields { authorization: Some("Bearer "), ..Fields::default() };
        assert_eq!(off.operator(&fields, nobody(&none), address), Err(Problem::operator_off()));
    }

    #[test]
    fn who_guesses_is_answered_429_and_the_right_token_is_still_taken() {
        let (auth, none) = (auth(AuthMode::MemberId), Operators::default());
        let address = IpAddr::from([127, 0, 0, 1]);
        let ask = |authorization| {
            let fields = Fields { authorization, ..Fields::default() };
            auth.operator(&fields, nobody(&none), address).map(drop).map_err(|problem| problem.status)
        };
        let mut answers: Vec<_> = (0..20).map(|_| ask(Some("Bearer wrong"))).collect();
        answers.dedup();
        assert_eq!(answers, [Err(401), Err(429)]);
        assert_eq!((ask(None), ask(Some("Bearer operator's token"))), (Err(401), Ok(())));
    }

    #[test]
    fn a_session_is_made_once_and_can_not_be_forged() {
        let auth = auth(AuthMode::DemoCookie { secret: Box::from(*b"a secret") });
        let value = auth.new_session(&Fields::default()).unwrap().unwrap();
        let cookie = format!("theme=dark; {COOKIE}={value}");
        let fields = Fields { cookie: Some(&cookie), ..Fields::default() };
        assert_eq!(auth.new_session(&fields), Ok(None));
        let buyer = auth.buyer(&fields, NOW).unwrap().id;
        assert!((DEMO_BUYER_MIN..BuyerId::NUMBER_MAX).contains(&buyer.number().unwrap()));
        let (number, tag) = value.split_once('.').unwrap();
        for forged in [
            format!("{COOKIE}={}.{tag}", buyer.0 + 1),
            format!("{COOKIE}=0{number}.{tag}"),
            format!("{COOKIE}={number}"),
            format!("{COOKIE}={number}.{}", &tag[1..]),
            format!("x{COOKIE}={value}"),
        ] {
            let fields = Fields { cookie: Some(&forged), ..Fields::default() };
            assert_eq!(auth.buyer(&fields, NOW).unwrap_err().status, 401, "{forged}");
        }
    }

    #[test]
    fn a_member_is_a_text_and_named_buyers_are_believed_in_a_demo_only() {
        let edge = auth(AuthMode::MemberId);
        let fields = |member_id| Fields { member_id, ..Fields::default() };
        assert_eq!(edge.buyer(&fields(Some("1")), NOW).map(|buyer| buyer.id), Ok(BuyerId(1)));
        let anna = edge.buyer(&fields(Some("anna")), NOW).unwrap();
        assert!(anna.id.is_hash() && anna.text.as_deref() == Some("anna"));
        for bad in [None, Some(""), Some("1 "), Some(" "), Some("a\u{7f}")] {
            assert_eq!(edge.buyer(&fields(bad), NOW).unwrap_err().status, 401, "{bad:?}");
        }
        assert_eq!(edge.named_buyer(&fields(Some("1")), BuyerId(1), NOW), Ok(BuyerId(1)));
        assert_eq!(edge.named_buyer(&fields(Some("1")), BuyerId(2), NOW).unwrap_err().status, 403);
        assert_eq!(edge.named_buyer(&fields(None), BuyerId(2), NOW).unwrap_err().status, 401);
        let demo = auth(AuthMode::DemoCookie { secret: Box::from(*b"a secret") });
        assert_eq!(demo.named_buyer(&fields(None), BuyerId(2), NOW), Ok(BuyerId(2)));
    }
}
