//! Structures as lists of fields, from which every offset follows.
//!
//! `docs/format.md` shows the same lists as tables; a test compares them.

/// A field of a structure on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    pub name: &'static str,
    /// Bytes from the structure's beginning.
    pub offset: usize,
    /// In bytes.
    pub width: usize,
}

impl Field {
    /// The field as an unsigned integer.
    #[inline]
    pub(super) fn get(self, bytes: &[u8]) -> u64 {
        let mut wide = [0; 8];
        wide[..self.width].copy_from_slice(self.of(bytes));
        u64::from_le_bytes(wide)
    }

    /// Sets the field to an unsigned integer.
    ///
    /// # Panics
    /// When the value does not fit the field.
    #[inline]
    pub(super) fn set(self, bytes: &mut [u8], value: u64) {
        let wide = value.to_le_bytes();
        assert!(wide[self.width..].iter().all(|&b| b == 0), "{value} does not fit the field {}", self.name);
        self.of_mut(bytes).copy_from_slice(&wide[..self.width]);
    }

    /// The field's bytes.
    #[inline]
    pub(super) fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.offset..][..self.width]
    }

    /// The field's bytes, to be written.
    #[inline]
    pub(super) fn of_mut(self, bytes: &mut [u8]) -> &mut [u8] {
        &mut bytes[self.offset..][..self.width]
    }

    /// The field's bytes, where their number is known.
    pub(super) fn array<const N: usize>(self, bytes: &[u8]) -> [u8; N] {
        self.of(bytes).try_into().unwrap_or_else(|_| panic!("the field {} has {} bytes, not {N}", self.name, self.width))
    }
}

/// A structure on the medium.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Its heading in `docs/format.md`.
    pub title: &'static str,
    pub bytes: usize,
    pub fields: &'static [Field],
}

/// Declares a module with a `Field` for each line and the `LAYOUT` of them all, without gaps.
macro_rules! layout {
    ($(#[$doc:meta])* $module:ident, $title:literal, $bytes:expr; $($field:ident $width:expr,)*) => {
        $(#[$doc])*
        pub mod $module {
            #[allow(unused_imports, reason = "widths may be constants of the module around")]
            use super::*;
            use $crate::format::layout::{Field, Layout};
            layout!(@fields 0; $($field $width,)*);
            pub const LAYOUT: Layout = Layout { title: $title, bytes: $bytes, fields: &[$($field),*] };
            const _: () = {
                let last = LAYOUT.fields[LAYOUT.fields.len() - 1];
                assert!(last.offset + last.width == $bytes, "the fields fill the structure");
            };
        }
    };
    (@fields $offset:expr; $field:ident $width:expr, $($rest:tt)*) => {
        pub const $field: Field = Field { name: stringify!($field), offset: $offset, width: $width };
        layout!(@fields $field.offset + $field.width; $($rest)*);
    };
    (@fields $offset:expr;) => {};
}
pub(super) use layout;

/// Every structure that `docs/format.md` shows.
pub const LAYOUTS: &[Layout] = &[
    super::superblock::at::LAYOUT,
    super::superblock::at_extent::LAYOUT,
    super::superblock::at_range::LAYOUT,
    super::superblock::at_class::LAYOUT,
    super::anchor::at::LAYOUT,
    super::guard::at::LAYOUT,
    super::page::at::LAYOUT,
    super::page::at_place::LAYOUT,
    super::unit::at::LAYOUT,
    super::places::at::LAYOUT,
    super::unit::at_slot::LAYOUT,
];
