// An app that registers twice, logs in, reports that a notification was opened, and logs out. The first
// argument is the user token; the id of the notification comes from standard input.

import android.content.Context

fun main(arguments: Array<String>) {
    val device = NotifyDevice(Context())
    repeat(2) { device.register("an FCM token") }
    device.logIn(arguments[0])
    println("logged in")
    device.report("opened", readln())
    device.logOut()
    try {
        device.logIn("forged")
        error("a forged user token was accepted")
    } catch (failure: NotifyDevice.Failure) {
        check(failure.status == 400 && !failure.isUnknownDevice) { failure }
    }
    println("logged out")
}
