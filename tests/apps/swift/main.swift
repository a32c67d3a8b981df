// An app that registers twice, logs in, reports that a notification was opened, and logs out. The first
// argument is the user token; the id of the notification comes from standard input.

import Foundation

let device = NotifyDevice()
for _ in 1...2 {
    try await device.register(token: Data(repeating: 0xab, count: 32), environment: "sandbox")
}
try await device.logIn(token: CommandLine.arguments[1])
print("logged in")
fflush(nil)
try await device.report("opened", notification: readLine() ?? "")
try await device.logOut()
do {
    try await device.logIn(token: "forged")
    fatalError("a forged user token was accepted")
} catch let failure as NotifyDevice.Failure {
    precondition(failure.status == 400 && !failure.isUnknownDevice, "\(failure)")
}
print("logged out")
