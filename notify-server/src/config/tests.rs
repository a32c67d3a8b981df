//! Precedence, errors and the document of settings.

use std::collections::HashMap;

use toml::{Table, Value};

use super::*;

fn load(flags: &[(&str, &str)], variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let flags: HashMap<_, _> = flags.iter().copied().collect();
    let variables: HashMap<_, _> = variables.iter().copied().collect();
    Config::load(&Sources {
        flag: &|name| flags.get(name).map(ToString::to_string),
        variable: &|name| variables.get(name).map(ToString::to_string),
    })
}

#[test]
fn flag_overrides_environment_overrides_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify.toml");
    std::fs::write(&path, "rate-limit = 1\nlisten = \"f:1\"\nlog = \"file\"\n").unwrap();
    let file = ("config", path.to_str().unwrap());
    let config = load(
        &[file, ("rate-limit", "3")],
        &[("NOTIFY_RATE_LIMIT", "2"), ("NOTIFY_LISTEN", "e:1"), ("NOTIFY_LOG", "")],
    )
    .unwrap();
    assert_eq!((config.rate_limit, &*config.listen, &*config.log), (3, "e:1", "file"));
}

#[test]
fn an_earlier_name_is_accepted_in_environment_and_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify.toml");
    std::fs::write(&path, "delivery-credit = 1\n").unwrap();
    let file = ("config", path.to_str().unwrap());
    let earlier = ("NOTIFY_DELIVERY_CREDIT", "2");
    let current = ("NOTIFY_MAX_UNACKED_DELIVERIES", "3");
    for (variables, expected) in [(&[][..], 1), (&[earlier], 2), (&[earlier, current], 3)] {
        assert_eq!(load(&[file], variables).unwrap().max_unacked_deliveries, expected);
    }
    std::fs::write(&path, "delivery-credit = 1\nmax-unacked-deliveries = 2\n").unwrap();
    let error = load(&[file], &[]).unwrap_err().to_string();
    assert!(error.contains("duplicate field `max-unacked-deliveries`"), "{error}");
}

#[test]
fn errors_name_source_and_fault() {
    let cases = [
        (("rate-limit", "x"), "--rate-limit: `x` is not a whole number of 0 or more"),
        (("rate-limit", "-1"), "--rate-limit: `-1` is not a whole number of 0 or more"),
        (("max-body-bytes", "0"), "max-body-bytes: must be at least 1"),
        (
            ("allow-private-networks", "maybe"),
            "--allow-private-networks: `maybe` is neither true nor false",
        ),
        (("console", "maybe"), "--console: `maybe` is neither on nor off"),
        (
            ("trusted-proxies", "10.0.0.0/8,x"),
            "--trusted-proxies: `x` is neither an address nor a network",
        ),
        (
            ("shutdown-grace", "soon"),
            "--shutdown-grace: `soon` is not a duration, such as 30s, 500ms or 2m",
        ),
        (("header-timeout", "0"), "header-timeout: must be more than 0"),
        (
            ("admin-listen", ":9090"),
            "admin-listen: `:9090` is not HOST:PORT, such as 127.0.0.1:8080",
        ),
        (("metrics-apps", "501"), "metrics-apps: must be at most 500"),
        (
            ("console-listen", "9090"),
            "console-listen: `9090` is not HOST:PORT, such as 127.0.0.1:8080",
        ),
        (("tls-cert", "a.pem"), "tls-cert: comes together with tls-key"),
        (("public-url", "foo"), "--public-url: `foo` must begin with https:// or http://"),
        (
            ("public-url", "push.example.com"),
            "--public-url: `push.example.com` must begin with https:// or http://",
        ),
        (("public-url", "https://"), "--public-url: `https://` is no url: empty host"),
        (("public-url", "ftp://x"), "public-url: must be an http or https url without a query"),
    ];
    for (flag, expected) in cases {
        assert_eq!(load(&[flag], &[]).unwrap_err().to_string(), expected);
    }
}

