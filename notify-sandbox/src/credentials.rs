//! The keys and certificates of a sandbox. A sandbox generates them when it starts, and only this sandbox
//! accepts them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, OnceLock};

use aws_lc_rs::encoding::{AsBigEndian, AsDer, EcPrivateKeyBin, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde::{Deserialize, Serialize};

/// The length of a base64 line in a PEM file (RFC 7468 section 2).
const PEM_COLUMNS: usize = 64;

/// Why a sandbox does not start.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The listener has no address.
    #[error("the listener has no address")]
    Listener(#[source] std::io::Error),
    /// A certificate cannot be generated.
    #[error("cannot make a certificate")]
    Certificate(#[from] rcgen::Error),
    /// A key cannot be generated.
    #[error("cannot make a key")]
    Key(#[from] aws_lc_rs::error::Unspecified),
    /// TLS rejects the certificate.
    #[error("cannot set up TLS")]
    Tls(#[from] rustls::Error),
    /// The runtime stopped during the start.
    #[error("interrupted while starting")]
    Interrupted,
}

/// An APNs signing key and its team.
pub(crate) struct ApnsKey {
    pub(crate) team_id: &'static str,
    pub(crate) key_id: &'static str,
    pub(crate) private_key_pem: String,
    pub(crate) public_key: Vec<u8>,
}

/// The contents of a Google service account file, and the public key of the account.
pub(crate) struct ServiceAccount {
    pub(crate) project_id: &'static str,
    pub(crate) private_key_id: &'static str,
    pub(crate) client_email: &'static str,
    pub(crate) private_key_pem: String,
    pub(crate) public_key: Vec<u8>,
}

/// The VAPID key of [`super::Sandbox::webpush_config`].
pub(crate) struct VapidKey {
    /// The private scalar in base64url.
    pub(crate) private_key: String,
    /// The public key as an uncompressed point.
    pub(crate) public_key: Vec<u8>,
}

/// The credentials of a Messenger page and of the app that sends for the page.
pub(crate) struct Page {
    pub(crate) access_token: String,
    pub(crate) app_secret: String,
    pub(crate) verify_token: String,
}

/// A Telegram bot.
pub(crate) struct Bot {
    pub(crate) id: u64,
    pub(crate) token: String,
    pub(crate) webhook_secret: String,
}

/// All keys and certificates.
pub(crate) struct Credentials {
    pub(crate) ca_pem: String,
    pub(crate) tls: Certificates,
    pub(crate) apns_keys: [ApnsKey; 2],
    pub(crate) service_account: ServiceAccount,
    pub(crate) vapid: VapidKey,
    pub(crate) page: Page,
    pub(crate) bot: Bot,
}

impl Credentials {
    /// Generates all keys and certificates; with `uses_fixed_rsa_key` all but the RSA key. The certificate names
    /// `listen`, the loopback addresses and `host`.
    pub(crate) fn generate(
        listen: IpAddr,
        host: Option<&str>,
        uses_fixed_rsa_key: bool,
    ) -> Result<Self, SandboxError> {
        let (ca_pem, tls) = Certificates::generate(listen, host)?;
        let rsa = if uses_fixed_rsa_key { fixed_rsa_key()? } else { rsa_key()?.clone() };
        Ok(Self {
            ca_pem,
            tls,
            apns_keys: [
                apns_key("SANDBOXONE", "SANDBOXKEY")?,
                apns_key("SANDBOXTWO", "SANDBOXKY2")?,
            ],
            service_account: ServiceAccount {
                project_id: "notify-sandbox",
                private_key_id: "5a6d626f784b65793031",
                client_email: "notify@notify-sandbox.iam.gserviceaccount.com",
                private_key_pem: rsa.private_key_pem,
                public_key: rsa.public_key,
            },
            vapid: vapid_key()?,
            page: Page {
                access_token: format!("EAASANDBOX{}", secret(60)),
                app_secret: secret(32),
                verify_token: secret(16),
            },
            bot: bot(),
        })
    }
}

fn bot() -> Bot {
    let id = 7_000_000_000 + u64::from(fastrand::u32(..1_000_000_000));
    Bot { id, token: format!("{id}:{}", secret(35)), webhook_secret: secret(32) }
}

/// A random alphanumeric secret of `chars` characters.
fn secret(chars: usize) -> String {
    (0..chars).map(|_| fastrand::alphanumeric()).collect()
}

fn apns_key(team_id: &'static str, key_id: &'static str) -> Result<ApnsKey, SandboxError> {
    let key = KeyPair::generate()?;
    Ok(ApnsKey {
        team_id,
        key_id,
        private_key_pem: key.serialize_pem(),
        public_key: key.public_key_raw().to_vec(),
    })
}

fn vapid_key() -> Result<VapidKey, SandboxError> {
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING)?;
    let private: EcPrivateKeyBin<'_> = pair.private_key().as_be_bytes()?;
    Ok(VapidKey {
        private_key: URL_SAFE_NO_PAD.encode(private.as_ref()),
        public_key: pair.public_key().as_ref().to_vec(),
    })
}

#[derive(Clone)]
struct RsaKey {
    private_key_pem: String,
    public_key: Vec<u8>,
}

/// The RSA key that all sandboxes of a process share. Generating it takes up to a second, and tests start
/// many sandboxes.
fn rsa_key() -> Result<&'static RsaKey, SandboxError> {
    static KEY: OnceLock<RsaKey> = OnceLock::new();
    if let Some(key) = KEY.get() {
        return Ok(key);
    }
    let key = RsaKey::of(&RsaKeyPair::generate(KeySize::Rsa2048)?)?;
    Ok(KEY.get_or_init(|| key))
}

/// The RSA key that is part of this crate. It protects nothing: only sandboxes of tests accept it.
fn fixed_rsa_key() -> Result<RsaKey, SandboxError> {
    let pkcs8 = include_bytes!("service_account.pk8");
    RsaKey::of(&RsaKeyPair::from_pkcs8(pkcs8).expect("the file has an RSA key in PKCS #8"))
}

impl RsaKey {
    fn of(pair: &RsaKeyPair) -> Result<Self, SandboxError> {
        let der: Pkcs8V1Der<'_> = pair.as_der()?;
        let public_key = pair.public_key().as_ref().to_vec();
        Ok(Self { private_key_pem: pem(der.as_ref()), public_key })
    }
}

fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut pem = String::from("-----BEGIN PRIVATE KEY-----\n");
    for (index, character) in text.chars().enumerate() {
        if index > 0 && index % PEM_COLUMNS == 0 {
            pem.push('\n');
        }
        pem.push(character);
    }
    pem.push_str("\n-----END PRIVATE KEY-----\n");
    pem
}

/// The year in which the expired certificate expired.
const EXPIRED_YEAR: i32 = 2_001;

/// A certificate for new connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Certificate {
    /// A valid certificate of the authority that clients trust.
    #[default]
    Good,
    /// An expired certificate.
    Expired,
    /// A certificate for another host name.
    Elsewhere,
    /// A certificate of an unknown authority.
    Stranger,
}

