//! The pages of users and segments, and what notifications to them show.

use anyhow::{Context, Result};
use notify_core::NotificationId;
use notify_sandbox::ScriptedResponse;
use notify_tests::{Operator, Response, TestServer, android, ios, register};
use serde_json::{Value, json};

use super::{escaped, first_app, html, operator};

/// A server, its signed-in operator, and the path of its application below `/console/`.
async fn server_and_operator() -> Result<(TestServer, Operator, String)> {
    let server = TestServer::start().await;
    let operator = operator(&server).await?;
    let app = format!("apps/{}", first_app(&server).await);
    Ok((server, operator, app))
}

/// Registers two Android phones and an iPhone: `a1`, `a2` and `i3`.
async fn phones(server: &TestServer) -> Result<()> {
    let ok = ScriptedResponse::ok();
    register(&server.client(), [android(1, &ok), android(2, &ok), ios(3, &ok)]).await
}

/// Logs a device in.
async fn log_in(server: &TestServer, device: &str, user: &str) {
    let path = format!("/v1/devices/{device}/user");
    server.caller().put(&path, &json!({"user_id": user})).await.ok();
}

/// The text of the element that begins with this tag.
#[track_caller]
fn element(page: &str, tag: &str) -> String {
    let (_, rest) = page.split_once(tag).unwrap_or_else(|| panic!("no {tag}: {page}"));
    html::unescaped(rest.split('<').next().unwrap_or_default())
}

/// The address to which a successful form redirects.
#[track_caller]
fn location(response: &Response) -> &str {
    assert_eq!(response.status, 303, "{}", response.text);
    response.header("location")
}

