//! The console's session: a cookie that stands for an operator's token, so that a browser need not keep that.
//!
//! It says until when it holds and for whom, signed with the token of the configuration and bound to the operator's: there is
//! nothing to store, every server takes it, and it ends with either token. It acts only for pages of this server. Those that were
//! signed out are known to this server alone (`signed_out`).

use engine::{ROOT, UnixMs};
use ring::hmac;

use crate::http::auth::operators::{Actor, OperatorsNow};
use crate::http::wire::fields::Fields;
use crate::http::wire::{decimal, push_hex, push_number, read_hex};

const COOKIE: &str = "doorbuster_console";
/// A session that nobody uses ends after so long: an hour.
const LASTS_MS: u64 = 3_600_000;
/// One that is used all the while ends after so long, since it was begun with a token: a screen on a wall is signed in every day.
const LASTS_MS_MAX: u64 = 12 * 3_600_000;
/// One that is used is given a new end when its own is nearer than this.
const RENEWED_BELOW_MS: u64 = LASTS_MS - 600_000;
/// Another server of a cluster may have begun it by a clock that is ahead: further apart, a server is out (decision 020).
const CLOCKS_APART_MS: u64 = 2_000;
/// Cookies of the name that are looked at, in one request: each costs a signature, and a stranger may send many.
const VALUES_MAX: usize = 4;
/// Behind the times of a session that is for TLS alone: so is the next, which a page asks for without saying where it is.
const SECURE: &str = "s";
/// What a token signs nothing else with.
const PURPOSE: &[u8] = b"doorbuster console session until ";

/// Who may have a session, and which ones are good.
#[derive(Debug)]
pub(super) struct ConsoleSessions {
    /// Of the tokens of the configuration, the current one first. Not of an operator's hash, which whoever reads a backup has.
    keys: Box<[hmac::Key]>,
}

/// What the cookie of a request is worth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::http) struct ConsoleSession {
    pub(in crate::http) until: UnixMs,
    /// With the token.
    pub(in crate::http) begun: UnixMs,
    /// Browsers send it by TLS alone.
    pub(in crate::http) secure: bool,
    pub(in crate::http) actor: Actor,
}

impl ConsoleSession {
    /// Whether every cookie of a session that was begun then has ended.
    pub(in crate::http) fn is_over(begun: UnixMs, now: UnixMs) -> bool {
        begun.0.saturating_add(LASTS_MS_MAX + CLOCKS_APART_MS) < now.0
    }

    /// Whether it is in use and should be given a later end.
    pub(in crate::http) fn is_to_be_renewed(&self, now: UnixMs) -> bool {
        let can_be = self.until.0 < self.begun.0.saturating_add(LASTS_MS_MAX);
        can_be && self.until.0.saturating_sub(now.0) < RENEWED_BELOW_MS
    }
}

impl ConsoleSessions {
    pub(super) fn new(operators: &[Box<[u8]>]) -> ConsoleSessions {
        let key = |token: &[u8]| hmac::Key::new(hmac::HMAC_SHA256, token);
        ConsoleSessions { keys: operators.iter().map(AsRef::as_ref).map(key).collect() }
    }

    /// The header's value that begins a session, or gives an earlier one a later end. `None`: there is no operator.
    pub(super) fn begin(
        &self,
        known: OperatorsNow<'_>,
        actor: &Actor,
        secure: bool,
        before: Option<UnixMs>,
    ) -> Option<String> {
        let begun = before.unwrap_or(known.now).0;
        // No longer than the operator's token.
        let ends_at = known.by_name(&actor.name).and_then(|operator| operator.expires_at);
        let ends_at = ends_at.map_or(u64::MAX, |at| at.0).min(begun.saturating_add(LASTS_MS_MAX));
        let lasts_ms = LASTS_MS.min(ends_at.saturating_sub(known.now.0));
        let mut value = Vec::new();
        push_number(&mut value, known.now.0.saturating_add(lasts_ms));
        value.push(b'-');
        push_number(&mut value, begun);
        value.extend_from_slice(if secure { SECURE.as_bytes() } else { b"" });
        let tag = hmac::sign(self.keys.first()?, &signed(known, &value, &actor.name)?);
        value.push(b'.');
        value.extend_from_slice(actor.name.as_bytes());
        value.push(b'.');
        push_hex(&mut value, tag.as_ref());
        let value = String::from_utf8(value).expect("digits are text");
        Some(cookie(&value, lasts_ms.div_ceil(1000), secure))
    }

