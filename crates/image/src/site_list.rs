//! The sites of an image as a list for people and tools: `selvedge sites`.
//!
//! Lines are looked up as the list is walked, so listing the first ten of a million costs ten.

use selvedge_events::hooks::Hook;
use selvedge_events::site_table::{Entry, Form};
use serde::{Serialize, Serializer};

use crate::lines::{Frame, Symboliser};

/// One site with its place in the source.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SiteInfo {
    /// Its number in the image's table.
    pub ordinal: u32,
    /// From the load base.
    pub offset: u32,
    /// The hook that it calls; by name when serialised.
    #[serde(serialize_with = "hook_name")]
    pub hook: &'static Hook,
    /// How it calls it.
    #[serde(serialize_with = "form_name")]
    pub form: Form,
    /// The function whose frame the site runs in (not one inlined into it), where known.
    pub function: Option<String>,
    /// The inline stack, innermost first.
    pub frames: Vec<Frame>,
}

/// The sites of one image, symbolised on demand.
#[derive(Clone, Copy, Debug)]
pub struct SiteList<'a> {
    entries: &'a [Entry],
    symboliser: &'a Symboliser,
}

impl<'a> SiteList<'a> {
    /// A list over sorted entries of the symboliser's image.
    pub fn new(entries: &'a [Entry], symboliser: &'a Symboliser) -> SiteList<'a> {
        SiteList { entries, symboliser }
    }

    /// Number of sites.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The site with this ordinal.
    pub fn get(&self, ordinal: u32) -> Option<SiteInfo> {
        let entry = self.entries.get(ordinal as usize)?;
        let offset = u64::from(entry.offset);
        Some(SiteInfo {
            ordinal,
            offset: entry.offset,
            hook: entry.hook.get()?,
            form: entry.form,
            function: self.symboliser.functions().at(offset).map(crate::functions::Function::name),
            frames: self.symboliser.frames(offset),
        })
    }

    /// The site at exactly this offset.
    pub fn at(&self, offset: u32) -> Option<SiteInfo> {
        let ordinal = self.entries.binary_search_by_key(&offset, |entry| entry.offset).ok()?;
        self.get(u32::try_from(ordinal).ok()?)
    }

    /// All sites, in order of offset.
    pub fn iter(&self) -> impl Iterator<Item = SiteInfo> + '_ {
        (0_u32..).zip(self.entries).filter_map(|(ordinal, _)| self.get(ordinal))
    }
}

fn hook_name<S: Serializer>(hook: &&'static Hook, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(hook.name)
}

fn form_name<S: Serializer>(form: &Form, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(match form {
        Form::Call => "call",
        Form::CallPrefixed => "call-prefixed",
        Form::CallIndirect => "call-indirect",
        Form::Jump => "jump",
        Form::JumpIndirect => "jump-indirect",
    })
}
