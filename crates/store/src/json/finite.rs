//! Finds numbers that JSON cannot say.
//!
//! The JSON writer turns NaN and the infinities into `null` without a word, so that what is read back is not what
//! was stored. This serializer writes nothing: it only walks the value and objects to such a number.

use std::fmt;

use serde::Serialize;
use serde::ser::{self, Serializer};

pub(super) fn check(value: &(impl Serialize + ?Sized)) -> Result<(), NotFinite> {
    value.serialize(Finite)
}

#[derive(Debug)]
pub(super) struct NotFinite(String);

impl fmt::Display for NotFinite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotFinite {}

impl ser::Error for NotFinite {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

#[derive(Clone, Copy)]
struct Finite;

type Outcome = Result<(), NotFinite>;

macro_rules! harmless {
    ($($method:ident: $type:ty),* $(,)?) => {
        $(fn $method(self, _: $type) -> Outcome { Ok(()) })*
    };
}

impl Serializer for Finite {
    type Ok = ();
    type Error = NotFinite;
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
        if number.is_finite() { Ok(()) } else { Err(NotFinite(format!("the number {number} is not finite"))) }
    }

    fn serialize_none(self) -> Outcome {
        Ok(())
    }

    fn serialize_unit(self) -> Outcome {
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Outcome {
        value.serialize(self)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Outcome {
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Outcome {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Outcome {
        value.serialize(self)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self, NotFinite> {
        Ok(self)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self, NotFinite> {
        Ok(self)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self, NotFinite> {
        Ok(self)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, NotFinite> {
        Ok(self)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self, NotFinite> {
        Ok(self)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, NotFinite> {
        Ok(self)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, NotFinite> {
        Ok(self)
    }
}

macro_rules! walks_items {
    ($($trait:ident::$method:ident),* $(,)?) => {
        $(impl ser::$trait for Finite {
            type Ok = ();
            type Error = NotFinite;

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
        $(impl ser::$trait for Finite {
            type Ok = ();
            type Error = NotFinite;

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

impl ser::SerializeMap for Finite {
    type Ok = ();
    type Error = NotFinite;

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