    /// The session of a request, if it has a good one and comes from a page of this server.
    pub(super) fn of(
        &self,
        fields: &Fields<'_>,
        own_page: bool,
        known: OperatorsNow<'_>,
    ) -> Option<ConsoleSession> {
        let pairs = fields.cookie?.split(';').filter_map(|pair| pair.trim().split_once('='));
        let values = pairs.filter(|(name, _)| *name == COOKIE).map(|(_, value)| value);
        let session = values.take(VALUES_MAX).find_map(|value| self.good(value, known))?;
        own_page.then_some(session)
    }

    fn good(&self, value: &str, known: OperatorsNow<'_>) -> Option<ConsoleSession> {
        let (times, rest) = value.split_once('.')?;
        let (name, tag) = rest.split_once('.')?;
        let mut bytes = [0; 32];
        let signed = signed(known, times.as_bytes(), name)?;
        let is_ours = read_hex(tag, &mut bytes)
            && self.keys.iter().any(|key| hmac::verify(key, &signed, &bytes).is_ok());
        let (until, begun) = times.split_once('-')?;
        let secure = begun.ends_with(SECURE);
        let (until, begun) = (UnixMs(decimal(until)?), UnixMs(decimal(begun.trim_end_matches(SECURE))?));
        // One that ends later than any that is begun now was begun by a clock that was wrong.
        let now = known.now;
        let holds = until > now && until.0 <= now.0.saturating_add(LASTS_MS + CLOCKS_APART_MS);
        let actor = if name == ROOT { Actor::root() } else { Actor::of(known.by_name(name)?) };
        (is_ours && holds).then_some(ConsoleSession { until, begun, secure, actor })
    }
}

/// The header's value that ends a session.
pub(in crate::http) fn end_console(secure: bool) -> String {
    cookie("", 0, secure)
}

fn cookie(value: &str, lasts_s: u64, secure: bool) -> String {
    let secure = if secure { "; Secure" } else { "" };
    format!("{COOKIE}={value}; Path=/; Max-Age={lasts_s}; HttpOnly; SameSite=Strict{secure}")
}

