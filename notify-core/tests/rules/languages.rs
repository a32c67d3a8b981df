//! `title` and `translations`.

use notify_core::{
    Content, CreateNotification, ReportNotification, Request, Translation, find_language,
};
use serde_json::{Map, Value, json};

use crate::notifications::{minimal, parse};
use crate::support::{NOW, check, errors_of};

fn translated() -> Value {
    json!({"text": "hi", "title": "Shop", "url": "a://own", "platforms": ["ios"], "translations": {
        "de": {"text": "hallo", "title": "Laden"},
        "pt-BR": {"text": "oi", "url": "a://br", "image_url": "https://x.example/br.png"},
        "fr": {},
    }})
}

#[test]
fn a_translation_replaces_the_fields_that_it_has() {
    let content = parse(&translated()).content;
    assert_eq!(content.languages(), ["de", "fr", "pt-BR"]);
    let shown = |content: &Content| {
        let Content::Message(message) = content else { panic!("a message") };
        let field = |field: &Option<String>| field.clone().unwrap_or_default();
        [
            message.text.clone(),
            field(&message.title),
            field(&message.url),
            field(&message.image_url),
        ]
    };
    let all: Vec<_> = content.translated().iter().map(shown).collect();
    assert_eq!(all[0], ["hallo", "Laden", "a://own", ""]);
    assert_eq!(all[1], ["hi", "Shop", "a://own", ""]);
    assert_eq!(all[2], ["oi", "Shop", "a://br", "https://x.example/br.png"]);
    let mut report = translated();
    report["id"] = json!("own");
    let report = ReportNotification::parse(report.to_string().as_bytes(), NOW).unwrap();
    assert_eq!(report.content.languages().len(), 3, "a report keeps them");
}

#[test]
fn translations_are_checked() {
    const TAG: &str = "must be a language tag, such as `de` or `pt-BR`";
    let tag = |name: &str| format!("translations.{name}: {TAG}");
    let errors = |translations: Value| {
        let mut body = minimal();
        body["translations"] = translations;
        errors_of::<CreateNotification>(&body.to_string())
    };
    const NONE: &str = "translations: must hold at least 1 language";
    assert_eq!(errors(json!({})), [NONE]);
    assert_eq!(errors(json!({"de": null})), [NONE], "null is absent");
    for name in ["d", "zh_Hant", "sr-Latn-RS", "i-klingon", "a-".repeat(17).as_str(), "DE"] {
        let name = name.trim_end_matches('-');
        assert_eq!(errors(json!({name: {}})), [""; 0], "{name}");
    }
    for name in
        ["1", "d e", "de-", "-de", "de--AT", "abcdefghi", "de.AT", "dé", "a-a".repeat(12).as_str()]
    {
        let found = errors(json!({name: {}}));
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        assert!(found[0].ends_with(TAG), "{found:?}");
    }
    assert_eq!(errors(json!({"1": {}})), [tag("1")]);
    assert_eq!(
        errors(json!({"pt-BR": {}, "pt_br": {}})),
        ["translations.pt_br: is the same language as `pt-BR`"]
    );
    assert_eq!(errors(json!({"he": {}, "iw": {}, "zh-TW": {}, "zh-Hant-TW": {}})), [""; 0]);
    let many = |count: usize| -> Value {
        let tags = (0..count).map(|number| (format!("a{number}"), json!({})));
        Value::Object(Map::from_iter(tags))
    };
    assert_eq!(errors(many(50)), [""; 0]);
    assert_eq!(errors(many(51)), ["translations: must hold at most 50 languages"]);
    check::<CreateNotification>(
        &translated(),
        &[
            ("/title", "\"\"", &[]),
            ("/title", "7", &["title: expected a string"]),
            ("/title", &format!("\"{}\"", "ä".repeat(255)), &[]),
            (
                "/title",
                &format!("\"{}\"", "ä".repeat(256)),
                &["title: must be at most 255 characters"],
            ),
            ("/translations", "[]", &["translations: expected an object"]),
            ("/translations/de", "\"hallo\"", &["translations.de: expected an object"]),
            ("/translations/de/text", "\"\"", &[]),
            (
                "/translations/de/txt",
                "\"\"",
                &["translations.de.txt: unknown field, did you mean `text`?"],
            ),
            (
                "/translations/de/title",
                &format!("\"{}\"", "x".repeat(256)),
                &["translations.de.title: must be at most 255 characters"],
            ),
            (
                "/translations/pt-BR/url",
                "\"x\"",
                &["translations.pt-BR.url: must be an absolute url"],
            ),
            (
                "/translations/pt-BR/image_url",
                "\"app:i\"",
                &["translations.pt-BR.image_url: must be an absolute http or https url"],
            ),
        ],
    );
}

#[test]
fn a_blank_title_equals_an_absent_one_and_is_not_longer_than_others() {
    let blank = |count: usize| {
        let body = json!({"text": "t", "platforms": ["ios"], "title": " ".repeat(count)});
        errors_of::<CreateNotification>(&body.to_string())
    };
    assert_eq!(blank(255), [""; 0]);
    assert_eq!(blank(256), ["title: must be at most 255 characters"]);
}

#[test]
fn polls_ignore_titles_and_translations() {
    let mut poll = minimal();
    poll["poll"] = json!({"text": "?", "layout_id": "poll_text",
        "answers": [{"text": "a"}, {"text": "b"}]});
    poll["title"] = json!("x".repeat(300));
    poll["translations"] = json!({"1": {"url": "x"}});
    let content = parse(&poll).content;
    assert!(content.languages().is_empty() && content.translated().is_empty());
    poll["translations"] = json!({"de": 1});
    assert_eq!(
        errors_of::<CreateNotification>(&poll.to_string()),
        ["translations.de: expected an object"]
    );
}

