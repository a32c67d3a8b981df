//! `personalize`: variables in texts and titles.

use notify_core::{
    AttributeValue, Content, CreateNotification, ReportNotification, Request, shown_value,
};
use serde_json::{Value, json};

use crate::notifications::{minimal, parse};
use crate::support::{NOW, errors_of};

fn personal(text: &str) -> Value {
    json!({"text": text, "platforms": ["ios"], "personalize": true})
}

fn text_of(content: &Content) -> &str {
    let Content::Message(message) = content else { panic!("a message") };
    &message.text
}

/// The text with `ADA` for `name`, and the defaults of other variables.
fn filled(text: &str) -> String {
    let content = parse(&personal(text)).content;
    let filled = content.filled(|variable| match variable.name {
        "name" => "ADA".to_owned(),
        _ => variable.default.to_owned(),
    });
    text_of(&filled).to_owned()
}

#[test]
fn variables_are_replaced_once() {
    for (text, expected) in [
        ("hi", "hi"),
        ("{{name|x}}", "ADA"),
        ("Hi {{name|you}}!", "Hi ADA!"),
        ("Hi {{other|you}}!", "Hi you!"),
        ("Hi {{other|}}!", "Hi !"),
        ("{{name|}}{{name|}}.", "ADAADA."),
        ("{{other|a|b}}", "a|b"),
        ("{{other| spaced }}", " spaced "),
        ("{{other|ü \" \\ \n}}", "ü \" \\ \n"),
        ("{a} } { {name|x} }}", "{a} } { {name|x} }}"),
        ("{{name|x}}}", "ADA}"),
    ] {
        assert_eq!(filled(text), expected, "{text}");
    }
    let nested = parse(&personal("Hi {{name|you}}")).content;
    let filled = nested.filled(|_| "{{name|you}} }} {{".to_owned());
    assert_eq!(text_of(&filled), "Hi {{name|you}} }} {{", "what is inserted is not read again");
    assert_eq!(text_of(&filled.filled(|_| "no".to_owned())), "Hi {{name|you}} }} {{");
}

#[test]
fn other_double_braces_are_refused() {
    const UNCLOSED: &str = "text: has `{{` without `}}`";
    const NO_DEFAULT: &str = "text: has a variable without a default: write `{{name|default}}`, the default may be empty";
    const NAME: &str = "text: has a variable whose name is not a valid name of an attribute";
    const BRACE: &str = "text: has a default with a brace";
    let eight = "{{a|}}".repeat(8) + "x";
    let nine = "{{a|}}".repeat(9) + "x";
    for (text, expected) in [
        ("Hi {{name", UNCLOSED),
        ("Hi {{name|x}", UNCLOSED),
        ("Hi {{", UNCLOSED),
        ("Hi {{name}}", NO_DEFAULT),
        ("Hi {{}}", NO_DEFAULT),
        ("Hi {{ name|x}}", NAME),
        ("Hi {{name |x}}", NAME),
        ("Hi {{Name|x}}", NAME),
        ("Hi {{1|x}}", NAME),
        ("Hi {{|x}}", NAME),
        ("Hi {{{name|x}}}", NAME),
        ("Hi {{a|{{b|c}}}}", BRACE),
        ("Hi {{a|b}c}}", BRACE),
        (nine.as_str(), "text: must hold at most 8 variables"),
        ("{{name|}}", "text: must not be empty with its defaults"),
    ] {
        assert_eq!(
            errors_of::<CreateNotification>(&personal(text).to_string()),
            [expected],
            "{text}"
        );
        let mut plain = minimal();
        plain["text"] = text.into();
        assert_eq!(text_of(&parse(&plain).content), text, "braces are text unless personalized");
    }
    assert_eq!(errors_of::<CreateNotification>(&personal(&eight).to_string()), [""; 0]);
    let name = "n".repeat(64);
    assert_eq!(filled(&format!("{{{{{name}|x}}}}")), "x");
    let long = format!("{{{{{name}n|x}}}}");
    assert_eq!(errors_of::<CreateNotification>(&personal(&long).to_string()), [NAME]);
}

#[test]
fn every_text_and_title_is_checked() {
    let body = json!({"text": "a", "title": "{{", "android_settings": {"title": "{{"},
        "translations": {"de": {"text": "{{a}}", "title": "{{"}, "fr": {"text": "{{a|}}"}},
        "url": "a://{{b", "platforms": ["ios"], "personalize": true});
    assert_eq!(
        errors_of::<CreateNotification>(&body.to_string()),
        [
            "title: has `{{` without `}}`",
            "android_settings.title: has `{{` without `}}`",
            "translations.de.text: has a variable without a default: write `{{name|default}}`, the \
             default may be empty",
            "translations.de.title: has `{{` without `}}`",
            "translations.fr.text: must not be empty with its defaults",
        ]
    );
    let mut poll = minimal();
    poll["poll"] = json!({"text": "{{", "layout_id": "poll_text",
        "answers": [{"text": "a"}, {"text": "b"}]});
    poll["personalize"] = json!(true);
    assert!(!parse(&poll).content.is_personal(), "a poll ignores it");
    let mut report = personal("{{");
    report["id"] = json!("own");
    assert_eq!(
        errors_of::<ReportNotification>(&report.to_string()),
        ["personalize: unknown field"]
    );
    report.as_object_mut().unwrap().remove("personalize");
    assert!(ReportNotification::parse(report.to_string().as_bytes(), NOW).is_ok());
    let wrong = json!({"text": "a", "platforms": ["ios"], "personalize": "yes"});
    assert_eq!(
        errors_of::<CreateNotification>(&wrong.to_string()),
        ["personalize: expected true or false"]
    );
}

#[test]
fn all_texts_are_filled_and_an_empty_title_is_absent() {
    let body = json!({"text": "{{a|1}}", "title": "{{b|}}", "android_settings": {"title": "{{c|3}}"},
        "translations": {"de": {"text": "{{d|4}}", "title": "{{a|5}}"}},
        "platforms": ["ios"], "personalize": true});
    let content = parse(&body).content;
    assert_eq!(content.variables(), ["a", "b", "c", "d"]);
    let Content::Message(message) = content.with_defaults() else { panic!("a message") };
    assert_eq!((message.text.as_str(), message.title), ("1", None));
    assert_eq!(message.android_title.as_deref(), Some("3"));
    let german = &message.translations[0];
    assert_eq!((german.text.as_deref(), german.title.as_deref()), (Some("4"), Some("5")));
    let plain = parse(&minimal()).content;
    assert!(plain.variables().is_empty() && plain.with_defaults() == plain);
}

#[test]
fn values_are_cut_and_have_no_control_characters() {
    let long = "ä".repeat(70);
    for (value, expected) in [
        (AttributeValue::from("Ada"), "Ada"),
        (AttributeValue::from(""), ""),
        (AttributeValue::from("a\tb\r\n\u{7f}\u{85}c"), "a b    c"),
        (AttributeValue::from(long.as_str()), &"ä".repeat(64)),
        (AttributeValue::from(true), "true"),
        (AttributeValue::from(-3.5), "-3.5"),
        (AttributeValue::from(1e21), "1e21"),
        (AttributeValue::from(7.0), "7"),
    ] {
        assert_eq!(shown_value(&value), expected);
    }
}