/// `None`: nobody has this name now. With the hash of the operator's token, so that a session does not outlive it in another
/// operator of the same name.
fn signed(known: OperatorsNow<'_>, times: &[u8], name: &str) -> Option<Vec<u8>> {
    let hash: &[u8] = if name == ROOT { &[] } else { &known.by_name(name)?.digest };
    Some([PURPOSE, times, b" for ", name.as_bytes(), b" ", hash].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::auth::operators::digest_of;
    use engine::{Operator, Operators, Role};

    const NOW: UnixMs = UnixMs(1_700_000_000_000);

    fn sessions(tokens: &[&str]) -> ConsoleSessions {
        let tokens: Vec<Box<[u8]>> = tokens.iter().map(|token| token.as_bytes().into()).collect();
        ConsoleSessions::new(&tokens)
    }

    fn at(now: UnixMs) -> OperatorsNow<'static> {
        static NOBODY: std::sync::LazyLock<Operators> = std::sync::LazyLock::new(Operators::default);
        OperatorsNow { operators: &NOBODY, now, is_confirmed: true }
    }

    fn begun(sessions: &ConsoleSessions) -> String {
        let header = sessions.begin(at(NOW), &Actor::root(), false, None).unwrap();
        header.split(';').next().unwrap().to_owned()
    }

    fn is_good(sessions: &ConsoleSessions, cookie: &str, now: UnixMs) -> bool {
        let fields = Fields { cookie: Some(cookie), ..Fields::default() };
        sessions.of(&fields, true, at(now)).is_some()
    }

    #[test]
    fn a_session_holds_for_an_hour_and_as_long_as_its_token() {
        let old = sessions(&["old"]);
        let cookie = begun(&old);
        for (after_ms, good) in [(0, true), (LASTS_MS - 1, true), (LASTS_MS, false)] {
            assert_eq!(is_good(&old, &format!("a=b; {cookie}"), NOW.plus(after_ms)), good, "{after_ms}");
        }
        for (behind_ms, good) in [(1, true), (CLOCKS_APART_MS, true), (CLOCKS_APART_MS + 1, false)] {
            let of_another = UnixMs(NOW.0 - behind_ms);
            assert_eq!(
                is_good(&old, &cookie, of_another),
                good,
                "a server whose clock is {behind_ms} ms behind"
            );
        }
        assert!(is_good(&sessions(&["new", "old"]), &cookie, NOW), "while both tokens are taken");
        assert!(!is_good(&sessions(&["new"]), &cookie, NOW), "and no longer");
        assert!(!is_good(&sessions(&[]), &cookie, NOW));
        assert_eq!(sessions(&[]).begin(at(NOW), &Actor::root(), false, None), None);
    }

    /// One that was looked at every hour never ended.
    #[test]
    fn a_session_that_is_used_all_the_while_ends_after_twelve_hours() {
        let ours = sessions(&["token"]);
        let (mut cookie, mut now) = (begun(&ours), NOW);
        let session = |cookie: &str, now| {
            let fields = Fields { cookie: Some(cookie), ..Fields::default() };
            ours.of(&fields, true, at(now))
        };
        while let Some(used) = session(&cookie, now).filter(|used| used.begun == NOW) {
            if used.is_to_be_renewed(now) {
                let header = ours.begin(at(now), &used.actor, false, Some(used.begun)).unwrap();
                header.split(';').next().unwrap().clone_into(&mut cookie);
            }
            now = now.plus(900_000);
        }
        assert_eq!(now, NOW.plus(LASTS_MS_MAX));
    }

    #[test]
    fn a_named_session_ends_with_the_operator_and_is_not_the_next_ones_of_the_name() {
        let operators = |token: &str, expires_at| {
            let (name, by, role) = ("anna".into(), ROOT.into(), Role::Support);
            let digest = digest_of(token);
            Operators::new(vec![Operator { name, role, digest, added_at: NOW, by, expires_at }])
        };
        let (ours, before) = (sessions(&["token"]), operators("one", None));
        fn known(operators: &Operators) -> OperatorsNow<'_> {
            OperatorsNow { operators, now: NOW, is_confirmed: true }
        }
        let anna = Actor { name: "anna".into(), role: Role::Support };
        let header = ours.begin(known(&before), &anna, false, None).unwrap();
        let cookie = header.split(';').next().unwrap();
        let fields = Fields { cookie: Some(cookie), ..Fields::default() };
        let of =
            |operators: &Operators| ours.of(&fields, true, known(operators)).map(|session| session.actor);
        assert_eq!(of(&before), Some(anna));
        for after in [Operators::default(), operators("another", None), operators("one", Some(NOW))] {
            assert_eq!(of(&after), None, "{after:?}");
        }
        assert_eq!(
            ours.begin(
                known(&Operators::default()),
                &Actor { name: "anna".into(), role: Role::Admin },
                false,
                None
            ),
            None
        );
    }

    #[test]
    fn a_session_ends_when_the_operators_token_does() {
        let (name, by, role) = ("anna".into(), ROOT.into(), Role::Support);
        for (token_lasts_ms, lasts_ms, max_age_s) in
            [(None, LASTS_MS, 3600), (Some(LASTS_MS + 1), LASTS_MS, 3600), (Some(20_500), 20_500, 21)]
        {
            let expires_at = token_lasts_ms.map(|ms| NOW.plus(ms));
            let (name, by): (Box<str>, Box<str>) = (Box::clone(&name), Box::clone(&by));
            let digest = digest_of("token");
            let anna = Operator { name, role, digest, added_at: NOW, by, expires_at };
            let operators = Operators::new(vec![anna.clone()]);
            let known = OperatorsNow { operators: &operators, now: NOW, is_confirmed: true };
            let ours = sessions(&["token"]);
            let header = ours.begin(known, &Actor::of(&anna), false, None).unwrap();
            assert!(header.contains(&format!("; Max-Age={max_age_s};")), "{header}");
            let fields = Fields { cookie: header.split(';').next(), ..Fields::default() };
            assert_eq!(ours.of(&fields, true, known).unwrap().until, NOW.plus(lasts_ms));
        }
    }

    #[test]
    fn a_session_can_not_be_forged_nor_used_by_another_site() {
        let ours = sessions(&["token"]);
        let cookie = begun(&ours);
        let (name_until, tag) = cookie.split_once(".root.").unwrap();
        let (name, until) = name_until.split_once('=').unwrap();
        let (until, begun) = until.split_once('-').unwrap();
        let later = format!("{}-{begun}", until.parse::<u64>().unwrap() - 1);
        let renewed = format!("{until}-{}", begun.parse::<u64>().unwrap() + 1);
        let until = format!("{until}-{begun}");
        for forged in [
            format!("{name}={later}.root.{tag}"),
            format!("{name}={renewed}.root.{tag}"),
            format!("{name}=0{until}.root.{tag}"),
            format!("{name}={until}.{tag}"),
            format!("{name}={until}.anna.{tag}"),
            format!("{name}={until}"),
            format!("{name}={until}.root.{}", &tag[1..]),
            format!("{name}=.root.{tag}"),
            format!("x{cookie}"),
            String::new(),
        ] {
            assert!(!is_good(&ours, &forged, NOW), "{forged}");
        }
        let fields = Fields { cookie: Some(&cookie), ..Fields::default() };
        assert_eq!(ours.of(&fields, false, at(NOW)), None);
    }

    #[test]
    fn a_cookie_set_by_somebody_else_hides_no_session_and_many_are_not_all_looked_at() {
        let ours = sessions(&["token"]);
        let cookie = begun(&ours);
        let forged = format!("doorbuster_console={0}-{0}.root.{1}; ", NOW.0 + 1, "0".repeat(64));
        for (before, good) in [(VALUES_MAX - 1, true), (VALUES_MAX, false), (200, false)] {
            assert_eq!(is_good(&ours, &(forged.repeat(before) + &cookie), NOW), good, "{before}");
        }
    }

    #[test]
    fn what_is_used_is_renewed_and_a_script_can_not_read_it() {
        let session =
            ConsoleSession { until: NOW.plus(LASTS_MS), begun: NOW, secure: true, actor: Actor::root() };
        assert!(!session.is_to_be_renewed(NOW) && session.is_to_be_renewed(NOW.plus(600_001)));
        let ours = sessions(&["token"]);
        for secure in [true, false] {
            let header = ours.begin(at(NOW), &Actor::root(), secure, None).unwrap();
            let ends = if secure { "; SameSite=Strict; Secure" } else { "; SameSite=Strict" };
            assert!(header.ends_with(&format!("; Path=/; Max-Age=3600; HttpOnly{ends}")), "{header}");
            let fields = Fields { cookie: header.split(';').next(), ..Fields::default() };
            let session = ours.of(&fields, true, at(NOW)).unwrap();
            assert_eq!((session.begun, session.secure), (NOW, secure), "what renews it is like it");
        }
        assert_eq!(end_console(false), "doorbuster_console=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict");
    }
}
