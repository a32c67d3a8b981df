// A phone with the app. The first argument is the user token; the payload of a notification comes from
// standard input.

import UIKit
import UserNotifications

nonisolated func actions(of category: String) async -> [(title: String, action: String)] {
    let categories = await UNUserNotificationCenter.current().notificationCategories()
    let actions = categories.first { $0.identifier == category }?.actions ?? []
    return actions.map { ($0.title, $0.identifier) }
}

let delegate = AppDelegate()
precondition(delegate.application(.shared, didFinishLaunchingWithOptions: nil))
precondition(UIApplication.shared.isRegistered)
_ = try await askForPermission()

// The log-in waits for the token.
let device = NotifyDevice.shared
try await device.logIn(token: CommandLine.arguments[1])
try await device.setTag("news", true)
try await device.setAttribute("favourite_team", "blue")
try await device.register(token: Data(repeating: 0xab, count: 32))
delegate.application(.shared, didRegisterForRemoteNotificationsWithDeviceToken: Data(repeating: 0xcd, count: 32))
try await device.sync()
print("logged in")
fflush(nil)

let payload = try JSONSerialization.jsonObject(with: Data((readLine() ?? "").utf8)) as! [String: Any]
let request = UNNotificationRequest(content: UNMutableNotificationContent(userInfo: payload))
let service = NotificationService()
let shown = await withCheckedContinuation { (shown: CheckedContinuation<UNMutableNotificationContent, Never>) in
    service.didReceive(request) { content in
        nonisolated(unsafe) let content = content as! UNMutableNotificationContent
        shown.resume(returning: content)
    }
}
precondition(shown.attachments.map { $0.url.pathExtension } == ["png"], "the notification has no image")
let buttons = await actions(of: shown.categoryIdentifier)
precondition(buttons.map(\.title) == ["Track"], "the buttons are \(buttons)")
for action in [UNNotificationDefaultActionIdentifier] + buttons.map(\.action) {
    let response = UNNotificationResponse(notification: UNNotification(request: request), actionIdentifier: action)
    await withCheckedContinuation { done in
        UNUserNotificationCenter.current().delegate!
            .userNotificationCenter(.current(), didReceive: response) { done.resume() }
    }
}
let opened = UIApplication.shared.opened.map(\.absoluteString)
precondition(opened == ["shop://order/7", "https://shop.example/7"], "opened \(opened)")

// The server has refused the first report for now, and has not answered the second one.
for _ in 1...2 { try await device.sync() }
print("reported")
fflush(nil)
_ = readLine()
try await device.logOut()
do {
    try await device.logIn(token: "forged")
    fatalError("a forged user token was accepted")
} catch let failure as NotifyDevice.Failure {
    precondition(failure.status == 400 && !failure.isUnknownDevice, "\(failure)")
}
print("logged out")