#[test]
fn what_surrounds_a_value_does_not_belong_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify.toml");
    let file = format!(" {}\n", path.display());
    // The name of a setting, a value with its surroundings, and what the file then shows.
    let rows = [
        ("listen", " 1.2.3.4:5\n", "1.2.3.4:5"),
        ("database-url", "\"postgres://u:p@db/n\"\r\n", "db:5432/n"),
        ("data-dir", "'/var/lib/notify'", "/var/lib/notify"),
        ("public-url", "\u{feff}https://a.example\u{a0}", "https://a.example/"),
        ("rate-limit", " 7\n", "7"),
        ("allow-private-networks", "True\n", "true"),
        ("allow-private-networks", "YES", "true"),
        ("allow-private-networks", "on", "true"),
        ("allow-private-networks", "1", "true"),
        ("allow-private-networks", "OFF", "false"),
        ("allow-private-networks", "No", "false"),
        ("console", "False", "off"),
        ("log-format", "JSON", "json"),
        ("shutdown-grace", " 30 S ", "30s"),
        ("trusted-proxies", "'10.0.0.0/8 , 10.1.1.1 '", "[\"10.0.0.0/8\", \"10.1.1.1/32\"]"),
    ];
    for (name, text, expected) in rows {
        let variable = format!("NOTIFY_{}", name.replace('-', "_").to_uppercase());
        std::fs::write(&path, format!("{name} = {}\n", Value::from(text))).unwrap();
        for config in [
            load(&[(name, text)], &[]),
            load(&[], &[(&variable, text)]),
            load(&[("config", &file)], &[]),
        ] {
            let table = Table::try_from(config.unwrap()).unwrap();
            let shown = &table[name];
            let shown = shown.as_str().map_or_else(|| shown.to_string(), str::to_owned);
            assert_eq!(shown, expected, "{name} = {text:?}");
        }
    }
    for blank in ["", " \n"] {
        assert_eq!(load(&[], &[("NOTIFY_RATE_LIMIT", blank)]).unwrap().rate_limit, 0);
        assert!(load(&[], &[("NOTIFY_MASTER_KEY", blank)]).unwrap().master_key.is_none());
    }
}

#[test]
fn a_secret_comes_from_a_file_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("url");
    std::fs::write(&path, "postgres://notify:geheim@db/notify\n").unwrap();
    let path = path.to_str().unwrap();
    let (direct, file) = ("NOTIFY_DATABASE_URL", "NOTIFY_DATABASE_URL_FILE");
    let config = load(&[], &[(file, path)]).unwrap();
    assert_eq!(config.database_url.unwrap().place(), "db:5432/notify");
    let flag = load(&[("database-url", "postgres://other/n")], &[(file, path)]).unwrap();
    assert_eq!(flag.database_url.unwrap().place(), "other:5432/n");
    let both = load(&[], &[(direct, "postgres://other/n"), (file, path)]).unwrap_err();
    let refused = "NOTIFY_DATABASE_URL_FILE: cannot be used together with NOTIFY_DATABASE_URL";
    assert_eq!(both.to_string(), refused);
    let missing = load(&[], &[(file, "/nowhere/url")]).unwrap_err();
    assert_eq!(missing.to_string(), "NOTIFY_DATABASE_URL_FILE: cannot read /nowhere/url");
    for (content, end) in [(" \n", "is empty"), ("mysql://geheim", "postgres://user")] {
        std::fs::write(path, content).unwrap();
        let refused = load(&[], &[(file, path)]).unwrap_err().to_string();
        assert!(refused.starts_with("NOTIFY_DATABASE_URL_FILE: "), "{refused}");
        assert!(refused.contains(end) && !refused.contains("geheim"), "{refused}");
    }
}

#[test]
fn unknown_key_is_refused_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify.toml");
    std::fs::write(&path, "listen = \"x:1\"\nmaster-key = \"secret\"\n").unwrap();
    let error = load(&[("config", path.to_str().unwrap())], &[]).unwrap_err().to_string();
    assert!(error.contains(": line 2: unknown field `master-key`"), "{error}");
    assert!(!error.contains("secret"), "a key at the wrong place is not repeated: {error}");
    let missing = load(&[("config", "/nowhere/notify.toml")], &[]).unwrap_err();
    assert!(matches!(missing, ConfigError::Unreadable { .. }));
}

#[test]
fn spans_round_trip() {
    for (text, milliseconds) in
        [("30s", 30_000), ("30", 30_000), ("500ms", 500), ("2m", 120_000), ("1h", 3_600_000)]
    {
        assert_eq!(text.parse(), Ok(Span::from_millis(milliseconds)), "{text}");
    }
    for text in ["0s", "500ms", "1500ms", "30s", "90s", "1m", "119m", "2h", "36h"] {
        assert_eq!(text.parse::<Span>().unwrap().to_string(), text);
    }
    assert_eq!(Span::from_secs(7_200).to_string(), "2h");
    for text in ["", "s", "1d", "-1", "1.5s", "99999999999999999h"] {
        assert!(text.parse::<Span>().is_err(), "{text}");
    }
}

