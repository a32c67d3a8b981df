//! Writes each handle twice, asynchronous and blocking, from one list of its calls, so that the
//! two cannot differ.

/// Defines the handle of a resource. Each line is a method: its arguments, its answer, and the
/// `Result<Call<_>, Error>` that both transports execute.
macro_rules! handle {
    (
        $(#[$about:meta])*
        $name:ident from $maker:ident;
        $(
            $(#[$doc:meta])*
            fn $method:ident($($argument:ident: $type:ty),*) -> $answer:ty = $call:expr;
        )*
        $(pages {$(
            $(#[$pages_doc:meta])*
            fn $pages:ident($($pages_argument:ident: $pages_type:ty),*) -> $page:ty = $first:expr;
        )*})?
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone)]
        pub struct $name<'a> {
            client: &'a crate::Client,
            idempotency_key: Option<String>,
        }

        impl crate::Client {
            $(#[$about])*
            #[must_use]
            pub fn $maker(&self) -> $name<'_> {
                $name { client: self, idempotency_key: None }
            }
        }

        impl<'a> $name<'a> {
            /// Takes this `Idempotency-Key` (1 to 255 visible ASCII characters) for the next call in
            /// place of a fresh one, so that the call is done once even across runs of the program.
            /// Calls that are no `POST` under `/v1` leave it out.
            #[must_use]
            pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
                self.idempotency_key = Some(key.into());
                self
            }

            $(
                $(#[$doc])*
                pub async fn $method(&self, $($argument: $type),*) -> Result<$answer, crate::Error> {
                    self.client.send($call, self.idempotency_key.as_deref()).await
                }
            )*

            $($(
                $(#[$pages_doc])*
                pub fn $pages(&self, $($pages_argument: $pages_type),*) -> crate::Pages<'a, $page> {
                    crate::Pages::new(self.client, $first)
                }
            )*)?
        }

        #[cfg(feature = "blocking")]
        pub(crate) mod blocking {
            //! The blocking form of the handle above.

            #[allow(unused_imports, reason = "not every handle names every model of its file")]
            use super::*;

            #[doc = concat!("The blocking form of [`crate::", stringify!($name), "`].")]
            #[derive(Debug, Clone)]
            pub struct $name<'a> {
                client: &'a crate::blocking::Client,
                idempotency_key: Option<String>,
            }

            impl crate::blocking::Client {
                #[doc = concat!("The blocking form of [`crate::Client::", stringify!($maker), "`].")]
                #[must_use]
                pub fn $maker(&self) -> $name<'_> {
                    $name { client: self, idempotency_key: None }
                }
            }

            impl<'a> $name<'a> {
                #[doc = concat!(
                    "The blocking form of [`crate::", stringify!($name), "::idempotency_key`]."
                )]
                #[must_use]
                pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
                    self.idempotency_key = Some(key.into());
                    self
                }

                $(
                    #[doc = concat!(
                        "The blocking form of [`crate::", stringify!($name), "::",
                        stringify!($method), "`], which says more."
                    )]
                    ///
                    /// # Errors
                    /// As there.
                    pub fn $method(&self, $($argument: $type),*) -> Result<$answer, crate::Error> {
                        self.client.send($call, self.idempotency_key.as_deref())
                    }
                )*

                $($(
                    #[doc = concat!(
                        "The blocking form of [`crate::", stringify!($name), "::",
                        stringify!($pages), "`], which says more."
                    )]
                    pub fn $pages(
                        &self,
                        $($pages_argument: $pages_type),*
                    ) -> crate::blocking::Pages<'a, $page> {
                        crate::blocking::Pages::new(self.client, $first)
                    }
                )*)?
            }
        }
    };
}
pub(crate) use handle;
