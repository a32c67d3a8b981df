// The functions of Apple's Security framework that the listing in docs/apps.md calls, which no other platform
// has. The keychain is a dictionary.

import Foundation

public typealias CFTypeRef = AnyObject
public typealias CFDictionary = NSDictionary
public typealias OSStatus = Int32

public let errSecSuccess: OSStatus = 0
public let errSecItemNotFound: OSStatus = -25300
public let kSecClass = "class"
public let kSecClassGenericPassword = "genp"
public let kSecAttrService = "svce"
public let kSecReturnData = "r_Data"
public let kSecValueData = "v_Data"
public let kSecAttrAccessible = "pdmn"
public let kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly = "cku"

// Only the actor of the listing uses it.
nonisolated(unsafe) private var keychain: [String: Data] = [:]

private func service(_ query: CFDictionary) -> String {
    query[kSecAttrService] as? String ?? ""
}

public func SecItemCopyMatching(
    _ query: CFDictionary, _ result: UnsafeMutablePointer<CFTypeRef?>?
) -> OSStatus {
    guard let data = keychain[service(query)] else { return errSecItemNotFound }
    result?.pointee = NSData(data: data)
    return errSecSuccess
}

@discardableResult
public func SecItemAdd(
    _ item: CFDictionary, _ result: UnsafeMutablePointer<CFTypeRef?>?
) -> OSStatus {
    keychain[service(item)] = item[kSecValueData] as? Data
    return errSecSuccess
}

@discardableResult
public func SecItemDelete(_ query: CFDictionary) -> OSStatus {
    keychain[service(query)] = nil
    return errSecSuccess
}
