//! The conversation as rows. Only what is visible is laid out: a position is a block and a row in it, and scrolling moves from block to
//! block. So a frame costs the same, however long the conversation is.

mod entry;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use ahp::ahp_types::state::{ChatState, Message, ResponsePart, Turn, TurnState, UsageInfo};
use ratatui_core::text::Line;

use crate::theme::Theme;
use entry::{Entry, EntryKind};
pub(crate) use entry::{attachment_label, call_description};
pub use entry::{failed_command, is_command};

/// The most blocks whose rows are cached.
const KEPT: usize = 400;
/// Blocks that are laid out to count matches, at each letter of a search.
const COUNTED: usize = 300;

/// A position: the indices of the turn, of the entry in it, and of the block in that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Position {
    turn: usize,
    entry: usize,
    block: usize,
}

impl Position {
    /// The message of the first turn.
    pub(crate) const FIRST: Self = Self {
        turn: 0,
        entry: 0,
        block: 0,
    };
}

/// The rows after a block: final ones, and below them those that may still change.
pub(crate) struct Tail {
    /// The last block that is final.
    pub(crate) printed: Position,
    pub(crate) settled: Vec<Line<'static>>,
    pub(crate) open: Vec<Line<'static>>,
}

/// A row of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Anchor {
    at: Position,
    row: usize,
}

struct TurnView {
    id: String,
    over: bool,
    entries: Vec<Entry>,
}

/// A turn in the mirror, running or over.
#[derive(Clone, Copy)]
struct Shown<'a> {
    id: &'a str,
    message: &'a Message,
    parts: &'a [ResponsePart],
    end: Option<(TurnState, Option<i64>, Option<&'a UsageInfo>)>,
}

impl<'a> Shown<'a> {
    fn at(chat: &'a ChatState, index: usize) -> Option<Self> {
        match chat.turns.get(index) {
            Some(turn) => Some(Self::over(turn)),
            None => {
                let turn = chat.active_turn.as_ref().filter(|_| index == chat.turns.len())?;
                Some(Self {
                    id: &turn.id,
                    message: &turn.message,
                    parts: &turn.response_parts,
                    end: None,
                })
            }
        }
    }

    /// Whether the turn is working on this part now.
    fn is_live(&self, what: EntryKind) -> bool {
        self.end.is_none() && matches!(what, EntryKind::Part(index) if index + 1 == self.parts.len())
    }

    fn over(turn: &'a Turn) -> Self {
        Self {
            id: &turn.id,
            message: &turn.message,
            parts: &turn.response_parts,
            end: Some((turn.state, turn.duration, turn.usage.as_ref())),
        }
    }
}

/// The settings for drawing.
#[derive(Clone, Copy)]
pub(crate) struct Look<'a> {
    pub(crate) width: usize,
    pub(crate) theme: &'a Theme,
    /// The lines of output below a collapsed command that has ended.
    pub(crate) output: usize,
}

struct Cached {
    stamp: (usize, usize),
    used: u64,
    rows: Arc<Vec<Line<'static>>>,
}

/// The conversation.
#[derive(Default)]
pub(crate) struct Transcript {
    turns: Vec<TurnView>,
    cache: HashMap<(String, usize, usize), Cached>,
    frame: u64,
    width: usize,
    /// The first visible row. None while the end is followed.
    anchor: Option<Anchor>,
    top: Option<Anchor>,
    last_call: Option<String>,
    /// Calls and reasoning whose state is the opposite of `all_open`.
    toggled: HashSet<String>,
    all_open: bool,
    /// Whether there are rows below the screen.
    pub(crate) more_below: bool,
    pub(crate) at_top: bool,
}

