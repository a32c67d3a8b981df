//! Keys and secrets in the forms in which people paste them.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use notify_core::ProviderKind;
use serde_json::{Value, json};

use super::{VAPID_PUBLIC, apns, errors, fcm, messenger, telegram, webpush, with};
use crate::provider_config::{ProviderConfig, test_keys as keys};

/// The forms in which a key in PEM can arrive.
fn forms_of(pem: &str) -> Vec<String> {
    let base64: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    vec![
        pem.to_owned(),
        pem.replace('\n', "\\n"),
        pem.replace('\n', "\\\\n"),
        pem.replace('\n', "\\r\\n"),
        pem.replace('\n', "\r\n"),
        pem.replace('\n', " "),
        pem.replace('\n', ""),
        pem.replace('/', "\\/").replace('\n', "\\n"),
        pem.replace("-----", "—"),
        pem.lines().map(|line| format!("    {line}\n")).collect(),
        pem.lines().map(|line| format!("\"{line}\\n\",\n")).collect(),
        format!("\u{feff} {pem}\n\n"),
        format!("\"{}\"", pem.trim_end().replace('\n', "\\n")),
        format!("'{pem}'"),
        format!("Bag Attributes\n    friendlyName: key\n{pem}"),
        STANDARD.encode(pem),
        STANDARD.encode(STANDARD.encode(pem)),
        base64.clone(),
        base64.replace('+', "-").replace('/', "_").trim_end_matches('=').to_owned(),
        json!({ "private_key": pem }).to_string(),
    ]
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

#[test]
fn a_key_is_taken_in_every_form_in_which_it_is_pasted() {
    let [sec1, pkcs8] = keys::p256_ders();
    let parameters =
        "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n";
    let mut forms = forms_of(&pem("PRIVATE KEY", &pkcs8));
    forms.extend(forms_of(&pem("EC PRIVATE KEY", &sec1)));
    forms.push(format!("{parameters}{}", pem("EC PRIVATE KEY", &sec1)));
    let digest = |text: &str| {
        let body = with(apns(), "/private_key", Some(json!(text)));
        match ProviderConfig::parse(ProviderKind::Apns, &body) {
            Ok(ProviderConfig::Apns(config)) => config.key_digest,
            other => panic!("{text}: {other:?}"),
        }
    };
    let expected = digest(&forms[0]);
    for form in &forms {
        assert_eq!(digest(form), expected, "{form}: all are one key");
    }
    let number = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw";
    forms.extend([
        number.to_owned(),
        format!("{number}=\n"),
        format!("\"{number}\""),
        number.replace('-', "+").replace('_', "/"),
        "c9f58f89813e9f8e872e71f42aa64e1757c9254dcc62b72ddc010bb4043ea11c".to_owned(),
        json!({"publicKey": VAPID_PUBLIC, "privateKey": number}).to_string(),
        json!({"kty": "EC", "crv": "P-256", "d": number}).to_string(),
    ]);
    for form in &forms {
        let body = with(webpush(), "/vapid_private_key", Some(json!(form)));
        let config = ProviderConfig::parse(ProviderKind::WebPush, &body);
        let config = config.unwrap_or_else(|error| panic!("{form}: {error}"));
        assert_eq!(config.redacted()["vapid_public_key"], VAPID_PUBLIC, "{form}");
    }
    for public in [format!("{VAPID_PUBLIC}=\n"), VAPID_PUBLIC.replace('-', "+").replace('_', "/")] {
        let body = with(webpush(), "/vapid_public_key", Some(json!(public)));
        assert_eq!(errors(ProviderKind::WebPush, &body), [""; 0], "{public}");
    }
}

#[test]
fn an_rsa_key_is_taken_in_every_form_in_which_it_is_pasted() {
    let digest = |body: &Value, form: &str| match ProviderConfig::parse(ProviderKind::Fcm, body) {
        Ok(ProviderConfig::Fcm(config)) => config.service_account.key_digest,
        other => panic!("{form}: {other:?}"),
    };
    let rsa = keys::rsa_pem();
    let original = with(fcm(), "/service_account/private_key", Some(json!(rsa)));
    let expected = digest(&original, "as it is");
    for form in forms_of(&rsa) {
        let body = with(original.clone(), "/service_account/private_key", Some(json!(form)));
        assert_eq!(digest(&body, &form), expected, "{form}");
    }
    let account = original["service_account"].to_string();
    let pretty = serde_json::to_string_pretty(&original["service_account"]).unwrap();
    for form in [
        account.clone(),
        format!("\u{feff}{pretty}\n"),
        format!("'{account}'"),
        STANDARD.encode(&pretty),
        URL_SAFE_NO_PAD.encode(&account),
        json!(account).to_string(),
        pretty.replace("\\n", "\n"),
    ] {
        let body = json!({ "service_account": form });
        assert_eq!(digest(&body, &form), expected, "{form}");
    }
}

#[test]
fn what_is_not_the_key_is_named_by_what_it_looks_like() {
    let [sec1, pkcs8] = keys::p256_ders();
    let rcgen_pem = |algorithm| rcgen::KeyPair::generate_for(algorithm).unwrap().serialize_pem();
    let (key, whole) = (rcgen::KeyPair::generate().unwrap(), pem("PRIVATE KEY", &pkcs8));
    let request =
        rcgen::CertificateParams::default().serialize_request(&key).unwrap().pem().unwrap();
    let certificate = keys::certificate_pem();
    let certificate_base64: String =
        certificate.lines().filter(|line| !line.starts_with('-')).collect();
    let encrypted = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA";
    let rows = [
        (key.public_key_pem(), "a public key, where the private key is needed"),
        (VAPID_PUBLIC.to_owned(), "a public key, where the private key is needed"),
        (certificate, "a certificate, where a private key is needed"),
        (certificate_base64, "a certificate, where a private key is needed"),
        (request, "a certificate signing request"),
        (
            format!("-----BEGIN EC PRIVATE KEY-----\n{encrypted}\n-----END EC PRIVATE KEY-----"),
            "an encrypted private key: decrypt it first, such as with `openssl pkey`",
        ),
        (
            pem("ENCRYPTED PRIVATE KEY", b"x"),
            "an encrypted private key: decrypt it first, such as with `openssl pkey`",
        ),
        (pem("OPENSSH PRIVATE KEY", b"x"), "a key of OpenSSH"),
        (pem("EC PARAMETERS", b"x"), "the parameters of a key without the key"),
        // The beginning of a PFX (RFC 7292 section 4).
        (
            STANDARD.encode([0x30, 7, 2, 1, 3, 0x30, 2, 6, 0]),
            "a .p12 or .pfx file, which contains a certificate and its key",
        ),
        (rcgen_pem(&rcgen::PKCS_ED25519), "a key of Ed25519"),
        (rcgen_pem(&rcgen::PKCS_ECDSA_P384_SHA384), "a key of P-384"),
        (keys::rsa_pem(), "an RSA key"),
        (whole[..whole.len() / 2].to_owned(), "a key that was cut off: its end is missing"),
        (STANDARD.encode(&sec1[..sec1.len() / 2]), "a key that was cut off: its end is missing"),
        (pem("PRIVATE KEY", b"x"), "base64 without a header, of something else"),
        (
            webpush()["vapid_private_key"].as_str().unwrap().to_owned(),
            "32 bytes in base64 without a header, such as a key of Web Push",
        ),
        ("AuthKey_KEY1234567.p8".to_owned(), "the name of a file: give the content of the file"),
        ("/run/secrets/apns".to_owned(), "the name of a file: give the content of the file"),
        ("${APNS_KEY}".to_owned(), "a placeholder"),
        ("-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----".to_owned(), "a placeholder"),
        (json!({"team_id": "x"}).to_string(), "JSON"),
        ("my secret key!".to_owned(), "plain text"),
    ];
    for (text, expected) in rows {
        let body = with(apns(), "/private_key", Some(json!(text)));
        let rule =
            "private_key: must be a private key of P-256 in PEM form, the text of Apple's .p8 file";
        let found = errors(ProviderKind::Apns, &body);
        assert_eq!(found, [format!("{rule}; this looks like {expected}")], "{text}");
    }
}

#[test]
fn what_surrounds_a_secret_does_not_belong_to_it() {
    for (kind, body) in [
        (ProviderKind::Apns, apns()),
        (ProviderKind::Fcm, fcm()),
        (ProviderKind::Messenger, messenger()),
        (ProviderKind::Telegram, telegram()),
        (ProviderKind::WebPush, webpush()),
    ] {
        let body = with(body, "/ca_certificate", Some(json!(keys::certificate_pem())));
        let expected = format!("{:?}", ProviderConfig::parse(kind, &body).unwrap().redacted());
        for (before, after) in [("", "\n"), (" ", " \r\n"), ("\"", "\""), ("'", "'\n")] {
            let mut pasted = body.clone();
            for value in pasted.as_object_mut().unwrap().values_mut() {
                if let Value::String(text) = value {
                    *text = format!("{before}{text}{after}");
                }
            }
            let config = ProviderConfig::parse(kind, &pasted);
            let config = config.unwrap_or_else(|error| panic!("{kind} {after:?}: {error}"));
            assert_eq!(format!("{:?}", config.redacted()), expected);
            let secrets = |config| match config {
                ProviderConfig::Telegram(config) => config.token_digest,
                ProviderConfig::Messenger(config) => config.token_digest,
                ProviderConfig::Apns(config) => config.key_digest,
                ProviderConfig::Fcm(config) => config.service_account.key_digest,
                ProviderConfig::WebPush(_) => [0; 32],
            };
            assert_eq!(secrets(config), secrets(ProviderConfig::parse(kind, &body).unwrap()));
        }
    }
}

#[test]
fn a_ca_certificate_is_taken_in_every_form_in_which_it_is_pasted() {
    let certificate = keys::certificate_pem();
    let shown = |text: &str| {
        let body = with(apns(), "/ca_certificate", Some(json!(text)));
        let config = ProviderConfig::parse(ProviderKind::Apns, &body);
        config.unwrap_or_else(|error| panic!("{text}: {error}")).redacted()["ca_certificate"]
            .clone()
    };
    let expected = shown(&certificate);
    for form in forms_of(&certificate.replace("\r\n", "\n")) {
        assert_eq!(shown(&form), expected, "{form}");
    }
    let two = format!("{certificate}{}", keys::certificate_pem());
    assert_eq!(shown(&two).as_str().unwrap().matches("BEGIN").count(), 2);
    for (text, expected) in [
        (keys::p256_pem(), "a key of P-256"),
        ("/etc/ssl/ca.pem".to_owned(), "the name of a file: give the content of the file"),
    ] {
        let body = with(apns(), "/ca_certificate", Some(json!(text)));
        let rule = "ca_certificate: must be certificates in PEM form; this looks like";
        assert_eq!(errors(ProviderKind::Apns, &body), [format!("{rule} {expected}")]);
    }
}