#[test]
fn a_device_gets_its_language_or_a_shorter_one() {
    let languages = ["de", "de-AT", "pt_BR", "zh-Hant"];
    for (of_device, expected) in [
        ("de", Some("de")),
        ("DE", Some("de")),
        ("de-CH", Some("de")),
        ("de_at", Some("de-AT")),
        ("de-AT-1996", Some("de-AT")),
        ("pt-br", Some("pt_BR")),
        ("pt", None),
        ("pt-PT", None),
        ("zh-hant-TW", Some("zh-Hant")),
        ("zh", None),
        ("d", None),
        ("deb", None),
        ("", None),
        ("-", None),
    ] {
        let found = find_language(&languages, of_device).map(|place| languages[place]);
        assert_eq!(found, expected, "{of_device}");
    }
    assert_eq!(find_language::<&str>(&[], "de"), None);
}

/// Systems name one language in several ways.
#[test]
fn a_device_finds_its_language_under_another_name() {
    let cases: &[(&[&str], &str, Option<&str>)] = &[
        // Aliases of CLDR.
        (&["en", "he"], "iw", Some("he")),
        (&["iw"], "he-IL", Some("iw")),
        (&["id"], "in_ID", Some("id")),
        (&["yi"], "ji", Some("yi")),
        (&["nb"], "no", Some("nb")),
        (&["no"], "nb-NO", Some("no")),
        (&["nb"], "nn-NO", None),
        (&["fil"], "tl-PH", Some("fil")),
        (&["ro"], "mo", Some("ro")),
        (&["sr-Latn"], "sh", Some("sr-Latn")),
        (&["zh"], "cmn-Hans-CN", Some("zh")),
        (&["de"], "deu", Some("de")),
        (&["en-GB"], "en-UK", Some("en-GB")),
        // The script that a language has in a region.
        (&["zh-TW"], "zh-Hant-TW", Some("zh-TW")),
        (&["zh-Hant"], "zh_TW", Some("zh-Hant")),
        (&["zh-Hant"], "zh-HK", Some("zh-Hant")),
        (&["zh", "zh-Hant"], "zh-MO", Some("zh-Hant")),
        (&["zh"], "zh-TW", Some("zh")),
        (&["zh-Hans"], "zh_CN", Some("zh-Hans")),
        (&["zh-CN"], "zh-Hans-CN", Some("zh-CN")),
        (&["zh-Hans"], "zh-TW", None),
        (&["zh-Hant"], "zh", None),
        (&["zh-Hans"], "zh", Some("zh-Hans")),
        (&["sr"], "sr-Latn-RS", Some("sr")),
        (&["sr-Latn"], "sr-RS", None),
        (&["sr-Cyrl"], "sr_RS", Some("sr-Cyrl")),
        (&["sr-Latn"], "sr-ME", Some("sr-Latn")),
        (&["pa-Arab"], "pa-PK", Some("pa-Arab")),
        (&["de-AT"], "de-Latn-AT", Some("de-AT")),
        // A script without a region.
        (&["zh-TW"], "zh-Hant", Some("zh-TW")),
        (&["zh-CN"], "zh-Hans", Some("zh-CN")),
        (&["zh-HK"], "zh-Hant", None),
        // A region is not guessed.
        (&["pt-BR"], "pt", None),
        (&["zh-CN"], "zh", None),
        // Spellings of Java and POSIX.
        (&["zh-Hant"], "zh_TW_#Hant", Some("zh-Hant")),
        (&["sr-Latn"], "sr__#Latn", Some("sr-Latn")),
        (&["de-AT"], "de_AT.UTF-8", Some("de-AT")),
        (&["ca"], "ca_ES@valencia", Some("ca")),
        // What a tag has behind the region.
        (&["en-US"], "en-US-u-hc-h12", Some("en-US")),
        (&["th"], "th_TH_TH_#u-nu-thai", Some("th")),
        (&["de-1996"], "de-1996", Some("de-1996")),
        (&["de-CH-1996"], "de_Latn_CH_1996", Some("de-CH-1996")),
        // The device's own tag comes first.
        (&["he", "iw"], "iw", Some("iw")),
        (&["he", "iw"], "he-IL", Some("he")),
        (&["zh-Hant-TW", "zh-TW"], "zh_TW", Some("zh-TW")),
        (&["i-klingon"], "i-klingon", Some("i-klingon")),
        (&["und", "x-own"], "und-DE", Some("und")),
    ];
    for (languages, of_device, expected) in cases {
        let found = find_language(languages, of_device).map(|place| languages[place]);
        assert_eq!(found, *expected, "{of_device} among {languages:?}");
    }
}

#[test]
fn builders_make_translations() {
    let built = CreateNotification::to_platforms([notify_core::Platform::Ios], "hi")
        .title("Shop")
        .translation("de", Translation::text("hallo").titled("Laden"));
    let json = serde_json::to_value(&built).unwrap();
    assert_eq!(
        json,
        json!({"text": "hi", "platforms": ["ios"], "title": "Shop",
            "translations": {"de": {"text": "hallo", "title": "Laden"}}})
    );
    assert_eq!(CreateNotification::from_json(json.to_string().as_bytes()).unwrap(), built);
}
