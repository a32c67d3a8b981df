//! Tests of TLS, and of what is verified of a certificate.

use std::path::Path;

use base64::prelude::{BASE64_STANDARD, Engine};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, PublicKeyData, SigningKey};
use rustls::crypto::aws_lc_rs::{default_provider, sign::any_ecdsa_type};
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{CertificateError, ClientConnection, ServerConfig, ServerConnection};
use x509_cert::certificate::Version;
use x509_cert::der::asn1::BitString;
use x509_cert::der::{Decode, Encode};
use x509_cert::name::Name;
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};
use x509_cert::time::Validity;
use x509_cert::{Certificate, TbsCertificate};

use super::super::testing::write_pair;
use super::super::tls::client_config;
use super::super::url::TlsMode;
use super::*;

/// A server with a certificate for `localhost` of an authority that no system knows.
#[tokio::test]
async fn tls_is_as_strict_as_the_url_says() {
    let cluster = tokio::task::spawn_blocking(TestCluster::start).await.unwrap();
    let base = cluster.url().replace("?sslmode=disable", "");
    let (named, numbered) = (base.replace("127.0.0.1", "localhost"), base.clone());
    let ca = cluster.file("ca.crt").display().to_string();
    let empty = cluster.file("log").display().to_string();
    for (url, connects) in [
        (named.clone(), true),
        (format!("{named}?sslmode=prefer"), true),
        (format!("{named}?sslmode=disable"), true),
        (format!("{named}?sslmode=require"), false),
        (format!("{named}?sslmode=verify-full"), false),
        (format!("{named}?sslmode=verify-full&sslrootcert={ca}"), true),
        (format!("{named}?sslrootcert={ca}"), true),
        (format!("{numbered}?sslmode=verify-full&sslrootcert={ca}"), false),
        (format!("{named}?sslmode=allow"), true),
        (format!("{numbered}?sslmode=verify-ca&sslrootcert={ca}"), true),
        (format!("{numbered}?sslmode=verify-ca"), false),
        (format!("{named}?sslmode=verify-full&sslrootcert=system"), false),
        (format!("{named}?sslrootcert={empty}"), false),
    ] {
        let expected = connects.then(|| !url.contains("disable"));
        assert_eq!(uses_tls(&url).await, expected, "{url}");
    }
}

fn certify_as_an_authority(folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let key = KeyPair::generate()?;
    let mut content = CertificateParams::new(vec!["localhost".to_owned()])?;
    content.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = content.self_signed(&key)?.pem();
    std::fs::write(folder.join("ca.crt"), &pem)?;
    let other = KeyPair::generate()?;
    std::fs::write(folder.join("other.crt"), content.self_signed(&other)?.pem())?;
    write_pair(folder, &pem, &key.serialize_pem())
}

/// `openssl req -x509` makes such a certificate.
#[tokio::test]
async fn a_certificate_that_signs_itself_can_be_named() {
    let start = || TestCluster::start_with(certify_as_an_authority);
    let cluster = tokio::task::spawn_blocking(start).await.unwrap();
    let base = cluster.url().replace("?sslmode=disable", "");
    let (named, numbered) = (base.replace("127.0.0.1", "localhost"), base);
    let ca = cluster.file("ca.crt").display().to_string();
    let other = cluster.file("other.crt").display().to_string();
    for (url, connects) in [
        (format!("{named}?sslmode=verify-full&sslrootcert={ca}"), true),
        (format!("{named}?sslmode=require&sslrootcert={ca}"), true),
        (format!("{numbered}?sslmode=verify-full&sslrootcert={ca}"), false),
        (format!("{numbered}?sslmode=verify-ca&sslrootcert={ca}"), true),
        (format!("{named}?sslmode=verify-full&sslrootcert={other}"), false),
        (format!("{named}?sslmode=verify-full"), false),
    ] {
        assert_eq!(uses_tls(&url).await, connects.then_some(true), "{url}");
    }
}

