//! Fields, and the macro that declares a list of them.

/// A field of a structure on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    pub name: &'static str,
    /// Bytes from the structure's beginning.
    pub offset: usize,
    /// Its width in bytes.
    pub width: usize,
}

impl Field {
    /// The field as an unsigned integer.
    #[inline]
    pub(in crate::format) fn get(self, bytes: &[u8]) -> u64 {
        let mut wide = [0; 8];
        wide[..self.width].copy_from_slice(self.of(bytes));
        u64::from_le_bytes(wide)
    }

    /// The field as an unsigned integer of 32 bits.
    ///
    /// # Panics
    /// When the field has another width.
    #[inline]
    pub(in crate::format) fn word(self, bytes: &[u8]) -> u32 {
        u32::from_le_bytes(self.array(bytes))
    }

    /// The two numbers of a field that holds a pair of them.
    pub(in crate::format) const fn halves(self) -> (Self, Self) {
        let width = self.width / 2;
        (Self { width, ..self }, Self { width, offset: self.offset + width, ..self })
    }

    /// Sets the field to an unsigned integer.
    ///
    /// # Panics
    /// When the value does not fit the field.
    #[inline]
    pub(in crate::format) fn set(self, bytes: &mut [u8], value: u64) {
        let wide = value.to_le_bytes();
        assert!(wide[self.width..].iter().all(|&b| b == 0), "{value} does not fit the field {}", self.name);
        self.of_mut(bytes).copy_from_slice(&wide[..self.width]);
    }

    /// The field's bytes.
    #[inline]
    pub(in crate::format) fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.offset..][..self.width]
    }

    /// The field's bytes, to be written.
    #[inline]
    pub(in crate::format) fn of_mut(self, bytes: &mut [u8]) -> &mut [u8] {
        &mut bytes[self.offset..][..self.width]
    }

    /// The field's bytes, where their number is known.
    #[inline]
    pub(in crate::format) fn array<const N: usize>(self, bytes: &[u8]) -> [u8; N] {
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
pub(in crate::format) use layout;
