// The classes of Apple's UserNotifications framework that the listings in docs/apps.md use.

@_exported import Foundation

open class UNNotificationContent: NSObject, NSMutableCopying {
    public fileprivate(set) var title = ""
    public fileprivate(set) var userInfo: [AnyHashable: Any] = [:]
    fileprivate var files: [UNNotificationAttachment] = []
    fileprivate var category = ""

    public func mutableCopy(with zone: NSZone? = nil) -> Any {
        let copy = UNMutableNotificationContent()
        copy.title = title
        copy.userInfo = userInfo
        return copy
    }
}

public class UNMutableNotificationContent: UNNotificationContent {
    public override init() {}
    public convenience init(userInfo: [AnyHashable: Any]) {
        self.init()
        self.userInfo = userInfo
    }

    public var attachments: [UNNotificationAttachment] {
        get { files }
        set { files = newValue }
    }
    public var categoryIdentifier: String {
        get { category }
        set { category = newValue }
    }
}

public class UNNotificationAttachment {
    public let url: URL

    public init(identifier: String, url: URL, options: [AnyHashable: Any]? = nil) throws {
        self.url = url
    }
}

public class UNNotificationRequest {
    public let content: UNNotificationContent

    public init(content: UNNotificationContent) { self.content = content }
}

public class UNNotification {
    public let request: UNNotificationRequest

    public init(request: UNNotificationRequest) { self.request = request }
}

public let UNNotificationDefaultActionIdentifier = "com.apple.UNNotificationDefaultActionIdentifier"

public class UNNotificationResponse {
    public let notification: UNNotification
    public let actionIdentifier: String

    public init(notification: UNNotification, actionIdentifier: String) {
        self.notification = notification
        self.actionIdentifier = actionIdentifier
    }
}

public struct UNNotificationActionOptions: OptionSet, Sendable {
    public let rawValue: Int
    public init(rawValue: Int) { self.rawValue = rawValue }
    public static let foreground = Self(rawValue: 4)
}

public class UNNotificationAction {
    public let identifier: String
    public let title: String

    public init(identifier: String, title: String, options: UNNotificationActionOptions = []) {
        self.identifier = identifier
        self.title = title
    }
}

public class UNNotificationCategory: NSObject {
    public let identifier: String
    public let actions: [UNNotificationAction]

    public init(identifier: String, actions: [UNNotificationAction], intentIdentifiers: [String]) {
        self.identifier = identifier
        self.actions = actions
    }
}

public struct UNAuthorizationOptions: OptionSet, Sendable {
    public let rawValue: Int
    public init(rawValue: Int) { self.rawValue = rawValue }
    public static let badge = Self(rawValue: 1), sound = Self(rawValue: 2), alert = Self(rawValue: 4)
}

public struct UNNotificationPresentationOptions: OptionSet, Sendable {
    public let rawValue: Int
    public init(rawValue: Int) { self.rawValue = rawValue }
    public static let badge = Self(rawValue: 1), sound = Self(rawValue: 2)
    public static let list = Self(rawValue: 8), banner = Self(rawValue: 16)
}

public protocol UNUserNotificationCenterDelegate: AnyObject {
    func userNotificationCenter(_ center: UNUserNotificationCenter, willPresent notification: UNNotification,
                                withCompletionHandler show: @escaping (UNNotificationPresentationOptions) -> Void)
    func userNotificationCenter(_ center: UNUserNotificationCenter, didReceive response: UNNotificationResponse,
                                withCompletionHandler done: @escaping () -> Void)
}

public class UNUserNotificationCenter {
    nonisolated(unsafe) private static let only = UNUserNotificationCenter()
    public static func current() -> UNUserNotificationCenter { only }

    public weak var delegate: (any UNUserNotificationCenterDelegate)?
    private var categories: Set<UNNotificationCategory> = []

    public func notificationCategories() async -> Set<UNNotificationCategory> { categories }
    public func setNotificationCategories(_ categories: Set<UNNotificationCategory>) {
        self.categories = categories
    }
    public func requestAuthorization(options: UNAuthorizationOptions) async throws -> Bool { true }
}

open class UNNotificationServiceExtension {
    public init() {}
    open func didReceive(_ request: UNNotificationRequest,
                         withContentHandler handler: @escaping (UNNotificationContent) -> Void) {}
    open func serviceExtensionTimeWillExpire() {}
}