impl Transcript {
    /// Follows changes of the mirror. A turn that is over is read once.
    pub(crate) fn follow(&mut self, chat: &ChatState) {
        let same_start = match (self.turns.first(), Shown::at(chat, 0)) {
            (Some(known), Some(first)) => known.id == first.id,
            (None, _) => true,
            (Some(_), None) => false,
        };
        if !same_start {
            self.reorder(chat);
        }
        let count = chat.turns.len() + usize::from(chat.active_turn.is_some());
        let first_changed = self
            .turns
            .iter()
            .position(|turn| !turn.over)
            .unwrap_or(self.turns.len());
        // If a turn in the middle was removed, all later ones have moved.
        let stale = (0..self.turns.len().min(count)).rev().take(3);
        let moved = stale
            .into_iter()
            .any(|at| Shown::at(chat, at).is_some_and(|turn| turn.id != self.turns[at].id));
        if moved || self.turns.len() > count {
            self.reorder(chat);
        }
        for at in first_changed.min(self.turns.len())..count {
            let Some(turn) = Shown::at(chat, at) else { break };
            if at == self.turns.len() {
                self.turns.push(TurnView {
                    id: turn.id.to_owned(),
                    over: false,
                    entries: Vec::new(),
                });
            }
            self.turns[at].follow(turn);
        }
    }

    /// Moves known turns to their new positions. Other turns are read again.
    fn reorder(&mut self, chat: &ChatState) {
        let turn_of = |anchor: Option<Anchor>| anchor.map(|anchor| (self.turns[anchor.at.turn].id.clone(), anchor));
        let (anchor, top) = (turn_of(self.anchor), turn_of(self.top));
        let mut known: HashMap<String, TurnView> = self.turns.drain(..).map(|turn| (turn.id.clone(), turn)).collect();
        let count = chat.turns.len() + usize::from(chat.active_turn.is_some());
        for turn in (0..count).filter_map(|at| Shown::at(chat, at)) {
            let mut view = known.remove(turn.id).unwrap_or_else(|| TurnView {
                id: turn.id.to_owned(),
                over: false,
                entries: Vec::new(),
            });
            view.follow(turn);
            self.turns.push(view);
        }
        let moved = |known: Option<(String, Anchor)>| {
            let (id, mut anchor) = known?;
            anchor.at.turn = self.turns.iter().position(|turn| turn.id == id)?;
            Some(anchor)
        };
        (self.anchor, self.top) = (moved(anchor), moved(top));
    }

    /// Notes that a turn that was over continues under the same id.
    pub(crate) fn reopen(&mut self, id: &str) {
        if let Some(turn) = self.turns.iter_mut().rfind(|turn| turn.id == id) {
            turn.over = false;
            self.cache.retain(|(of, ..), _| of != id);
        }
    }

    /// Clears the cached rows, because the theme or what is expanded has changed.
    pub(crate) fn redraw(&mut self) {
        self.cache.clear();
    }

