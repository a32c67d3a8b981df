//! The certificates that a sandbox shows: the one that clients are told to trust, and those that no
//! client may take.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde::{Deserialize, Serialize};

use super::credentials::SandboxError;

/// The year in which the certificate that is over was over.
const YEAR_OVER: i32 = 2_001;

/// Which certificate new connections are shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Certificate {
    /// The one for its names, of the authority that clients are told to trust.
    #[default]
    Good,
    /// One that is over.
    Expired,
    /// One for another name.
    Elsewhere,
    /// One of an authority that nobody knows.
    Stranger,
}

/// A TLS configuration for each.
pub(super) struct Certificates {
    good: Arc<ServerConfig>,
    expired: Arc<ServerConfig>,
    elsewhere: Arc<ServerConfig>,
    stranger: Arc<ServerConfig>,
}

type Authority = Issuer<'static, KeyPair>;

impl Certificates {
    /// Makes them, and the certificate of the authority as PEM; `listen` joins the loopback names.
    pub(super) fn generate(listen: IpAddr) -> Result<(String, Self), SandboxError> {
        let (ca_pem, authority) = made("Notify sandbox CA")?;
        let (_, stranger) = made("Nobody's CA")?;
        let mut names = vec![
            "localhost".to_owned(),
            Ipv4Addr::LOCALHOST.to_string(),
            Ipv6Addr::LOCALHOST.to_string(),
        ];
        if !listen.is_loopback() && !listen.is_unspecified() {
            names.push(listen.to_string());
        }
        let leaf = CertificateParams::new(names)?;
        let mut expired = leaf.clone();
        expired.not_before = rcgen::date_time_ymd(YEAR_OVER - 1, 1, 1);
        expired.not_after = rcgen::date_time_ymd(YEAR_OVER, 1, 1);
        let elsewhere = CertificateParams::new(vec!["elsewhere.example".to_owned()])?;
        let certificates = Self {
            good: serving(leaf.clone(), &authority)?,
            expired: serving(expired, &authority)?,
            elsewhere: serving(elsewhere, &authority)?,
            stranger: serving(leaf, &stranger)?,
        };
        Ok((ca_pem, certificates))
    }

    /// What a connection is served with.
    pub(super) fn get(&self, certificate: Certificate) -> &Arc<ServerConfig> {
        match certificate {
            Certificate::Good => &self.good,
            Certificate::Expired => &self.expired,
            Certificate::Elsewhere => &self.elsewhere,
            Certificate::Stranger => &self.stranger,
        }
    }
}

/// An authority of that name, and its certificate as PEM.
fn made(name: &str) -> Result<(String, Authority), SandboxError> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    authority.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate()?;
    let pem = authority.self_signed(&key)?.pem();
    Ok((pem, Issuer::new(authority, key)))
}

fn serving(
    mut leaf: CertificateParams,
    authority: &Authority,
) -> Result<Arc<ServerConfig>, SandboxError> {
    leaf.distinguished_name.push(DnType::CommonName, "Notify sandbox");
    let leaf_key = KeyPair::generate()?;
    let certificate = leaf.signed_by(&leaf_key, authority)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(leaf_key.serialize_der()));
    // The provider is named: a second one in the build would make the default a panic.
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut tls = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)?;
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(tls))
}
