//! The keys and certificates of a sandbox: made at its start, worth nothing anywhere else.

use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;

use aws_lc_rs::encoding::{AsBigEndian, AsDer, EcPrivateKeyBin, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rcgen::KeyPair;

use super::certificates::Certificates;

/// Columns of base64 in a PEM file (RFC 7468 section 2).
const PEM_COLUMNS: usize = 64;

/// Why a sandbox does not start.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The address is taken or not this machine's.
    #[error("cannot listen on {address}; choose another address with --listen")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The listener has no address.
    #[error("the listener has no address")]
    Listener(#[source] std::io::Error),
    /// No certificate could be made.
    #[error("cannot make a certificate")]
    Certificate(#[from] rcgen::Error),
    /// No key could be made.
    #[error("cannot make a key")]
    Key(#[from] aws_lc_rs::error::Unspecified),
    /// The certificate does not serve.
    #[error("cannot set up TLS")]
    Tls(#[from] rustls::Error),
    /// The runtime stopped meanwhile.
    #[error("interrupted while starting")]
    Interrupted,
}

/// An APNs signing key and the team it belongs to.
pub(super) struct ApnsKey {
    pub(super) team_id: &'static str,
    pub(super) key_id: &'static str,
    pub(super) private_key_pem: String,
    pub(super) public_key: Vec<u8>,
}

/// What Google's service account file holds, and the public half.
pub(super) struct ServiceAccount {
    pub(super) project_id: &'static str,
    pub(super) private_key_id: &'static str,
    pub(super) client_email: &'static str,
    pub(super) private_key_pem: String,
    pub(super) public_key: Vec<u8>,
}

/// The VAPID key of [`super::Sandbox::webpush_config`].
pub(super) struct VapidKey {
    /// The number itself, in base64url.
    pub(super) private_key: String,
    /// An uncompressed point.
    pub(super) public_key: Vec<u8>,
}

/// A page on Messenger and the app that sends in its name.
pub(super) struct Page {
    pub(super) access_token: String,
    pub(super) app_secret: String,
    pub(super) verify_token: String,
}

/// A bot of Telegram.
pub(super) struct Bot {
    pub(super) id: u64,
    pub(super) token: String,
    pub(super) webhook_secret: String,
}

/// All of them.
pub(super) struct Credentials {
    pub(super) ca_pem: String,
    pub(super) tls: Certificates,
    pub(super) apns_keys: [ApnsKey; 2],
    pub(super) service_account: ServiceAccount,
    pub(super) vapid: VapidKey,
    pub(super) page: Page,
    pub(super) bot: Bot,
}

impl Credentials {
    /// Makes them; `listen` joins the loopback names on the certificate.
    pub(super) fn generate(listen: IpAddr) -> Result<Self, SandboxError> {
        let (ca_pem, tls) = Certificates::generate(listen)?;
        let rsa = rsa_key()?;
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
                private_key_pem: rsa.private_key_pem.clone(),
                public_key: rsa.public_key.clone(),
            },
            vapid: vapid_key()?,
            page: Page {
                access_token: format!("EAASANDBOX{}", word(60)),
                app_secret: word(32),
                verify_token: word(16),
            },
            bot: bot(),
        })
    }
}

fn bot() -> Bot {
    let id = 7_000_000_000 + u64::from(fastrand::u32(..1_000_000_000));
    Bot { id, token: format!("{id}:{}", word(35)), webhook_secret: word(32) }
}

/// A secret that is worth nothing.
fn word(chars: usize) -> String {
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

struct RsaKey {
    private_key_pem: String,
    public_key: Vec<u8>,
}

/// One RSA key for all sandboxes of a process: it costs up to a second, and tests start many.
fn rsa_key() -> Result<&'static RsaKey, SandboxError> {
    static KEY: OnceLock<RsaKey> = OnceLock::new();
    if let Some(key) = KEY.get() {
        return Ok(key);
    }
    let pair = RsaKeyPair::generate(KeySize::Rsa2048)?;
    let der: Pkcs8V1Der<'_> = pair.as_der()?;
    let made = RsaKey {
        private_key_pem: pem(der.as_ref()),
        public_key: pair.public_key().as_ref().to_vec(),
    };
    Ok(KEY.get_or_init(|| made))
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