/// A certificate of X.509 version 1, as Citus makes one: it has no extensions, and its own key signed
/// it.
fn version_1(key: &KeyPair) -> Vec<u8> {
    let name: Name = "CN=localhost".parse().unwrap();
    // RFC 5758, section 3.2.
    let ecdsa_with_sha256 = "1.2.840.10045.4.3.2".parse().unwrap();
    let algorithm = AlgorithmIdentifierOwned { oid: ecdsa_with_sha256, parameters: None };
    let public_key = key.subject_public_key_info();
    let content = TbsCertificate {
        version: Version::V1,
        serial_number: SerialNumber::from(1_u8),
        signature: algorithm.clone(),
        issuer: name.clone(),
        validity: Validity::from_now(Duration::from_secs(86_400)).unwrap(),
        subject: name,
        subject_public_key_info: SubjectPublicKeyInfoOwned::from_der(&public_key).unwrap(),
        issuer_unique_id: None,
        subject_unique_id: None,
        extensions: None,
    };
    let signature = key.sign(&content.to_der().unwrap()).unwrap();
    let certificate = Certificate {
        tbs_certificate: content,
        signature_algorithm: algorithm,
        signature: BitString::from_bytes(&signature).unwrap(),
    };
    certificate.to_der().unwrap()
}

fn certify_with_version_1(folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let key = KeyPair::generate()?;
    let base64 = BASE64_STANDARD.encode(version_1(&key));
    let lines: Vec<_> = base64.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
    let lines = lines.join("\n");
    let pem = format!("-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n");
    std::fs::write(folder.join("ca.crt"), &pem)?;
    write_pair(folder, &pem, &key.serialize_pem())
}

#[tokio::test]
async fn a_certificate_of_version_1_is_enough_where_none_is_verified() {
    let start = || TestCluster::start_with(certify_with_version_1);
    let cluster = tokio::task::spawn_blocking(start).await.unwrap();
    let base = cluster.url().replace("?sslmode=disable", "").replace("127.0.0.1", "localhost");
    let ca = cluster.file("ca.crt").display().to_string();
    for (url, connects) in [
        (base.clone(), true),
        (format!("{base}?sslmode=prefer"), true),
        (format!("{base}?sslmode=require"), false),
        (format!("{base}?sslmode=verify-full&sslrootcert={ca}"), false),
    ] {
        assert_eq!(uses_tls(&url).await, connects.then_some(true), "{url}");
    }
}

/// A server could otherwise present the certificate of another one.
#[test]
fn a_server_has_the_key_of_its_certificate() {
    let keys = [KeyPair::generate().unwrap(), KeyPair::generate().unwrap()];
    for (signing, refused) in
        [(&keys[0], None), (&keys[1], Some(rustls::Error::from(CertificateError::BadSignature)))]
    {
        let signing = PrivateKeyDer::Pkcs8(signing.serialize_der().into());
        let pair =
            CertifiedKey::new(vec![version_1(&keys[0]).into()], any_ecdsa_type(&signing).unwrap());
        let pair = Arc::new(SingleCertAndKey::from(pair));
        for version in [&TLS12, &TLS13] {
            let server = ServerConfig::builder_with_provider(Arc::new(default_provider()))
                .with_protocol_versions(&[version])
                .unwrap()
                .with_no_client_auth()
                .with_cert_resolver(pair.clone());
            assert_eq!(handshake(server).err(), refused, "{version:?}");
        }
    }
}

/// The handshake of a client that verifies no certificate with a server.
fn handshake(server: ServerConfig) -> Result<(), rustls::Error> {
    let client = client_config(&TlsMode::Prefer).unwrap().unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut client = ClientConnection::new(Arc::new(client), name).unwrap();
    let mut server = ServerConnection::new(Arc::new(server)).unwrap();
    while client.is_handshaking() {
        let mut sent = Vec::new();
        client.write_tls(&mut sent).unwrap();
        server.read_tls(&mut &sent[..]).unwrap();
        server.process_new_packets().unwrap();
        let mut answer = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut answer).unwrap();
        }
        client.read_tls(&mut &answer[..]).unwrap();
        client.process_new_packets()?;
    }
    Ok(())
}

/// Whether a connection has TLS; `None` if the server cannot be connected to.
async fn uses_tls(url: &str) -> Option<bool> {
    let options = PostgresOptions { serves: false, readers: 1, ..PostgresOptions::default() };
    let store = postgres::open(&url.parse().unwrap(), options).ok()?;
    let uses_tls = store
        .read(|connection| {
            Ok(connection
                .prepare_cached("select ssl from pg_stat_ssl where pid = pg_backend_pid()")?
                .query_row([], |row| row.get::<bool>(0))?)
        })
        .await;
    store.close().await;
    Some(uses_tls.unwrap())
}
