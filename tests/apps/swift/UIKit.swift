// The classes of Apple's UIKit that the listings in docs/apps.md use. What an app opens is recorded.

@_exported import Foundation

@MainActor
open class UIResponder: NSObject {}

@MainActor
public protocol UIApplicationDelegate: AnyObject {
    func application(_ application: UIApplication,
                     didFinishLaunchingWithOptions options: [UIApplication.LaunchOptionsKey: Any]?) -> Bool
    func application(_ application: UIApplication,
                     didRegisterForRemoteNotificationsWithDeviceToken token: Data)
    func application(_ application: UIApplication,
                     didFailToRegisterForRemoteNotificationsWithError error: any Error)
}

@MainActor
public final class UIApplication {
    public struct LaunchOptionsKey: Hashable, Sendable {}

    public static let shared = UIApplication()
    public nonisolated static let didBecomeActiveNotification =
        Notification.Name("UIApplicationDidBecomeActiveNotification")

    public private(set) var isRegistered = false
    public private(set) var opened: [URL] = []

    public func registerForRemoteNotifications() { isRegistered = true }
    public func open(_ url: URL) { opened.append(url) }
}
