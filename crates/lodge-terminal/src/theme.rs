//! Colours by meaning. They are among the sixteen that every terminal lets people choose, so they are readable on any background. Only what
//! is drawn on a tinted background differs between light and dark.

use ratatui_core::style::{Color, Modifier, Style};
use serde::{Deserialize, Serialize};

/// The kind of background that the colours are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Scheme {
    /// Light text on a dark background.
    #[default]
    Dark,
    /// Dark text on a light background.
    Light,
    /// No colours; emphasis by weight only.
    Plain,
}

impl Scheme {
    /// All schemes.
    pub const ALL: [Self; 3] = [Self::Dark, Self::Light, Self::Plain];

    /// The name by which people choose it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dark => "dark",
            Self::Light => "light",
            Self::Plain => "plain",
        }
    }

    /// The scheme with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scheme| scheme.name() == name)
    }

    /// The scheme that `NO_COLOR` or else `COLORFGBG` asks for, if they are set.
    pub fn detect(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        if variable("NO_COLOR").is_some_and(|value| !value.is_empty()) {
            return Some(Self::Plain);
        }
        match variable("COLORFGBG")?.rsplit(';').next()?.parse::<u8>().ok()? {
            7 | 9..=15 => Some(Self::Light),
            _ => Some(Self::Dark),
        }
    }
}

/// The styles of a scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theme {
    pub(crate) text: Style,
    pub(crate) dim: Style,
    pub(crate) accent: Style,
    pub(crate) heading: Style,
    pub(crate) strong: Style,
    pub(crate) emphasis: Style,
    pub(crate) code: Style,
    pub(crate) link: Style,
    pub(crate) keyword: Style,
    pub(crate) string: Style,
    pub(crate) comment: Style,
    pub(crate) number: Style,
    pub(crate) call: Style,
    pub(crate) added: Style,
    pub(crate) removed: Style,
    pub(crate) error: Style,
    pub(crate) warning: Style,
    pub(crate) good: Style,
    pub(crate) user: Style,
    pub(crate) selected: Style,
    pub(crate) found: Style,
    pub(crate) current: Style,
}

impl Theme {
    /// Makes the styles of this scheme.
    pub fn new(scheme: Scheme) -> Self {
        let text = Style::new();
        let bold = text.add_modifier(Modifier::BOLD);
        let faint = text.add_modifier(Modifier::DIM);
        let under = text.add_modifier(Modifier::UNDERLINED);
        let turned = text.add_modifier(Modifier::REVERSED);
        if scheme == Scheme::Plain {
            return Self {
                text,
                dim: faint,
                accent: bold,
                heading: bold,
                strong: bold,
                emphasis: text.add_modifier(Modifier::ITALIC),
                code: text,
                link: under,
                keyword: bold,
                string: text,
                comment: faint,
                number: text,
                call: text,
                added: bold,
                removed: faint,
                error: bold,
                warning: bold,
                good: text,
                user: bold,
                selected: turned,
                found: under,
                current: turned.add_modifier(Modifier::BOLD),
            };
        }
        let light = scheme == Scheme::Light;
        let pick = |dark: Color, on_light: Color| text.fg(if light { on_light } else { dark });
        let grey = pick(Color::Indexed(245), Color::Indexed(242));
        let wash = |dark: u8, on_light: u8| Color::Indexed(if light { on_light } else { dark });
        Self {
            text,
            dim: grey,
            accent: pick(Color::LightCyan, Color::Indexed(25)),
            heading: pick(Color::LightCyan, Color::Indexed(25)).add_modifier(Modifier::BOLD),
            strong: bold,
            emphasis: text.add_modifier(Modifier::ITALIC),
            code: pick(Color::Indexed(180), Color::Indexed(94)),
            link: pick(Color::LightBlue, Color::Indexed(26)).add_modifier(Modifier::UNDERLINED),
            keyword: pick(Color::Indexed(176), Color::Indexed(90)),
            string: pick(Color::Indexed(150), Color::Indexed(28)),
            comment: grey.add_modifier(Modifier::ITALIC),
            number: pick(Color::Indexed(179), Color::Indexed(130)),
            call: pick(Color::Indexed(117), Color::Indexed(25)),
            added: pick(Color::Indexed(114), Color::Indexed(22)).bg(wash(22, 194)),
            removed: pick(Color::Indexed(210), Color::Indexed(88)).bg(wash(52, 224)),
            error: pick(Color::LightRed, Color::Indexed(124)),
            warning: pick(Color::LightYellow, Color::Indexed(130)),
            good: pick(Color::LightGreen, Color::Indexed(28)),
            user: text.bg(wash(236, 254)),
            selected: bold.bg(wash(24, 153)),
            found: text.bg(wash(58, 229)),
            current: turned.add_modifier(Modifier::BOLD),
        }
    }
}