    /// The rows for a screen of this height.
    pub(crate) fn rows(&mut self, chat: &ChatState, look: Look, height: usize) -> Vec<Line<'static>> {
        self.frame += 1;
        if std::mem::replace(&mut self.width, look.width) != look.width {
            self.cache.clear();
        }
        let mut shown = match self.anchor {
            Some(anchor) => self.from(anchor, chat, look, height),
            None => Vec::new(),
        };
        if self.anchor.is_none() || shown.len() < height {
            self.anchor = None;
            shown = self.last(chat, look, height);
        }
        self.forget();
        shown
    }

    /// The rows from a position on: fewer than `height` if the conversation ends before.
    fn from(&mut self, anchor: Anchor, chat: &ChatState, look: Look, height: usize) -> Vec<Line<'static>> {
        let mut shown = Vec::with_capacity(height);
        let mut next = Some(anchor.at);
        let mut skip = anchor.row;
        self.more_below = false;
        self.last_call = None;
        while let Some(at) = next {
            let rows = self.block(at, chat, look);
            for row in rows.iter().skip(skip) {
                if shown.len() == height {
                    self.more_below = true;
                    break;
                }
                shown.push(row.clone());
            }
            if self.more_below {
                break;
            }
            self.note_call(at, chat);
            skip = 0;
            next = self.after(at);
        }
        self.top = Some(anchor);
        self.at_top = anchor.row == 0 && self.before(anchor.at).is_none();
        shown
    }

    /// The last rows.
    fn last(&mut self, chat: &ChatState, look: Look, height: usize) -> Vec<Line<'static>> {
        let mut blocks = Vec::new();
        let mut have = 0;
        let mut next = self.end();
        self.last_call = None;
        self.at_top = true;
        while let Some(at) = next {
            let rows = self.block(at, chat, look);
            if self.last_call.is_none() {
                self.note_call(at, chat);
            }
            have += rows.len();
            blocks.push((at, rows));
            next = self.before(at);
            if have >= height {
                break;
            }
        }
        self.more_below = false;
        let surplus = have.saturating_sub(height);
        self.at_top = surplus == 0 && next.is_none();
        self.top = blocks.last().map(|(at, _)| Anchor { at: *at, row: surplus });
        let rows = blocks.iter().rev().flat_map(|(_, rows)| rows.iter().cloned());
        rows.skip(surplus).collect()
    }

    /// The rows after a block.
    pub(crate) fn tail(&mut self, printed: Position, chat: &ChatState, look: Look) -> Tail {
        self.frame += 1;
        let mut tail = Tail {
            printed,
            settled: Vec::new(),
            open: Vec::new(),
        };
        let mut next = self.after(printed);
        let mut settled = true;
        while let Some(at) = next {
            let rows = self.block(at, chat, look);
            settled &= self.is_settled(at, chat);
            if settled {
                tail.settled.extend(rows.iter().cloned());
                tail.printed = at;
            } else {
                tail.open.extend(rows.iter().cloned());
            }
            next = self.after(at);
        }
        self.forget();
        tail
    }

    /// Whether a block is final.
    fn is_settled(&self, at: Position, chat: &ChatState) -> bool {
        let Some(turn) = Shown::at(chat, at.turn) else {
            return true;
        };
        let entry = &self.turns[at.turn].entries[at.entry];
        match entry.what {
            EntryKind::Message | EntryKind::End => true,
            EntryKind::Part(_) if turn.end.is_some() => true,
            EntryKind::Part(index) => {
                let more_blocks = at.block + 1 < entry.blocks();
                let more_parts = index + 1 < turn.parts.len();
                turn.parts
                    .get(index)
                    .is_none_or(|part| entry::is_settled(part, more_blocks, more_parts))
            }
        }
    }

    /// Scrolls by this many rows, backwards if negative.
    pub(crate) fn scroll(&mut self, by: isize, chat: &ChatState, look: Look) {
        self.follow(chat);
        // Several keys may be pressed between two frames.
        let Some(mut anchor) = self.anchor.or(self.top) else {
            return;
        };
        let mut left = by;
        while left < 0 {
            let step = anchor.row.min(left.unsigned_abs());
            anchor.row -= step;
            left += step as isize;
            if left < 0 {
                let Some(before) = self.before(anchor.at) else { break };
                anchor = Anchor {
                    at: before,
                    row: self.block(before, chat, look).len(),
                };
            }
        }
        while left > 0 {
            let rows = self.block(anchor.at, chat, look).len();
            let step = rows.saturating_sub(anchor.row).min(left as usize);
            anchor.row += step;
            left -= step as isize;
            if anchor.row >= rows {
                let Some(after) = self.after(anchor.at) else { break };
                anchor = Anchor { at: after, row: 0 };
            }
        }
        self.anchor = Some(anchor);
    }

    pub(crate) fn jump_to_start(&mut self) {
        let first = Position::FIRST;
        let first = self.exists(first).then_some(first).or_else(|| self.after(first));
        self.anchor = first.map(|at| Anchor { at, row: 0 });
    }

    pub(crate) fn follow_end(&mut self) {
        self.anchor = None;
    }

    pub(crate) fn is_following(&self) -> bool {
        self.anchor.is_none()
    }

    /// Expands or collapses the last call on the screen. False if there is none.
    pub(crate) fn toggle_last(&mut self) -> bool {
        let Some(id) = self.last_call.clone() else { return false };
        if !self.toggled.remove(&id) {
            self.toggled.insert(id);
        }
        true
    }

    pub(crate) fn toggle_all(&mut self) {
        self.all_open = !self.all_open;
        self.toggled.clear();
    }

    fn is_open(&self, id: &str) -> bool {
        self.all_open != self.toggled.contains(id)
    }

    fn note_call(&mut self, at: Position, chat: &ChatState) {
        let part = Shown::at(chat, at.turn).and_then(|turn| match self.turns[at.turn].entries[at.entry].what {
            EntryKind::Part(index) => turn.parts.get(index),
            EntryKind::Message | EntryKind::End => None,
        });
        if let Some(id) = part.and_then(entry::opens) {
            self.last_call = Some(id.to_owned());
        }
    }

    /// The rows of a block, from the cache if it has not changed.
    fn block(&mut self, at: Position, chat: &ChatState, look: Look) -> Arc<Vec<Line<'static>>> {
        let empty = Arc::new(Vec::new());
        let Some(turn) = Shown::at(chat, at.turn) else {
            return empty;
        };
        // Another client may have rewound the conversation since this was read.
        let Some(view) = self.turns.get(at.turn).filter(|view| view.id == turn.id) else {
            return empty;
        };
        let Some(entry) = view.entries.get(at.entry) else {
            return empty;
        };
        let part = match entry.what {
            EntryKind::Part(index) => turn.parts.get(index),
            EntryKind::Message | EntryKind::End => None,
        };
        let open = part.and_then(entry::opens).is_some_and(|id| self.is_open(id));
        let stamp = entry.stamp(at.block, open, turn.is_live(entry.what));
        let key = (view.id.clone(), at.entry, at.block);
        if let Some(cached) = self.cache.get_mut(&key)
            && cached.stamp == stamp
        {
            cached.used = self.frame;
            return cached.rows.clone();
        }
        let above = at.entry.checked_sub(1).map(|before| &view.entries[before]);
        let mut rows = entry.rows(turn, above, at.block, open, look);
        if at.turn == 0 && at.entry == 0 && at.block == 0 && rows.first().is_some_and(|row| row.width() == 0) {
            rows.remove(0);
        }
        let rows = Arc::new(rows);
        let cached = Cached {
            stamp,
            used: self.frame,
            rows: rows.clone(),
        };
        self.cache.insert(key, cached);
        rows
    }

    fn forget(&mut self) {
        if self.cache.len() > KEPT {
            let frame = self.frame;
            self.cache.retain(|_, cached| cached.used == frame);
        }
    }

    fn exists(&self, at: Position) -> bool {
        let entry = self.turns.get(at.turn).and_then(|turn| turn.entries.get(at.entry));
        entry.is_some_and(|entry| at.block < entry.blocks())
    }

    fn after(&self, at: Position) -> Option<Position> {
        let mut next = Position {
            block: at.block + 1,
            ..at
        };
        while next.turn < self.turns.len() {
            if self.exists(next) {
                return Some(next);
            }
            next = match next.entry + 1 < self.turns[next.turn].entries.len() {
                true => Position {
                    entry: next.entry + 1,
                    block: 0,
                    ..next
                },
                false => Position {
                    turn: next.turn + 1,
                    entry: 0,
                    block: 0,
                },
            };
        }
        None
    }

    fn before(&self, at: Position) -> Option<Position> {
        let (mut turn, mut entry, mut block) = (at.turn, at.entry, at.block);
        loop {
            if block > 0 {
                return Some(Position {
                    turn,
                    entry,
                    block: block - 1,
                });
            }
            if entry > 0 {
                entry -= 1;
            } else {
                turn = turn.checked_sub(1)?;
                entry = self.turns[turn].entries.len().saturating_sub(1);
            }
            block = self.turns[turn].entries.get(entry).map_or(0, Entry::blocks);
        }
    }

    fn end(&self) -> Option<Position> {
        self.before(Position {
            turn: self.turns.len(),
            entry: 0,
            block: 0,
        })
    }

    /// Scrolls to the next block with these words, or to the previous one. False if there is none.
    pub(crate) fn search(&mut self, words: &str, back: bool, chat: &ChatState, look: Look) -> bool {
        self.follow(chat);
        let words = words.to_lowercase();
        let Some(top) = self.top.filter(|_| !words.is_empty()) else {
            return false;
        };
        let begin = top.at;
        let mut next = Some(begin);
        let mut first = true;
        while let Some(at) = next {
            if !self.may_have(at, chat, &words) {
                first = false;
                next = if back { self.before(at) } else { self.after(at) };
                continue;
            }
            let rows = self.block(at, chat, look);
            let found = |row: &Line| row.to_string().to_lowercase().contains(&words);
            let hit = match (first, back) {
                (true, true) => rows.iter().take(top.row).rposition(found),
                (true, false) => rows
                    .iter()
                    .skip(top.row + 1)
                    .position(found)
                    .map(|row| row + top.row + 1),
                (false, true) => rows.iter().rposition(found),
                (false, false) => rows.iter().position(found),
            };
            if let Some(row) = hit {
                self.anchor = Some(Anchor { at, row });
                return true;
            }
            first = false;
            next = if back { self.before(at) } else { self.after(at) };
            self.forget();
        }
        false
    }

    /// Which of the rows with these words is at the top of the screen, the first being 1, and how many such rows there are. Nothing
    /// where too much would have to be laid out to know.
    pub(crate) fn count(&mut self, words: &str, chat: &ChatState, look: Look) -> Option<(Option<usize>, usize)> {
        let words = words.to_lowercase();
        let (mut at_top, mut count, mut laid_out) = (None, 0, 0);
        let mut next = self
            .exists(Position::FIRST)
            .then_some(Position::FIRST)
            .or_else(|| self.after(Position::FIRST));
        while let Some(at) = next.filter(|_| !words.is_empty()) {
            if self.may_have(at, chat, &words) {
                laid_out += 1;
                if laid_out > COUNTED {
                    return None;
                }
                for (row, line) in self.block(at, chat, look).iter().enumerate() {
                    if line.to_string().to_lowercase().contains(&words) {
                        count += 1;
                        let is_top = self.anchor.is_some_and(|anchor| anchor.at == at && anchor.row == row);
                        at_top = at_top.or(is_top.then_some(count));
                    }
                }
                self.forget();
            }
            next = self.after(at);
        }
        Some((at_top, count))
    }

    /// Whether it is worth laying a block out to look for words in it.
    fn may_have(&self, at: Position, chat: &ChatState, words: &str) -> bool {
        let entry = self.turns.get(at.turn).and_then(|turn| turn.entries.get(at.entry));
        let text = Shown::at(chat, at.turn).and_then(|turn| entry?.source(turn, at.block));
        // Markdown's marks may be between the words that are searched for.
        text.is_none_or(|text| {
            text.to_lowercase()
                .replace(['*', '_', '`'], "")
                .contains(&words.replace(['*', '_', '`'], ""))
        })
    }

    #[cfg(test)]
    pub(crate) fn cached(&self) -> usize {
        self.cache.len()
    }
}

impl TurnView {
    fn follow(&mut self, turn: Shown) {
        if self.over {
            return;
        }
        if self.entries.is_empty() {
            self.entries.push(Entry::new(EntryKind::Message));
        }
        for (index, part) in turn.parts.iter().enumerate() {
            let at = index + 1;
            // If another part is at this position, the turn was read again.
            if self.entries.get(at).is_some_and(|entry| !entry.is_for(part)) {
                self.entries.truncate(at);
            }
            if at == self.entries.len() {
                self.entries.push(Entry::new(EntryKind::Part(index)));
            }
            self.entries[at].follow(part);
        }
        self.entries.truncate(turn.parts.len() + 1);
        if turn.end.is_some() {
            self.entries.push(Entry::new(EntryKind::End));
            self.over = true;
        }
    }
}
