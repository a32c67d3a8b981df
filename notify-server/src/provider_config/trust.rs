//! `ca_certificate`: roots trusted beside the system's, for all connections of one provider.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// Certificates, read and known to be usable as roots. Equal texts are equal trust.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct ExtraRoots {
    pem: Arc<str>,
}

impl ExtraRoots {
    /// Reads PEM.
    ///
    /// # Errors
    /// The rule that the text breaks.
    pub(crate) fn parse(pem: &str) -> Result<Self, &'static str> {
        let roots = Self { pem: pem.into() };
        let mut store = RootCertStore::empty();
        roots.add_to(&mut store).map_err(|()| "must be certificates in PEM form")?;
        if store.is_empty() {
            return Err("must hold at least one certificate in PEM form");
        }
        Ok(roots)
    }

    /// Adds the certificates to a store.
    pub(crate) fn add_to(&self, store: &mut RootCertStore) -> Result<(), ()> {
        for certificate in CertificateDer::pem_slice_iter(self.pem.as_bytes()) {
            store.add(certificate.map_err(drop)?).map_err(drop)?;
        }
        Ok(())
    }

    /// The text as it was given; certificates are no secret.
    #[must_use]
    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }
}

impl std::fmt::Debug for ExtraRoots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExtraRoots").finish_non_exhaustive()
    }
}
