//! Generates each resource handle twice, asynchronous and blocking, from one list of its calls, so that
//! the two forms cannot differ.

/// Defines the handle of a resource. A method is declared with its arguments, the type of its decoded
/// response, and the `Result<Call<_>, Error>` that both transports execute. A `paged` entry defines two
/// methods for the same call: the first returns one page, and the second iterates over all items.
macro_rules! handle {
    (
        $(#[$about:meta])*
        $name:ident from $maker:ident;
        $(
            $(#[$doc:meta])*
            fn $method:ident($($argument:ident: $type:ty),*) -> $output:ty = $call:expr;
        )*
        $(paged {
            $(#[$page_doc:meta])*
            fn $page:ident;
            $(#[$all_doc:meta])*
            fn $all:ident;
            ($($paged_argument:ident: $paged_type:ty),*) -> $list:ty = $paged_call:expr;
        })*
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
            /// Sets the `Idempotency-Key` (1 to 255 visible ASCII characters) of a `POST` under `/v1`, instead
            /// of a generated one. The call is then executed only once, even if the program restarts and
            /// repeats it. The key stays in this handle: use the handle for one call.
            #[must_use]
            pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
                self.idempotency_key = Some(key.into());
                self
            }

            $(
                $(#[$doc])*
                pub async fn $method(&self, $($argument: $type),*) -> Result<$output, crate::Error> {
                    self.client.send(&$call?, self.idempotency_key.as_deref()).await
                }
            )*

            $(
                $(#[$page_doc])*
                pub async fn $page(&self, $($paged_argument: $paged_type),*) -> Result<$list, crate::Error> {
                    self.client.send(&$paged_call?, None).await
                }

                $(#[$all_doc])*
                pub fn $all(&self, $($paged_argument: $paged_type),*) -> crate::Pages<'a, $list> {
                    crate::Pages::new(self.client, $paged_call)
                }
            )*
        }

        #[cfg(feature = "blocking")]
        pub(crate) mod $maker {
            //! The blocking form of the handle above. The module has the name of the method that
            //! returns the handle, because a file can define several handles.

            #[allow(unused_imports, reason = "not every handle uses every import of its file")]
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
                        stringify!($method), "`]."
                    )]
                    ///
                    /// # Errors
                    /// The same as those of the asynchronous form.
                    pub fn $method(&self, $($argument: $type),*) -> Result<$output, crate::Error> {
                        self.client.send(&$call?, self.idempotency_key.as_deref())
                    }
                )*

                $(
                    #[doc = concat!(
                        "The blocking form of [`crate::", stringify!($name), "::",
                        stringify!($page), "`]."
                    )]
                    ///
                    /// # Errors
                    /// The same as those of the asynchronous form.
                    pub fn $page(&self, $($paged_argument: $paged_type),*) -> Result<$list, crate::Error> {
                        self.client.send(&$paged_call?, None)
                    }

                    #[doc = concat!(
                        "The blocking form of [`crate::", stringify!($name), "::",
                        stringify!($all), "`]."
                    )]
                    pub fn $all(
                        &self,
                        $($paged_argument: $paged_type),*
                    ) -> crate::blocking::Pages<'a, $list> {
                        crate::blocking::Pages::new(self.client, $paged_call)
                    }
                )*
            }
        }
    };
}
pub(crate) use handle;