#[test]
fn settings_list_matches_the_struct() {
    let full = Config {
        database_url: Some("postgres://u:p@h/d".parse().unwrap()),
        egress_proxy: Some("http://u:p@h:1".parse().unwrap()),
        public_url: Some(Url::parse("https://a.example").unwrap()),
        tls_cert: Some("a".into()),
        tls_key: Some("b".into()),
        master_key_file: Some("c".into()),
        admin_listen: Some("d:1".into()),
        console_listen: Some("e:1".into()),
        ..Config::default()
    };
    let table = Table::try_from(full).unwrap();
    let mut fields: Vec<&str> = table.keys().map(String::as_str).collect();
    let mut listed: Vec<&str> = SETTINGS.iter().map(|setting| setting.name).collect();
    fields.sort_unstable();
    listed.sort_unstable();
    assert_eq!(fields, listed);
}

#[test]
fn master_key_comes_from_environment_and_is_never_shown() {
    let config = load(&[], &[("NOTIFY_MASTER_KEY", "c2VjcmV0")]).unwrap();
    assert!(config.master_key.is_some());
    assert!(!format!("{config:?}").contains("c2VjcmV0"));
}

#[test]
fn database_url_comes_from_any_source_and_is_never_shown() {
    let url = "postgres://notify:geheim@db/notify";
    for (flags, variables) in
        [(vec![("database-url", url)], vec![]), (vec![], vec![("NOTIFY_DATABASE_URL", url)])]
    {
        let config = load(&flags, &variables).unwrap();
        let read = config.database_url.as_ref().unwrap();
        assert_eq!(read.place(), "db:5432/notify");
        let shown = Table::try_from(config.clone()).unwrap();
        assert!(!format!("{config:?} {shown:?}").contains("geheim"));
    }
    let refused = load(&[], &[("NOTIFY_DATABASE_URL", "mysql://notify:geheim@db/notify")]);
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("postgres://user") && !refused.contains("geheim"), "{refused}");
}

#[test]
fn configuration_document_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/configuration.md");
    let expected = configuration_document();
    if std::env::var_os("NOTIFY_WRITE_DOCS").is_some() {
        std::fs::write(path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(found == expected, "run this test with NOTIFY_WRITE_DOCS=1 and look at the change");
}

#[test]
fn the_proxy_comes_from_its_setting_or_from_the_usual_variables() {
    type Variables<'v> = &'v [(&'v str, &'v str)];
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("proxy");
    std::fs::write(&secret, "http://ada:geheim@file.example:1\n").unwrap();
    let set = ("NOTIFY_EGRESS_PROXY", "http://ada:geheim@set.example:1");
    let in_file = ("NOTIFY_EGRESS_PROXY_FILE", secret.to_str().unwrap());
    let (upper, lower) =
        (("HTTPS_PROXY", "upper.example:2"), ("https_proxy", "http://lower.example:3"));
    let rows: [(Variables<'_>, Option<&str>); 10] = [
        (&[], None),
        (&[set], Some("set.example:1")),
        (&[in_file], Some("file.example:1")),
        (&[set, upper, lower], Some("set.example:1")),
        (&[upper, lower], Some("upper.example:2")),
        (&[lower, ("HTTPS_PROXY", "")], Some("lower.example:3")),
        (&[("HTTP_PROXY", "http://other.example:4")], None),
        (&[set, ("NO_PROXY", "a.example")], Some("set.example:1")),
        (&[set, ("NO_PROXY", "*")], None),
        (&[("HTTPS_PROXY", "socks5://socks.example:5"), ("no_proxy", "*")], None),
    ];
    for (variables, expected) in rows {
        let config = load(&[], variables).unwrap();
        let shown = format!("{config:?} {:?}", Table::try_from(config.clone()).unwrap());
        let found = config.egress_proxy.map(|url| url.to_string());
        assert_eq!(found.as_deref(), expected, "{variables:?}");
        assert!(!shown.contains("geheim") && !shown.contains("YWRh"), "{shown}");
    }
    let flag = [("egress-proxy", "http://ada:geheim@flag.example:1")];
    let config = load(&flag, &[set]).unwrap();
    assert_eq!(config.egress_proxy.unwrap().to_string(), "flag.example:1");
    for (name, variables) in [
        ("NOTIFY_EGRESS_PROXY", ("NOTIFY_EGRESS_PROXY", "socks5://ada:geheim@a.example:1")),
        ("HTTPS_PROXY", ("HTTPS_PROXY", "socks5://ada:geheim@a.example:1")),
        ("https_proxy", ("https_proxy", "http://ada:ge#heim@a.example:1")),
    ] {
        let error = load(&[], &[variables]).unwrap_err().to_string();
        let expected = format!("{name}: must be an http or https url, such as ");
        assert!(error.starts_with(&expected) && !error.contains("heim@"), "{error}");
    }
}
