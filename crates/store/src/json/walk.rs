//! A serializer that validates: it finds numbers that JSON cannot express and values that are too
//! deep.
//!
//! The JSON writer silently turns NaN and the infinities into `null`, so that what is read back
//! differs from what was stored; and it recurses as deep as the value does, past the end of the
//! stack. This serializer writes nothing. It only walks the value, and no deeper than JSON may be.

use std::fmt;

use serde::Serialize;
use serde::ser::{self, Serializer};

use crate::limits;

pub(super) fn check(value: &(impl Serialize + ?Sized)) -> Result<(), Unwritable> {
    value.serialize(Walk { depth: 0, wrappers: 0 })
}

/// Why a value cannot be written.
#[derive(Debug)]
pub(super) enum Unwritable {
    /// It exceeds a depth limit, which this names.
    TooDeep(String),
    /// It contains a number that is not finite, or its own serializer refused.
    Unfit(String),
}

impl fmt::Display for Unwritable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooDeep(reason) | Self::Unfit(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for Unwritable {}

impl ser::Error for Unwritable {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Unfit(message.to_string())
    }
}

/// The prefix of the structures that tell the JSON writer to write text and numbers verbatim; they
/// add no level.
const VERBATIM: &str = "$serde_json::private::";

#[derive(Clone, Copy)]
struct Walk {
    /// Enclosing arrays and objects.
    depth: usize,
    /// Enclosing options and newtypes, which JSON does not show.
    wrappers: usize,
}

impl Walk {
    /// Enters this many levels.
    fn deeper(self, levels: usize) -> Result<Self, Unwritable> {
        let depth = self.depth + levels;
        match depth > limits::JSON_DEPTH {
            true => Err(Unwritable::TooDeep(super::too_deep())),
            false => Ok(Self { depth, ..self }),
        }
    }

    /// Enters one wrapper.
    fn wrapped(self) -> Result<Self, Unwritable> {
        let wrappers = self.wrappers + 1;
        match wrappers > limits::JSON_WRAPPERS {
            true => Err(Unwritable::TooDeep(format!(
                "options and newtypes are too deep; the limit is {} of them inside each other",
                limits::JSON_WRAPPERS
            ))),
            false => Ok(Self { wrappers, ..self }),
        }
    }
}

type Outcome = Result<(), Unwritable>;

macro_rules! harmless {
    ($($method:ident: $type:ty),* $(,)?) => {
        $(fn $method(self, _: $type) -> Outcome { Ok(()) })*
    };
}

impl Serializer for Walk {
    type Ok = ();
    type Error = Unwritable;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    harmless! {
        serialize_bool: bool, serialize_char: char, serialize_str: &str, serialize_bytes: &[u8],
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_i128: i128,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_u128: u128,
        serialize_unit_struct: &'static str,
    }

    fn serialize_f32(self, number: f32) -> Outcome {
        self.serialize_f64(number.into())
    }

    fn serialize_f64(self, number: f64) -> Outcome {
        if number.is_finite() {
            Ok(())
        } else {
            Err(Unwritable::Unfit(format!("the number {number} is not finite")))
        }
    }

    fn serialize_none(self) -> Outcome {
        Ok(())
    }

    fn serialize_unit(self) -> Outcome {
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Outcome {
        value.serialize(self.wrapped()?)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Outcome {
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Outcome {
        value.serialize(self.wrapped()?)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Outcome {
        value.serialize(self.deeper(1)?)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self, Unwritable> {
        self.deeper(1)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self, Unwritable> {
        self.deeper(1)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self, Unwritable> {
        self.deeper(1)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, Unwritable> {
        self.deeper(2)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self, Unwritable> {
        self.deeper(1)
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Self, Unwritable> {
        if name.starts_with(VERBATIM) { Ok(self) } else { self.deeper(1) }
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, Unwritable> {
        self.deeper(2)
    }
}

macro_rules! walks_items {
    ($($trait:ident::$method:ident),* $(,)?) => {
        $(impl ser::$trait for Walk {
            type Ok = ();
            type Error = Unwritable;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Outcome {
                value.serialize(*self)
            }

            fn end(self) -> Outcome {
                Ok(())
            }
        })*
    };
}

walks_items! {
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field,
}

macro_rules! walks_fields {
    ($($trait:ident),* $(,)?) => {
        $(impl ser::$trait for Walk {
            type Ok = ();
            type Error = Unwritable;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, _: &'static str, value: &T) -> Outcome {
                value.serialize(*self)
            }

            fn end(self) -> Outcome {
                Ok(())
            }
        })*
    };
}

walks_fields! { SerializeStruct, SerializeStructVariant }

impl ser::SerializeMap for Walk {
    type Ok = ();
    type Error = Unwritable;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Outcome {
        key.serialize(*self)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Outcome {
        value.serialize(*self)
    }

    fn end(self) -> Outcome {
        Ok(())
    }
}