#[tokio::test]
async fn a_user_has_attributes_that_are_set_changed_and_removed() -> Result<()> {
    let (server, operator, app) = server_and_operator().await?;
    let users = format!("{app}/users");
    let unknown = operator.submit(&users, &[("user_id", " ada/1 ")]).await?;
    assert_eq!(element(&unknown.text, "data-focus>"), "no user has this id");
    assert!(unknown.text.contains("value=\"ada/1\""), "the input stays: {}", unknown.text);
    assert!(unknown.text.contains("value=\"yes\">Create the user<"), "{}", unknown.text);
    assert_eq!(operator.get(&format!("{users}/ada%2F1")).await.status, 404, "nobody is created");
    let created = operator.submit(&users, &[("user_id", " ada/1 "), ("create", "yes")]).await?;
    assert_eq!(location(&created), "users/ada%2F1?done=created");
    for create in ["", "yes"] {
        let again = operator.submit(&users, &[("user_id", "ada/1"), ("create", create)]).await?;
        assert_eq!(location(&again), "users/ada%2F1", "an existing user is opened");
    }
    let refused = operator.submit(&users, &[("user_id", "..")]).await?;
    assert_eq!(element(&refused.text, "data-focus>"), "must not be `.` or `..`");
    assert!(!refused.text.contains("Create the user"), "{}", refused.text);

    let user = format!("{app}/users/ada%2F1");
    let change = async |name: &str, kind: &str, value: &str| {
        let fields = [("name", name), ("kind", kind), ("value", value)];
        operator.submit(&format!("{user}/attributes"), &fields).await
    };
    for (name, kind, value) in [
        ("plan", "text", "pro"),
        ("seats", "number", "3"),
        ("beta", "boolean", "true"),
        ("zip", "text", "01099"),
        ("plan", "text", "team"),
    ] {
        let set = change(name, kind, value).await?;
        assert_eq!(location(&set), "../ada%2F1?done=saved");
    }
    let attributes =
        async || server.caller().get("/v1/users/ada%2F1").await.ok()["attributes"].clone();
    let all = json!({"plan": "team", "seats": 3, "beta": true, "zip": "01099"});
    assert_eq!(attributes().await, all);
    let long = "x".repeat(256);
    for (name, kind, value, problem) in [
        ("Plan", "text", "pro", "Name: must be a lower-case letter"),
        ("", "text", "pro", "Name: must be a lower-case letter"),
        ("a: b", "text", "pro", "Name: must be a lower-case letter"),
        ("plan", "text", long.as_str(), "Value: must be at most 255 characters"),
        ("seats", "number", "three", "Value: must be a number"),
        ("beta", "boolean", "yes", "Value: must be true or false"),
    ] {
        let page = change(name, kind, value).await?;
        assert_eq!(page.status, 200, "{}", page.text);
        assert!(
            element(&page.text, "data-focus>").starts_with(problem),
            "{problem}: {}",
            page.text
        );
        assert!(
            page.text.contains(&format!("name=\"value\" value=\"{value}\"")),
            "the input stays"
        );
    }
    assert_eq!(attributes().await, all, "nothing was changed");
    let page = operator.get(&format!("{user}?attribute=seats")).await.text;
    assert!(page.contains("name=\"value\" value=\"3\""), "a link fills the form: {page}");
    assert!(page.contains("<option selected>number</option>"), "{page}");
    let remove = [("name", "seats"), ("do", "remove")];
    let removed = operator.submit(&format!("{user}/attributes"), &remove).await?;
    assert_eq!(location(&removed), "../ada%2F1?done=saved");
    assert_eq!(attributes().await, json!({"plan": "team", "beta": true, "zip": "01099"}));
    let gone = operator.submit(&format!("{app}/users/gone/attributes"), &remove).await?;
    assert_eq!(gone.status, 404, "a change creates no user");
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_user_is_logged_out_and_deleted_with_or_without_devices() -> Result<()> {
    let (server, operator, app) = server_and_operator().await?;
    phones(&server).await?;
    for (device, user) in [("a1", "ada"), ("a2", "ada"), ("i3", "bob")] {
        log_in(&server, device, user).await;
    }
    let list = operator.get(&format!("{app}/users")).await.text;
    for (user, devices) in [("ada", 2), ("bob", 1)] {
        let row = format!(
            "/users/{user}\">{user}</a></td><td data-label=\"Devices\" class=\"number\">{devices}<"
        );
        assert!(list.contains(&row), "{row}: {list}");
    }
    let page = operator.get(&format!("{app}/users/ada")).await.text;
    assert!(page.contains("/devices/a1\">a1</a>") && page.contains("/send?user=ada\""), "{page}");
    assert!(page.contains("Delete the user and 2 devices"), "{page}");
    assert!(page.contains("/devices?user=ada\""), "{page}");
    let devices = async |query: &str| operator.get(&format!("{app}/devices?{query}")).await;
    for (query, shown, command) in [
        ("user=ada", "a1 a2", "--user ada<"),
        ("user=ada&platform=ios", "", "--platform ios --user ada<"),
        ("user=bob&platform=ios", "i3", "--platform ios --user bob<"),
        ("user=nobody", "", "--user nobody<"),
        ("user=", "a1 a2 i3", "notify devices list<"),
    ] {
        let page = devices(query).await.text;
        for device in ["a1", "a2", "i3"] {
            let is_listed = page.contains(&format!("/devices/{device}\">"));
            assert_eq!(is_listed, shown.contains(device), "{query} {device}: {page}");
        }
        assert!(page.contains(command), "{query}: {page}");
    }
    let refused = devices("user=..").await;
    let problem = "id=\"user-problem\" role=\"alert\">";
    assert_eq!(element(&refused.text, problem), "User: must not be `.` or `..`");
    let out = operator.submit(&format!("{app}/users/ada/log-out"), &[("device", "a2")]).await?;
    assert_eq!(location(&out), "../ada?done=logged-out");
    let page = operator.get(&format!("{app}/users/ada")).await.text;
    assert!(page.contains("Delete the user and 1 device<") && !page.contains("/devices/a2\""));

    let delete = async |user: &str, devices: &str| {
        operator.submit(&format!("{app}/users/{user}/delete"), &[("devices", devices)]).await
    };
    assert_eq!(delete("ada", "").await?.status, 400, "the operator chooses");
    assert_eq!(location(&delete("ada", "keep").await?), "../../users?done=deleted");
    assert_eq!(location(&delete("bob", "erase").await?), "../../users?done=deleted");
    for (device, status) in [("a1", 200), ("a2", 200), ("i3", 404)] {
        let page = operator.get(&format!("{app}/devices/{device}")).await;
        assert_eq!(page.status, status, "{device}");
        assert!(status == 404 || page.text.contains("No user is logged in."), "{}", page.text);
    }
    assert_eq!(operator.get(&format!("{app}/users/ada")).await.status, 404);
    assert_eq!(delete("ada", "keep").await?.status, 404);
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_device_page_says_why_its_address_gets_nothing() -> Result<()> {
    let (server, operator, app) = server_and_operator().await?;
    let phone = json!({"device_id": "phone", "platform": "ios", "sdk_type": "ios_push",
        "push_token": "dGhpcyBpcyBhbiBGQ00gdG9rZW4:APA91bFtokenofthephone"});
    server.caller().post("/v1/devices", &phone).await.ok();
    let problem = server.caller().get("/v1/devices/phone").await.ok()["address_problem"].clone();
    let problem = problem.as_str().context("the API shows the problem")?;
    let page = operator.get(&format!("{app}/devices/phone")).await.text;
    assert!(page.contains("<span class=\"badge bad\">unusable address</span>"), "{page}");
    assert!(page.contains(&escaped(problem)), "{problem}: {page}");
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_device_is_logged_in_and_out_and_has_attributes_of_its_own() -> Result<()> {
    let (server, operator, app) = server_and_operator().await?;
    phones(&server).await?;
    let device = format!("{app}/devices/a1");
    let refused = operator.submit(&format!("{device}/log-in"), &[("user_id", "")]).await?;
    assert_eq!(refused.status, 200);
    assert!(
        element(&refused.text, "id=\"user-problem\" role=\"alert\" tabindex=\"-1\" data-focus>")
            .contains("user_id")
    );
    for user in ["ada", "bob lee"] {
        let logged_in = operator.submit(&format!("{device}/log-in"), &[("user_id", user)]).await?;
        assert_eq!(location(&logged_in), "../a1?done=logged-in");
    }
    let page = operator.get(&format!("{device}?done=logged-in")).await.text;
    assert!(
        page.contains("/users/bob%20lee\">bob lee</a>") && page.contains("Logged in."),
        "{page}"
    );
    let fields = [("name", "plan"), ("kind", "text"), ("value", "pro")];
    let set = operator.submit(&format!("{device}/attributes"), &fields).await?;
    assert_eq!(location(&set), "../a1?done=saved");
    let read = async || server.caller().get("/v1/devices/a1").await.ok();
    assert_eq!(read().await["attributes"], json!({"plan": "pro"}));
    let wrong = [("name", "1"), ("kind", "text"), ("value", "pro")];
    let refused = operator.submit(&format!("{device}/attributes"), &wrong).await?.text;
    assert!(element(&refused, "data-focus>").starts_with("Name: "), "{refused}");
    let remove = [("name", "plan"), ("do", "remove")];
    operator.submit(&format!("{device}/attributes"), &remove).await?.is(303);
    let out = operator.submit(&format!("{device}/log-out"), &[]).await?;
    assert_eq!(location(&out), "../a1?done=logged-out");
    let record = read().await;
    assert_eq!((&record["user_id"], &record["attributes"]), (&Value::Null, &json!({})));
    server.stop().await;
    Ok(())
}

/// Fills and submits the form of a segment.
async fn segment(
    operator: &Operator,
    app: &str,
    button: &str,
    fields: &[(&str, &str)],
) -> Result<Response> {
    operator.submit(&format!("{app}/segments/edit"), &[fields, &[("do", button)]].concat()).await
}

#[tokio::test]
async fn a_segment_is_counted_created_changed_and_deleted() -> Result<()> {
    let (server, operator, app) = server_and_operator().await?;
    phones(&server).await?;
    let stored = async || server.caller().get("/v1/segments").await.ok()["segments"].clone();
    let new =
        [("new", "1"), ("name", " my fans "), ("audience", "platform = android\r\nor user exists")];
    let counted = segment(&operator, &app, "count", &new).await?.text;
    assert!(counted.contains("Would reach <strong>2 devices</strong> now."), "{counted}");
    assert!(counted.contains("<td>Android</td><td class=\"number\">2</td>"), "{counted}");
    assert!(counted.contains("value=\"my fans\""), "{counted}");
    assert_eq!(stored().await, json!([]), "counting stores nothing");
    let created = segment(&operator, &app, "save", &new).await?;
    assert_eq!(location(&created), "edit?name=my%20fans&done=created");
    let path = format!("{app}/segments/edit?name=my%20fans");
    let page = operator.get(&path).await.text;
    assert!(page.contains("Would reach <strong>2 devices</strong> now."), "shown on load: {page}");
    assert!(page.contains("platform = android or user exists</textarea>"), "{page}");
    let list = operator.get(&format!("{app}/segments")).await.text;
    assert!(list.contains("segments/edit?name=my%20fans\">my fans</a>"), "{list}");
    assert!(list.contains("<code>platform = android or user exists</code>"), "{list}");

    let taken = segment(&operator, &app, "save", &new).await?.text;
    assert!(taken.contains("<p class=\"error\">is the name of another segment</p>"), "{taken}");
    for name in ["", "preview"] {
        let fields = [("new", "1"), ("name", name), ("audience", "tag = vip")];
        let refused = segment(&operator, &app, "save", &fields).await?;
        assert_eq!(refused.status, 200, "{name}");
        assert!(
            refused.text.contains("id=\"name-problem\" data-fresh><p class=\"error\">must not be")
        );
    }
    let change = [("name", "my fans"), ("audience", "platform = ios")];
    let saved = segment(&operator, &app, "save", &change).await?;
    assert_eq!(location(&saved), "edit?name=my%20fans&done=saved");
    let devices = operator.get(&format!("{app}/devices?segment=my%20fans")).await.text;
    assert!(devices.contains("/devices/i3\">") && !devices.contains("/devices/a1\">"), "{devices}");
    assert!(devices.contains("notify devices list --segment &#39;my fans&#39;"), "{devices}");
    let nested = [("name", "my fans"), ("audience", "segment = x")];
    let refused = segment(&operator, &app, "save", &nested).await?.text;
    assert!(refused.contains("a segment must not name another segment"), "{refused}");
    assert_eq!(stored().await[0]["audience"], json!({"field": "platform", "is": "ios"}));
    let deleted =
        operator.submit(&format!("{app}/segments/delete"), &[("name", "my fans")]).await?;
    assert_eq!(location(&deleted), "../segments?done=deleted");
    assert_eq!(operator.get(&path).await.status, 404);
    let devices = operator.get(&format!("{app}/devices?segment=my%20fans")).await;
    assert_eq!(devices.status, 200);
    assert!(devices.text.contains("id=\"segment-problem\""), "{}", devices.text);
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_wrong_expression_is_marked_at_its_field_and_nothing_is_saved() -> Result<()> {
    let (server, operator, app) = server_and_operator().await?;
    for button in ["count", "save"] {
        let wrong = [("new", "1"), ("name", "fans"), ("audience", "platform = ios an tag = vip")];
        let page = segment(&operator, &app, button, &wrong).await?;
        assert_eq!(page.status, 200);
        let page = page.text;
        let problem = "id=\"audience-problem\" data-fresh><p class=\"error\">";
        assert_eq!(element(&page, problem), "expected `and`, `or` or the end");
        let mark = "platform = ios an tag = vip\n               ^";
        assert_eq!(element(&page, "aria-label=\"Where the condition is wrong\">"), mark);
        assert!(page.contains("platform = ios an tag = vip</textarea>"), "the input stays: {page}");
        assert!(page.contains("Not counted: the condition has a problem."), "{page}");
        assert!(page.contains("data-focus>\n<h2>One problem"), "{page}");
    }
    // While the operator types, an unfinished condition is not a problem, but one that is wrong before its end is.
    let typed = async |text: &str| -> Result<String> {
        let fields = [("new", "1"), ("audience", text), ("live", "1")];
        Ok(segment(&operator, &app, "preview", &fields).await?.text)
    };
    let unfinished = typed("platform = ios and ").await?;
    assert!(!unfinished.contains("class=\"error\""), "{unfinished}");
    assert!(unfinished.contains("Not counted yet: the condition is not complete."), "{unfinished}");
    let wrong = typed("platform ! ios").await?;
    assert!(wrong.contains("<p class=\"error\">unknown operator"), "{wrong}");
    assert!(!wrong.contains("data-focus"), "the cursor stays: {wrong}");
    let saved = [("new", "1"), ("name", "fans"), ("audience", "tag ="), ("live", "1")];
    let refused = segment(&operator, &app, "save", &saved).await?.text;
    assert!(refused.contains("<p class=\"error\">expected a value"), "{refused}");
    assert_eq!(server.caller().get("/v1/segments").await.ok()["segments"], json!([]));
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_segment_can_have_any_name() -> Result<()> {
    let (server, operator, app) = server_and_operator().await?;
    for name in ["..", "a/b?c#d", "edit", "%2e", "ünï 😀", "a&b=c+d"] {
        let fields = [("new", "1"), ("name", name), ("audience", "tag = vip")];
        let created = segment(&operator, &app, "save", &fields).await?;
        let path = format!("{app}/segments/{}", location(&created));
        let page = operator.get(&path).await.text;
        assert_eq!(html::unescaped(&element(&page, "<h1 dir=\"auto\">")), name);
        let changed = [("name", name), ("audience", "tag = fan")];
        segment(&operator, &app, "save", &changed).await?.is(303);
        operator.submit(&format!("{app}/segments/delete"), &[("name", name)]).await?.is(303);
        assert_eq!(operator.get(&path).await.status, 404, "{name}");
    }
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_suspended_application_is_read_and_not_changed() -> Result<()> {
    let (server, operator, app) = server_and_operator().await?;
    phones(&server).await?;
    log_in(&server, "a1", "ada").await;
    let condition = json!({"audience": {"field": "user", "exists": true}});
    server.caller().put("/v1/segments/fans", &condition).await.ok();
    let status = json!({"status": "suspended"});
    server.admin().patch(&format!("/admin/v1/{app}"), &status).await.ok();
    let page = operator.get(&format!("{app}/segments/edit?name=fans")).await.text;
    assert!(page.contains("Would reach <strong>1 device</strong> now."), "{page}");
    for path in ["users", "users/ada", "segments", "devices/a1", "send"] {
        assert_eq!(operator.get(&format!("{app}/{path}")).await.status, 200, "{path}");
    }
    let change = [("name", "fans"), ("audience", "tag = vip")];
    let refused = segment(&operator, &app, "save", &change).await?.text;
    assert!(refused.contains("is suspended: activate it in its settings first"), "{refused}");
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_notification_shows_its_condition_and_its_reached_users() -> Result<()> {
    let (server, operator, app) = server_and_operator().await?;
    phones(&server).await?;
    log_in(&server, "a1", "ada").await;
    log_in(&server, "i3", "bob").await;
    let caller = server.caller();
    caller.patch("/v1/users/cy", &json!({})).await.ok();
    let condition = json!({"audience": {"field": "platform", "is": "android"}});
    caller.put("/v1/segments/phones", &condition).await.ok();
    let request = json!({"text": "Hi", "user_ids": ["ada", "bob", "cy", "nobody"],
        "audience": {"all": [{"segment": "phones"}, {"field": "user", "exists": true}]}});
    let id = caller.post("/v1/notifications", &request).await.id();
    server.completed(&NotificationId::new(id.as_str()).map_err(anyhow::Error::msg)?).await?;
    let path = format!("{app}/notifications/{id}");
    let page = operator.get(&path).await.text;
    let shown = "<h3>Condition of the audience</h3>\n<pre><code>";
    assert_eq!(element(&page, shown), "platform = android and user exists");
    let (_, counts) = page.split_once("<h3>Users</h3>").context("counts of users")?;
    for (name, count, query) in [
        ("named", 4, ""),
        ("reached", 1, "?state=reached"),
        ("unreached", 2, "?state=unreached"),
        ("unknown", 1, "?state=unknown"),
    ] {
        let link =
            format!("<dt>{name}</dt><dd><a href=\"../../../{path}/users{query}\">{count}</a>");
        assert!(counts.contains(&link), "{link}: {counts}");
    }
    for (query, users) in [
        ("", &["ada", "bob", "cy", "nobody"][..]),
        ("?state=reached", &["ada"]),
        ("?state=unreached", &["bob", "cy"]),
        ("?state=unknown", &["nobody"]),
        ("?state=pending", &[]),
    ] {
        let list = operator.get(&format!("{path}/users{query}")).await.text;
        for user in ["ada", "bob", "cy", "nobody"] {
            let is_listed = list.contains(&format!(">{user}<"));
            assert_eq!(is_listed, users.contains(&user), "{query} {user}: {list}");
        }
        assert!(!list.contains("/users/nobody\""), "an unknown user has no page: {list}");
    }
    // "Send again" fills the fields.
    let form = operator.get(&format!("{app}/send?from={id}")).await.text;
    for filled in [
        "\nada\nbob\ncy\nnobody</textarea>",
        "<option value=\"phones\" selected>phones</option>",
        "\nuser exists</textarea>",
        "Would reach <strong>1 device</strong> now; 1 unknown user id",
    ] {
        assert!(form.contains(filled), "{filled}: {form}");
    }
    // Erasing a user removes its id.
    operator.submit(&format!("{app}/users/bob/delete"), &[("devices", "keep")]).await?.is(303);
    for path in [path.clone(), format!("{path}/users"), format!("{app}/users")] {
        let page = operator.get(&path).await.text;
        assert!(!page.contains(">bob<") && !page.contains("&#34;bob&#34;"), "{path}: {page}");
    }
    let list = operator.get(&format!("{path}/users")).await.text;
    assert!(list.contains("<span class=\"muted\">erased</span>"), "{list}");
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn the_audit_trail_has_no_ids_of_users() -> Result<()> {
    let (server, operator, app) = server_and_operator().await?;
    let new = [("user_id", "ada"), ("create", "yes")];
    operator.submit(&format!("{app}/users"), &new).await?.is(303);
    operator.submit(&format!("{app}/users/ada/delete"), &[("devices", "keep")]).await?.is(303);
    let trail = server.admin().get("/admin/v1/audit").await.ok();
    // The start of the SHA-256 of `ada`.
    let ada = json!("sha256:fdee430d40bd57de");
    for (place, action) in ["delete_user", "update_user"].into_iter().enumerate() {
        let entry = &trail["entries"][place];
        assert_eq!((&entry["action"], &entry["object"]), (&json!(action), &ada));
    }
    let page = operator.get("audit").await.text;
    assert!(page.contains("user (fdee430d40bd57de)"), "{page}");
    server.stop().await;
    Ok(())
}
