//! Takes the terminal over and gives it back as it was, however the program ends.
//!
//! Writes only what differs from the frame before. Never reads a message and never keeps state of its own.

use std::io::{BufWriter, Stdout, Write, stdout};
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::event::{
    DisableBracketedPaste, EnableBracketedPaste, Event, KeyCode, KeyEvent, KeyEventKind,
    KeyModifiers,
};
use crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use crossterm::{cursor, execute};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

use super::layout::Size;
use super::state::{Key, Message, Panel};
use super::view::{Look, draw};
use crate::base::failpoint;

/// A frame is written at once: over a slow link half a frame is worse than a late one.
const FRAME_BYTES: usize = 64 * 1024;

/// The terminal is taken over.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Something panicked, and the terminal was given back.
static HAS_PANICKED: AtomicBool = AtomicBool::new(false);

/// The terminal, taken over. Given back when dropped.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<BufWriter<Stdout>>>,
    look: Look,
}

impl Screen {
    /// Takes the terminal over.
    pub(super) fn enter() -> std::io::Result<Self> {
        // Before anything is changed: a panic is told on a terminal that works, whatever it came from.
        let told = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            HAS_PANICKED.store(true, Ordering::Release);
            give_back();
            told(panic);
        }));
        let out = BufWriter::with_capacity(FRAME_BYTES, stdout());
        let terminal = Terminal::new(CrosstermBackend::new(out))?;
        let look = look();
        enable_raw_mode()?;
        IS_TAKEN.store(true, Ordering::Release);
        // From here on dropping it gives the terminal back.
        let screen = Self { terminal, look };
        // Pasted text comes as such: as keys it would decide.
        execute!(
            stdout(),
            EnterAlternateScreen,
            EnableBracketedPaste,
            cursor::Hide
        )?;
        Ok(screen)
    }

    pub(super) fn size(&self) -> std::io::Result<Size> {
        let size = self.terminal.size()?;
        Ok(Size {
            columns: size.width,
            rows: size.height,
        })
    }

    /// Draws what differs from the frame before.
    pub(super) fn draw(&mut self, panel: &Panel) -> std::io::Result<()> {
        failpoint::pass("panel_draw");
        let look = self.look;
        self.terminal.draw(|frame| draw(frame, panel, look))?;
        Ok(())
    }

    /// Forgets what is there, so that the next frame is drawn whole.
    pub(super) fn clear(&mut self) -> std::io::Result<()> {
        self.terminal.clear()
    }

    /// Whether a panic has given the terminal back already.
    pub(super) fn has_panicked() -> bool {
        HAS_PANICKED.load(Ordering::Acquire)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn give_back() {
    // Once: a second time would move the cursor back, over what was printed since.
    if !IS_TAKEN.swap(false, Ordering::AcqRel) {
        return;
    }
    // Each on its own: one that fails must not keep the others.
    let _ = execute!(stdout(), DisableBracketedPaste);
    let _ = execute!(stdout(), LeaveAlternateScreen);
    let _ = execute!(stdout(), cursor::Show);
    let _ = disable_raw_mode();
    let _ = stdout().flush();
}

/// What the environment says of colours.
fn look() -> Look {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let kind = std::env::var("TERM").unwrap_or_default();
    match is_set("NO_COLOR") || kind.is_empty() || kind == "dumb" || kind.starts_with("vt") {
        true => Look::Plain,
        false => Look::Colour,
    }
}

/// What an event of the terminal means to the panel. None: nothing.
pub(super) fn message_of(event: Event) -> Option<Message> {
    match event {
        Event::Key(key) => key_of(key).map(Message::Key),
        Event::Paste(text) => Some(Message::Pasted(text)),
        Event::Resize(columns, rows) => Some(Message::Resized(Size { columns, rows })),
        Event::FocusGained | Event::FocusLost | Event::Mouse(_) => None,
    }
}

/// Whether the key asks for the screen to be drawn anew.
pub(super) fn asks_to_redraw(event: &Event) -> bool {
    let control_l = KeyEvent::new(KeyCode::Char('l'), KeyModifiers::CONTROL);
    event.as_key_press_event() == Some(control_l)
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "keys of a library that knows many more than the panel has a meaning for"
)]
fn key_of(key: KeyEvent) -> Option<Key> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let is_plain = key.modifiers.difference(KeyModifiers::SHIFT).is_empty();
    let is_control = key.modifiers == KeyModifiers::CONTROL;
    match key.code {
        KeyCode::Char('c') if is_control => Some(Key::Interrupt),
        KeyCode::Char('u') if is_control => Some(Key::Clear),
        KeyCode::Char('h') if is_control => Some(Key::Backspace),
        // A letter with another modifier is another key, and must not decide as the letter would.
        _ if !is_plain => None,
        KeyCode::Char(character) => Some(Key::Char(character)),
        KeyCode::Enter => Some(Key::Enter),
        KeyCode::Esc => Some(Key::Escape),
        KeyCode::Up => Some(Key::Up),
        KeyCode::Down => Some(Key::Down),
        KeyCode::PageUp => Some(Key::PageUp),
        KeyCode::PageDown => Some(Key::PageDown),
        KeyCode::Home => Some(Key::Home),
        KeyCode::End => Some(Key::End),
        KeyCode::Backspace => Some(Key::Backspace),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(code: KeyCode, modifiers: KeyModifiers) -> Option<Key> {
        key_of(KeyEvent::new(code, modifiers))
    }

    #[test]
    fn a_letter_counts_only_without_modifiers() {
        let letter = KeyCode::Char('a');
        assert_eq!(key(letter, KeyModifiers::NONE), Some(Key::Char('a')));
        assert_eq!(
            key(KeyCode::Char('A'), KeyModifiers::SHIFT),
            Some(Key::Char('A'))
        );
        for modifiers in [
            KeyModifiers::CONTROL,
            KeyModifiers::ALT,
            KeyModifiers::SUPER,
            KeyModifiers::CONTROL | KeyModifiers::ALT,
        ] {
            assert_eq!(key(letter, modifiers), None, "{modifiers:?}");
        }
    }

    #[test]
    fn a_released_key_is_none() {
        let pressed = KeyEvent::new(KeyCode::Char('a'), KeyModifiers::NONE);
        let released = KeyEvent {
            kind: KeyEventKind::Release,
            ..pressed
        };
        assert_eq!(
            (key_of(pressed), key_of(released)),
            (Some(Key::Char('a')), None)
        );
    }

    #[test]
    fn pasted_text_is_never_keys() {
        let pasted = message_of(Event::Paste("a".to_owned()));
        assert_eq!(pasted, Some(Message::Pasted("a".to_owned())));
    }
}
