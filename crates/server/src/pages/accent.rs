//! The shop's accent colour in both schemes: checked to be readable where the pages use it, and written into the
//! style sheet.
//!
//! Must not: change any other colour.

use std::fmt;

/// WCAG 2.2 AA, of text; buttons and links are text.
const CONTRAST_MIN: f64 = 4.5;

/// What accents stand on, as `shop.css` has it.
const LIGHT_GROUNDS: [Colour; 2] = [Colour([0xfa, 0xf6, 0xf0]), Colour([0xff, 0xff, 0xff])];
const DARK_GROUNDS: [Colour; 2] = [Colour([0x16, 0x13, 0x11]), Colour([0x21, 0x1d, 0x1a])];

const BLACK: Colour = Colour([0; 3]);
const WHITE: Colour = Colour([0xff; 3]);

/// An sRGB colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colour([u8; 3]);

impl Colour {
    /// `#rrggbb`.
    pub fn parse(text: &str) -> Option<Colour> {
        let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6 && digits.is_ascii())?;
        let part = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).ok();
        let hexadecimal = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        hexadecimal.then_some(Colour([part(0)?, part(2)?, part(4)?]))
    }

    /// So many percent of the way to another colour.
    fn towards(self, other: Colour, percent: u16) -> Colour {
        let part = |one: u8, other: u8| {
            let sum = u16::from(one) * (100 - percent) + u16::from(other) * percent;
            u8::try_from(sum / 100).expect("it is between the two")
        };
        Colour(std::array::from_fn(|at| part(self.0[at], other.0[at])))
    }

    fn luminance(self) -> f64 {
        let [red, green, blue] = self.0.map(|part| {
            let part = f64::from(part) / 255.0;
            if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        });
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    /// From 1 to 21, as WCAG defines it.
    pub fn contrast(self, other: Colour) -> f64 {
        let (one, other) = (self.luminance(), other.luminance());
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    /// The least contrast to any of these.
    fn contrast_to(self, grounds: [Colour; 2]) -> (f64, Colour) {
        let [one, other] = grounds.map(|ground| (self.contrast(ground), ground));
        if one.0 <= other.0 { one } else { other }
    }

    /// The nearest colour on the way to `goal` that can be read.
    fn readable(self, grounds: [Colour; 2], goal: Colour) -> Colour {
        let steps = (0..=100).map(|percent| self.towards(goal, percent));
        let mut readable = steps.filter(|colour| colour.contrast_to(grounds).0 >= CONTRAST_MIN);
        readable.next().expect("black and white can be read on the grounds that they are the goals for")
    }
}

impl fmt::Display for Colour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [red, green, blue] = self.0;
        write!(f, "#{red:02x}{green:02x}{blue:02x}")
    }
}

/// Which of the two schemes a colour is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Light,
    Dark,
}

/// A colour that people could not read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unreadable {
    pub scheme: Scheme,
    ground: Colour,
    ratio: f64,
    instead: Colour,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unreadable { scheme, ground, instead, .. } = self;
        // Rounded down: 4.499 is not 4.5.
        let ratio = (self.ratio * 100.0).floor() / 100.0;
        let (change, of) = match scheme {
            Scheme::Light => ("darker", "pages"),
            Scheme::Dark => ("lighter", "dark pages"),
        };
        write!(
            f,
            "has a contrast of {ratio:.2} to the {of}' ground {ground}, and text needs {CONTRAST_MIN} (WCAG 2.2 AA): \
             take a {change} one, for example {instead}"
        )
    }
}

/// The accent in both schemes, with what stands on it and what it turns into under the pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accent {
    light: [Colour; 3],
    dark: [Colour; 3],
}

impl Accent {
    /// Without a colour for dark pages it is the light one's, made as light as it must be.
    ///
    /// # Errors
    /// If text in one of the colours could not be read.
    pub fn new(light: Colour, dark: Option<Colour>) -> Result<Accent, Unreadable> {
        let check = |colour: Colour, scheme, grounds, goal| {
            let (ratio, ground) = colour.contrast_to(grounds);
            let instead = colour.readable(grounds, goal);
            if ratio >= CONTRAST_MIN {
                Ok(colour)
            } else {
                Err(Unreadable { scheme, ground, ratio, instead })
            }
        };
        let dark = dark.unwrap_or_else(|| light.readable(DARK_GROUNDS, WHITE));
        let light = check(light, Scheme::Light, LIGHT_GROUNDS, BLACK)?;
        let dark = check(dark, Scheme::Dark, DARK_GROUNDS, WHITE)?;
        // What can be read on a ground can be a ground for its colour.
        Ok(Accent {
            light: [light, light.towards(BLACK, 16), WHITE],
            dark: [dark, dark.towards(WHITE, 24), DARK_GROUNDS[0]],
        })
    }

