//! Enums of the library with a schema for the OpenAPI document.

/// Declares an enum with the variants of another, and the conversions between them.
macro_rules! mirror {
    ($(#[$doc:meta])* $dto:ident as $schema:ident of $of:ty { $($variant:ident),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
        #[serde(rename_all = "snake_case")]
        #[schema(as = $schema)]
        pub(crate) enum $dto {
            $($variant,)*
        }

        impl From<$of> for $dto {
            fn from(of: $of) -> Self {
                match of {
                    $(<$of>::$variant => Self::$variant,)*
                }
            }
        }

        impl From<$dto> for $of {
            fn from(dto: $dto) -> Self {
                match dto {
                    $($dto::$variant => Self::$variant,)*
                }
            }
        }
    };
}

pub(super) use mirror;