/// A TLS configuration for each certificate.
pub(crate) struct Certificates {
    good: Arc<ServerConfig>,
    expired: Arc<ServerConfig>,
    elsewhere: Arc<ServerConfig>,
    unknown_authority: Arc<ServerConfig>,
}

type Authority = Issuer<'static, KeyPair>;

impl Certificates {
    /// Generates the certificates. Returns the trusted authority's certificate as PEM with them.
    pub(crate) fn generate(
        listen: IpAddr,
        host: Option<&str>,
    ) -> Result<(String, Self), SandboxError> {
        let (ca_pem, authority) = generate_authority("Notify sandbox CA")?;
        let (_, unknown_authority) = generate_authority("Unknown CA")?;
        let mut names = vec![
            "localhost".to_owned(),
            Ipv4Addr::LOCALHOST.to_string(),
            Ipv6Addr::LOCALHOST.to_string(),
        ];
        if !listen.is_loopback() && !listen.is_unspecified() {
            names.push(listen.to_string());
        }
        names.extend(host.map(str::to_owned));
        let leaf = CertificateParams::new(names)?;
        let mut expired = leaf.clone();
        expired.not_before = rcgen::date_time_ymd(EXPIRED_YEAR - 1, 1, 1);
        expired.not_after = rcgen::date_time_ymd(EXPIRED_YEAR, 1, 1);
        let elsewhere = CertificateParams::new(vec!["elsewhere.example".to_owned()])?;
        let certificates = Self {
            good: server_config(leaf.clone(), &authority)?,
            expired: server_config(expired, &authority)?,
            elsewhere: server_config(elsewhere, &authority)?,
            unknown_authority: server_config(leaf, &unknown_authority)?,
        };
        Ok((ca_pem, certificates))
    }

    pub(crate) fn get(&self, certificate: Certificate) -> &Arc<ServerConfig> {
        match certificate {
            Certificate::Good => &self.good,
            Certificate::Expired => &self.expired,
            Certificate::Elsewhere => &self.elsewhere,
            Certificate::Stranger => &self.unknown_authority,
        }
    }
}

/// A certificate authority, and its certificate as PEM.
fn generate_authority(name: &str) -> Result<(String, Authority), SandboxError> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    authority.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate()?;
    let pem = authority.self_signed(&key)?.pem();
    Ok((pem, Issuer::new(authority, key)))
}

fn server_config(
    mut leaf: CertificateParams,
    authority: &Authority,
) -> Result<Arc<ServerConfig>, SandboxError> {
    leaf.distinguished_name.push(DnType::CommonName, "Notify sandbox");
    let leaf_key = KeyPair::generate()?;
    let certificate = leaf.signed_by(&leaf_key, authority)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(leaf_key.serialize_der()));
    // The default provider panics when the build contains a second provider.
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut tls = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)?;
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(tls))
}