    /// The style sheet with this accent in place of its own.
    pub(super) fn write_into(&self, style: &str) -> String {
        let (light, dark) = style.split_once(DARK_BEGINS).expect("the style sheet has a dark scheme");
        let mut parts = [light.to_owned(), dark.to_owned()];
        for (part, colours) in parts.iter_mut().zip([self.light, self.dark]) {
            for (name, colour) in ["accent", "accent-hover", "on-accent"].into_iter().zip(colours) {
                let start = format!("--{name}: ");
                let at = part.find(&start).expect("each scheme has each colour") + start.len();
                part.replace_range(at..at + "#rrggbb".len(), &colour.to_string());
            }
        }
        parts.join(DARK_BEGINS)
    }
}

const DARK_BEGINS: &str = "@media (prefers-color-scheme: dark)";

#[cfg(test)]
mod tests {
    use super::*;

    const STYLE: &str = include_str!("../../templates/assets/shop.css");

    fn colour(text: &str) -> Colour {
        Colour::parse(text).unwrap()
    }

    /// A scheme's colour in a style sheet.
    fn of(style: &str, dark: bool, name: &str) -> Colour {
        let (light, rest) = style.split_once(DARK_BEGINS).unwrap();
        let scheme = if dark { rest } else { light };
        colour(&scheme.split_once(&format!("--{name}: ")).unwrap().1[..7])
    }

    #[test]
    fn colours_are_six_hexadecimal_digits() {
        assert_eq!(colour("#C22f18").to_string(), "#c22f18");
        for wrong in ["c22f18", "#c22", "#c22f1", "#c22f188", "#+22f18", "#c22f1é", "red", ""] {
            assert_eq!(Colour::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn contrast_is_that_of_wcag() {
        assert!((BLACK.contrast(WHITE) - 21.0).abs() < 1e-9);
        assert!((colour("#777777").contrast(WHITE) - 4.48).abs() < 0.005);
        assert!((colour("#767676").contrast(WHITE) - 4.54).abs() < 0.005);
    }

    #[test]
    fn the_grounds_are_those_of_the_style_sheet() {
        for (dark, grounds) in [(false, LIGHT_GROUNDS), (true, DARK_GROUNDS)] {
            assert_eq!(grounds, ["ground", "card"].map(|name| of(STYLE, dark, name)));
        }
    }

    #[test]
    fn what_can_be_read_is_taken_and_can_be_read_everywhere() {
        for text in ["#c22f18", "#000000", "#0b57d0", "#6d28d9", "#14532d", "#8a4b00", "#333333"] {
            let style = Accent::new(colour(text), None).unwrap().write_into(STYLE);
            assert_eq!(of(&style, false, "accent"), colour(text));
            for (dark, name, ground) in [
                (false, "accent", "ground"),
                (false, "accent-hover", "card"),
                (false, "on-accent", "accent"),
                (false, "on-accent", "accent-hover"),
                (true, "accent", "ground"),
                (true, "accent-hover", "card"),
                (true, "on-accent", "accent"),
                (true, "on-accent", "accent-hover"),
            ] {
                let ratio = of(&style, dark, name).contrast(of(&style, dark, ground));
                assert!(ratio >= CONTRAST_MIN, "{text}: {name} on {ground}: {ratio:.2}");
            }
            assert_eq!(style.len(), STYLE.len(), "nothing else was changed");
        }
    }

    #[test]
    fn what_can_not_be_read_is_refused_with_one_that_can() {
        let refused = Accent::new(colour("#ffcc00"), None).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "has a contrast of 1.40 to the pages' ground #faf6f0, and text needs 4.5 (WCAG 2.2 AA): take a darker \
             one, for example #896e00"
        );
        Accent::new(refused.instead, None).unwrap();
        let refused = Accent::new(colour("#c22f18"), Some(colour("#400000"))).unwrap_err();
        assert_eq!(refused.scheme, Scheme::Dark);
        Accent::new(colour("#c22f18"), Some(refused.instead)).unwrap();
    }
}
